"""A frozen encoder as a scikit-learn transformer: scans in, features out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

import joblib
import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd
from nibabel.spatialimages import SpatialImage
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from neurocontrast.config import DataSettings
from neurocontrast.data import Cohort
from neurocontrast.data.cohort import columns_of
from neurocontrast.embedding import EmbeddingSettings, extract_features
from neurocontrast.encoders import ContrastiveModel, Encoder, load_encoder, load_model
from neurocontrast.exceptions import DataError
from neurocontrast.progress import SILENT
from neurocontrast.stages.sources import brains_of_run

__all__ = ["ScanEmbedder"]

_WHAT = "ScanEmbedder embeds scans of brains"
_Scan = str | os.PathLike | SpatialImage
_WANTED = ("a path or a nibabel image", "a tuple of paths or nibabel images, one a channel of the run")


class ScanEmbedder(TransformerMixin, BaseEstimator):
    """Turn brain scans into the features of a run's frozen encoder.

    Scans are prepared as the run's own were, and the features are those that `neurocontrast.embed` writes. Nothing is
    learned from the scans: `fit` checks the run. A pipeline that starts with a `ScanEmbedder` embeds the scans of every
    fold anew; ``Pipeline(memory=...)``, or `embed` once, saves that time.

    Parameters
    ----------
    run : path
        Run directory, or any folder with ``encoder.json`` and ``encoder.safetensors``.
    images_root : path, optional
        Folder that relative paths start from; the working directory by default.
    cache_dir : path, optional
        Where prepared scans are kept; by default where `embed` keeps them. Images in memory are not kept.
    layer : {"encoder", "head"}, default="encoder"
        What is given out: the encoder's features, or what the projection head makes of them.
    batch_size : int, default=16
        Scans a batch; the features do not depend on it.
    n_jobs : int, default=1
        Processes that prepare scans; -1 for all processors.

    Attributes
    ----------
    n_features_out_ : int
        Number of features of a scan.

    Examples
    --------
    >>> from neurocontrast.embedding import ScanEmbedder
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> make_pipeline(ScanEmbedder("run"), StandardScaler(), LogisticRegression()).steps[0]
    ('scanembedder', ScanEmbedder(run='run'))
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        *,
        images_root: str | os.PathLike[str] | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        layer: Literal["encoder", "head"] = "encoder",
        batch_size: int = 16,
        n_jobs: int | None = 1,
    ) -> None:
        self.run, self.images_root, self.cache_dir = run, images_root, cache_dir
        self.layer, self.batch_size, self.n_jobs = layer, batch_size, n_jobs

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check that the run can be loaded and is one of brain scans; neither argument is looked at."""
        del X, y
        network, contract = self._load()
        brains_of_run(Path(self.run), contract, DataSettings(), what=_WHAT)
        self.n_features_out_ = int(network.n_features)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features of scans.

        Parameters
        ----------
        X : sequence of paths or of nibabel images, or DataFrame with a column ``path``
            One scan each; of a run with several channels a tuple of one path or image a channel, or a DataFrame with
            the run's columns.

        Returns
        -------
        ndarray (n, n_features_out_)
            float32; a DataFrame after ``set_output(transform="pandas")``.

        Raises
        ------
        DataError
            Naming all scans that cannot be used.
        """
        check_is_fitted(self)
        network, contract = self._load()
        channels = columns_of(contract.get("channels"))
        scans = _scans_of(X, channels)
        with tempfile.TemporaryDirectory(prefix="neurocontrast-scans-") as scratch:
            paths = {
                column: [
                    self._path_of(scan[at], Path(scratch) / f"{row:04d}-{at}.nii") for row, scan in enumerate(scans)
                ]
                for at, column in enumerate(channels)
            }
            in_memory = any(Path(scratch) in path.parents for each in paths.values() for path in each)
            n_workers = joblib.effective_n_jobs(self.n_jobs)
            data = DataSettings(cache_dir=Path(scratch) if in_memory else self.cache_dir, n_workers=n_workers)
            source = brains_of_run(Path(self.run), contract, data, what=_WHAT)
            cohort = _cohort_of(paths)
            source.make_ready(cohort, SILENT)
            settings = EmbeddingSettings(layer=self.layer, batch_size=self.batch_size)
            return extract_features(network, source.images(cohort), settings=settings, n_readers=n_workers)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return ``feature_0000`` …, as the embeddings table has them; `input_features` is not looked at."""
        del input_features
        check_is_fitted(self)
        return np.array([f"feature_{number:04d}" for number in range(self.n_features_out_)], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True
        return tags

    def _load(self) -> tuple[Encoder | ContrastiveModel, dict[str, Any]]:
        return load_encoder(self.run) if self.layer == "encoder" else load_model(self.run)

    def _path_of(self, scan: str | os.PathLike[str] | SpatialImage, target: Path) -> Path:
        """Return where a scan lies on disk; an image that is only in memory is written to `target`."""
        if not isinstance(scan, SpatialImage):
            return (Path(self.images_root or "") / Path(scan).expanduser()).absolute()
        name = scan.get_filename()
        if name is not None and nib.is_proxy(scan.dataobj) and not scan.in_memory:
            return Path(name).absolute()
        # With a header of its own: the image's could say to store whole numbers.
        data = np.asarray(scan.get_fdata(caching="unchanged"), dtype=np.float32)
        nib.Nifti1Image(data, scan.affine).to_filename(target)
        return target


def _scans_of(X: Any, channels: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return the scans, each a tuple of one path or image a channel."""
    if isinstance(X, pd.DataFrame):
        for column in channels:
            if column not in X:
                raise DataError(f"X: a DataFrame needs a column '{column}'; it has: {', '.join(map(str, X.columns))}.")
        X = list(zip(*(X[column] for column in channels), strict=True))
    if isinstance(X, _Scan) or not isinstance(X, Iterable):
        raise DataError(f"X: must be a list of scans, got {type(X).__name__}. For one scan give a list of one.")
    listed = list(np.ravel(X)) if isinstance(X, np.ndarray) and len(channels) == 1 else list(X)
    if not listed:
        raise DataError("X: there is no scan to embed.")
    scans = [tuple(scan) if isinstance(scan, list | tuple | np.ndarray) else (scan,) for scan in listed]
    wrong = [
        (row, type(listed[row]).__name__)
        for row, scan in enumerate(scans)
        if len(scan) != len(channels) or not all(isinstance(file, _Scan) for file in scan)
    ]
    if wrong:
        raise DataError(
            f"X: every scan must be {_WANTED[len(channels) > 1]}; {len(wrong)} of {len(scans)} are not (first: row "
            f"{wrong[0][0]}, {wrong[0][1]})."
        )
    return scans


def _cohort_of(paths: dict[str, list[Path]]) -> Cohort:
    names = [f"scan {row}" for row in range(len(next(iter(paths.values()))))]
    files = {column: list(map(str, of_scans)) for column, of_scans in paths.items()}
    table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": "", **files})
    return Cohort(table, Path("scans"), channels=tuple(paths))
