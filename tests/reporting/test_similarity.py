"""Class similarity in the report: the table, what is said, and nothing where it was not asked for."""

import json

import numpy as np
import pandas as pd
import pytest

from neurocontrast.reporting import read_evaluation
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


def _folder(make, path, **files):
    folder = make.make_multiclass(path, similarity=BLOCK)
    for name, table in files.items():
        table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    return folder


def test_the_section_shows_the_table_and_what_was_found(make, tmp_path, render):
    classes = ["control", "bipolar", "schizophrenia", "depression"]
    folder = _folder(make, tmp_path / "eval", similarity=_pairs(classes))
    page = render(folder)
    assert "How alike the classes are" in page
    assert "84.7%" in page
    assert "0.910 (median 0.930)" in page
    assert "depression" in SIMILARITY(read_evaluation(folder)).blocks[1].header


def test_nothing_is_shown_where_it_was_not_asked_for_and_a_lost_table_is_said(make, tmp_path):
    plain = make.make_multiclass(tmp_path / "plain")
    assert SIMILARITY(read_evaluation(plain)) is None
    section = SIMILARITY(read_evaluation(_folder(make, tmp_path / "half")))
    assert "similarity.tsv is absent" in section.blocks[1].text


@pytest.mark.parametrize("n_classes", [1, 2, 40])
def test_any_number_of_classes_keeps_its_order(make, tmp_path, n_classes):
    pairs = _pairs([f"class {number}" for number in reversed(range(n_classes))])
    pairs.loc[0, "cosine"] = np.nan
    table = SIMILARITY(read_evaluation(_folder(make, tmp_path / "eval", similarity=pairs))).blocks[1]
    assert [row[0].text for row in table.rows] == list(table.header[1:]) == list(pairs["class"].drop_duplicates())
    assert table.rows[0][1].text == "–"
    assert [row[place].text for place, row in enumerate(table.rows, start=1)][1:] == ["0.70"] * (n_classes - 1)
    assert table.folded == (n_classes > 12)


def test_wrong_cells_of_the_tables_are_named(make, tmp_path):
    from neurocontrast.exceptions import DataError

    folder = _folder(
        make, tmp_path / "eval", similarity=_pairs(["a", "b"]).astype({"cosine": str}).replace("0.7", "much")
    )
    with pytest.raises(DataError, match=r"similarity\.tsv, column 'cosine'"):
        read_evaluation(folder)
    assert json.loads((folder / "evaluation.json").read_text())["similarity"]["n"] == 150
