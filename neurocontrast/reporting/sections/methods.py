"""Methods to be pasted into a paper."""

from neurocontrast.evaluation.designs import WEIGHTS
from neurocontrast.evaluation.probes import N_LANDMARKS, NYSTROM
from neurocontrast.reporting.blocks import Block, Citations, Numbered, Paragraph, Section
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.prose import permutation_result, section, template_of, write_paragraphs
from neurocontrast.reporting.rivals import say_weights
from neurocontrast.reporting.wording import join_words, lower_first

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


METHODS = Finding("methods", show_methods)
