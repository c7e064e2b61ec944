"""Class similarity in the report: the two figures, what is said, and nothing where it was not asked for."""

import json

import numpy as np
import pandas as pd
import pytest

from neurocontrast.reporting import ReportOptions, read_evaluation
from neurocontrast.reporting.figures.matrices import cosine_matrix, draw_class_cosines, draw_nearest_cosines
from neurocontrast.reporting.sections.similarity import SIMILARITY

BLOCK = {
    "n": 150, "n_reference": 120, "n_folds": 5, "target": {"mean": 0.91, "median": 0.93},
    "noise": {"mean": 0.62, "median": 0.64}, "difference": {"mean": 0.29, "median": 0.28}, "own_class_nearest": 0.847,
    "within": 0.71, "between": 0.22,
}  # fmt: skip


def _pairs(classes):
    rows = [(one, other, 0.7 if one == other else 0.1 * (row + column), 4)
            for row, one in enumerate(classes) for column, other in enumerate(classes)]  # fmt: skip
    return pd.DataFrame(rows, columns=["class", "reference", "cosine", "n_pairs"])


def _histogram():
    edges = np.linspace(-1, 1, 101)
    parts = [pd.DataFrame({"neighbour": name, "low": edges[:-1], "high": edges[1:],
                           "n": np.where(np.isclose(edges[:-1], low), 150, 0)})
             for name, low in (("target", 0.9), ("noise", 0.6))]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def _folder(make, path, **files):
    folder = make.make_multiclass(path, similarity=BLOCK)
    for name, table in files.items():
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    return folder


def test_the_section_shows_both_figures_and_what_was_found(make, tmp_path, render):
    classes = ["control", "bipolar", "schizophrenia", "depression"]
    folder = _folder(make, tmp_path / "eval", similarity=_pairs(classes), cosines=_histogram())
    page = render(folder)
    assert "How alike the classes are" in page
    assert "84.7%" in page
    assert "0.910 (median 0.930)" in page
    assert "depression" in SIMILARITY(read_evaluation(folder), ReportOptions()).blocks[1].pictures[0].alt


def test_nothing_is_shown_where_it_was_not_asked_for_and_a_lost_table_is_said(make, tmp_path):
    plain = make.make_multiclass(tmp_path / "plain")
    assert SIMILARITY(read_evaluation(plain), ReportOptions()) is None
    half = _folder(make, tmp_path / "half", cosines=_histogram())
    section = SIMILARITY(read_evaluation(half), ReportOptions())
    assert len(section.blocks[1].pictures) == 1
    assert "similarity.tsv" in section.blocks[2].text


def test_the_heat_map_keeps_the_order_of_classes_and_says_which_are_most_alike():
    table = _pairs(["zebra", "ant", "cat"])
    square = cosine_matrix(table)
    assert list(square.index) == list(square.columns) == ["zebra", "ant", "cat"]
    assert square.loc["ant", "cat"] == pytest.approx(0.3)
    picture = draw_class_cosines(table)
    assert "Within classes 0.70" in picture.alt
    assert "ant and cat, 0.30" in picture.alt


@pytest.mark.parametrize("n_classes", [1, 2, 40, 100])
def test_any_number_of_classes_is_drawn(n_classes):
    table = _pairs([f"class {number}" for number in range(n_classes)])
    table.loc[0, "cosine"] = np.nan
    assert draw_class_cosines(table).encode("png")[:4] == b"\x89PNG"


def test_histograms_say_their_medians():
    picture = draw_nearest_cosines(_histogram())
    assert "median 0.91 with the own class, 0.61 with another." in picture.alt
    empty = _histogram().assign(n=0)
    assert draw_nearest_cosines(empty).numbers is empty


def test_wrong_cells_of_the_tables_are_named(make, tmp_path):
    from neurocontrast.exceptions import DataError

    folder = _folder(
        make, tmp_path / "eval", similarity=_pairs(["a", "b"]).astype({"cosine": str}).replace("0.7", "much")
    )
    with pytest.raises(DataError, match=r"similarity\.tsv, column 'cosine'"):
        read_evaluation(folder)
    assert json.loads((folder / "evaluation.json").read_text())["similarity"]["n"] == 150
