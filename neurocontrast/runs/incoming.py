"""Scans of a table or a folder, which `predict` embeds itself; a bad scan stops no other."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.layouts.tree import identity_of
from neurocontrast.data.sources import Brains, brains_of_run
from neurocontrast.embedding import EmbeddingSettings, extract_features
from neurocontrast.embedding.readers import (
    Reading,
    check_same_scans,
    check_table,
    contents_of,
    load_readers,
)
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.designs import is_joined
from neurocontrast.evaluation.members import check_same_members, members_of
from neurocontrast.evaluation.rows import encoder_digest, tidy_table
from neurocontrast.exceptions import ConfigError, DataError, NeurocontrastError
from neurocontrast.files import files_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.transforms.loading import is_scan, read_scan_header, scans_below


@dataclass(frozen=True, eq=False)
class IncomingScans:
    """Scans of a folder or a table, and the networks of the run that embed them."""

    cohort: Cohort
    tidy: pd.DataFrame  # the same rows as an evaluation reads them
    readings: list[Reading[Brains]]
    settings: Config
    info: dict[str, Any]  # what `encoder_digest` reads, as stored with an embeddings table

    def embed(self, progress: Progress) -> tuple[npt.NDArray[np.float32], pd.DataFrame, list[str]]:
        """Return features (n, n_features), a table with ``error`` and ``warnings``, and contents.

        Features of a scan with an error are NaN, and its content is "".
        """
        contents = [""] * len(self.cohort)
        n_features = sum(map(attrgetter("network.n_features"), self.readings))
        features = np.full((len(self.cohort), n_features), np.nan, dtype=np.float32)
        notes: list[dict[str, str | None]] = []
        settings = self.settings.embedding
        with progress.task("embedding", len(features), "scans") as task:
            for row, name in enumerate(self.cohort.names()):
                warnings = list[str]()
                problem = None
                try:
                    embedded, contents[row] = self._embed(row, settings)
                    if not np.isfinite(embedded).all():
                        raise DataError(f"{name}: its features are not finite.")
                    features[row] = embedded
                    scan = self.cohort.subset([row])
                    files = [files_of(images)[0] for images in scan.scans]
                    headers = [
                        read_scan_header(file)
                        for file in files
                        if not file.lower().endswith(".npy")
                    ]
                    warnings = [warning for header in headers for warning in header.warnings]
                except NeurocontrastError as error:
                    problem = str(error)
                notes.append({"warnings": "; ".join(warnings), "error": problem})
                task.advance()
        if all(each["error"] for each in notes):
            raise DataError(
                f"none of {len(notes)} scans can be embedded, for instance: {notes[0]['error']}"
            )
        return features, pd.DataFrame(notes, index=self.tidy.index), contents

    def _embed(self, row: int, settings: EmbeddingSettings) -> tuple[npt.NDArray[np.float32], str]:
        """Return the features of one scan by all networks, and the digests of its content."""
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

    def origin(self, table: pd.DataFrame) -> dict[str, Any]:
        """Return the origin of a table of predictions: the source of the scans, and those that failed."""
        failed = table.loc[table["error"].notna(), ["participant_id", "session", "error"]].to_dict(
            "records"
        )
        scans = {"source": self.cohort.source.name, "n_failed": len(failed), "failed": failed}
        return {
            "scans": scans,
            "simulated": self.cohort.simulated or bool(self.info["run"].get("simulated")),
        }


def open_scans(
    run: Path,
    scans: Path,
    fitted: FittedProbe,
    *,
    images_root: str | os.PathLike[str] | None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None,
) -> IncomingScans:
    """List scans, and load the network of the run whose features a probe was fitted on; refuse that of another encoder.

    `scans` are what `predict` takes.
    """
    settings = as_config({} if config is None else config)
    if is_joined(fitted.blocks):
        raise ConfigError(
            f"run: the probe was fitted on joined features of {len(fitted.blocks)} encoders, and a run is one. "
            "Embed the scans with each, join the tables, and predict that."
        )
    readers, contract = load_readers(run, settings.embedding)
    info = {"run": contract, **settings.embedding.reading()}
    n_features = sum(map(attrgetter("network.n_features"), readers))
    check_same_members(fitted.members, members_of(info, n_features), parameter="run")
    fitted.check_encoder(encoder_digest(info), n_features, place=run.name)
    readings = []
    for reader in readers:
        what = "predict takes brains"
        source = brains_of_run(reader.folder, reader.contract, settings.data, what=what)
        cohort = source.unlisted(scans, images_root=images_root)  # people with measures
        if cohort is None:
            if _are_scans(scans):
                check_table(readers, scans.name)
            cohort = _cohort_of_scans(scans, source, images_root)
        cohort = cohort.select(settings.embedding.where) if settings.embedding.where else cohort
        if not len(cohort):
            raise DataError(
                f"{scans.name}: no row is left, and there is nothing to predict without a scan."
            )
        readings.append(Reading(reader.network, source, cohort))
    check_same_scans([reading.cohort for reading in readings])
    cohort = readings[0].cohort
    return IncomingScans(cohort, tidy_table(cohort.table), readings, settings, info)


def _cohort_of_scans(
    scans: Path, source: Brains, images_root: str | os.PathLike[str] | None
) -> Cohort:
    """List a scan, a folder of scans, or the scans of a table."""
    if not _are_scans(scans):
        return source.read_cohort(scans, images_root=images_root, check_images=False)
    if images_root is not None:
        raise ConfigError(
            f"images_root: is for the paths in a table, and '{scans}' is none. Leave it out."
        )
    return _cohort_of_files(scans, source.channels or ("t1",))


def _are_scans(scans: Path) -> bool:
    """Tell a scan, or a folder of scans, from a table."""
    return scans.is_dir() or (scans.is_file() and is_scan(scans))


def _cohort_of_files(place: Path, channels: tuple[str, ...]) -> Cohort:
    """Return a scan, or those of a folder, with participant and session by the names of BIDS, else by the path."""
    if len(channels) > 1:
        raise DataError(
            f"{place}: a scan of this run has {len(channels)} files ({', '.join(channels)}), and their names do not "
            "say which belong together. Give a table with these columns."
        )
    folder = (place if place.is_dir() else place.parent).absolute()
    paths = [path.absolute() for path in (scans_below(place) if place.is_dir() else [place])]
    known = [_named(path.name) for path in paths]
    names = pd.DataFrame(
        {
            "participant_id": [f"sub-{subject}" if subject else None for subject, _ in known],
            "session": [session for _, session in known],
        }
    )
    by_path = names.duplicated(keep=False) | names["participant_id"].isna()
    of_file = [path.relative_to(folder).as_posix().partition(".")[0] for path in paths]
    names["participant_id"] = np.where(by_path, of_file, names["participant_id"])
    names["session"] = np.where(by_path, "", names["session"])
    subjects = [
        f"sub-{subject}" if subject else name
        for (subject, _), name in zip(known, names["participant_id"], strict=True)
    ]
    return Cohort(names.assign(subject_id=subjects, path=list(map(str, paths))), place, folder)


def _named(name: str) -> tuple[str, str]:
    """Return subject and session of a file name of BIDS; of any other, two empty texts."""
    subject, session, _ = identity_of(name)
    return (subject, session) if name.startswith("sub-") and subject != name else ("", "")
