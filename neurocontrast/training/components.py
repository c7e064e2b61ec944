"""Fit linear components (PCA, LDA) to scans, as a linear encoder or in addition to a network."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.data.batches import read_batches
from neurocontrast.encoders.encoder import Encoder, LinearComponents
from neurocontrast.encoders.settings import Beside, EncoderSettings
from neurocontrast.exceptions import ConfigError
from neurocontrast.progress import SILENT, Progress
from neurocontrast.seeds import derive_generator, derive_seed
from neurocontrast.training.data import TrainingData

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

LINEAR_OBJECTIVES = {
    "pca": {
        "loss": "none",
        "title": "none: fitted in one pass to the variance of the training scans",
        "citation": (
            "Hotelling H (1933). Analysis of a complex of statistical variables into principal "
            "components. Journal of Educational Psychology 24, 417-441."
        ),
    },
    "lda": {
        "loss": "none",
        "title": (
            "none: fitted in one pass to what people differ by, beside what scans of one person "
            "differ by"
        ),
        "citation": (
            "Belhumeur PN, Hespanha JP, Kriegman DJ (1997). Eigenfaces vs. Fisherfaces: "
            "recognition using class specific linear projection. IEEE Transactions on Pattern "
            "Analysis and Machine Intelligence 19, 711-720."
        ),
    },
}
"""Section ``objective`` of ``encoder.json``, by the name of the linear encoder (which has no
loss)."""

MEMORY = 2 * 2**30
"""Largest size in bytes of the samples to which components in addition to a network are fitted."""
_BYTES_A_VALUE = 4
_BATCH = 16
_STEADY = 1e-6
"""Share of the largest range of any voxel; voxels of a smaller range over samples are left out."""
_BEFORE_LDA = 3
"""Number of principal components, per discriminant, from which ``lda`` computes discriminants."""
_SHRINKAGE = 0.3


def check_components(encoder: Encoder, subjects: Sequence[str]) -> None:
    """Refuse a linear encoder with more components than the training scans allow.

    Parameters
    ----------
    encoder : Encoder
        Linear encoder, ``pca`` or ``lda``.
    subjects : sequence of str
        Subject of each training scan.
    """
    n_subjects = len(set(subjects))
    n_most = len(subjects)
    unit = "scans"
    if encoder.settings.name == "lda":
        if len(subjects) == n_subjects:
            raise ConfigError(
                f"encoder.name: lda needs several scans of a subject; each of the {n_subjects} "
                "training subjects has one. Imitate some (neurocontrast prepare --imitations 3, "
                "and train on imitations.tsv), or take pca."
            )
        n_most = n_subjects
        unit = "subjects"
    if n_most <= encoder.n_features:
        raise ConfigError(
            f"encoder.n_components: must be below the number of training {unit}, {n_most}, found "
            f"{encoder.n_features}."
        )


Facts = dict[str, str | int | list[float]]
"""Keys of ``encoder.json`` that describe fitted linear components, such as ``n_voxels``."""


class Fitted(NamedTuple):
    """Linear components (PCA or LDA) fitted to training samples, before they enter an encoder.

    The components are weights of the voxels, or measures, that vary among the training samples.
    """

    places: npt.NDArray[np.int64]
    mean: npt.NDArray[np.float32]
    components: npt.NDArray[np.float32]
    explained: npt.NDArray[np.float64]

    def put_into(self, layers: LinearComponents) -> None:
        """Copy the fitted components into `layers`, the linear part of an encoder.

        Copied are the positions of the voxels in a flattened volume, the means of the voxels, and
        the components.
        """
        layers.set_components(
            torch.from_numpy(self.places),
            torch.from_numpy(self.mean),
            torch.from_numpy(self.components),
        )

    def facts(self) -> Facts:
        """Return number of voxels and explained variances, as keys of ``encoder.json``.

        ``explained_variance_ratio`` has one number for each component: for PCA, the share that it
        explains of the variance of the training scans; for LDA, the ratio of its variance between
        subjects to that within, as a share of the sum of all such ratios.
        """
        return {"n_voxels": len(self.places), "explained_variance_ratio": self.explained.tolist()}


def fit_components(
    encoder: Encoder,
    data: TrainingData,
    subjects: Sequence[str],
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Facts:
    """Fit a linear encoder to the training scans, in place, with all voxels in memory.

    The components of ``pca`` are computed by `sklearn.decomposition.PCA`. The components of ``lda``
    are discriminants between subjects, computed by
    `sklearn.discriminant_analysis.LinearDiscriminantAnalysis` from three times as many principal
    components; each discriminant has a variance of 1 within subjects.

    Parameters
    ----------
    encoder : Encoder
        Linear encoder, ``pca`` or ``lda``.
    data : TrainingData
        Images and training rows.
    subjects : sequence of str
        Subject of each training row.
    seed : int
        Seed of the run.
    progress : Progress
        Receives progress messages while scans are read.

    Returns
    -------
    dict
        ``n_voxels``, and ``explained_variance_ratio``: share of the variance of the training scans
        that each component explains; for ``lda``, ratio of the variance between subjects to that
        within subjects, as a share of the sum of all such ratios.
    """
    layers = encoder.features.layers
    assert isinstance(layers, LinearComponents)
    places, values = _varying_voxels(data, data.training_rows, progress)
    fitted = _fit(places, values, encoder.settings, subjects, encoder.n_features, seed)
    fitted.put_into(layers)
    return fitted.facts()


def fit_beside(
    encoder: Encoder,
    data: TrainingData,
    subjects: Sequence[str],
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Facts:
    """Fit linear components to the training scans, and append them to the features of `encoder`.

    The fitted components are put into `encoder`, as ``encoder.beside``. Samples are read without
    augmentation and kept in memory; if they need more than 2 GiB, a random subset is used. The
    number of components is at most the share `neurocontrast.encoders.Beside.share` of the number of
    subjects. Parameters are as in `fit_components`.

    Returns
    -------
    dict
        Section ``beside`` of ``encoder.json``, which describes the components.
    """
    beside = encoder.settings.beside
    assert beside is not None
    drawn = _draw_samples(data, seed)
    rows = np.asarray(data.training_rows)[drawn].tolist()
    places, values = _varying_voxels(data, rows, progress)
    n_subjects = len(set(np.asarray(subjects, dtype=object)[drawn]))
    n_most = int(beside.share * n_subjects)
    n_components = max(1, min(beside.n_components, n_most, len(places)))
    fitted = _fit(places, values, beside, subjects, n_components, seed)
    encoder.beside = LinearComponents(n_components, len(fitted.places))
    fitted.put_into(encoder.beside)
    facts: Facts = {"name": beside.name, "n_components": n_components, "n_scans": len(rows)}
    return facts | fitted.facts()


def _draw_samples(data: TrainingData, seed: int) -> npt.NDArray[np.int64]:
    """Draw at random as many training samples as fit in `MEMORY`, or return all if all fit.

    The result is an array of sorted positions within ``data.training_rows``.
    """
    n_samples = len(data.training_rows)
    first = torch.as_tensor(data.images[data.training_rows[0]]["image"])
    n_most = max(2, MEMORY // (_BYTES_A_VALUE * first.numel()))
    if n_samples <= n_most:
        return np.arange(n_samples)
    generator = derive_generator("components-beside", seed)
    return np.sort(generator.choice(n_samples, n_most, replace=False))


def _varying_voxels(
    data: TrainingData, rows: Sequence[int], progress: Progress
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Read the samples at `rows` of the data, and keep the voxels that vary among the samples.

    Returned are the positions of the kept voxels in a flattened volume (n_voxels,), and the voxels'
    values (n_rows, n_voxels).
    """
    values = _voxels_of(data, rows, progress)
    ranges = values.max(axis=0) - values.min(axis=0)
    places = np.flatnonzero(ranges > _STEADY * ranges.max())
    return places, values[:, places]


