"""Class similarity in the report: the figure, what is said, and nothing where it was not asked for."""

import json

import numpy as np
import pandas as pd
import pytest

from neurocontrast.reporting import read_evaluation
from neurocontrast.reporting.sections.similarity import SIMILARITY, draw_class_cosines

BLOCK = {
    "n": 150, "n_reference": 120, "n_folds": 5, "target": {"mean": 0.91, "median": 0.93},
    "noise": {"mean": 0.62, "median": 0.64}, "difference": {"mean": 0.29, "median": 0.28}, "own_class_nearest": 0.847,
    "within": 0.71, "between": 0.22,
}  # fmt: skip


def _pairs(classes):
    rows = [(one, other, 0.7 if one == other else 0.1 * (row + column), 4)
            for row, one in enumerate(classes) for column, other in enumerate(classes)]  # fmt: skip
    return pd.DataFrame(rows, columns=["class", "reference", "cosine", "n_pairs"])


def _folder(make, path, **files):
    folder = make.make_multiclass(path, similarity=BLOCK)
    for name, table in files.items():
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    return folder


def test_the_section_shows_the_figure_and_what_was_found(make, tmp_path, render):
    classes = ["control", "bipolar", "schizophrenia", "depression"]
    folder = _folder(make, tmp_path / "eval", similarity=_pairs(classes))
    page = render(folder)
    assert "How alike the classes are" in page
    assert "84.7%" in page
    assert "0.910 (median 0.930)" in page
    assert "depression" in SIMILARITY(read_evaluation(folder)).blocks[1].pictures[0].alt


def test_nothing_is_shown_where_it_was_not_asked_for_and_a_lost_table_is_said(make, tmp_path):
    plain = make.make_multiclass(tmp_path / "plain")
    assert SIMILARITY(read_evaluation(plain)) is None
    section = SIMILARITY(read_evaluation(_folder(make, tmp_path / "half")))
    assert "similarity.tsv is absent" in section.blocks[1].text


def test_the_heat_map_keeps_the_order_of_classes_and_says_which_are_most_alike():
    table = _pairs(["zebra", "ant", "cat"])
    picture = draw_class_cosines(table)
    square = picture.numbers.set_index("class")
    assert list(square.index) == list(square.columns) == ["zebra", "ant", "cat"]
    assert square.loc["ant", "cat"] == pytest.approx(0.3)
    assert "Within classes 0.70" in picture.alt
    assert "ant and cat, 0.30" in picture.alt


@pytest.mark.parametrize("n_classes", [1, 2, 40, 100])
def test_any_number_of_classes_is_drawn(n_classes):
    table = _pairs([f"class {number}" for number in range(n_classes)])
    table.loc[0, "cosine"] = np.nan
    assert draw_class_cosines(table).encode("png")[:4] == b"\x89PNG"


def test_wrong_cells_of_the_tables_are_named(make, tmp_path):
    from neurocontrast.exceptions import DataError

    folder = _folder(
        make, tmp_path / "eval", similarity=_pairs(["a", "b"]).astype({"cosine": str}).replace("0.7", "much")
    )
    with pytest.raises(DataError, match=r"similarity\.tsv, column 'cosine'"):
        read_evaluation(folder)
    assert json.loads((folder / "evaluation.json").read_text())["similarity"]["n"] == 150
