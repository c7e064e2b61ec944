"""Methods to be pasted into a paper, and what the report leaves unsaid."""

import textwrap
from collections.abc import Mapping
from typing import Any

from neurocontrast.evaluation.designs import WEIGHTS
from neurocontrast.evaluation.probes import N_LANDMARKS, NYSTROM
from neurocontrast.findings.finding import Finding
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.prose import permutation_result, section, template_of, write_paragraphs
from neurocontrast.findings.rivals import say_weights
from neurocontrast.page.blocks import (
    Block,
    Citations,
    Code,
    Items,
    Numbered,
    Paragraph,
    Section,
    note,
)
from neurocontrast.page.wording import flatten, join_words, lower_first, shorten_paths

_PROPER_NAMES = ("AUC", "Brier", "Pearson", "Spearman")
"""First words of metrics that keep their capital within a sentence."""


def show_methods(files: EvaluationFolder) -> Section:
    """Return the paragraphs of a methods section with their references."""
    cite = Citations()
    blocks: list[Block] = [
        Paragraph(text, label=label) for label, text in write_methods(files, cite)
    ]
    return section("methods", [*blocks, Numbered("References", cite.listed())])


def write_methods(files: EvaluationFolder, cite: Citations) -> list[tuple[str, str]]:
    """Return the paragraphs of a methods section, each with its heading, saying only what the files record."""
    labels = [files.describe(key).label for key in files.metrics]
    return write_paragraphs(
        "methods.j2",
        files,
        cite=cite,
        parts=[
            template_of(each.methods, files.words)
            for each in files.findings
            if each.methods and each.fits(files)
        ],
        labels=[
            label if label.startswith(_PROPER_NAMES) else lower_first(label) for label in labels
        ],
        headline=files.headline,
        nystrom={"n": N_LANDMARKS, "citation": NYSTROM},
        weights=say_weights(files.summary),
        grid_of_weights=join_words(list(map("{:g}".format, sorted(WEIGHTS)))),
        permutation=permutation_result(files, files.headline),
    )


def show_silences(files: EvaluationFolder) -> Section:
    """Return what a reader must not read into the report."""
    return Section(
        "silences", "What this report does not say", [Items(write_paragraphs("silences.j2", files))]
    )


_RECORDED = (
    "format",
    "seed",
    "splits",
    "splits_digest",
    "n_folds",
    "n_repeats",
    "allow_overlap",
    "n_overlap",
    "bootstrap",
    "permutation",
    "probe",
    "threshold",
    "embeddings",
    "objective",
    "run",
    "simulation",
    "environment",
)
"""What Provenance shows of ``evaluation.json``."""
_SKIPPED = (
    "training_metrics",
    "pretraining_subjects",
    "participant_digests",
    "view",
    "p_values",
    "observed",
    "command",
)
"""Written in full elsewhere in the report, lists of people, or a packed mask."""


def show_provenance(files: EvaluationFolder) -> Section:
    """Return what was recorded of evaluation, embeddings, pretraining and environment, and the configuration."""
    content = files.summary.content()
    recorded = {key: content[key] for key in _RECORDED if content.get(key) is not None}
    if "bootstrap" in recorded:
        bootstrap = files.summary.bootstrap
        unit = files.words.unit_of(bootstrap.unit)
        drawn = bootstrap.model_copy(update={"unit": unit})
        recorded["bootstrap"] = drawn.model_dump(mode="json", exclude_unset=True)
    blocks: list[Block] = [record_block("Record (evaluation.json)", recorded)]
    if files.config_text:
        blocks.append(
            Code("Resolved configuration (config.yaml)", shorten_paths(files.config_text))
        )
    else:
        blocks.append(note("config.yaml is absent from the evaluation folder."))
    return Section("provenance", "Provenance", blocks)


def record_block(title: str, content: Mapping[str, Any]) -> Code:
    """Return a nested record as folded text, a value a line under its dotted name, without lists of people."""
    leaves = [
        (name, text) for name, text in flatten(content) if not set(name.split(".")) & set(_SKIPPED)
    ]
    return Code(title, "\n".join(f"{name}: {textwrap.shorten(text, 300)}" for name, text in leaves))


METHODS = Finding("methods", show_methods)
SILENCES = Finding("silences", show_silences)
PROVENANCE = Finding("provenance", show_provenance)
