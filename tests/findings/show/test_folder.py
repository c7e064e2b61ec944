from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.findings import open_folder


@pytest.fixture
def folder(binary_folder, tmp_path):
    return shutil.copytree(binary_folder, tmp_path / "evaluation")


def rewrite(folder, **keys):
    path = folder / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def test_text_stays_text(folder):
    table = pd.read_csv(folder / "predictions.tsv", sep="\t", dtype=str)
    table["site"], table["participant_id"] = "007", [f"{i:03d}" for i in range(len(table))]
    table.to_csv(folder / "predictions.tsv", sep="\t", index=False)
    files = open_folder(folder)
    assert set(files.predictions["site"]) == {"007"}
    assert files.predictions["participant_id"].iloc[1] == "001"


@pytest.mark.parametrize("name", ["predictions.tsv", "folds.tsv", "sites.tsv"])
def test_a_file_is_missing(folder, name):
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"missing: '{name}'"):
        open_folder(folder)


def test_one_site_has_no_section_of_its_own(folder):
    table = pd.read_csv(folder / "sites.tsv", sep="\t")
    for n, shown in ((2, True), (1, False)):
        table.head(n).to_csv(folder / "sites.tsv", sep="\t", index=False)
        files = open_folder(folder)
        section = next(each for each in files.findings if each.name == "sites").show(files)
        assert (section is not None) == shown


@pytest.mark.parametrize("found", [2, "1", None])
def test_another_format(folder, found):
    rewrite(folder, format=found)
    with pytest.raises(DataError, match=r"evaluation\.json: format must be 1"):
        open_folder(folder)


@pytest.mark.parametrize("keys", [{"kind": "ordinal"}, {"positive": "nobody"}, {"classes": ["control"]}])
def test_classes_that_do_not_fit(folder, keys):
    rewrite(folder, **keys)
    with pytest.raises(DataError, match=r"evaluation\.json"):
        open_folder(folder)


def test_an_empty_table(folder):
    (folder / "predictions.tsv").write_text("repeat\tfold\ty_true\ty_score\n")
    with pytest.raises(DataError, match="no predictions"):
        open_folder(folder)
    (folder / "predictions.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"predictions\.tsv"):
        open_folder(folder)


@pytest.mark.parametrize(
    ("path", "content", "error", "says"),
    [
        ("nowhere", None, ConfigError, "there is no folder '.*nowhere'"),
        (".", None, ConfigError, r"has no evaluation\.json"),
        ("encoder.json", "{}", ConfigError, "run 'embed' and 'evaluate' first"),
        ("evaluation.json", '{"format": 1,', DataError, r"evaluation\.json: not readable as JSON"),
        (
            "evaluation.json",
            '{"format": 1, "target": "x"}',
            DataError,
            "'kind' is missing; 'splits' is missing",
        ),
    ],
)
def test_what_is_no_evaluation_is_told_apart(tmp_path, path, content, error, says):
    if content is not None:
        (tmp_path / path).write_text(content)
    with pytest.raises(error, match=says):
        open_folder(tmp_path if content is not None else tmp_path / path)


def test_a_wrong_cell_and_a_missing_column_are_named(folder):
    path = folder / "predictions.tsv"
    table = pd.read_csv(path, sep="\t", dtype=str)
    table.loc[3, "y_score"] = "high"
    table.to_csv(path, sep="\t", index=False)
    with pytest.raises(DataError, match=r"column 'y_score': must be numbers, found row 5: 'high'"):
        open_folder(folder)
    table.drop(columns=["y_score"]).to_csv(path, sep="\t", index=False)
    with pytest.raises(DataError, match=r"predictions\.tsv: missing columns: 'y_score'"):
        open_folder(folder)
