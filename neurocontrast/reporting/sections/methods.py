"""Methods to be pasted into a paper, what the report leaves unsaid, and what it covers of reporting guidelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import yaml

from neurocontrast.reporting.page import (
    Block,
    Cell,
    Citations,
    Input,
    Items,
    Numbered,
    Paragraph,
    Section,
    SectionBuilder,
    Table,
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
from neurocontrast.reporting.wording import IMAGES, join_words, lower_first

__all__ = ["GUIDELINES", "METHODS", "SILENCES", "list_silences", "read_guidelines", "write_methods"]

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


def _build_silences(files: EvaluationFiles, sections: Sequence[SectionBuilder]) -> Section:
    return Section("silences", "What this report does not say", [Items(list_silences(files, sections))])


def list_silences(files: EvaluationFiles, sections: Sequence[SectionBuilder] = ()) -> list[tuple[str, str]]:
    """Return what this report leaves unsaid; tables that no section of its kind draws are named."""
    own = {need.file for each in sections if each.fits(files) for need in each.inputs}
    others = [need for each in sections if not each.fits(files) for need in each.inputs if need.needed]
    not_drawn = [need.file for need in others if need.file not in own and need.is_there(files)]
    return write_paragraphs("silences.j2", files, not_drawn=list(dict.fromkeys(not_drawn)))


def read_guidelines() -> dict[str, Any]:
    """Return TRIPOD+AI and CLAIM, item by item, and what fits a study of natural images."""
    path = resources.files("neurocontrast.reporting").joinpath("templates/guidelines.yaml")
    return yaml.safe_load(path.read_text("utf-8"))


def _build_guidelines(files: EvaluationFiles, sections: Sequence[SectionBuilder]) -> Section:
    """Build the tables of TRIPOD+AI and CLAIM; of images, say which guideline fits."""
    cite, guidelines, lead = Citations(), read_guidelines(), ""
    blocks: list[Block] = []
    if files.words is IMAGES:
        marks = [f" {cite(each['reference'])}" if "reference" in each else "" for each in guidelines["images"]]
        named = zip(guidelines["images"], marks, strict=True)
        blocks.append(Items([(f"{each['name']}{mark}:", each["text"]) for each, mark in named]))
    else:
        titles = {each.name: each.covers for each in sections if each.covers}
        there = {each.name: each.is_shown(files) for each in sections if each.covers and each.fits(files)}
        blocks += [_guideline_table(guidelines[name], cite, there, titles) for name in ("tripod", "claim")]
        lead = (
            "Items are summarised; read the guidelines themselves. A link says that a part of this report speaks to "
            "the item, not that the item is met; “not in this report” that it could, from an input that is absent."
        )
    blocks.append(Numbered("Guidelines", cite.listed()))
    return Section("guidelines", "Reporting guidelines", blocks, lead=lead)


def _guideline_table(
    about: Mapping[str, Any], cite: Citations, there: Mapping[str, bool], titles: Mapping[str, str]
) -> Table:
    rows, n_covered = [], 0
    for number, asks, names, author in about["items"]:
        links = [(name, titles[name]) for name in names if there.get(name)]
        gone = ", ".join(titles[name] for name in names if name in there and not there[name])
        n_covered += bool(links)
        found = Cell("" if links else "no", links=links, detail=f"not in this report: {gone}" if gone else "")
        rows.append((Cell(number, heading=True), Cell(asks), found, Cell(author or "nothing")))
    caption = (
        f"{about['title']} {cite(about['reference'])}, {about['size']}: this report speaks to {n_covered} of "
        f"{len(rows)} rows."
    )
    header = ("Item", "Asks for", "In this report", "Left to the author")
    return Table(caption, header, rows, text_columns=(0, 1, 2, 3), folded=True)


METHODS = SectionBuilder(
    "methods",
    "Methods",
    order=210,
    build=_build,
    inputs=(Input("probe/probe.json", "the fitted probe", "probe"),),
    covers="methods",
    sees_all=True,
)
SILENCES = SectionBuilder(
    "silences", "What this report does not say", order=220, build=_build_silences, covers="limits", sees_all=True
)
GUIDELINES = SectionBuilder("guidelines", "Reporting guidelines", order=230, build=_build_guidelines, sees_all=True)
