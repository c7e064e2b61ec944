"""Use the trained encoder of a run as a transformer in scikit-learn."""

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self

import joblib
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from neurocontrast.cells import text_of
from neurocontrast.data.settings import AnyDataSettings, DataSettings, MeasureDataSettings
from neurocontrast.data.sources import Brains, brains_of_run
from neurocontrast.documents.document import Json
from neurocontrast.documents.embeddings import feature_names
from neurocontrast.documents.provenance import read_public_provenance
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.embedding.extract import extract_features
from neurocontrast.embedding.readers import (
    Reader,
    Reading,
    check_table,
    contents_of,
    load_readers,
)
from neurocontrast.exceptions import ConfigError, LeakageError, one_of
from neurocontrast.progress import ONLY_WARNINGS, SILENT, warn_caller
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.weights import folder_of

_REACTIONS = ("warn", "error", "ignore")


def _subjects_of(X: Any, n_scans: int) -> tuple[str, list[str]]:
    """Return the subject of each scan in `X`, and words to put before subjects in a message.

    The words come first in the result. If `X` is a DataFrame with the column ``subject_id`` or
    ``participant_id``, the subjects are the column's values as text, and the words "subjects are".
    Other scans have numbers, ``scan 0`` and so on, and the words "scans are of".
    """
    if isinstance(X, pd.DataFrame):
        for name in ("subject_id", "participant_id"):
            if name in X:
                return "subjects are", list(map(text_of, X[name]))
    return "scans are of", list(map("scan {}".format, range(n_scans)))


