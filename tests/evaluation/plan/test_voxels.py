"""Models of the scans without an encoder: components of voxels, and columns of regional volumes."""

import re

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import mean_absolute_error, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.documents.figures import Metric, ModelFigures
from neurocontrast.evaluation.measure.model_figures import Figures
from neurocontrast.evaluation.measure.results import look_at_baseline
from neurocontrast.evaluation.plan.models import Baseline, ConstantModel
from neurocontrast.evaluation.plan.models.voxels import ComponentsDesign, make, voxel_products
from neurocontrast.exceptions import DataError
from tests.evaluation.quick import evaluate_study, make_plan, warnings


@pytest.fixture(scope="module")
def voxels():
    generator = np.random.default_rng(0)
    parts = generator.normal(size=(90, 12)) @ generator.normal(size=(12, 5000)) * 3
    return (parts + generator.normal(size=(90, 5000)) + 50).astype(np.float32)


def test_components_are_those_of_pca_on_the_voxels_of_the_training_rows(voxels):
    design = ComponentsDesign(voxel_products(voxels), n_components=10)
    train = np.arange(60)
    test = np.arange(60, 90)
    pca = PCA(10, svd_solver="full").fit(voxels[train].astype(float))
    for made, expected in zip(design(train, test), (voxels[train], voxels[test]), strict=True):
        scores = pca.transform(expected.astype(float))
        signs = np.sign((made * scores).sum(axis=0))
        np.testing.assert_allclose(
            made * signs, scores, rtol=1e-3, atol=1e-2 * np.abs(scores).max() / 100
        )


def test_test_rows_have_no_part_in_the_components(voxels):
    train = np.arange(60)
    test = np.arange(60, 90)
    changed = voxels.copy()
    changed[70:] = changed[70:] * -1 + 40
    ours, theirs = (
        ComponentsDesign(voxel_products(each))(train, test)[0] for each in (voxels, changed)
    )
    np.testing.assert_allclose(
        np.abs(ours[:, :12]), np.abs(theirs[:, :12]), atol=1e-3 * ours.std(axis=0)[0]
    )


def test_few_training_rows_give_few_components(voxels):
    train, test = ComponentsDesign(voxel_products(voxels))(np.arange(20), np.arange(20, 25))
    assert (train.shape, test.shape) == ((20, 19), (5, 19))
    assert np.isfinite(test).all()


@pytest.fixture(scope="module")
def measured(make_cohort):
    """A study with voxels that know the diagnosis, its voxels, and its result."""
    planned = make_plan(make_cohort(120, diagnosis=0.2), n_bootstraps=50)
    values = np.random.default_rng(1).normal(size=(120, 3000))
    values[:, :40] += 1.5 * planned.target.values[:, None]
    about = {"spacing_mm": 4, "mask": "box", "n_voxels": 3000, "standardised": "no"}
    study = planned.with_model(make(planned, voxel_products(values.astype(np.float32)), about))
    return study, values, evaluate_study(study)


def test_voxels_are_probed_as_a_plain_pipeline_of_scikit_learn_would(measured):
    planned, values, result = measured
    pooled = []
    for split in planned.splits:
        grid = GridSearchCV(
            LogisticRegression(max_iter=1000), {"C": planned.settings.C}, scoring="neg_log_loss"
        )
        model = make_pipeline(PCA(60, svd_solver="full"), StandardScaler(), grid)
        model.fit(values[split.train], planned.target.values[split.train])
        pooled.append(
            roc_auc_score(
                planned.target.values[split.test], model.predict_proba(values[split.test])[:, 1]
            )
        )
    folds = result.tables["folds"]
    assert (
        abs(folds["voxels_auc"].mean() - np.mean(pooled)) < 0.03
    )  # other inner folds, so another C now and then
    assert result.evaluation.content()["voxels"]["auc"]["pooled"] > 0.9


