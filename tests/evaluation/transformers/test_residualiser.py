from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.evaluation import Residualiser


def test_residuals_are_those_of_least_squares_fitted_in_training():
    generator = np.random.default_rng(0)
    covariates, x = generator.normal(size=(50, 2)), generator.normal(size=(50, 4))
    x += covariates @ generator.normal(size=(2, 4))
    both = np.column_stack([x, covariates])
    fitted = Residualiser([4, 5]).fit(both[:30])
    design = np.column_stack([np.ones(30), covariates[:30]])
    solved = np.linalg.solve(design.T @ design, design.T @ x[:30])
    np.testing.assert_allclose(fitted.transform(both[:30]), x[:30] - design @ solved + x[:30].mean(axis=0))
    expected = x[30:] - np.column_stack([np.ones(20), covariates[30:]]) @ solved + x[:30].mean(axis=0)
    np.testing.assert_allclose(fitted.transform(both[30:]), expected)


def test_text_and_missing_covariates_are_taken_out_too():
    generator = np.random.default_rng(1)
    sex, age = generator.choice(["F", "M"], 80), generator.uniform(20, 80, 80)
    unknown = np.arange(80) % 5 == 0
    x = generator.normal(size=(80, 2)) + 3.0 * (sex == "M")[:, None] + 5.0 * unknown[:, None]
    table = pd.DataFrame(x, columns=["a", "b"]).assign(sex=sex, age=np.where(unknown, np.nan, age))
    found = Residualiser(["sex", "age"]).fit_transform(table)
    for group in (sex == "M", unknown):
        np.testing.assert_allclose(found[group].mean(axis=0), found[~group].mean(axis=0))
    np.testing.assert_allclose(found.mean(axis=0), x.mean(axis=0))
