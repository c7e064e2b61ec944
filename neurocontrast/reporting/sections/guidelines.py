"""Reporting guidelines: what this report covers of them, and what only the author can add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import yaml

from neurocontrast.reporting.page import Block, Cell, Citations, Items, Numbered, Section, SectionBuilder, Table
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.wording import IMAGES

__all__ = ["GUIDELINES", "read_guidelines"]


def read_guidelines() -> dict[str, Any]:
    """Return TRIPOD+AI and CLAIM, item by item, and what fits a study of natural images."""
    path = resources.files("neurocontrast.reporting").joinpath("templates/guidelines.yaml")
    return yaml.safe_load(path.read_text("utf-8"))


def _build(files: EvaluationFiles, sections: Sequence[SectionBuilder]) -> Section:
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
        blocks += [_table(guidelines[name], cite, there, titles) for name in ("tripod", "claim")]
        lead = (
            "Items are summarised; read the guidelines themselves. A link says that a part of this report speaks to "
            "the item, not that the item is met; “not in this report” that it could, from an input that is absent."
        )
    blocks.append(Numbered("Guidelines", cite.listed()))
    return Section("guidelines", "Reporting guidelines", blocks, lead=lead)


def _table(about: Mapping[str, Any], cite: Citations, there: Mapping[str, bool], titles: Mapping[str, str]) -> Table:
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


GUIDELINES = SectionBuilder("guidelines", "Reporting guidelines", order=230, build=_build, sees_all=True)
