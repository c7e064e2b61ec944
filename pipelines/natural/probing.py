"""What the workflow itself measures on embeddings: SINCERE's classifier and cosines, CCL-K's error of the colour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, StandardScaler
from threadpoolctl import threadpool_limits
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from neurocontrast.documents.embeddings import read_embeddings
from neurocontrast.exceptions import DataError
from neurocontrast.files import write_table, write_text
from neurocontrast.seeds import derive_seed
from pipelines.natural.experiment import MEASURES, Experiment
from pipelines.natural.logistic import LogisticModel, fit_path

__all__ = [
    "class_cosines",
    "fit_sgd",
    "measure_cosines",
    "read_splits",
    "write_accuracy",
    "write_probes",
]

Floats = npt.NDArray[np.floating]
STRENGTHS = (1e-3, 1e-2, 0.1, 1.0)
"""Penalties C of the classifier after an epoch, the strongest first."""
_COLOUR = ["background_red", "background_green", "background_blue"]


class Split(NamedTuple):
    """Features (n, d) and rows of the table of some images."""

    features: Floats
    table: pd.DataFrame

    @property
    def labels(self) -> npt.NDArray[np.object_]:
        """Class of each image."""
        return self.table["label"].to_numpy(dtype=object)

    def where(self, kept: npt.NDArray[np.bool_]) -> Split:
        """Return some of the images."""
        return Split(self.features[kept], self.table[kept].reset_index(drop=True))


def read_splits(path: str | Path) -> tuple[Split, Split]:
    """Return the images to fit on (training and validation) and the test images of an embeddings table."""
    found = read_embeddings(path)
    missing = [name for name in ("label", "split") if name not in found.table]
    if missing:
        raise DataError(
            f"{path}: lacks the column {' and '.join(missing)}; embed images of `neurocontrast images`."
        )
    images, is_test = (
        Split(found.features, found.table),
        (found.table["split"] == "test").to_numpy(),
    )
    return images.where(~is_test), images.where(is_test)


def write_probes(folder: str | Path, *, experiment: Experiment, seed: int) -> dict[str, float]:
    """Measure the embeddings ``<layer>.parquet`` of a run, and write ``probes.json``: measure → value.

    The SGD classifier's answers are written to ``sgd.tsv``, a row a test image.

    Parameters
    ----------
    folder : path
        Folder of one variant and seed.
    experiment : Experiment
        Its `measures` say what is wanted.
    seed : int
        Seed of the order of images in the SGD classifier.
    """
    folder, values = Path(folder), dict[str, float]()
    wanted = {name for name in experiment.measures if MEASURES[name].features}
    if wanted & {"sgd_accuracy", "sgd_top5_accuracy", "colour_mse"}:
        fitted, tested = read_splits(folder / "encoder.parquet")
        if "colour_mse" in wanted:
            values["colour_mse"] = _colour_error(fitted, tested)
        if wanted & {"sgd_accuracy", "sgd_top5_accuracy"}:
            correct = _classify_by_sgd(fitted, tested, seed=seed)
            values |= {f"sgd_{name}": float(share) for name, share in correct.mean().items()}
            write_table(folder / "sgd.tsv", correct)
    if wanted & {"within_cosine", "between_cosine"}:
        values |= measure_cosines(read_splits(folder / "head.parquet")[1])
    write_text(folder / "probes.json", json.dumps({name: values[name] for name in sorted(wanted)}))
    return values


def write_accuracy(embeddings: str | Path, out: str | Path, *, n_threads: int = 1) -> float:
    """Classify the test images from the features of an epoch, and write the accuracy.

    The classifier is the evaluation's: a logistic regression of standardised features, whose C is
    chosen on validation images.

    Parameters
    ----------
    embeddings, out : path
        Table of embeddings, and the table to write.
    n_threads : int
        Threads of the matrix products.
    """
    fitted, tested = read_splits(embeddings)
    is_validation = (fitted.table["split"] == "validation").to_numpy()
    if not is_validation.any():
        raise DataError(
            f"{embeddings}: has no validation images, on which the classifier's C is chosen."
        )
    with threadpool_limits(limits=n_threads):
        strength, start = _choose_strength(
            fitted.where(~is_validation), fitted.where(is_validation)
        )
        encoder = LabelEncoder().fit(fitted.labels)
        scaler = StandardScaler().fit(fitted.features)
        features = scaler.transform(fitted.features)
        codes = encoder.transform(fitted.labels)
        (model,) = fit_path(features, codes, [strength], start=start)
        logs = model.log_probabilities(scaler.transform(tested.features))
    accuracy = accuracy_score(tested.labels, encoder.classes_[logs.argmax(axis=1)])
    write_table(Path(out), pd.DataFrame({"accuracy": [accuracy]}))
    return accuracy


def _choose_strength(train: Split, validation: Split) -> tuple[float, LogisticModel]:
    """Return the C of the least log-loss of validation images, of equals the strongest, and its model."""
    encoder = LabelEncoder().fit(np.concatenate([train.labels, validation.labels]))
    scaler = StandardScaler().fit(train.features)
    features = scaler.transform(train.features)
    models = list(fit_path(features, encoder.transform(train.labels), STRENGTHS))
    held_out = scaler.transform(validation.features)
    codes = encoder.transform(validation.labels)
    rows = np.arange(len(codes))
    losses = [-model.log_probabilities(held_out)[rows, codes].mean() for model in models]
    best = int(np.argmin(losses))
    return STRENGTHS[best], models[best]


def fit_sgd(
    features: Floats,
    codes: npt.NDArray[np.integer],
    *,
    seed: int,
    epochs: int = 100,
    batch_size: int = 512,
    rates: tuple[float, float] = (0.05, 5.0),
    warmup_epochs: int = 10,
) -> nn.Linear:
    """Fit a linear classifier by stochastic gradient descent, as SINCERE's section 4.3 says.

    Cross-entropy, momentum 0.9, no weight decay; the rate rises from the lower of `rates` to the
    higher, and falls along half a cosine back to it. Features are taken as they are, of images
    without augmentation.

    Parameters
    ----------
    features : array of shape (n, d)
        Frozen features.
    codes : array of shape (n,)
        Classes, 0 … k − 1.
    """
    x, y = torch.as_tensor(features, dtype=torch.float32), torch.as_tensor(codes, dtype=torch.long)
    model = nn.Linear(x.shape[1], int(y.max()) + 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    low, high = rates
    optimizer = torch.optim.SGD(model.parameters(), lr=high, momentum=0.9)
    n_batches = -(-len(x) // batch_size)
    n_warm, n_steps = warmup_epochs * n_batches, epochs * n_batches
    rising = LinearLR(optimizer, start_factor=low / high, total_iters=n_warm)
    falling = CosineAnnealingLR(optimizer, T_max=max(n_steps - n_warm - 1, 1), eta_min=low)
    schedule = SequentialLR(optimizer, [rising, falling], milestones=[n_warm])
    generator = torch.Generator().manual_seed(derive_seed("sgd classifier", seed))
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
    return model


def _classify_by_sgd(fitted: Split, tested: Split, *, seed: int) -> pd.DataFrame:
    """Return, for each test image, 1 where its class is the first, and among the first five, of the classifier's."""
    encoder = LabelEncoder().fit(fitted.labels)
    model = fit_sgd(fitted.features, encoder.transform(fitted.labels), seed=seed)
    with torch.no_grad():
        scores = model(torch.as_tensor(tested.features)).numpy()
    ranked, truth = (
        (-scores).argsort(axis=1, kind="stable"),
        encoder.transform(tested.labels)[:, None],
    )
    correct = pd.DataFrame({"accuracy": (ranked[:, :1] == truth).any(axis=1)}).astype(float)
    enough = len(encoder.classes_) > 5
    return correct.assign(
        top5_accuracy=(ranked[:, :5] == truth).any(axis=1).astype(float) if enough else np.nan
    )


