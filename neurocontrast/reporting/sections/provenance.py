"""Section of provenance: records of the evaluation, its embeddings and its environment."""

import textwrap
from collections.abc import Mapping
from typing import Any

from neurocontrast.reporting.blocks import (
    Block,
    Code,
    Section,
    note,
)
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.wording import flatten, shorten_paths

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
"""Keys of ``evaluation.json`` that the section of provenance shows."""


_SKIPPED = (
    "training_metrics",
    "pretraining_subjects",
    "participant_digests",
    "view",
    "p_values",
    "observed",
    "command",
)
"""Keys of records that the page does not show, such as lists of people and a packed mask."""


def show_provenance(files: EvaluationFolder) -> Section:
    """Return the section on provenance: records of evaluation, embeddings, pretraining, settings.

    One block of text shows values of ``evaluation.json``, such as the software environment, and
    another the configuration of the evaluation (``config.yaml``).
    """
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
    """Return a nested record as a block of text, one line for each value with its dotted name.

    Values under the keys that `_SKIPPED` lists, such as digests of people, are left out.
    """
    lines = []
    for name, value in flatten(content):
        if not set(name.split(".")) & set(_SKIPPED):
            lines.append(f"{name}: {textwrap.shorten(value, 300)}")
    return Code(title, "\n".join(lines))


PROVENANCE = Finding("provenance", show_provenance)
