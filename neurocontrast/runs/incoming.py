"""Embed the scans of a table or folder for `predict`; a failed scan stops no other scan."""

import os
import tempfile
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.config import AnyConfig, Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.layouts.tree import identity_of
from neurocontrast.data.listing import AnyTable, place_of
from neurocontrast.data.measures import MeasuresContract
from neurocontrast.data.sources import Brains, RegionalMeasures, brains_of_run
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.predicted import FailedScan, IncomingRecord, PredictionsOrigin
from neurocontrast.embedding import EmbeddingSettings, extract_features
from neurocontrast.embedding.readers import (
    Reader,
    Reading,
    check_same_scans,
    check_table,
    contents_of,
    load_readers,
)
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.probes.designs import is_joined
from neurocontrast.evaluation.probes.members import check_same_members, members_of
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.exceptions import ConfigError, DataError, NeurocontrastError
from neurocontrast.files import files_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.transforms.loading import (
    is_scan,
    read_scan_header,
    scans_below,
    without_ending,
)


@dataclass(frozen=True, eq=False)
class EmbeddedScans:
    """Features of scans, and the reasons why other scans have no features.

    `IncomingScans.embed` makes one, with all scans in the order of the table or folder.

    Parameters
    ----------
    features : array of shape (n, n_features)
        Features of each scan; NaN where `errors` has a reason.
    errors : list of str or None
        Reason why each scan could not be embedded.
    warnings : list of str
        Warnings about the file of each scan; "" without a warning.
    contents : list of str
        Digests of the content of each scan; "" for a scan that could not be embedded.
    """

    features: npt.NDArray[np.float32]
    errors: list[str | None]
    warnings: list[str]
    contents: list[str]

    @property
    def good(self) -> npt.NDArray[np.bool_]:
        """Mask of the scans that have features."""
        return np.array([error is None for error in self.errors], dtype=bool)

    def notes(self, index: pd.Index) -> pd.DataFrame:
        """Return a table of warnings and errors to join to a table of predictions of the scans.

        The columns are ``warnings`` and ``error``, with a row for each scan. `index` becomes the
        index of the table: pass the one of the predictions.
        """
        return pd.DataFrame({"warnings": self.warnings, "error": self.errors}, index=index)


