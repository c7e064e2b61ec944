"""The worst errors, and the names they stand under."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from neurocontrast.findings import open_folder
from neurocontrast.findings.errors import list_errors, name_scans


def test_the_most_confident_mistakes_come_first(binary_folder):
    files = open_folder(binary_folder, show_ids=True)
    table = files.predictions
    of_truth = table["y_score"].where(table["y_true"] == "patient", 1 - table["y_score"])
    wrong = (table["y_score"] >= 0.5) != (table["y_true"] == "patient")
    found = list_errors(files)
    expected = table.assign(p=of_truth)[wrong].sort_values("p")
    assert found["scan"].tolist() == expected["participant_id"].tolist()
    assert found["score"].to_numpy(float) == pytest.approx(expected["p"])
    assert (found["given"] != found["y_true"]).all()
    assert len(found) == wrong.sum()


def test_largest_residuals(tmp_path, make):
    files = open_folder(make.make_continuous(tmp_path / "e"))
    residual = files.predictions["y_score"] - files.predictions["y_true"]
    found = list_errors(files)
    assert found["error"].to_numpy(float) == pytest.approx(np.sort(residual.abs())[::-1])


def test_of_several_classes_the_true_one_got_least(tmp_path, make):
    files = open_folder(make.make_multiclass(tmp_path / "e"), show_ids=True)
    found = list_errors(files).head(3)
    rows = files.predictions.set_index("participant_id")
    for row in found.to_dict("records"):
        scores = rows.loc[row["scan"]]
        assert scores[f"score_{row['y_true']}"] == pytest.approx(row["score"])
        assert scores[f"score_{row['given']}"] > row["score"]


def test_over_repeats_the_majority_decides(tmp_path, make):
    folder = make.make_binary(tmp_path / "e", n=30, n_repeats=3, n_boot=5)
    table = pd.read_csv(folder / "predictions.tsv", sep="\t")
    patient = table["participant_id"][table["y_true"] == "patient"].iloc[0]
    of_patient = table["participant_id"] == patient
    table.loc[of_patient, "y_score"] = [0.01, 0.02, 0.9]  # wrong in two of three repeats
    table.to_csv(folder / "predictions.tsv", sep="\t", index=False)
    found = list_errors(open_folder(folder, show_ids=True)).set_index("scan")
    assert found.loc[patient, "given"] == "control"
    assert found.loc[patient, "score"] == pytest.approx(0.31)


def test_names_are_hidden_and_ages_are_rough(tmp_path, make):
    folder = make.make_binary(tmp_path / "e", n_boot=5)
    table = pd.read_csv(folder / "predictions.tsv", sep="\t").assign(age=93.7)
    table.to_csv(folder / "predictions.tsv", sep="\t", index=False)
    files = open_folder(folder)
    hidden = list_errors(files)
    assert not hidden["scan"].str.contains("sub-").any()
    assert set(hidden["age"]) == {"89+"}
    assert list_errors(open_folder(folder, show_ids=True))["age"].iloc[0] == 93.7
    assert hidden["scan"].is_unique


def test_pseudonyms_cannot_be_looked_up_without_the_files(binary_folder, tmp_path, make):
    scan = pd.DataFrame({"participant_id": ["sub-0001"]})
    other = open_folder(make.make_binary(tmp_path / "e", n=100, n_boot=5))
    one, again = (open_folder(binary_folder) for _ in range(2))
    assert name_scans(one, scan) != name_scans(other, scan)
    assert name_scans(one, scan) == name_scans(again, scan)
