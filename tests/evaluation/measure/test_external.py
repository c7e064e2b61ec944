import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import neurocontrast
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation import EvaluationSettings, plan_evaluation
from neurocontrast.evaluation.measure.external import measure_external_test
from neurocontrast.evaluation.measure.finding import Inputs
from neurocontrast.evaluation.plan.external import plan_external
from neurocontrast.exceptions import DataError, LeakageError
from neurocontrast.provenance import subject_digest
from neurocontrast.reporting.baselines import list_baselines
from neurocontrast.reporting.blocks import Paragraph, Table
from neurocontrast.reporting.folder import read_folder
from neurocontrast.reporting.sections.external import external_tables, show_external
from tests.evaluation.quick import FAST, evaluate_study

RUN = EmbeddingsInfo(
    run={"weights": {"sha256": "a" * 64}},
    pretraining_subjects=[],
    pretraining_contents=[],
    pretraining_contents_complete=True,
)


def pair(make_cohort, n=160, n_test=60, **options):
    """One cohort cut in two, so that both have the same effects, at the same sites."""
    cohort = make_cohort(n, n_features=10, diagnosis=0.6, **options)
    table = cohort.table.assign(content_digest=[f"c{row}" for row in range(len(cohort.table))])
    first = table.iloc[: n - n_test]
    rest = table.iloc[n - n_test :].reset_index(drop=True)
    return (first.reset_index(drop=True), cohort.features[: n - n_test]), (
        rest,
        cohort.features[n - n_test :],
    )


def run(training, test, *, info=RUN, test_info=RUN, **options):
    options = {"test": "others.parquet", **options}
    plan = plan_evaluation(
        *training, settings=EvaluationSettings(**FAST | {"n_bootstraps": 50, **options}), info=info
    )
    external = plan_external(plan, *test, info=test_info, training_info=info)
    measurement = measure_external_test(Inputs(plan.with_external(external), {}))
    record = measurement.records["external"].model_dump(mode="json", exclude_unset=True)
    return record, measurement.tables, external


def codes(external) -> set[str]:
    return {notice.code for notice in external.notices}


def test_the_probe_of_all_scans_is_tested_once_on_the_others(make_cohort):
    training, test = pair(make_cohort)
    summary, tables, external = run(training, test)
    predictions = tables["external_predictions"]
    assert codes(external) == set()
    assert predictions["participant_id"].tolist() == test[0]["participant_id"].tolist()
    truth = predictions["y_true"] == "patient"
    auc = summary["metrics"]["auc"]
    assert auc["value"] == pytest.approx(roc_auc_score(truth, predictions["y_score"]))
    assert auc["interval"][0] < auc["value"] < auc["interval"][1]
    assert summary["baseline"]["auc"]["value"] == pytest.approx(
        roc_auc_score(truth, predictions["baseline_score"])
    )
    brier = summary["metrics"]["brier"]
    assert brier["interval"][0] < brier["value"] < brier["interval"][1]
    assert "auc_within_fold" not in summary["metrics"]  # there is one fold
    gain = auc["value"] - summary["baseline"]["auc"]["value"]
    assert summary["increment"]["auc"]["difference"] == pytest.approx(gain)
    assert summary["n"] == {"scans": 60, "subjects": 60, "sites": 3, "excluded": {}}
    assert summary["n_train"] == 100
    sites = tables["external_sites"].set_index("site")
    rows = (predictions["site"] == "site-1").to_numpy()
    assert sites.loc["site-1", "auc"] == pytest.approx(
        roc_auc_score(truth[rows], predictions["y_score"][rows])
    )
    assert sites["n"].sum() == 60
    json.dumps(summary, allow_nan=False)


