"""Reading of an evaluation folder, and what is said of a file that is missing, damaged or of another format."""

import pytest

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.reporting.findings import open_folder
from tests.reporting.folders import edit, rewrite


def test_text_stays_text(folder):
    edit(folder, "predictions", lambda table: table.assign(site="007", participant_id="001"))
    files = open_folder(folder)
    assert set(files.predictions["site"]) == {"007"}
    assert files.predictions["participant_id"].iloc[1] == "001"


@pytest.mark.parametrize("name", ["predictions.tsv", "folds.tsv", "sites.tsv"])
def test_a_file_is_missing(folder, name):
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"missing: '{name}'"):
        open_folder(folder)


def test_one_site_has_no_section_of_its_own(folder, build):
    for n, shown in ((2, True), (1, False)):
        section = build(
            "sites", open_folder(edit(folder, "sites", lambda table, n=n: table.head(n)))
        )
        assert (section is not None) == shown


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        *[({"format": found}, r"evaluation\.json: format must be 1") for found in (2, "1", None)],
        ({"kind": "ordinal"}, r"evaluation\.json"),
        ({"positive": "nobody"}, r"evaluation\.json"),
        ({"classes": ["control"]}, r"evaluation\.json"),
        ({"learning_curve": {"metrics": {"auc": 3}}}, r"'learning_curve\.metrics\.auc': must be a"),
        (
            {"learning_curve": {"metrics": {"auc": [{"n_train": "x"}]}}},
            r"'learning_curve\.metrics\.auc\.0\.n_train'",
        ),
        ({"permutation": {"n": 9, "p_values": {"auc": "small"}}}, r"'permutation\.p_values\.auc'"),
        ({"threshold": {"rule": "half", "values": 3}}, r"'threshold\.values'"),
        ({"probe": "logistic"}, "'probe'"),
        ({"external": {"metrics": {"auc": {"value": "high"}}}}, r"'external\.metrics\.auc\.value'"),
        (
            {"new_site": {"unseen": {"embedding": {"mae": "low"}}}},
            r"'new_site\.unseen\.embedding\.mae'",
        ),
        ({"split": {"n": {"train": "many"}}}, r"split\.n\.train"),
    ],
)
def test_another_format_and_parts_that_hold_something_else_are_named(folder, keys, says):
    with pytest.raises(DataError, match=says):
        open_folder(rewrite(folder, **keys))


def test_an_empty_table(folder):
    (folder / "predictions.tsv").write_text("repeat\tfold\ty_true\ty_score\ty_pred\n")
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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda t: t.assign(y_score=["0.5"] * 3 + ["high"] * 117),
            "'y_score': must be numbers, found row 5: 'high'",
        ),
        (
            lambda t: t.assign(y_true="Patient"),
            "'y_true': 'Patient' is not a class of evaluation.json: 'control'",
        ),
        *[
            (
                lambda t, name=name: t.drop(columns=name),
                rf"predictions\.tsv: missing columns: '{name}'",
            )
            for name in ("y_score", "y_pred")
        ],
    ],
)
def test_a_wrong_cell_and_a_missing_column_are_named(folder, change, says):
    with pytest.raises(DataError, match=says):
        open_folder(edit(folder, "predictions", change))


def test_a_table_that_was_read_is_asked_for_further_columns(folder):
    files = open_folder(folder)
    assert files.table("cohort") is files.table("cohort", "site")
    with pytest.raises(DataError, match=r"cohort\.tsv: missing columns: 'size'"):
        files.table("cohort", "size")