def _fit(
    places: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32],
    settings: EncoderSettings | Beside,
    subjects: Sequence[str],
    n_components: int,
    seed: int,
) -> Fitted:
    """Fit PCA, or LDA with `subjects` as classes, to voxel `values` (n, n_voxels) of n samples.

    `places` are the positions of the voxels in a flattened volume, which the returned components
    keep. A ConfigError refuses more components than voxels.
    """
    from sklearn.decomposition import PCA  # takes half a second

    if len(places) < n_components:
        raise ConfigError(
            f"encoder.n_components: {n_components}, and {len(places)} voxels vary among the scans."
        )
    n_principal = n_components
    if settings.name != "pca":
        n_principal = min(_BEFORE_LDA * n_components, *np.subtract(values.shape, 1))
    pca = PCA(n_principal, copy=False, random_state=derive_seed("components", seed) % 2**32)
    if isinstance(settings, Beside) or settings.name == "pca":
        components = pca.fit(values).components_
        explained = pca.explained_variance_ratio_
    else:
        components, explained = _discriminants(
            pca, values, subjects, n_components, settings.shrinkage
        )
    return Fitted(places, pca.mean_, components, explained)


def _voxels_of(
    data: TrainingData, rows: Sequence[int], progress: Progress
) -> npt.NDArray[np.float32]:
    """Read the samples at `rows` of the data, and return all their voxels, (n_rows, n_voxels)."""
    values = np.empty((0, 0), dtype=np.float32)
    n_read = 0
    batches = []
    for start in range(0, len(rows), _BATCH):
        batches.append(rows[start : start + _BATCH])
    with (
        progress.task("Reading scans", len(rows), "scans") as task,
        closing(read_batches(data.images, batches, n_readers=data.n_readers)) as reading,
    ):
        for _, volumes in reading:
            flat = volumes.flatten(1)
            if not n_read:
                values = np.empty((len(rows), flat.shape[1]), dtype=np.float32)
            values[n_read : n_read + len(flat)] = flat.numpy()
            n_read += len(flat)
            task.advance(len(flat))
    return values


def _discriminants(
    pca: PCA,
    values: npt.NDArray[np.float32],
    subjects: Sequence[str],
    n_components: int,
    shrinkage: float | None,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Compute the discriminants (LDA) that separate subjects by the voxel `values` of their scans.

    Returned are the discriminants (n_components, n_voxels), and for each the ratio of the variance
    between subjects to the variance within, as a share of the sum of all such ratios.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    lda = LinearDiscriminantAnalysis(
        solver="eigen", shrinkage=shrinkage or _SHRINKAGE, n_components=n_components
    )
    scores = pca.fit_transform(values).astype(np.float64)
    with warnings.catch_warnings():  # a subject with one scan does no harm
        warnings.filterwarnings("ignore", "Only one sample available", UserWarning)
        lda.fit(scores, subjects)
    components = lda.scalings_[:, :n_components].T @ pca.components_
    return components.astype(np.float32), lda.explained_variance_ratio_[:n_components]
