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


def test_no_such_folder(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no folder '.*nowhere'"):
        open_folder(tmp_path / "nowhere")


def test_not_an_evaluation(tmp_path):
    with pytest.raises(ConfigError, match=r"has no evaluation\.json"):
        open_folder(tmp_path)


def test_a_run_is_told_apart(tmp_path):
    (tmp_path / "encoder.json").write_text("{}")
    with pytest.raises(ConfigError, match="run 'embed' and 'evaluate' first"):
        open_folder(tmp_path)


@pytest.mark.parametrize("name", ["predictions.tsv", "folds.tsv", "sites.tsv"])
def test_a_file_is_missing(folder, name):
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"missing: '{name}'"):
        open_folder(folder)


@pytest.mark.parametrize("found", [2, "1", None])
def test_another_format(folder, found):
    rewrite(folder, format=found)
    with pytest.raises(DataError, match=r"evaluation\.json: format must be 1"):
        open_folder(folder)


def test_broken_json(folder):
    (folder / "evaluation.json").write_text('{"format": 1,')
    with pytest.raises(DataError, match=r"evaluation\.json: not readable as JSON"):
        open_folder(folder)


def test_missing_keys_are_all_named(folder):
    (folder / "evaluation.json").write_text('{"format": 1, "target": "x"}')
    with pytest.raises(DataError, match="'kind' is missing; 'splits' is missing; 'n' is missing; 'metrics'"):
        open_folder(folder)


@pytest.mark.parametrize("keys", [{"kind": "ordinal"}, {"positive": "nobody"}, {"classes": ["control"]}])
def test_classes_that_do_not_fit(folder, keys):
    rewrite(folder, **keys)
    with pytest.raises(DataError, match=r"evaluation\.json"):
        open_folder(folder)


def test_a_missing_column(folder):
    table = pd.read_csv(folder / "predictions.tsv", sep="\t").drop(columns=["y_score"])
    table.to_csv(folder / "predictions.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match=r"predictions\.tsv: missing columns: 'y_score'"):
        open_folder(folder)


def test_a_number_that_is_none(folder):
    table = pd.read_csv(folder / "predictions.tsv", sep="\t", dtype=str)
    table.loc[3, "y_score"] = "high"
    table.to_csv(folder / "predictions.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match=r"column 'y_score': must be numbers, found row 5: 'high'"):
        open_folder(folder)


def test_an_empty_table(folder):
    (folder / "predictions.tsv").write_text("repeat\tfold\ty_true\ty_score\n")
    with pytest.raises(DataError, match="no predictions"):
        open_folder(folder)
    (folder / "predictions.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"predictions\.tsv"):
        open_folder(folder)