def test_what_is_tested_externally_changes_nothing_of_the_cross_validation(make_cohort):
    training, test = pair(make_cohort)
    settings = EvaluationSettings(**FAST, allow_overlap=True)
    plan = plan_evaluation(*training, settings=settings, info=RUN)
    alone = evaluate_study(plan)
    external = plan_external(plan, *with_shared(test), info=RUN, training_info=RUN)
    result = evaluate_study(plan.with_external(external))
    assert alone.evaluation.content()["external"] is None
    assert result.evaluation.content()["metrics"] == alone.evaluation.content()["metrics"]
    assert any(
        "training table too" in warning["message"]
        for warning in result.evaluation.content()["warnings"]
    )
    scores = result.tables["external_predictions"]["y_score"]
    np.testing.assert_allclose(scores, result.probe.predict(test[1]), atol=1e-6)
    pd.testing.assert_frame_equal(result.tables["predictions"], alone.tables["predictions"])


def test_several_scans_of_a_subject_are_resampled_together(make_cohort):
    training, (table, features) = pair(make_cohort)
    twice = pd.concat([table.assign(session="1"), table.assign(session="2")], ignore_index=True)
    once, often = (run(training, test)[0]["metrics"]["auc"]["interval"]
                   for test in ((table, features), (twice, np.concatenate([features, features]))))  # fmt: skip
    assert often == pytest.approx(once)


def test_age_is_tested_externally(make_cohort):
    training, test = pair(make_cohort)
    summary, tables, _ = run(training, test, target="age")
    mae = summary["metrics"]["mae"]
    found = tables["external_predictions"]
    assert mae["value"] == pytest.approx((found["y_true"] - found["y_score"]).abs().mean())
    assert mae["interval"][0] < mae["value"] < mae["interval"][1]


def test_one_class_in_the_test_set_is_explained_and_not_nan(make_cohort):
    training, (table, features) = pair(make_cohort)
    keep = (table["diagnosis"] == "patient").to_numpy()
    metrics = run(training, (table[keep], features[keep]))[0]["metrics"]
    assert metrics["auc"]["value"] is None
    assert "single class (patient)" in metrics["auc"]["reason"]
    assert metrics["sensitivity"]["value"] is not None


def test_a_site_never_seen_leaves_the_baseline(make_cohort):
    training, (table, features) = pair(make_cohort)
    table = table.assign(site="new").drop(columns="sex")
    summary, _, external = run(training, (table, features))
    assert summary["baseline_covariates"] == ["age"]
    said = " ".join(notice.message for notice in external.notices)
    assert "site, since 'new' was never seen" in said
    assert "sex, which the test table lacks" in said


def test_where_selects_in_the_study_and_test_where_in_the_test_set(make_cohort):
    training, test = pair(make_cohort)
    sites = {"site": ["site-0", "site-1"]}
    whole, _, external = run(training, test, where=sites)
    assert whole["n"]["excluded"] == {}
    assert whole["n"]["scans"] == len(test[0])
    assert "external_not_selected" not in codes(external)
    own, _, _ = run(training, test, where=sites, test_where={"site": ["site-2"]})
    assert own["sites"] == ["site-2"]
    n_others = int((test[0]["site"] != "site-2").sum())
    assert own["n"]["excluded"] == {"not selected by test_where": n_others}


def test_external_scans_unlike_those_that_where_selects_are_counted(make_cohort):
    training, (table, features) = pair(make_cohort)
    external = run(training, (table, features), where={"sex": "female"})[2]
    n_men = int((table["sex"] == "M").sum())
    notices = [n for n in external.notices if n.code == "external_not_selected"]
    assert f"{n_men} of {len(table)} external scans" in notices[0].message
    alike = run(training, (table, features), where={"sex": "F"}, test_where={"sex": "F"})[2]
    assert "external_not_selected" not in codes(alike)


def with_shared(test):
    table = test[0].copy()
    table.loc[:1, ["participant_id", "subject_id"]] = [["sub-0003"] * 2, ["sub-0007"] * 2]
    return table, test[1]


def test_people_that_were_trained_on_are_refused_unless_allowed(make_cohort):
    training, test = pair(make_cohort)
    with pytest.raises(
        LeakageError,
        match=r"test: 2 of 60 subjects are in the training table too \(sub-0003, sub-0007",
    ):
        run(training, with_shared(test))
    summary, _, external = run(training, with_shared(test), allow_overlap=True)
    assert summary["n_overlap"] == 2
    assert "external_shared_subjects" in codes(external)


