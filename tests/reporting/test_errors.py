"""The worst errors, and the names they stand under."""

import shutil

import numpy as np
import pandas as pd
import pytest

from neurocontrast.reporting.findings import open_folder
from neurocontrast.reporting.privacy import name_scans
from neurocontrast.reporting.sections.errors import draw_predicted
from neurocontrast.reporting.sections.worst import list_errors
from tests.reporting.folders import edit


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
    assert len(found) == wrong.sum() > 5


def test_largest_residuals(age_folder):
    files = open_folder(age_folder)
    residual = files.predictions["y_score"] - files.predictions["y_true"]
    assert list_errors(files)["error"].to_numpy(float) == pytest.approx(
        np.sort(residual.abs())[::-1]
    )


def test_of_several_classes_the_true_one_got_least(several_folder):
    files = open_folder(several_folder, show_ids=True)
    rows = files.predictions.set_index("participant_id")
    worst = list_errors(files).head(3).to_dict("records")
    assert len(worst) == 3
    for row in worst:
        scores = rows.loc[row["scan"]]
        assert scores[f"score_{row['y_true']}"] == pytest.approx(row["score"])
        assert scores[f"score_{row['given']}"] > row["score"]


def test_over_repeats_the_majority_decides(repeated_folder, tmp_path):
    def change(table):
        of_patient = (
            table["participant_id"]
            == table.loc[table["y_true"] == "patient", "participant_id"].iloc[0]
        )
        table.loc[of_patient, "y_score"] = [0.01, 0.02, 0.9]
        table.loc[of_patient, "y_pred"] = ["control"] * 2 + ["patient"]
        people.append(table.loc[of_patient, "participant_id"].iloc[0])

    people = []
    folder = edit(shutil.copytree(repeated_folder, tmp_path / "e"), "predictions", change)
    found = list_errors(open_folder(folder, show_ids=True)).set_index("scan").loc[people[0]]
    assert (found["given"], found["score"]) == ("control", pytest.approx(0.31))


def test_names_are_hidden_and_ages_are_rough(folder):
    edit(folder, "predictions", lambda table: table.assign(age=93.7))
    hidden = list_errors(open_folder(folder))
    assert not hidden["scan"].str.contains("sub-").any()
    assert set(hidden["age"]) == {"89+"}
    assert list_errors(open_folder(folder, show_ids=True))["age"].iloc[0] == 93.7
    assert hidden["scan"].is_unique


def test_the_age_that_is_predicted_is_as_rough(age_folder, tmp_path, build):
    folder = shutil.copytree(age_folder, tmp_path / "e")
    edit(folder, "predictions", lambda table: table.assign(y_true=93.7, y_score=60.2))
    # One person with six scans.
    edit(folder, "cohort", lambda t: t.assign(n=6, n_subjects=1, mean=93.7, min=93.7, max=93.7))
    files = open_folder(folder)
    (table,) = build("worst", files).blocks
    assert {tuple(cell.text for cell in row[-3:]) for row in table.rows} == {("89+", "60", "–")}
    assert set(draw_predicted(files).numbers["true"]) == {89.0}
    assert [cell.text for cell in build("cohort", files).blocks[-1].rows[0][1:]] == [
        "6",
        "1",
        "–",
        "–",
        "89+",
        "89+",
    ]
    (table,) = build("worst", open_folder(folder, show_ids=True)).blocks
    assert {tuple(cell.text for cell in row[-3:]) for row in table.rows} == {
        ("93.7", "60.2", "−33.5")
    }


def test_ages_may_be_classes(changing, binary_folder, build):
    assert build("worst", changing(binary_folder)(target="age")).blocks


def test_pseudonyms_cannot_be_looked_up_without_the_files(binary_folder, folder):
    scan = pd.DataFrame({"participant_id": ["sub-0001"]})
    other = open_folder(edit(folder, "predictions", lambda table: table.iloc[1:]))
    one, again = (open_folder(binary_folder) for _ in range(2))
    assert name_scans(one, scan) != name_scans(other, scan)
    assert name_scans(one, scan) == name_scans(again, scan)
