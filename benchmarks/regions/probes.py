"""Probes of `regions.py`: ridge regression of weighed blocks, and rivals that any user has at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.probes.designs import WEIGHTS, BlockScaler, principal_axes
from neurocontrast.evaluation.splits.inner import MAX_INNER_SITES
from neurocontrast.evaluation.splits.splitters import group_sites

__all__ = [
    "GaussianProcess",
    "Linear",
    "Perceptron",
    "Predictor",
    "SupportVectors",
    "class_folds",
    "site_accuracy",
    "site_folds",
]

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[np.intp]
Blocks = Sequence[Floats]
ALPHAS = np.array(EvaluationSettings.model_fields["alpha"].default)
"""Penalties of ridge regression; the built-in probe's."""
N_CLASS_FOLDS = 5


Folds = Sequence[tuple[Rows, Rows]]
"""Rows to fit and rows to try hyper-parameters on, fold by fold."""
MIN_TRIED = 10
"""Folds with fewer people to try hyper-parameters on are left out."""


class Predictor(Protocol):
    """A system that predicts numbers of all people, after it has seen those of some."""

    def predict(self, wanted: Floats, fitted: Rows, folds: Folds) -> Floats:
        """Return predictions (people, targets).

        Parameters
        ----------
        wanted
            Numbers of all people (people, targets); those outside `fitted` and `folds` are not read.
        fitted
            Rows that a system is fitted on.
        folds
            Rows on which its hyper-parameters are chosen.
        """
        ...

    def of_people(self, rows: Rows) -> Predictor:
        """Return the same system of some people alone, numbered anew."""
        ...


def site_folds(sites: npt.NDArray[np.str_], fitted: Rows) -> list[tuple[Rows, Rows]]:
    """Return inner folds that leave sites out, as the built-in probes make them."""
    folds = []
    for group in group_sites(sites[fitted], MAX_INNER_SITES):
        tried = np.isin(sites[fitted], group)
        folds.append((fitted[~tried], fitted[tried]))
    return folds


def class_folds(labels: Floats, fitted: Rows) -> list[tuple[Rows, Rows]]:
    """Return five inner folds with both classes, or as many as the smaller class has people."""
    smaller = int(np.unique(labels, return_counts=True)[1].min())
    splitter = StratifiedKFold(min(N_CLASS_FOLDS, smaller), shuffle=True, random_state=0)
    return [(fitted[fit], fitted[tried]) for fit, tried in splitter.split(labels, labels)]


@dataclass(frozen=True, eq=False)
class Linear:
    """Ridge regression of each encoder's blocks, and the mean of the encoders' predictions.

    Weight of two blocks and penalty are those of the least mean error of the folds, from the
    built-in probe's values, on people whom the encoder has not learned from: features of others are
    nearer to their age and sex than those of new people. Features are standardised once for all
    folds.
    """

    encoders: Sequence[Blocks]
    learned: Sequence[Rows] = ()
    """Rows that each encoder learned from; empty where there is no encoder."""

    def predict(self, wanted: Floats, fitted: Rows, folds: Folds) -> Floats:
        """Return predictions (people, targets)."""
        total = np.zeros(wanted.shape)
        for place, blocks in enumerate(self.encoders):
            seen = self.learned[place] if self.learned else fitted[:0]
            unseen = []
            for fit, tried in folds:
                new = np.setdiff1d(tried, seen)
                if len(new) >= min(MIN_TRIED, len(tried)):
                    unseen.append((fit, new))
            total += _ridge_of_blocks(blocks, wanted, fitted, unseen)
        return total / len(self.encoders)

    def of_people(self, rows: Rows) -> Predictor:
        """Return the same system of some people alone, numbered anew."""
        encoders = []
        for blocks in self.encoders:
            encoders.append([block[rows] for block in blocks])
        learned = [np.flatnonzero(np.isin(rows, of_encoder)) for of_encoder in self.learned]
        return Linear(encoders, learned)


def _ridge_of_blocks(blocks: Blocks, wanted: Floats, fitted: Rows, folds: Folds) -> Floats:
    features = np.hstack([block.astype(float) for block in blocks])
    sizes = [block.shape[1] for block in blocks]
    least = np.full(wanted.shape[1], np.inf)
    predicted = np.zeros(wanted.shape)
    for weight in WEIGHTS if len(blocks) == 2 else (1.0,):
        shares = (weight, 1 - weight)[: len(blocks)]
        scaler = BlockScaler(sizes, weights=shares).fit(features[fitted])
        x = scaler.transform(features)
        if x.shape[1] > len(fitted):
            axes, _ = principal_axes(x[fitted])
            x = x @ axes
        errors = _errors_of_penalties(x, wanted, folds)
        for target, of_target in enumerate(errors.T):
            if of_target.min() < least[target]:
                least[target] = of_target.min()
                alpha = ALPHAS[::-1][of_target[::-1].argmin()]
                predicted[:, target] = _ridge(x, wanted[:, target], fitted, alpha)
    return predicted


