"""Methods: how it was done, written from the record of the run, to be pasted into a paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neurocontrast.reporting.page import Block, Citations, Input, Numbered, Paragraph, Section, SectionBuilder
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

__all__ = ["METHODS", "write_methods"]

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
        dataset_key=files.origin.get("dataset") or (files.origin.get("settings") or {}).get("dataset"),
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


METHODS = SectionBuilder(
    "methods",
    "Methods",
    order=210,
    build=_build,
    inputs=(Input("probe/probe.json", "the fitted probe", "probe"),),
    covers="methods",
    sees_all=True,
)
