"""Embed scans or images with a frozen encoder: into a table, or as a scikit-learn transformer."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import joblib
import numpy as np
import numpy.typing as npt
import pandas as pd
from monai.transforms import Compose, Transform
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from neurocontrast.config import Config, DataSettings, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.batches import Images
from neurocontrast.embedding import EmbeddingSettings, extract_features, write_embeddings
from neurocontrast.embedding.partial import FinishedBatches
from neurocontrast.encoders import ContrastiveModel, Encoder, load_encoder, load_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import check_output_file, digest_of
from neurocontrast.parallel.launch import after_first, joined
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.stages.run_folder import read_metrics, read_provenance, read_simulation
from neurocontrast.stages.sources import Brains, brains_of_run, source_of_run

__all__ = ["ScanEmbedder", "describe_embedded", "embed", "load_network", "reading", "warn_of_imitations"]


def embed(
    run: str | os.PathLike[str],
    *,
    participants: str | os.PathLike[str],
    out: str | os.PathLike[str],
    images_root: str | os.PathLike[str] | None = None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    transforms: Compose | Sequence[Transform] | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write features of scans or images, prepared exactly as the run's own were, and return the path of the table.

    A call that was killed continues where it stopped when it is made again.

    Parameters
    ----------
    run : path
        Run directory, or any folder with ``encoder.json``, such as ``RUN/checkpoints/epoch-0003`` of an unfinished run.
    participants : path
        Table of scans or images.
    out : path
        Parquet file to write, with one row a scan.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    config : Config, mapping or path of a YAML file, optional
        Section `embedding`; and section `data`, for the places of images and cache.
    transforms : Compose or sequence of Transform, optional
        Transforms that `pretrain` was given from Python, where it was.
    overwrite : bool
        Whether an `out` that exists is replaced.
    progress : Progress
        Receives progress messages.
    """
    target = Path(out)
    check_output_file(target, ".parquet", overwrite=overwrite)
    settings = as_config({} if config is None else config)
    shared = settings.embedding
    with joined(shared.accelerator, section="embedding", devices=shared.devices, num_nodes=None) as (fabric, processes):
        device = fabric.device
        progress = progress if processes.is_first else SILENT
        network, images, table, info, files = after_first(
            processes, lambda: (_prepare(Path(run), participants, images_root, settings, transforms, progress), None)
        )
        finished = FinishedBatches(target, _key(info, settings.embedding, device.type, files))
        features = extract_features(
            network,
            images,
            settings=settings.embedding,
            n_readers=settings.data.n_workers,
            progress=progress,
            device=device,
            processes=processes,
            finished=finished,
        )
        if processes.is_first:
            write_embeddings(target, table, features, info)
            finished.remove()
    return target


def load_network(
    run: str | os.PathLike[str], settings: EmbeddingSettings
) -> tuple[Encoder | ContrastiveModel, dict[str, Any]]:
    """Load the network of a run, read out as the settings say, and its ``encoder.json``."""
    network, contract = load_encoder(run) if settings.layer == "encoder" else load_model(run)
    if settings.read_out is not None:
        if not isinstance(network, Encoder):
            raise ConfigError("embedding.read_out: the head takes the encoder's own features. Leave it out, or layer.")
        try:
            network.set_read_out(settings.read_out)
        except ValueError as error:
            raise ConfigError(f"embedding.{error}.") from None
    return network, contract


def reading(settings: EmbeddingSettings) -> dict[str, Any]:
    """Return the part of the stored description that says how features were read out of the network."""
    read_out = {} if settings.read_out is None else {"read_out": settings.read_out.model_dump(mode="json")}
    return {"precision": settings.precision, "layer": settings.layer, **read_out}


def _prepare(
    run: Path,
    participants: str | os.PathLike[str],
    images_root: str | os.PathLike[str] | None,
    settings: Config,
    transforms: Compose | Sequence[Transform] | None,
    progress: Progress,
) -> tuple[Encoder | ContrastiveModel, Images, pd.DataFrame, dict[str, Any], list[Any]]:
    """Return the network, its prepared images, their table, the description stored, and signatures of the files."""
    network, contract = load_network(run, settings.embedding)
    given = None if transforms is None else Compose(transforms)
    source = source_of_run(run, contract, settings.data, transforms=given)
    listed = source.read_cohort(participants, images_root=images_root)
    cohort = listed.select(settings.embedding.where) if settings.embedding.where else listed
    for warning in cohort.warnings:
        progress.warning(warning)
    warn_of_imitations(cohort, "embedding.where", progress)
    kept = set(cohort.names())
    excluded = listed.table[[name not in kept for name in listed.names()]]
    steps = [("listed", listed.table, None), ("excluded", excluded, "not selected by embedding.where")]
    flow = [{"step": step, "n_scans": len(rows), "n_subjects": rows["subject_id"].nunique(), "reason": reason}
            for step, rows, reason in steps if len(rows)]  # fmt: skip
    info = describe_embedded(run, contract, cohort, progress) | {"flow": flow} | reading(settings.embedding)
    source.make_ready(cohort, progress)
    return network, source.images(cohort), source.table_of(cohort), info, source.signatures(cohort)