def _errors_of_penalties(x: Floats, wanted: Floats, folds: Folds) -> Floats:
    """Return the mean squared error of the folds (penalties, targets), an eigenvalue problem a fold."""
    errors = np.zeros((len(ALPHAS), wanted.shape[1]))
    for fit, tried in folds:
        mean = x[fit].mean(0)
        mean_wanted = wanted[fit].mean(0)
        centred = x[fit] - mean
        values, vectors = np.linalg.eigh(centred.T @ centred)
        left = (x[tried] - mean) @ vectors
        along = vectors.T @ (centred.T @ (wanted[fit] - mean_wanted))
        for place, alpha in enumerate(ALPHAS):
            off = left @ (along / (values[:, None] + alpha)) + mean_wanted - wanted[tried]
            errors[place] += (off**2).mean(0) / len(folds)
    return errors


def _ridge(x: Floats, wanted: Floats, fitted: Rows, alpha: float) -> Floats:
    model = Ridge(alpha).fit(x[fitted], wanted[fitted])
    return np.asarray(model.predict(x))


@dataclass(frozen=True, eq=False)
class Perceptron:
    """scikit-learn's network of one layer, trained on the numbers themselves, a network a target.

    The predictions of several networks, which differ by seed, are averaged.
    """

    x: Floats
    seed: int
    alpha: float
    n_networks: int = 1

    def predict(self, wanted: Floats, fitted: Rows, folds: Folds) -> Floats:  # noqa: ARG002
        """Return predictions (people, targets)."""
        predicted = np.zeros(wanted.shape)
        for target, numbers in enumerate(wanted[fitted].T):
            scaled = (numbers - numbers.mean()) / numbers.std()
            total = np.zeros(len(self.x))
            for number in range(self.n_networks):
                network = MLPRegressor(
                    hidden_layer_sizes=(128,),
                    alpha=self.alpha,
                    random_state=self.n_networks * self.seed + number,
                )
                model = make_pipeline(StandardScaler(), network).fit(self.x[fitted], scaled)
                total += model.predict(self.x)
            predicted[:, target] = total / self.n_networks * numbers.std() + numbers.mean()
        return predicted

    def of_people(self, rows: Rows) -> Predictor:
        """Return the same system of some people alone, numbered anew."""
        return Perceptron(self.x[rows], self.seed, self.alpha, self.n_networks)


@dataclass(frozen=True, eq=False)
class SupportVectors:
    """scikit-learn's support vector regression with a Gaussian kernel, its C chosen on the folds."""

    x: Floats

    def predict(self, wanted: Floats, fitted: Rows, folds: Folds) -> Floats:
        """Return predictions (people, targets)."""
        inside = []
        for fit, tried in folds:
            if np.isin(tried, fitted).all():
                inside.append((np.searchsorted(fitted, fit), np.searchsorted(fitted, tried)))
        predicted = np.zeros(wanted.shape)
        for target, numbers in enumerate(wanted[fitted].T):
            search = GridSearchCV(
                make_pipeline(StandardScaler(), SVR()),
                {"svr__C": [0.1, 1.0, 10.0]},
                scoring="neg_mean_squared_error",
                cv=inside,
            )
            search.fit(self.x[fitted], (numbers - numbers.mean()) / numbers.std())
            predicted[:, target] = search.predict(self.x) * numbers.std() + numbers.mean()
        return predicted

    def of_people(self, rows: Rows) -> Predictor:
        """Return the same system of some people alone, numbered anew."""
        return SupportVectors(self.x[rows])


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A Gaussian process, linear and RBF, whose kernel is fitted to 400 people."""

    x: Floats
    seed: int

    def predict(self, wanted: Floats, fitted: Rows, folds: Folds) -> Floats:  # noqa: ARG002
        """Return predictions (people, targets)."""
        random = np.random.default_rng(self.seed)
        few = random.choice(len(fitted), min(400, len(fitted)), replace=False)
        x = self.x / np.sqrt(self.x.shape[1])
        kernel = (
            ConstantKernel(1.0) * RBF(1.0, (0.1, 30))
            + ConstantKernel(0.3) * DotProduct(1.0)
            + WhiteKernel(0.3)
        )
        predicted = np.zeros(wanted.shape)
        for target, numbers in enumerate(wanted[fitted].T):
            scaled = (numbers - numbers.mean()) / numbers.std()
            chosen = GaussianProcessRegressor(kernel).fit(x[fitted][few], scaled[few])
            whole = GaussianProcessRegressor(chosen.kernel_, optimizer=None)
            whole.fit(x[fitted], scaled)
            predicted[:, target] = whole.predict(x) * numbers.std() + numbers.mean()
        return predicted

    def of_people(self, rows: Rows) -> Predictor:
        """Return the same system of some people alone, numbered anew."""
        return GaussianProcess(self.x[rows], self.seed)


def site_accuracy(features: Floats, learned: Rows, home: Rows, sites: npt.NDArray[Any]) -> float:
    """Return how well others' site is told: discriminants with shrinkage, balanced accuracy."""
    names, counts = np.unique(sites[learned], return_counts=True)
    several = names[counts > 1]
    fitted = learned[np.isin(sites[learned], several)]
    priors = np.full(len(several), 1 / len(several))
    teller = make_pipeline(
        StandardScaler(), LinearDiscriminantAnalysis("lsqr", shrinkage="auto", priors=priors)
    )
    teller.fit(features[fitted].astype(float), sites[fitted])
    predicted = teller.predict(features[home].astype(float))
    return float(balanced_accuracy_score(sites[home], predicted))
