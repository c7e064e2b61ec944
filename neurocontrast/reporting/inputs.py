"""What a report is made from: each file of an evaluation folder, what it gives, and how it comes to be."""

from __future__ import annotations

from dataclasses import dataclass

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.words import IMAGES

__all__ = ["IMAGE_INPUTS", "INPUTS", "Input", "inputs_of", "missing_note", "missing_sections"]

_EVALUATE = "Written by `neurocontrast evaluate` of this version."


@dataclass(frozen=True)
class Input:
    """One file.

    Attributes
    ----------
    file : str
        Its name in the evaluation folder.
    attribute : str
        Of `EvaluationFiles`.
    gives : str
        What it gives, for a sentence: "the learning curve".
    section : str
        The section that shows it; empty where the section can do without it.
    how : str
        How it is made.
    kinds : tuple of str
        Kinds of target that have it; all where empty.
    """

    file: str
    attribute: str
    gives: str
    section: str
    how: str = _EVALUATE
    kinds: tuple[str, ...] = ()


INPUTS: tuple[Input, ...] = (
    Input("flow.tsv", "flow", "where scans were lost before the evaluation", ""),
    Input("cohort.tsv", "cohort", "counts by site", ""),
    Input("groups.tsv", "groups", "the result by sex and age band", "groups"),
    Input("calibration.tsv", "calibration", "the calibration curve", "calibration", kinds=("binary", "multiclass")),
    Input(
        "learning_curve.tsv",
        "learning",
        "the learning curve",
        "learning",
        "Made with `neurocontrast evaluate … --train-sizes 100,200,…`.",
    ),
    Input(
        "external_predictions.tsv",
        "external_predictions",
        "the external test set",
        "external",
        "Made with `neurocontrast evaluate … --test OTHER.parquet`.",
    ),
    Input("confounds.tsv", "confounds", "how well site, age and sex can be read off the embedding", "confounds"),
    Input(
        "new_sites.tsv",
        "new_sites",
        "how the model does at sites that it has not seen",
        "new_site",
        "Written by `neurocontrast evaluate` of this version where there are two sites or more.",
    ),
    Input(
        "outlyingness.tsv",
        "outlyingness",
        "which scans lie outside the distribution that the model learned from",
        "outlyingness",
    ),
    Input(
        "external_outlyingness.tsv",
        "external_outlyingness",
        "which external scans lie outside that distribution",
        "",
        "Made with `neurocontrast evaluate … --test OTHER.parquet`.",
    ),
    Input("hsic.tsv", "dependence", "the dependence of the embedding on each column", ""),
    Input(
        "explanation/",
        "explanation",
        "where in the brain",
        "brain",
        "Made with `neurocontrast explain EVAL --run RUN --participants …`.",
    ),
    Input("map.tsv", "points", "the map of the embedding", "map"),
    Input("scans.tsv", "scans", "slices of a few scans", "scans"),
    Input("training.tsv", "training", "the training curves", "training", "Comes with embeddings of a recorded run."),
    Input("probe/probe.json", "probe", "the probe fitted on all scans", ""),
    Input("config.yaml", "config_text", "the resolved configuration", ""),
)
"""Files that may be absent; `evaluation.json`, `predictions.tsv`, `folds.tsv` and `sites.tsv` may not."""

IMAGE_INPUTS: tuple[Input, ...] = (
    Input("flow.tsv", "flow", "where images were lost before the evaluation", ""),
    Input("classes.tsv", "by_class", "recall and precision of each class", "classes", kinds=("binary", "multiclass")),
    Input("scans.tsv", "scans", "where pictures of a few images lie", ""),
    Input(
        "learning_curve.tsv",
        "learning",
        "the learning curve",
        "learning",
        "Made with `neurocontrast evaluate … --train-sizes 100,200,…`.",
    ),
    Input("map.tsv", "points", "the map of the embedding", "map"),
    Input("training.tsv", "training", "the training curves", "training", "Comes with embeddings of a recorded run."),
    Input("probe/probe.json", "probe", "the fitted probe", ""),
    Input("config.yaml", "config_text", "the resolved configuration", ""),
)
"""Files of an evaluation of images that may be absent."""

_BY_ATTRIBUTE = {each.attribute: each for each in (*IMAGE_INPUTS, *INPUTS)}


def inputs_of(files: EvaluationFiles) -> tuple[Input, ...]:
    """Return the files that a report of this kind reads."""
    return IMAGE_INPUTS if files.words is IMAGES else INPUTS


def missing_note(attribute: str) -> str:
    """Return the sentence that stands in the place of what a missing file would give."""
    missing = _BY_ATTRIBUTE[attribute]
    return f"Not shown: {missing.gives}. {missing.file} is absent or empty. {missing.how}"


def missing_sections(files: EvaluationFiles) -> set[str]:
    """Return the sections that have nothing to show, since their file is absent."""
    return {each.section for each in INPUTS if each.section and getattr(files, each.attribute) is None}
