"""Ridge and logistic regression of regional measures, written as numbers that anybody can apply.

`measures.py` fits them to the people whom the weights learn from, and
`pipelines/demo_people.py` sets them beside the weights.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold

from benchmarks.regions.data import logarithms
from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.files import write_json

FILE = "linear_rivals.json"
CLIP = 5.0
"""Standard deviations beyond which a measure is taken for this many."""
N_FOLDS = 5


@dataclass(frozen=True)
class LinearModel:
    """Intercept, and a coefficient of each standardised measure."""

    intercept: float
    coefficients: list[float]

    def apply(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the model's value of each row of `x` (n, n_measures)."""
        values: npt.NDArray[np.float64] = self.intercept + x @ np.asarray(self.coefficients)
        return values


@dataclass(frozen=True)
class LinearRivals:
    """Linear models of age, and of the log-odds of being a man, of the same measures.

    Volumes become logarithms; a missing measure is the median of the people learned from.
    """

    measures: list[str]
    is_logarithm: list[bool]
    medians: list[float]
    means: list[float]
    deviations: list[float]
    clip: float
    median_age: float
    age: LinearModel
    male: LinearModel

    @classmethod
    def fit(cls, people: pd.DataFrame, measures: pd.DataFrame) -> LinearRivals:
        """Fit both models to people; penalties are chosen by sites left out."""
        values = logarithms(measures)
        filled = values.fillna(values.median())
        means = filled.mean()
        deviations = filled.std()
        x = ((filled - means) / deviations).clip(-CLIP, CLIP).to_numpy()
        folds = list(GroupKFold(N_FOLDS).split(x, groups=people["site"]))
        choices = EvaluationSettings.model_fields
        ridge = GridSearchCV(
            Ridge(),
            {"alpha": list(choices["alpha"].default)},
            cv=folds,
            scoring="neg_mean_absolute_error",
        ).fit(x, people["age"])
        logistic = GridSearchCV(
            LogisticRegression(max_iter=2000),
            {"C": list(choices["C"].default)},
            cv=folds,
            scoring="neg_log_loss",
        ).fit(x, people["sex"] == "M")
        of_age = ridge.best_estimator_
        of_sex = logistic.best_estimator_
        return cls(
            measures=list(values.columns),
            is_logarithm=[not name.endswith("_thickness") for name in values],
            medians=values.median().tolist(),
            means=means.tolist(),
            deviations=deviations.tolist(),
            clip=CLIP,
            median_age=float(people["age"].median()),
            age=LinearModel(float(of_age.intercept_), of_age.coef_.tolist()),
            male=LinearModel(float(of_sex.intercept_[0]), of_sex.coef_[0].tolist()),
        )

    def standardise(self, measures: pd.DataFrame) -> npt.NDArray[np.float64]:
        """Return measures of people (n, n_measures) as standard deviations of the training's.

        Volumes of 0 are missing.
        """
        positive = measures[self.measures].where(measures[self.measures] > 0)
        values = logarithms(positive)
        filled = values.fillna(pd.Series(self.medians, index=self.measures))
        x = (filled.to_numpy(float) - self.means) / self.deviations
        return np.clip(x, -self.clip, self.clip)

    def write(self, folder: Path) -> None:
        """Write the models beside weights."""
        write_json(folder / FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> LinearRivals:
        """Read the models beside weights."""
        record = json.loads((folder / FILE).read_text(encoding="utf-8"))
        models = {name: LinearModel(**record.pop(name)) for name in ("age", "male")}
        return cls(**record, **models)