def test_people_of_pretraining_are_refused_in_the_test_set_too(make_cohort):
    training, test = pair(make_cohort)
    seen = RUN.with_keys(pretraining_subjects=[subject_digest("sub-0150")])
    with pytest.raises(
        LeakageError, match=r"test: 1 of 60 subjects were in the pretraining cohort \(sub-0150"
    ):
        run(training, test, test_info=seen)
    assert run(training, test, test_info=seen, allow_overlap=True)[0]["n_overlap"] == 1


def test_one_image_under_two_names_is_refused(make_cohort):
    training, (table, features) = pair(make_cohort)
    copied = features.copy()
    copied[5] = training[1][9]
    with pytest.raises(LeakageError, match=r"test: .*sub-0009 = sub-0105"):
        run(training, (table, copied))
    external = run(training, (table, copied), allow_overlap=True)[2]
    assert "external_duplicates" in codes(external)


OTHER = RUN.with_keys(run={"weights": {"sha256": "b" * 64}})


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda t, f: (t, f[:, :9]), {}, "fitted on 10 features, and this table has 9"),
        (
            lambda t, f: (t, f),
            {"test_info": OTHER},
            "encoder 'aaaaaaaaaaaa…', and these are of 'bbbbbb",
        ),
        (
            lambda t, f: (t, f),
            {"test_info": RUN.with_keys(precision="bf16-mixed")},
            "'aaaaaaaaaaaa…, bf16-mixed'",
        ),
        (lambda t, f: (t, f), {"test_info": {}}, "and these are of one that is not recorded"),
        (
            lambda t, f: (t.drop(columns="diagnosis"), f),
            {},
            "test: the table has no column 'diagnosis'",
        ),
        (lambda t, f: (t.assign(diagnosis=None), f), {}, "missing in all 60 scans"),
        (
            lambda t, f: (t.assign(diagnosis="Patient"), f),
            {},
            "not trained on .'Patient' in 60 scans",
        ),
        (lambda t, f: (t, f * np.nan), {}, "test: .*60 scans have NaN"),
        (
            lambda t, f: (pd.concat([t, t]), np.tile(f, (2, 1))),
            {},
            "test: .*share participant_id and session",
        ),
        (
            lambda t, f: (t.assign(age="old"), f),
            {"target": "age"},
            "test: .*'age' must hold finite numbers",
        ),
        (
            lambda t, f: (t, f),
            {"test_where": {"site": ["site-9"]}},
            "test: test_where: .*no value 'site-9'",
        ),
        (
            lambda t, f: (t.assign(schooling="long"), f),
            {"covariates": ["schooling"]},
            "'schooling' holds numbers in training",
        ),
    ],
)
def test_what_cannot_be_tested_is_answered_with_what_to_do(make_cohort, change, options, message):
    (table, features), test = pair(make_cohort)
    training = (table.assign(schooling=np.arange(len(table)) * 1.5), features)
    with pytest.raises(DataError, match=message):
        run(training, change(*test), **options)


def test_tables_that_both_do_not_know_their_encoder_are_warned_about(make_cohort):
    training, test = pair(make_cohort)
    external = run(training, test, info=EmbeddingsInfo(), test_info=EmbeddingsInfo())[2]
    assert "encoder_unknown" in codes(external)


def test_perfect_separation_is_no_certainty(make_cohort):
    """An AUC of 1 has neither a spread nor an interval."""
    training, test = pair(make_cohort)
    for table, features in (training, test):
        features[:, 0] = 100.0 * (table["diagnosis"] == "patient")
    summary, _, _ = run(training, test, covariates=("site",), where={"site": ["site-0"]})
    assert summary["metrics"]["auc"] == {"value": 1.0, "interval": None}
    assert summary["metrics"]["sensitivity"]["interval"] is None
    assert summary["increment"]["auc"] == {"difference": 0.5, "interval": None}