class ScanEmbedder(TransformerMixin, BaseEstimator):
    """Transformer of scikit-learn that computes features of brain scans with a trained encoder.

    Regional measures are accepted by an encoder of measures. Samples are preprocessed as in the
    run, and the features equal the features that `neurocontrast.embed` writes. Nothing is learned
    from the samples: `fit` only checks the run. A pipeline that starts with a `ScanEmbedder` embeds
    the scans of every fold again; ``Pipeline(memory=...)``, or one call of `embed` before, saves
    that time.

    Parameters
    ----------
    run : str or path
        Run directory, any folder with ``encoder.json`` and ``encoder.safetensors``, or weights by
        name.
    images_root : path, optional
        Folder to which relative paths of scans refer; the working directory by default.
    cache_dir : path, optional
        Folder of preprocessed scans; by default the folder that `embed` uses. Images given in
        memory are not stored.
    layer : {"encoder", "head"}, default="encoder"
        Layer whose output is returned: the encoder's features, or the output of the projection
        head.
    batch_size : int, default=16
        Number of scans in a batch; features do not depend on the number.
    n_jobs : int, default=1
        Number of processes that preprocess scans; -1 for all processors.
    overlap : {"warn", "error", "ignore"}, default="warn"
        Reaction to people on whom the encoder was pretrained, whose scores would be too good. Such
        people are recognised by the content of their scans or measures, and by ``subject_id`` (or
        ``participant_id``) of a DataFrame; "warn" gives a
        `neurocontrast.exceptions.NeurocontrastWarning`, "error" a
        `neurocontrast.exceptions.LeakageError`.
    max_missing : float, optional
        For a run of regional measures: largest share of the measures that a person may lack, from 0
        to below 1; missing measures become medians of the training people. By default the run's
        share.

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
        overlap: Literal["warn", "error", "ignore"] = "warn",
        max_missing: float | None = None,
    ) -> None:
        self.run = run
        self.images_root = images_root
        self.cache_dir = cache_dir
        self.layer = layer
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.overlap = overlap
        self.max_missing = max_missing

    def __getstate__(self) -> Json:
        """Return the state to pickle, with absolute paths, to load from any working directory."""
        paths = {"images_root": self.images_root, "cache_dir": self.cache_dir}
        if folder_of(self.run) == Path(self.run):  # weights by name have no path
            paths["run"] = self.run
        state: Json = dict(super().__getstate__())
        for name, path in paths.items():
            if path is not None:
                state[name] = str(Path(path).absolute())
        return state

    @in_default_torch_state
    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check that the run can be loaded and encodes brains; nothing is learned from X or y."""
        del X, y
        if self.overlap not in _REACTIONS:
            raise ConfigError(f"overlap: must be {one_of(_REACTIONS)}, got {self.overlap!r}.")
        readers = load_readers(folder_of(self.run), EmbeddingSettings(layer=self.layer))[0]
        self.n_features_out_ = 0
        for reader in readers:
            self._source(reader)
            self.n_features_out_ += int(reader.network.n_features)
        return self

    @in_default_torch_state
    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Compute the features of brain scans, or of regional measures.

        Parameters
        ----------
        X : sequence of paths or of nibabel images, or DataFrame
            Path or image of each scan, or a DataFrame with a column ``path``. For a run with
            several channels, each scan is a tuple of one path or image for each channel, or X is a
            DataFrame with a column of paths for each channel, named as in the run's training table.
            For a run of regional measures, X is a DataFrame with a row for each scan and a column
            for each measure, in mm, mm² or mm³; other columns are ignored.

        Returns
        -------
        array of shape (n_scans, n_features)
            Features, float32.

        Raises
        ------
        DataError
            If scans are unusable; the message names all such scans.
        LeakageError
            With ``overlap="error"``, if the encoder was pretrained on people in X.
        """
        check_is_fitted(self)
        settings = EmbeddingSettings(layer=self.layer, batch_size=self.batch_size)
        readers = load_readers(folder_of(self.run), settings)[0]
        if not isinstance(X, pd.DataFrame):
            check_table(readers, "X")
        with ExitStack() as stack:
            readings = []
            for reader in readers:
                readings.append(self._prepare(reader, X, stack))
            if self.overlap != "ignore":
                self._look_for_people(X, contents_of(readings, SILENT))
            features = []
            for reading in readings:
                features.append(
                    extract_features(
                        reading.network,
                        reading.source.images(reading.cohort),
                        settings=settings,
                        n_readers=reading.source.data.n_workers,
                    )
                )
        return np.concatenate(features, axis=1)

    def _prepare(self, reader: Reader, X: Any, stack: ExitStack) -> Reading[Brains]:
        """Preprocess the scans `X` for the networks in `reader`; return a `Reading` of the scans.

        `reader` has one network of the run, or several that read the same preprocessed samples. The
        `Reading` has the networks, the list of the scans, and the object that gives the
        preprocessed scans. Images given in memory are kept in a temporary folder, which is removed
        when `stack` closes.
        """
        source = self._source(reader)
        folder = tempfile.TemporaryDirectory(prefix="neurocontrast-scans-")
        scratch = Path(stack.enter_context(folder))
        cohort = source.cohort_of(X, scratch)
        if any(scratch.iterdir()):  # images in memory are not kept
            source = source.kept_in(scratch)
        for warning in cohort.warnings:
            warn_caller(warning)
        source.make_ready(cohort, ONLY_WARNINGS)
        return Reading(reader.network, source, cohort)

    def _look_for_people(self, X: Any, contents: Sequence[str]) -> None:
        """Warn about people in `X` on whom the encoder was pretrained, or refuse such people.

        The parameter `overlap` of the embedder decides: "error" raises a LeakageError, "warn"
        warns. People are compared by name, and by `contents`, digests of their scans. Also warn if
        the comparison is impossible for some people.
        """
        provenance = read_public_provenance(folder_of(self.run))
        unit, subjects = _subjects_of(X, len(contents))
        people = provenance.known_people().find(subjects, contents)
        if people.subjects:
            n_seen = len(people.subjects)
            overlap = f"{n_seen} of {len(set(subjects))} {unit} people of the pretraining of "
            overlap += f"'{self.run}'"
            if self.overlap == "error":
                raise LeakageError(
                    f"X: {overlap}: the encoder has seen them, and their scores would flatter it. "
                    "Leave them out, or set overlap='warn'."
                )
            warn_caller(f"{overlap}: their scores flatter it.")
        if people.n_not_compared:
            n_not_compared = f"{people.n_not_compared} of {len(set(subjects))}"
            warn_caller(
                f"The scans of {n_not_compared} subjects could not be compared with the "
                f"pretraining of '{self.run}', for want of digests: people of it are not "
                "recognised by their scans."
            )

    def _source(self, reader: Reader) -> Brains:
        """Return the object that reads samples, and preprocesses them for the networks of `reader`.

        Samples are scans or regional measures; networks of other samples, such as natural images,
        are refused. `reader` holds one network of the run, or several that need the same
        preprocessing.
        """
        folders = {"images_root": self.images_root, "cache_dir": self.cache_dir}
        n_workers = joblib.effective_n_jobs(self.n_jobs)
        data: AnyDataSettings = DataSettings(**folders, n_workers=n_workers)
        allowed = getattr(self, "max_missing", None)  # an embedder of an earlier version has none
        if allowed is not None:
            if not 0 <= allowed < 1:
                raise ConfigError(
                    f"max_missing: must be a share from 0 to below 1, got {allowed!r}."
                )
            if reader.contract.preprocessing.kind != "measures":
                raise ConfigError(
                    "max_missing: is of regional measures, and this run was trained on scans. "
                    "Leave it out."
                )
            data = MeasureDataSettings(n_workers=n_workers, max_missing=allowed)
        kind = "ScanEmbedder embeds brains"
        return brains_of_run(reader.folder, reader.contract, data, what=kind)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return names of features as in tables of embeddings: ``feature_0000`` and so on.

        Parameters
        ----------
        input_features : object
            Ignored; scikit-learn passes names of input columns.
        """
        del input_features
        check_is_fitted(self)
        return np.array(feature_names(self.n_features_out_), dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True
        return tags
