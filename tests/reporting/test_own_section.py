"""A section from outside the package: one object, with its text for Methods, its references and its inputs."""

from __future__ import annotations

import shutil

import pytest

from neurocontrast.reporting import (
    SECTIONS,
    Input,
    Section,
    SectionBuilder,
    build_sections,
    read_evaluation,
    render_page,
)
from neurocontrast.reporting.page import Paragraph

METHODS = """
## Handedness.
{{ s.n.scans }} scans were looked at {{ cite("Oldfield RC. The Edinburgh inventory. 1971;9:97–113.") }}.
"""


def say(files):
    return Section("handedness", "Handedness", [Paragraph(f"{len(files.predictions)} hands.")])


MINE = SectionBuilder(
    "handedness",
    "Handedness",
    order=55,
    build=say,
    inputs=(Input("handedness.tsv", "which hand people write with", needed=True),),
    methods=METHODS,
)


@pytest.mark.parametrize("there", [True, False])
def test_a_section_from_outside_is_one_object(binary_folder, tmp_path, parse, there):
    folder = shutil.copytree(binary_folder, tmp_path / "e")
    if there:
        (folder / "handedness.tsv").write_text("participant_id\thand\n")
    files = read_evaluation(folder)
    sections = sorted((*SECTIONS, MINE), key=lambda each: each.order)
    page = parse.Page(render_page(files, build_sections(files, sections=sections)))
    headings = page.headings()
    following = headings[headings.index("sites") + 1]
    assert (following == "handedness") == ("120 hands." in page.text) == there
    assert "120 scans were looked at [" in page.text
    assert "Oldfield RC" in page.text
    row = next(row for row in page.rows if row and row[0] == "handedness.tsv")
    assert row[2] == ("yes" if there else "no")


def test_names_and_places_of_sections_are_different():
    assert len({each.name for each in SECTIONS}) == len({each.order for each in SECTIONS}) == len(SECTIONS)