@dataclass(frozen=True, eq=False)
class IncomingScans:
    """Scans of a folder or a table, and the networks of the run that embed them."""

    cohort: Cohort
    tidy: pd.DataFrame
    """Metadata of the scans: identifiers, age, sex and site in the form that `evaluate` uses."""
    readings: list[Reading[Brains]]
    settings: Config
    info: EmbeddingsInfo
    """Description of the run, in the form that tables of embeddings store."""

    @property
    def contracts(self) -> list[MeasuresContract]:
        """Standardisation of regional measures for the networks of the run, in the networks' order.

        There is one entry for each network, or group of networks that read equally preprocessed
        samples, with the medians, means and SDs of measures of the training people. The list is
        empty if the networks read scans.
        """
        contracts = []
        for reading in self.readings:
            if isinstance(reading.source, RegionalMeasures):
                contracts.append(reading.source.known)
        return contracts

    @property
    def warnings(self) -> list[str]:
        """Warnings that came up while scans were listed for each network."""
        warnings = list[str]()
        for reading in self.readings:
            warnings += reading.cohort.warnings
        return warnings

    def embed(self, progress: Progress) -> EmbeddedScans:
        """Embed all scans: measures in one pass, images one by one.

        A scan that cannot be embedded gets an error in the result; if all fail, `DataError` is
        raised.
        """
        if len(self.contracts) == len(self.readings):
            embedded = self._embed_measures(progress)
        else:
            embedded = self._embed_images(progress)
        if not embedded.good.any():
            raise DataError(
                f"none of {len(embedded.errors)} scans can be embedded, for instance: "
                f"{embedded.errors[0]}"
            )
        return embedded

    def _embed_measures(self, progress: Progress) -> EmbeddedScans:
        """Embed measures of people in one pass; people who lack too many measures have an error.

        The result has a row for each person of the cohort, with the features of all networks side
        by side.
        """
        names = self.cohort.names()
        errors: list[str | None] = [None] * len(names)
        for reading in self.readings:
            for row, reason in reading.source.failures(reading.cohort, progress).items():
                errors[row] = errors[row] or f"{names[row]}: {reason}"
        rows = np.flatnonzero([error is None for error in errors])
        embedded = EmbeddedScans(self._empty(), errors, [""] * len(names), [""] * len(names))
        if not len(rows):
            return embedded
        usable = []
        start = 0
        for reading in self.readings:
            of_rows = replace(reading, cohort=reading.cohort.subset(rows))
            usable.append(of_rows)
            images = of_rows.source.images(of_rows.cohort)
            features = extract_features(of_rows.network, images, settings=self.settings.embedding)
            embedded.features[rows, start : start + features.shape[1]] = features
            start += features.shape[1]
        for row, content in zip(rows.tolist(), contents_of(usable, SILENT), strict=True):
            embedded.contents[row] = content
        for row in rows[~np.isfinite(embedded.features[rows]).all(axis=1)].tolist():
            errors[row] = f"{names[row]}: its features are not finite."
            embedded.features[row] = np.nan
        return embedded

    def _empty(self) -> npt.NDArray[np.float32]:
        """Return an array for the features of all scans by all networks, filled with NaN.

        Rows are scans, and columns are the features of the networks side by side.
        """
        n_features = sum(map(attrgetter("network.n_features"), self.readings))
        return np.full((len(self.cohort), n_features), np.nan, dtype=np.float32)

    def _embed_images(self, progress: Progress) -> EmbeddedScans:
        """Embed scans one by one, so that an unreadable scan stops no other.

        The result has a row for each scan: features, or the error, and warnings about the file's
        header.
        """
        n_scans = len(self.cohort)
        embedded = EmbeddedScans(self._empty(), [None] * n_scans, [""] * n_scans, [""] * n_scans)
        settings = self.settings.embedding
        with progress.task("embedding", n_scans, "scans") as task:
            for row, name in enumerate(self.cohort.names()):
                try:
                    features, embedded.contents[row] = self._embed(row, settings)
                    if not np.isfinite(features).all():
                        raise DataError(f"{name}: its features are not finite.")
                    embedded.features[row] = features
                    embedded.warnings[row] = "; ".join(self._doubts_of(row))
                except NeurocontrastError as error:
                    embedded.errors[row] = str(error)
                task.advance()
        return embedded

    def _doubts_of(self, row: int) -> list[str]:
        """Return the warnings about the header of the first file of the scan in `row`.

        An array (``.npy``) has no header, and no warnings.
        """
        doubts = list[str]()
        for images in self.cohort.subset([row]).scans:
            file = files_of(images)[0]
            if not file.lower().endswith(".npy"):
                doubts += read_scan_header(file).warnings
        return doubts

    def _embed(self, row: int, settings: EmbeddingSettings) -> tuple[npt.NDArray[np.float32], str]:
        """Return the features of the scan in `row` by all networks, and the digests of its content.

        The features of the networks are joined to one vector; the digests are one text.
        """
        features = []
        of_scan = []
        # No copy of the scan is left where no cache folder was given.
        with tempfile.TemporaryDirectory(prefix="neurocontrast-scan-") as scratch:
            for reading in self.readings:
                folder = getattr(reading.source.data, "cache_dir", None) or Path(scratch)
                source = reading.source.kept_in(folder)
                scan = reading.cohort.subset([row])
                images = source.images(scan)
                features.append(extract_features(reading.network, images, settings=settings)[0])
                of_scan.append(Reading(reading.network, source, scan))
            return np.concatenate(features), contents_of(of_scan, SILENT)[0]

    def origin(self, table: pd.DataFrame) -> PredictionsOrigin:
        """Return where the predicted scans come from, and which failed, as a `PredictionsOrigin`.

        The result is part of the JSON file that is written with the predictions. It has the name of
        the table or folder of scans, the scans that failed with their errors, and whether the scans
        are simulated. `table` holds the predictions, with the error of each failed scan in column
        ``error``.
        """
        return PredictionsOrigin(
            scans=record_failures(self.cohort.source.name, table),
            simulated=self.cohort.simulated or self.info.run.simulated,
        )