def _key(info: Mapping[str, Any], settings: EmbeddingSettings, device: str, files: Sequence[Any]) -> str:
    """Return a digest of all that features depend on to the last digit: weights, scans, settings, software."""
    software = [info["environment"][key] for key in ("neurocontrast", "packages", "platform")]
    known = [info["run"], info["cohort_digest"], reading(settings), settings.batch_size, device, software, files]
    return digest_of("features", json.dumps(known, sort_keys=True))


def warn_of_imitations(cohort: Cohort, key: str, progress: Progress) -> None:
    """Warn of scans that are no real acquisitions; `key` of the configuration selects others."""
    if "acquisition" in cohort.table and cohort.table["acquisition"].astype(str).str.startswith("imitated").any():
        progress.warning(
            f"{cohort.source.name}: holds imitated acquisitions, from which to learn. Evaluate the real scans: "
            f"participants.tsv beside it, or {key}={{acquisition: [real]}}."
        )


def describe_embedded(run: Path, contract: Mapping[str, Any], cohort: Cohort, progress: Progress) -> dict[str, Any]:
    """Return the description stored with the features, such as the subjects of pretraining."""
    if run.resolve().parent.name == "checkpoints":  # weights of a run that is not finished: the run above knows
        run = run.resolve().parent.parent
    provenance = read_provenance(run) if (run / "provenance.json").is_file() else None
    if provenance is None:
        progress.warning(
            f"{run}: there is no provenance.json, so nobody can tell whether these participants were in pretraining."
        )
    elif not (provenance.get("init") or {}).get("subjects_known", True):
        progress.warning(
            f"{run}: started from weights that do not say who was in their pretraining, so nobody can tell whether "
            "these participants were."
        )
    return {
        "run": {"name": run.resolve().name, **contract},
        "pretraining_subjects": None if provenance is None else provenance["pretraining_subjects"],
        "simulated": cohort.simulated or bool(contract.get("simulated")),
        "objective": contract.get("objective"),
        "training_metrics": read_metrics(run),
        "environment": describe_environment(),
        "cohort_source": cohort.source.name,
        "cohort_digest": cohort.digest(),
        "simulation": read_simulation(cohort),
    }


class ScanEmbedder(TransformerMixin, BaseEstimator):
    """Turn brain scans, or regional measures of brains, into the features of a run's frozen encoder.

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
        Folder of prepared scans; by default that of `embed`. Images in memory are not kept.
    layer : {"encoder", "head"}, default="encoder"
        Layer whose output is returned: the encoder's features, or the output of the projection head.
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

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled, with the run's absolute path: it may be loaded from another working directory."""
        return {**super().__getstate__(), "run": str(Path(self.run).absolute())}

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check that the run can be loaded and is one of brain scans; neither argument is looked at."""
        del X, y
        network, contract = load_network(self.run, EmbeddingSettings(layer=self.layer))
        self._source(contract)
        self.n_features_out_ = int(network.n_features)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features of scans, ``(n, n_features_out_)``.

        Parameters
        ----------
        X : sequence of paths or of nibabel images, or DataFrame
            One scan each, or a column ``path``; of a run with several channels a tuple of one path or image a channel,
            or a DataFrame with the run's columns. Of a run of regional measures a DataFrame with one row a scan and one
            column a region, in mm, mm² and mm³; other columns are left out. All that cannot be used are named in one
            `DataError`.
        """
        check_is_fitted(self)
        network, contract = load_network(self.run, EmbeddingSettings(layer=self.layer))
        source = self._source(contract)
        with tempfile.TemporaryDirectory(prefix="neurocontrast-scans-") as scratch:
            cohort = source.cohort_of(X, Path(scratch))
            if any(Path(scratch).iterdir()):  # images in memory are not kept
                source = source.kept_in(Path(scratch))
            source.make_ready(cohort, SILENT)
            settings = EmbeddingSettings(layer=self.layer, batch_size=self.batch_size)
            return extract_features(network, source.images(cohort), settings=settings, n_readers=source.data.n_workers)

    def _source(self, contract: Mapping[str, Any]) -> Brains:
        folders = {"images_root": self.images_root, "cache_dir": self.cache_dir}
        data = DataSettings(**folders, n_workers=joblib.effective_n_jobs(self.n_jobs))
        return brains_of_run(Path(self.run), contract, data, what="ScanEmbedder embeds brains")

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
