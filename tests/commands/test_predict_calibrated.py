"""Predictions at a new site, its bias taken out by some of its scans whose truth is known."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from small_run import FAST, INFO, embedded_people

import neurocontrast as nc
from neurocontrast.embedding.table import write_embeddings
from neurocontrast.evaluation.few_shot import fit_shifts, shift_scores
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import SILENT


def write(path, *, prefix, n, site, shift=0.0):
    """Write embeddings whose first feature tells the age, and the second the class; `shift` moves both."""
    generator = np.random.default_rng(len(prefix))
    names = [f"{prefix}{row:03d}" for row in range(n)]
    age, codes = generator.uniform(20, 80, n), generator.integers(2, size=n)
    features = generator.normal(size=(n, 6))
    features[:, 0] = age / 10 + shift + generator.normal(scale=0.3, size=n)
    features[:, 1] += 2.0 * codes + shift
    table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": "1", "age": age, "site": site})
    table["diagnosis"] = np.array(["control", "patient"])[codes]
    write_embeddings(path, table, features.astype(np.float32), INFO)
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("calibrated")


@pytest.fixture(scope="module")
def known(folder):
    return write(folder / "known.parquet", prefix="known", n=80, site="london")


@pytest.fixture(scope="module")
def new(folder):
    return write(folder / "new.parquet", prefix="new", n=60, site="ucla", shift=1.5)


@pytest.fixture(scope="module")
def of_age(folder, known):
    return nc.evaluate(folder / "known.parquet", out=folder / "age", target="age", **FAST)


@pytest.fixture(scope="module")
def of_diagnosis(folder, known):
    return nc.evaluate(folder / "known.parquet", out=folder / "diagnosis", target="diagnosis", **FAST)


def labels(new, path, rows, *columns):
    new.iloc[rows][["participant_id", *columns]].to_csv(path, sep="\t", index=False)
    return path


def test_ten_labelled_scans_take_out_the_bias_of_a_site(of_age, folder, new, tmp_path):
    given = labels(new, tmp_path / "labels.tsv", range(10), "age")
    out = nc.predict(of_age, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=given)
    found = pd.read_csv(out, sep="\t")
    tested = ~found["calibrated_on"].to_numpy()
    assert tested.sum() == 50
    before, after = (found[column].to_numpy() - new["age"].to_numpy() for column in ("y_score_zero_shot", "y_score"))
    assert before[tested].mean() > 10
    assert abs(after[tested].mean()) < 3
    np.testing.assert_allclose(after[~tested].mean(), 0, atol=1e-9)
    shift = json.loads(out.with_suffix(".json").read_text())["calibration"]["by_site"]["ucla"]
    assert shift["n_subjects"] == 10
    np.testing.assert_allclose(shift["shift"], -before[:10].mean())


def test_the_intercept_of_two_classes_is_that_of_a_logistic_regression(of_diagnosis, folder, new, tmp_path):
    given = labels(new, tmp_path / "labels.tsv", range(20), "diagnosis")
    out = nc.predict(of_diagnosis, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=given)
    found = pd.read_csv(out, sep="\t")
    truth = (new["diagnosis"][:20] == "patient").to_numpy()
    np.testing.assert_allclose(found["y_score"][:20].sum(), truth.sum(), atol=1e-6)
    odds = logit(found["y_score"]) - logit(found["y_score_zero_shot"])
    np.testing.assert_allclose(odds, odds[0], rtol=1e-6)


def test_a_site_with_few_labels_keeps_its_predictions_and_says_so(of_age, folder, new, tmp_path, monkeypatch):
    given = labels(new, tmp_path / "labels.tsv", range(4), "age")
    heard = []
    monkeypatch.setattr(type(SILENT), "warning", lambda _, text: heard.append(text))
    out = nc.predict(of_age, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=given)
    found = pd.read_csv(out, sep="\t")
    np.testing.assert_array_equal(found["y_score"], found["y_score_zero_shot"])
    assert any("ucla (4)" in message for message in heard)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"participant_id": "nobody"}, "line 3, nobody, column participant_id: no scan belongs to this participant"),
        ({"age": "old"}, "found 'old'; must be a number"),
    ],
)
def test_wrong_labels_are_named_and_nothing_is_written(of_age, folder, new, tmp_path, change, message):
    given = labels(new, tmp_path / "labels.tsv", range(6), "age")
    table = pd.read_csv(given, sep="\t", dtype=str)
    for column, value in change.items():
        table.loc[1, column] = value
    table.to_csv(given, sep="\t", index=False)
    with pytest.raises(DataError, match=message.split(": ")[-1]):
        nc.predict(of_age, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=given)
    assert not (tmp_path / "p.tsv").exists()


def test_two_truths_of_one_scan_are_refused_with_both_lines(of_age, of_diagnosis, folder, new, tmp_path):
    for model, column, other in ((of_age, "age", "33"), (of_diagnosis, "diagnosis", None)):
        given = labels(new, tmp_path / f"{column}.tsv", range(6), column)
        table = pd.read_csv(given, sep="\t", dtype=str)
        again = table.iloc[[1]].copy()
        first = again[column].iloc[0]
        again[column] = other or ("patient" if first == "control" else "control")
        pd.concat([table, table.iloc[[0]], again]).to_csv(given, sep="\t", index=False)
        with pytest.raises(DataError, match=rf"line 9, .*: is '{first}' in line 3, and '{again[column].iloc[0]}' here"):
            nc.predict(model, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=given)
        assert not (tmp_path / "p.tsv").exists()


def test_subjects_of_the_probe_and_a_missing_column_are_refused(of_age, folder, known, new, tmp_path):
    given = labels(known, tmp_path / "labels.tsv", range(6), "age")
    with pytest.raises(DataError, match="the probe was fitted on this subject"):
        nc.predict(of_age, folder / "known.parquet", out=tmp_path / "p.tsv", calibrate=given)
    given = labels(new, tmp_path / "others.tsv", range(6), "diagnosis")
    with pytest.raises(DataError, match="age"):
        nc.predict(of_age, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=given)


def test_several_classes_are_refused(tmp_path):
    table = embedded_people(tmp_path / "three.parquet", classes=("a", "b", "c"))
    evaluation = nc.evaluate(table, out=tmp_path / "e", target="diagnosis", **FAST)
    given = labels(pd.read_parquet(table), tmp_path / "labels.tsv", range(6), "diagnosis")
    with pytest.raises(ConfigError, match="several classes"):
        nc.predict(evaluation, table, out=tmp_path / "p.tsv", calibrate=given)


def test_shifts_count_subjects_not_scans():
    subjects = pd.Series(["a"] * 6 + ["b", "c", "d", "e"])
    scores = np.zeros(10)
    truths = np.array([10.0] * 6 + [0.0] * 4)
    found = fit_shifts(scores, truths, pd.Series(["s"] * 10), subjects, "continuous")["s"]
    assert found.n_subjects == 5
    assert found.shift == 2.0
    np.testing.assert_array_equal(
        shift_scores(scores, pd.Series(["s", None] * 5), {"s": found}, "continuous"), [2, 0] * 5
    )
    probabilities = shift_scores(np.array([0.5]), pd.Series(["s"]), {"s": found}, "binary")
    np.testing.assert_allclose(probabilities, expit(2.0))
