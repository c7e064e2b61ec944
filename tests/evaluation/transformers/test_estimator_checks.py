from __future__ import annotations

import inspect

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator

from neurocontrast import evaluation
from neurocontrast.evaluation import ComBat, Residualiser

PUBLIC = [getattr(evaluation, name) for name in evaluation.__all__]
ESTIMATORS = [each for each in PUBLIC if inspect.isclass(each) and issubclass(each, BaseEstimator)]
WITH_SIDE_COLUMNS = [ComBat(0, handle_unknown="ignore"), Residualiser([0])]


@pytest.mark.parametrize("estimator", [*(each() for each in ESTIMATORS), *WITH_SIDE_COLUMNS], ids=repr)
def test_scikit_learn_takes_it_for_its_own(estimator):
    assert len(check_estimator(estimator, on_skip=None)) > 30


def test_every_transformer_is_checked():
    assert {ComBat, Residualiser} <= set(ESTIMATORS)
