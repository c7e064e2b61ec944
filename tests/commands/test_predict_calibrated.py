"""Predictions at a new site: its scans are called outside, and its bias is taken out by some whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from small_run import FASTEST, INFO, Listening, embedded_people, read_json

import neurocontrast as nc
from neurocontrast.embedding import read_embeddings, write_embeddings
from neurocontrast.evaluation.fit.stored_probe import fit_shifts, shift_scores
from neurocontrast.exceptions import ConfigError, DataError


def write(folder, name, *, n, site, shift=0.0):
    """Write embeddings whose first feature tells the age, and the second the class; `shift` moves both."""
    generator = np.random.default_rng(len(name))
    names = [f"{name}{row:03d}" for row in range(n)]
    age = generator.uniform(20, 80, n)
    codes = generator.integers(2, size=n)
    features = generator.normal(size=(n, 6))
    features[:, 0] = age / 10 + shift + generator.normal(scale=0.3, size=n)
    features[:, 1] += 2.0 * codes + shift
    table = pd.DataFrame(
        {"participant_id": names, "subject_id": names, "session": "1", "age": age, "site": site}
    )
    table["diagnosis"] = np.array(["control", "patient"])[codes]
    write_embeddings(folder / f"{name}.parquet", table, features.astype(np.float32), INFO)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Embeddings of people of a known site, of others there, of a new site, and of one far away from both."""
    folder = tmp_path_factory.mktemp("calibrated")
    write(folder, "known", n=160, site="london")
    write(folder, "home", n=200, site="london")
    write(folder, "new", n=60, site="ucla", shift=1.5)
    write(folder, "away", n=40, site="c", shift=10.0)
    return folder


@pytest.fixture
def new(folder):
    return read_embeddings(folder / "new.parquet").table


@pytest.fixture(scope="module")
def of_age(folder):
    options = FASTEST | {"outlyingness": True, "test": str(folder / "away.parquet")}
    return nc.evaluate(folder / "known.parquet", out=folder / "age", target="age", **options)


def labels(new, path, rows, *columns):
    new.iloc[rows][["participant_id", *columns]].to_csv(path, sep="\t", index=False)
    return path


def test_scans_from_elsewhere_are_called_outside_and_those_from_home_are_not(
    of_age, folder, tmp_path
):
    found = {}
    heard = {}
    for name in ("away", "home"):
        heard[name] = Listening()
        out = nc.predict(
            of_age, folder / f"{name}.parquet", out=tmp_path / f"{name}.tsv", progress=heard[name]
        )
        found[name] = pd.read_csv(out, sep="\t")
    assert found["away"]["outside"].mean() > 0.95
    assert read_json(tmp_path / "away.json")["outlyingness"]["by_site"] == [
        {
            "site": "c",
            "n": 40,
            "n_outside": int(found["away"]["outside"].sum()),
            "median_percentile": 100.0,
        }
    ]
    assert "do not trust" in heard["away"].warned[0]
    outlying = pd.read_csv(of_age / "external_outlyingness.tsv", sep="\t").set_index(
        "participant_id"
    )
    expected = outlying.loc[found["away"]["participant_id"]]
    np.testing.assert_allclose(
        found["away"]["mahalanobis_percentile"], expected["mahalanobis_percentile"], atol=1e-6
    )
    assert (expected["reference"] == "probe").all()
    assert found["home"]["outside"].mean() < 0.1
    assert found["home"]["mahalanobis_percentile"].median() == pytest.approx(50, abs=20)
    (not_compared,) = heard["home"].warned  # the embeddings have no digests of contents
    assert "subjects only the identifier could be compared" in not_compared


def test_the_folder_holds_no_features_of_a_person(of_age, folder):
    """Neither a scan's features nor any row that lies as near to a scan as another scan does."""
    with np.load(of_age / "probe" / "probe.npz") as stored:
        named = {name: np.atleast_2d(stored[name]) for name in stored if name != "inside_axes"}
    scans = read_embeddings(folder / "known.parquet").features
    nearest = np.sort(np.linalg.norm(scans[:, None] - scans, axis=2), axis=1)[:, 1].min()
    rows = [each for each in named.values() if each.shape[-1] == 6]
    assert rows
    for each in rows:
        assert len(each) <= 4
        assert np.linalg.norm(each[:, None] - scans, axis=2).min() > 0.5 * nearest


def test_ten_labelled_scans_take_out_the_bias_of_a_site(of_age, folder, new, tmp_path):
    given = labels(new, tmp_path / "labels.tsv", range(10), "age")
    out = nc.predict(of_age, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=given)
    found = pd.read_csv(out, sep="\t")
    tested = ~found["calibrated_on"].to_numpy()
    assert tested.sum() == 50
    before, after = (
        found[column].to_numpy() - new["age"].to_numpy()
        for column in ("y_score_zero_shot", "y_score")
    )
    assert before[tested].mean() > 10
    assert abs(after[tested].mean()) < 3
    np.testing.assert_allclose(after[~tested].mean(), 0, atol=1e-9)
    shift = read_json(out.with_suffix(".json"))["calibration"]["by_site"]["ucla"]
    assert shift["n_subjects"] == 10
    np.testing.assert_allclose(shift["shift"], -before[:10].mean())