def record_failures(source: str, table: pd.DataFrame) -> IncomingRecord:
    """Return the scans that could not be embedded, with their errors, as `predict` records them.

    `table` holds the predictions; its column ``error`` has a text for each such scan. `source` is
    the name of the table or folder of the scans. The result is section ``scans`` of the JSON file
    that is written with the predictions.
    """
    columns = table.loc[table["error"].notna(), ["participant_id", "session", "error"]]
    failed = list(map(FailedScan.model_validate, columns.to_dict("records")))
    return IncomingRecord(source=source, n_failed=len(failed), failed=failed)


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """Run whose networks are loaded for `predict`, before the scans to predict are listed."""

    folder: Path
    readers: list[Reader]
    info: EmbeddingsInfo
    """Description of the run, in the form that tables of embeddings store."""
    settings: Config

    @classmethod
    def load(
        cls,
        run: Path,
        config: AnyConfig | None,
    ) -> Self:
        """Load the networks of a run, to compute features at the layer and precision in `config`.

        Layer and precision are in its section ``embedding``; None as `config` means the defaults.
        """
        settings = as_config({} if config is None else config)
        readers, described = load_readers(run, settings.embedding)
        return cls(
            run,
            readers,
            EmbeddingsInfo.model_validate({"run": described, **settings.embedding.reading()}),
            settings,
        )

    def check_probe(self, probe: FittedProbe) -> None:
        """Refuse a probe that was fitted on features of encoders other than this run's encoders.

        A probe is a linear model that predicts a target from features. One that was fitted on
        joined features of several runs is refused too.
        """
        if is_joined(probe.blocks):
            raise ConfigError(
                "run: the probe was fitted on joined features of "
                f"{len(probe.blocks)} encoders, and a run is one. "
                "Embed the scans with each, join the tables, and predict that."
            )
        n_features = sum(map(attrgetter("network.n_features"), self.readers))
        check_same_members(probe.members, members_of(self.info, n_features), parameter="run")
        probe.check_encoder(self.info.encoder_digest, n_features, place=self.folder.name)

    def list_scans(
        self, scans: AnyTable, *, images_root: str | os.PathLike[str] | None = None
    ) -> IncomingScans:
        """List the scans to predict, or people with measures, for each network of the run.

        People whose measures cannot be read are listed too, and have an error when they are
        embedded.
        """
        data = self.settings.data
        if "skip_unreadable" in type(data).model_fields:
            data = data.model_copy(update={"skip_unreadable": True})
        readings = []
        for reader in self.readers:
            source = brains_of_run(
                reader.folder, reader.contract, data, what="predict takes brains"
            )
            cohort = self._cohort_of(source, scans, images_root)
            readings.append(Reading(reader.network, source, cohort))
        check_same_scans([reading.cohort for reading in readings])
        cohort = readings[0].cohort
        tidy = tidy_table(cohort.table)
        return IncomingScans(cohort, tidy, readings, self.settings, self.info)

    def _cohort_of(
        self, source: Brains, scans: AnyTable, images_root: str | os.PathLike[str] | None
    ) -> Cohort:
        """Return the cohort of scans in a table, a folder or a file, for one network of the run.

        `source` is the object that reads and preprocesses the scans of the network. Only rows that
        ``embedding.where`` selects are returned; if there are none, `DataError` is raised.
        """
        path = place_of(scans)
        cohort = source.unlisted(scans, images_root=images_root)  # people with measures
        if cohort is None:
            if isinstance(scans, pd.DataFrame):
                cohort = source.read_cohort(scans, images_root=images_root, check_images=False)
            else:
                if _are_scans(path):
                    check_table(self.readers, path.name)
                cohort = _cohort_of_scans(path, source, images_root)
        where = self.settings.embedding.where
        cohort = cohort.select(where) if where else cohort
        if not len(cohort):
            raise DataError(
                f"{path.name}: no row is left, and there is nothing to predict without a scan."
            )
        return cohort


def open_scans(
    run: Path,
    scans: AnyTable,
    fitted: FittedProbe,
    *,
    images_root: str | os.PathLike[str] | None,
    config: AnyConfig | None,
) -> IncomingScans:
    """Load a run and list the scans to predict; return one object, which can embed the scans.

    The scans are listed from `scans`, a table, a folder or a file of one scan, and are not embedded
    yet. The networks are loaded from the folder `run`. `fitted` is the probe that will predict from
    the features, and is only checked: a probe that was fitted on features of another encoder is
    refused.
    """
    loaded = LoadedRun.load(run, config)
    loaded.check_probe(fitted)
    return loaded.list_scans(scans, images_root=images_root)


def _cohort_of_scans(
    scans: Path, source: Brains, images_root: str | os.PathLike[str] | None
) -> Cohort:
    """List the scans of a path as a cohort: a scan, a folder of scans, or the scans of a table."""
    if not _are_scans(scans):
        return source.read_cohort(scans, images_root=images_root, check_images=False)
    if images_root is not None:
        raise ConfigError(
            f"images_root: is for the paths in a table, and '{scans}' is none. Leave it out."
        )
    return _cohort_of_files(scans, source.channels or ("t1",))


def _are_scans(scans: Path) -> bool:
    """Tell whether a path is a scan or a folder of scans, and not a table."""
    return scans.is_dir() or (scans.is_file() and is_scan(scans))


def _cohort_of_files(scans: Path, channels: tuple[str, ...]) -> Cohort:
    """List one scan, or all scans in a folder, with identifiers from BIDS names or paths.

    A path is the identifier of a scan whose file has no BIDS name, or whose name another scan has
    too.
    """
    if len(channels) > 1:
        raise DataError(
            f"{scans}: a scan of this run has {len(channels)} files ({', '.join(channels)}), and "
            "their names do not say which belong together. Give a table with these columns."
        )
    folder = scans.parent.absolute()
    paths = [scans.absolute()]
    if scans.is_dir():
        folder = scans.absolute()
        paths = list(map(Path.absolute, scans_below(scans)))
    labels = []
    sessions = []
    for path in paths:
        subject, session = _named(path.name)
        labels.append(f"sub-{subject}" if subject else None)
        sessions.append(session)
    names = pd.DataFrame({"participant_id": labels, "session": sessions})
    by_path = names.duplicated(keep=False) | names["participant_id"].isna()
    of_file = [without_ending(path.relative_to(folder).as_posix()) for path in paths]
    names["participant_id"] = np.where(by_path, of_file, names["participant_id"])
    names["session"] = np.where(by_path, "", names["session"])
    subjects = []
    for label, name in zip(labels, names["participant_id"], strict=True):
        subjects.append(label or name)
    return Cohort(names.assign(subject_id=subjects, path=list(map(str, paths))), scans, folder)


def _named(name: str) -> tuple[str, str]:
    """Return subject and session of a BIDS file name; two empty strings for other names."""
    subject, session, _ = identity_of(name)
    return (subject, session) if name.startswith("sub-") and subject != name else ("", "")
