"""Columns of regional volumes as a baseline: chosen by pattern, probed as the covariates are, compared."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.metrics import mean_absolute_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.exceptions import DataError
from tests.evaluation.quick import QUICK

FAST = {**QUICK, "n_bootstraps": 50, "C": (1e-3, 1e-1, 10.0), "alpha": (1.0, 100.0)}


@pytest.fixture
def volumes(make_cohort):
    """120 people whose embedding says little of age, and whose volumes say much."""
    cohort = make_cohort(120, age=0.1)
    random = np.random.default_rng(0)
    for number in range(3):
        cohort.table[f"vol_{number}"] = 4000 - 20 * cohort.table["age"] + random.normal(scale=100, size=120)
    cohort.table["vol_atlas"] = "aparc"
    return cohort


def study_of(cohort, **options):
    settings = EvaluationSettings(**{"target": "age", "regional": ("vol_?",), **FAST, **options})
    return plan_study(cohort.table, cohort.features, settings=settings)


def test_volumes_are_probed_as_a_plain_pipeline_would(volumes):
    study = study_of(volumes)
    result = run_study(study)
    values, age = volumes.table[["vol_0", "vol_1", "vol_2"]].to_numpy(), volumes.table["age"].to_numpy()
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
    assert "regional_as_good" in {warning["code"] for warning in content["warnings"]}
    assert result.tables["predictions"]["regional_score"].notna().all()


def test_a_missing_volume_is_filled_from_training(volumes):
    volumes.table.loc[:5, "vol_0"] = np.nan
    assert run_study(study_of(volumes)).evaluation.content()["regional"]["mae"]["pooled"] < 10


@pytest.mark.parametrize("names", [("volume_*",), ("vol_atlas",), ("age",), ("vol_0", "session")])
def test_what_is_no_column_of_numbers_is_refused(volumes, names):
    with pytest.raises(DataError, match=rf"regional: .* has no column '{re.escape(names[-1])}'.*'vol_0'"):
        study_of(volumes, regional=names)


def test_an_infinite_volume_is_refused_with_its_row(volumes):
    volumes.table.loc[7, "vol_1"] = np.inf
    with pytest.raises(DataError, match=r"regional: column 'vol_1' .*sub-0007"):
        study_of(volumes)