def _colour_error(fitted: Split, tested: Split) -> float:
    """Return the mean squared error of the colour of test images, on the scale of 0 to 255."""
    missing = [name for name in _COLOUR if name not in fitted.table]
    if missing:
        raise DataError(
            f"colour_mse: the images have no column {' and '.join(missing)}; set images.background."
        )
    truth = [255 * part.table[_COLOUR].to_numpy(dtype=float) for part in (fitted, tested)]
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(fitted.features, truth[0])
    return float(mean_squared_error(truth[1], model.predict(tested.features)))


def class_cosines(images: Split) -> pd.DataFrame:
    """Return the mean cosine of pairs of images of each two classes, no image paired with itself (SINCERE, figure 2).

    Returns
    -------
    DataFrame
        Classes × classes; NaN for a class of one image with itself.
    """
    unit = images.features / np.linalg.norm(images.features, axis=1, keepdims=True)
    sums = pd.DataFrame(unit.astype(np.float64)).groupby(images.labels).sum()
    counts = pd.Series(images.labels).value_counts().reindex(sums.index).to_numpy()
    products, pairs = sums.to_numpy() @ sums.to_numpy().T, np.outer(counts, counts).astype(float)
    np.fill_diagonal(products, products.diagonal() - counts)
    np.fill_diagonal(pairs, counts * (counts - 1.0))
    with np.errstate(invalid="ignore"):
        return pd.DataFrame(products / pairs, index=sums.index, columns=list(sums.index))


def measure_cosines(images: Split) -> dict[str, float]:
    """Return the mean over classes of `class_cosines` within a class, and between two classes."""
    cosines = class_cosines(images).to_numpy()
    between = cosines[~np.eye(len(cosines), dtype=bool)]
    return {
        "within_cosine": float(np.nanmean(cosines.diagonal())),
        "between_cosine": float(between.mean()),
    }
