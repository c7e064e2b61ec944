"""Methods to be pasted into a paper, and what the report leaves unsaid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neurocontrast.reporting.page import (
    Block,
    Citations,
    Input,
    Items,
    Numbered,
    Paragraph,
    Section,
    SectionBuilder,
)
from neurocontrast.reporting.prose import (
    dataset_name,
    permutation_result,
    probe_details,
    template_of,
    value_text,
    write_paragraphs,
)
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.wording import join_words, lower_first

__all__ = ["METHODS", "SILENCES", "list_silences", "write_methods"]

_PROPER_NAMES = ("AUC", "Brier", "Pearson", "Spearman")
"""First words of metrics that keep their capital within a sentence."""


def _build(files: EvaluationFiles, sections: Sequence[SectionBuilder]) -> Section:
    cite = Citations()
    blocks: list[Block] = [Paragraph(text, label=label) for label, text in write_methods(files, cite, sections)]
    lead = "Generated from the record of this run, to be pasted into a paper; check it before it goes there."
    return Section("methods", "Methods", [*blocks, Numbered("References", cite.listed())], lead=lead)


def write_methods(files: EvaluationFiles, cite: Citations, sections: Sequence[SectionBuilder]) -> list[tuple[str, str]]:
    """Return the paragraphs of a methods section, each with its heading, saying only what the files record."""
    labels = [files.describe(key).label for key in files.metrics]
    return write_paragraphs(
        "methods.j2",
        files,
        cite=cite,
        parts=[template_of(each.methods) for each in sections if each.methods and each.fits(files)],
        dataset=dataset_name(files),
        views=_views(files.run.get("augment")),
        probe_details=lambda by: probe_details(files, by),
        labels=[label if label.startswith(_PROPER_NAMES) else lower_first(label) for label in labels],
        headline=files.headline,
        permutation=permutation_result(files, files.headline),
    )


def _views(augment: Any) -> str:
    """Name the operations that make a view, in the order of the record; empty where none is recorded."""
    if not augment:
        return ""
    if augment.get("transforms"):
        names = [str(step.get("_target_")).rpartition(".")[2] for step in augment["transforms"]]
        return f"transforms of the study's own ({join_words(names)})"
    views = []
    for key, settings in augment.items():
        if key != "kind" and settings is not None:
            parts = [f"{name} {value_text(value)}" for name, value in settings.items() if value is not None]
            about = f" ({join_words(parts)})" if parts else ""
            views.append(str(key).replace("_", " ") + about)
    return "; ".join(views)


def _build_silences(files: EvaluationFiles, sections: Sequence[SectionBuilder]) -> Section:
    return Section("silences", "What this report does not say", [Items(list_silences(files, sections))])


def list_silences(files: EvaluationFiles, sections: Sequence[SectionBuilder] = ()) -> list[tuple[str, str]]:
    """Return what this report leaves unsaid; tables that no section of its kind draws are named."""
    own = {need.file for each in sections if each.fits(files) for need in each.inputs}
    others = [need for each in sections if not each.fits(files) for need in each.inputs if need.needed]
    not_drawn = [need.file for need in others if need.file not in own and need.is_there(files)]
    return write_paragraphs("silences.j2", files, not_drawn=list(dict.fromkeys(not_drawn)))


METHODS = SectionBuilder(
    "methods",
    "Methods",
    order=210,
    build=_build,
    inputs=(Input("probe/probe.json", "the fitted probe", "probe"),),
    sees_all=True,
)
SILENCES = SectionBuilder("silences", "What this report does not say", order=220, build=_build_silences, sees_all=True)