def test_voxels_are_described_as_the_baseline_is_and_compared(measured):
    result = measured[2]
    summary = result.evaluation.content()
    assert summary["voxels"].keys() == summary["baseline"].keys()
    assert summary["voxels"]["auc"].keys() == summary["baseline"]["auc"].keys()
    increment, ours, theirs = (
        summary[part]["auc"] for part in ("voxels_increment", "metrics", "voxels")
    )
    assert increment["difference"] == pytest.approx(ours["pooled"] - theirs["pooled"])
    assert increment["interval"][0] < increment["difference"] < increment["interval"][1] < 0
    assert 0 < increment["p_value"] < 0.05
    assert summary["voxels_about"]["n_components"] == 60
    said = {warning["code"]: warning["message"] for warning in summary["warnings"]}
    assert "(AUC " in said["voxels_as_good"]
    for name in ("folds", "sites"):
        assert {"voxels_auc", "baseline_auc"} <= set(result.tables[name])
    assert result.tables["predictions"]["voxels_score"].between(0, 1).all()
    assert "voxels" in set(result.tables["calibration"]["model"])


@pytest.mark.parametrize(
    ("metric", "ours", "theirs", "warns"),
    [
        ("auc", 0.8, 0.7, False),
        ("auc", 0.7, 0.7, True),
        ("mae", 5.0, 6.0, False),
        ("mae", 6.0, 5.0, True),
    ],
)
def test_a_warning_comes_where_voxels_do_as_well(metric, ours, theirs, warns):
    voxels = ModelFigures(metrics={metric: Metric(pooled=theirs)})
    figures = Figures({metric: Metric(pooled=ours)}, models={"voxels": voxels})
    model = ConstantModel(
        "voxels", baseline=Baseline("voxels", "23 principal components", "the scans")
    )
    found = look_at_baseline(figures, model, metric)
    assert bool(found) is warns
    assert all(notice.message.startswith("23 principal components") for notice in found)


@pytest.fixture
def volumes(make_cohort):
    """120 people whose embedding says little of age, and whose volumes say much."""
    cohort = make_cohort(120, age=0.1)
    random = np.random.default_rng(0)
    for number in range(3):
        cohort.table[f"vol_{number}"] = (
            4000 - 20 * cohort.table["age"] + random.normal(scale=100, size=120)
        )
    cohort.table["vol_atlas"] = "aparc"
    return cohort


def regional(cohort, **options):
    return make_plan(
        cohort, **{"target": "age", "regional": ("vol_?",), "n_bootstraps": 50, **options}
    )


def test_volumes_are_probed_as_a_plain_pipeline_would(volumes):
    study = regional(volumes)
    result = evaluate_study(study)
    values = volumes.table[["vol_0", "vol_1", "vol_2"]].to_numpy()
    age = volumes.table["age"].to_numpy()
    errors = []
    for split in study.splits:
        model = make_pipeline(StandardScaler(), RidgeCV(study.settings.alpha, cv=5)).fit(
            values[split.train], age[split.train]
        )
        errors.append(mean_absolute_error(age[split.test], model.predict(values[split.test])))
    np.testing.assert_allclose(result.tables["folds"]["regional_mae"], errors, rtol=0.05)
    content = result.evaluation.content()
    assert content["regional_columns"] == ["vol_0", "vol_1", "vol_2"]
    assert content["regional"].keys() == content["metrics"].keys()
    assert content["regional_increment"]["mae"]["interval"][0] > 0
    assert "regional_as_good" in warnings(content)
    assert result.tables["predictions"]["regional_score"].notna().all()


def test_a_missing_volume_is_filled_from_training(volumes):
    volumes.table.loc[:5, "vol_0"] = np.nan
    assert evaluate_study(regional(volumes)).evaluation.content()["regional"]["mae"]["pooled"] < 10


@pytest.mark.parametrize("names", [("volume_*",), ("vol_atlas",), ("age",), ("vol_0", "session")])
def test_what_is_no_column_of_numbers_is_refused(volumes, names):
    with pytest.raises(
        DataError, match=rf"regional: .* has no column '{re.escape(names[-1])}'.*'vol_0'"
    ):
        regional(volumes, regional=names)


@pytest.mark.parametrize(
    ("cell", "message"), [(np.inf, ".*sub-0007"), ("12,5", "is text, such as '12,5'")]
)
def test_a_volume_that_is_no_number_is_refused(volumes, cell, message):
    volumes.table["vol_1"] = volumes.table["vol_1"].astype(type(cell))
    volumes.table.loc[7, "vol_1"] = cell
    with pytest.raises(DataError, match=f"regional: column 'vol_1' {message}"):
        regional(volumes, regional=("vol_*",))