def test_the_intercept_of_two_classes_is_that_of_a_logistic_regression(folder, new, tmp_path):
    of_diagnosis = nc.evaluate(
        folder / "known.parquet", out=tmp_path / "e", target="diagnosis", **FASTEST
    )
    given = labels(new, tmp_path / "labels.tsv", range(20), "diagnosis")
    out = nc.predict(of_diagnosis, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=given)
    found = pd.read_csv(out, sep="\t")
    truth = (new["diagnosis"][:20] == "patient").to_numpy()
    np.testing.assert_allclose(found["y_score"][:20].sum(), truth.sum(), atol=1e-6)
    odds = logit(found["y_score"]) - logit(found["y_score_zero_shot"])
    np.testing.assert_allclose(odds, odds[0], rtol=1e-6)


def test_a_site_with_few_labels_keeps_its_predictions_and_says_so(of_age, folder, tmp_path):
    """A labelled person's second visit is no test either, and a site without a label is named as well."""
    read = read_embeddings(folder / "new.parquet")
    heard = Listening()
    table = read.table.assign(site=["few"] * 20 + ["many"] * 20 + ["none"] * 20)
    table.loc[39, ["participant_id", "subject_id", "session"]] = [
        *table.loc[20, ["participant_id"] * 2],
        "2",
    ]
    write_embeddings(tmp_path / "e.parquet", table, read.features, INFO)
    given = labels(table, tmp_path / "labels.tsv", [*range(4), *range(20, 30)], "session", "age")
    out = nc.predict(
        of_age, tmp_path / "e.parquet", out=tmp_path / "p.tsv", calibrate=given, progress=heard
    )
    found = pd.read_csv(out, sep="\t")
    same = found["y_score"] == found["y_score_zero_shot"]
    assert same.tolist() == [site != "many" for site in table["site"]]
    assert any("few (4), none (0)" in message for message in heard.warned)
    assert found.index[found["calibrated_on"]].tolist() == [*range(20, 30), 39]


def test_wrong_labels_are_named_and_nothing_is_written(of_age, folder, new, tmp_path):
    known = read_embeddings(folder / "known.parquet").table
    given = tmp_path / "labels.tsv"
    table = new.iloc[:6][["participant_id", "age"]].astype(str)
    nobody = table.copy()
    word = table.copy()
    nobody.loc[1, "participant_id"] = "nobody"
    word.loc[1, "age"] = "old"
    for wrong, scans, said in (
        (
            nobody,
            "new",
            "line 3, nobody, column 'participant_id': no scan belongs to this participant",
        ),
        (word, "new", "found 'old'; an age is a number of years"),
        (
            pd.concat([table, table[:1], table[1:2].assign(age="33")]),
            "new",
            "line 9, .* in line 3, and '33' here",
        ),
        (
            known.iloc[:6][["participant_id", "age"]],
            "known",
            "the probe was fitted on this subject",
        ),
        (table[["participant_id"]].assign(diagnosis="patient"), "new", "age"),
    ):
        wrong.to_csv(given, sep="\t", index=False)
        with pytest.raises(DataError, match=said):
            nc.predict(of_age, folder / f"{scans}.parquet", out=tmp_path / "p.tsv", calibrate=given)
    three = embedded_people(tmp_path / "three.parquet", classes=("a", "b", "c"))
    evaluation = nc.evaluate(three, out=tmp_path / "e", target="diagnosis", **FASTEST)
    with pytest.raises(ConfigError, match="several classes"):
        nc.predict(evaluation, three, out=tmp_path / "p.tsv", calibrate=given)
    assert not (tmp_path / "p.tsv").exists()


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


@pytest.mark.parametrize("prefix", ["sub-", "SUB_", ""])
def test_labels_are_joined_in_any_form_of_an_identifier(of_age, folder, new, tmp_path, prefix):
    given = labels(new, tmp_path / "labels.tsv", range(10), "age")
    table = pd.read_csv(given, sep="\t")
    table["participant_id"] = [f"{prefix}{name}" for name in table["participant_id"]]
    out = nc.predict(of_age, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=table)
    assert pd.read_csv(out, sep="\t")["calibrated_on"].sum() == 10


def test_ages_that_mean_not_known_calibrate_nothing(of_age, folder, new, tmp_path):
    table = new.iloc[:10][["participant_id", "age"]].copy()
    table.loc[:2, "age"] = 99
    with pytest.raises(DataError, match="found '99'; must be a number"):
        nc.predict(of_age, folder / "new.parquet", out=tmp_path / "p.tsv", calibrate=table)