def with_regions(cohort, seed=5):
    """Return a table and features with two regional measures, one of which knows the diagnosis."""
    table, features = cohort
    random = np.random.default_rng(seed)
    sick = (table["diagnosis"] == "patient").to_numpy()
    measures = {
        "Left-Hippocampus": 4000 - 350 * sick + random.normal(0, 300, len(table)),
        "Right-Putamen": random.normal(5000, 300, len(table)),
    }
    return table.assign(**measures), features


REGIONS = {"regional": ["Left-Hippocampus", "Right-Putamen"]}


def test_models_of_regional_measures_are_tested_on_the_same_external_scans(make_cohort):
    training, test = map(with_regions, pair(make_cohort))
    summary, tables, external = run(training, test, **REGIONS)
    assert codes(external) == set()
    assert list(summary["rivals"]) == ["regional", "regional_kernel"]
    predictions = tables["external_predictions"]
    truth = predictions["y_true"] == "patient"
    for key, baseline in summary["rivals"].items():
        auc = roc_auc_score(truth, predictions[f"{key}_score"])
        assert baseline["metrics"]["auc"]["value"] == pytest.approx(auc)
        gain = summary["metrics"]["auc"]["value"] - auc
        assert baseline["increment"]["auc"]["difference"] == pytest.approx(gain)
        low, high = baseline["increment"]["auc"]["interval"]
        assert low < gain < high
    scaler = StandardScaler().fit(training[0][REGIONS["regional"]])
    plain = LogisticRegression(C=1.0).fit(
        scaler.transform(training[0][REGIONS["regional"]]), training[0]["diagnosis"]
    )
    scores = plain.predict_proba(scaler.transform(test[0][REGIONS["regional"]]))[:, 1]
    assert np.corrcoef(scores, predictions["regional_score"])[0, 1] > 0.99
    without, _, _ = run(training, test)
    assert without["metrics"]["auc"] == summary["metrics"]["auc"]
    assert without["rivals"] == {}


def test_models_whose_measures_the_test_table_lacks_are_left_out_and_named(make_cohort):
    training, test = pair(make_cohort)
    table, features = with_regions(test)
    for column in (table.drop(columns="Right-Putamen"), table.assign(**{"Right-Putamen": np.nan})):
        summary, _, external = run(with_regions(training), (column, features), **REGIONS)
        assert summary["rivals"] == {}
        messages = [notice.message for notice in external.notices]
        assert any("regional, since the test table lacks 'Right-Putamen'" in m for m in messages)


def test_the_page_shows_models_of_regional_measures_on_external_scans(make_cohort, tmp_path):
    tables = []
    for table, features in map(with_regions, pair(make_cohort)):
        columns = [f"feature_{number:04d}" for number in range(features.shape[1])]
        tables.append(table.join(pd.DataFrame(features, columns=columns)))
    options = FAST | {"n_bootstraps": 50, "target": "diagnosis", **REGIONS}
    found = neurocontrast.evaluate(tables[0], test=tables[1], out=tmp_path / "e", **options)
    files = read_folder(found)
    part = external_tables(files)
    external = found.record.external["rivals"]
    assert [baseline.key for baseline in list_baselines(part.summary)] == [
        "regional",
        "regional_kernel",
    ]
    for baseline in list_baselines(part.summary):
        assert baseline.value("auc") == external[baseline.key]["metrics"]["auc"]["value"]
        difference = external[baseline.key]["increment"]["auc"]["difference"]
        assert baseline.difference("auc") == pytest.approx(difference)
    section = show_external(files)
    words = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    assert any(text.startswith("2 regional measures, without any encoder, reach") for text in words)
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert {"Regions only", "Minus regions", "Regions (kernel) only"} <= set(table.header)
    assert "over folds" not in table.note
    older = Path(found) / "evaluation.json"
    content = json.loads(older.read_text())
    del content["external"]["rivals"]
    older.write_text(json.dumps(content))
    assert list_baselines(external_tables(read_folder(found)).summary) == []
