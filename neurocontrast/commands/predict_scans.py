"""Scans as they come: each is embedded, predicted and written down by itself, and a bad one stops no other."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.embedding import extract_features
from neurocontrast.encoders import ContrastiveModel, Encoder
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.rows import check_same_encoder, encoder_digest, tidy_table
from neurocontrast.exceptions import ConfigError, DataError, NeurocontrastError
from neurocontrast.files import digest_of, files_of, write_text
from neurocontrast.progress import Progress
from neurocontrast.provenance import subject_digest
from neurocontrast.reading import parse_json, read_bytes
from neurocontrast.stages.embed import load_network, reading
from neurocontrast.stages.sources import Brains, brains_of_run
from neurocontrast.transforms.loading import is_scan, read_scan_header, scans_below

__all__ = ["IncomingScans", "Journal", "open_scans"]

Record = dict[str, Any]
_IDENTIFIERS = ("participant_id", "session", "site")
_BIDS = re.compile(r"sub-(?P<subject>[A-Za-z0-9]+)(?:_ses-(?P<session>[A-Za-z0-9]+))?(?:_|$)")


class Journal:
    """A file of JSON lines, one a finished scan, by which a call that was killed continues.

    Each line carries the digest of what it says; a scan whose line was altered or cut is predicted again.

    Parameters
    ----------
    path : Path
        The file.
    model : str
        Digest of all that a prediction depends on besides the scan.
    overwrite : bool
        Whether lines of another model are replaced.
    on_scan : callable, optional
        Called with each record as it is finished; those of an earlier call too.
    """

    def __init__(
        self, path: Path, model: str, *, overwrite: bool, on_scan: Callable[[Record], None] | None = None
    ) -> None:
        self.path, self._model, self._overwrite = path, model[:16], overwrite
        self._on_scan = on_scan
        self._finished: dict[str, Record] = {}

    def open(self, keys: Sequence[str]) -> int:
        """Keep the finished scans of these keys, write the file with them alone, and return their number."""
        known = self._read()
        self._finished = {key: known[key] for key in keys if key in known}
        write_text(self.path, "".join(map(_line, self._finished.values())))
        return len(self._finished)

    def noted(self, key: str, make: Callable[[], Record]) -> Record:
        """Return the record of a scan: that of an earlier call, or the one that is made and noted now."""
        record = self._finished.get(key)
        if record is None:
            record = make() | {"key": f"{self._model}-{key}"}
            record |= {"digest": _digest(record)}
            with self.path.open("ab", buffering=0) as stream:
                stream.write(_line(record).encode())  # in one call, so that a kill leaves whole lines
        if self._on_scan is not None:
            self._on_scan(record)
        return record

    def _read(self) -> dict[str, Record]:
        """Return the finished scans of the file; lines that are not as they were written are left out."""
        found: dict[str, Record] = {}
        lines = read_bytes(self.path).split(b"\n") if os.path.lexists(self.path) else []
        start = b'{"participant_id": '
        if any(lines) and not any(line.startswith(start) or start.startswith(line) for line in lines if line):
            raise ConfigError(
                f"out: '{self.path}', in which finished scans are noted, is there already and no line of it is one of "
                "predict's; move it away, or give another file."
            )
        for line in lines:
            try:
                record = parse_json(line, place=self.path)
            except DataError:
                continue
            model, _, key = str(record.get("key")).partition("-")
            if record.get("digest") != _digest(record):
                continue
            if model == self._model:
                found |= {key: record} if record.get("error") is None else {}
            elif not self._overwrite:
                raise ConfigError(
                    f"out: '{self.path}' holds predictions of another run, evaluation or setting. Give another file, "
                    "or replace it with --overwrite."
                )
        return found


def _line(record: Record) -> str:
    """Return a record as a line of ASCII: no id ends a line, and no cut divides a character."""
    return json.dumps(record, allow_nan=False) + "\n"


def _digest(record: Record) -> str:
    return digest_of("line", json.dumps({key: record[key] for key in sorted(record) if key != "digest"}))


@dataclass(frozen=True, eq=False)
class IncomingScans:
    """Scans of a folder or a table, and the network of the run that embeds them.

    Attributes
    ----------
    cohort, tidy : Cohort, DataFrame
        The scans, one row each; the same rows as an evaluation reads them.
    info : dict
        What `encoder_digest` reads, as stored with an embeddings table.
    """

    cohort: Cohort
    tidy: pd.DataFrame
    network: Encoder | ContrastiveModel
    source: Brains
    settings: Config
    info: dict[str, Any]

    def predict(
        self,
        predict_row: Callable[[pd.DataFrame, npt.NDArray[np.floating]], Mapping[str, Any]],
        *,
        columns: Sequence[str],
        journal: Journal,
        progress: Progress,
    ) -> pd.DataFrame:
        """Return one row a scan, each noted in a file of JSON lines as soon as it is finished.

        Scans that the file has already are not read again, as long as they are the same files.

        Parameters
        ----------
        predict_row : callable
            Returns what is predicted for a row of `tidy` from its features (1, n_features).
        columns : sequence of str
            What that has.
        journal : Journal
            Where finished scans are noted.
        progress : Progress
            Receives progress messages.
        """
        keys = [self._key(row) for row in range(len(self.cohort))]
        n_kept = journal.open(keys)
        if n_kept:
            progress.message(f"{journal.path}: {n_kept} of {len(keys)} scans are there already.")
        records = []
        with progress.task("Predicting", len(keys), "scans") as task:
            for row, key in enumerate(keys):
                record = journal.noted(key, partial(self._record, row, predict_row, columns))
                records.append(record)
                task.advance()
        table = pd.DataFrame(records)[[*_IDENTIFIERS, *columns, "warnings", "error"]]
        table["warnings"] = ["; ".join(each) for each in table["warnings"]]
        return table

    def origin(self, table: pd.DataFrame) -> dict[str, Any]:
        """Return what is recorded beside the predictions: where the scans came from, and which failed."""
        failed = table.loc[table["error"].notna(), ["participant_id", "session", "error"]].to_dict("records")
        scans = {"source": self.cohort.source.name, "n_failed": len(failed), "failed": failed}
        return {"scans": scans, "simulated": self.cohort.simulated or bool(self.info["run"].get("simulated"))}

    def _key(self, row: int) -> str:
        """Return a digest of a scan and of its row; of files that cannot be read, of the row alone."""
        scan = self.cohort.subset([row])
        try:
            signature = [number for files in self.source.signatures(scan) for number in files[:2]]
        except OSError:
            signature = []
        cells = self.tidy.iloc[row].astype(str)
        return digest_of("scan", scan.digest(), *signature, *cells.index, *cells)[:16]

    def _record(self, row: int, predict_row: Callable[..., Mapping[str, Any]], columns: Sequence[str]) -> Record:
        of_scan = self.tidy.iloc[[row]].reset_index(drop=True)
        record: Record = {name: _json(of_scan[name].iloc[0]) for name in _IDENTIFIERS}
        record |= dict.fromkeys(columns)
        try:
            found, warnings = predict_row(of_scan, self._features(row)), self._doubts(row)
        except NeurocontrastError as error:
            return {**record, "warnings": [], "error": str(error)}
        warnings += [found["warning"]] if found.get("warning") else []
        predicted = {name: _json(value) for name, value in found.items() if name != "warning"}
        return {**record, **predicted, "warnings": warnings, "error": None}

    def _doubts(self, row: int) -> list[str]:
        files = [files_of(scan)[0] for scan in self.cohort.subset([row]).scans]
        headers = [read_scan_header(file) for file in files if not file.lower().endswith(".npy")]
        return [warning for header in headers for warning in header.warnings]

    def _features(self, row: int) -> npt.NDArray[np.float32]:
        """Return the features of a scan (1, n_features); no copy of it is left where no cache folder was given."""
        with tempfile.TemporaryDirectory(prefix="neurocontrast-scan-") as scratch:
            source = self.source.kept_in(getattr(self.source.data, "cache_dir", None) or Path(scratch))
            images = source.images(self.cohort.subset([row]))
            features = extract_features(self.network, images, settings=self.settings.embedding, n_readers=0)
        if not np.isfinite(features).all():
            raise DataError(f"{self.cohort.names()[row]}: its features are not finite.")
        return features


def open_scans(
    run: Path,
    scans: Path,
    fitted: FittedProbe,
    *,
    images_root: str | os.PathLike[str] | None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None,
) -> IncomingScans:
    """List scans, and load the network of the run whose features a probe was fitted on.

    Parameters
    ----------
    run : Path
        Run directory.
    scans : Path
        Scan, folder of scans, or table with one row a scan; of a run of measures a table or folder of these too.
    fitted : FittedProbe
        The probe, by which a run of another encoder is refused.
    images_root : path, optional
        Folder that relative paths in the table start from.
    config : Config, mapping or path, optional
        Sections `embedding` and `data`.
    """
    settings = as_config({} if config is None else config)
    if settings.embedding.devices > 1:
        raise ConfigError("embedding.devices: scans that come one by one are embedded by one process. Leave it at 1.")
    if fitted.blocks:
        raise ConfigError(
            f"run: the probe was fitted on joined features of {len(fitted.blocks)} encoders, and a run is one. "
            "Embed the scans with each, join the tables, and predict that."
        )
    network, contract = load_network(run, settings.embedding)
    info = {"run": contract, **reading(settings.embedding)}
    check_same_encoder(
        fitted.encoder,
        encoder_digest(info),
        n_expected=fitted.n_features,
        n_found=network.n_features,
        parameter=run.name,
        what="the probe",
    )
    source = brains_of_run(run, contract, settings.data, what="predict takes brains")
    cohort = source.unlisted(scans, images_root=images_root)
    if cohort is not None:
        labels = cohort.table["participant_id"].str.removeprefix("sub-")
        cohort = replace(cohort, table=cohort.table.assign(subject_id=[_subject(label, fitted) for label in labels]))
    elif scans.is_dir() or (scans.is_file() and is_scan(scans)):
        cohort = _cohort_of_files(scans, source.channels or ("t1",), fitted)
    else:
        cohort = source.read_cohort(scans, images_root=images_root, check_images=False)
    cohort = cohort.select(settings.embedding.where) if settings.embedding.where else cohort
    if not len(cohort):
        raise DataError(f"{scans.name}: no row is left, and there is nothing to predict without a scan.")
    return IncomingScans(cohort, tidy_table(cohort.table), network, source, settings, info)


def _cohort_of_files(place: Path, channels: tuple[str, ...], fitted: FittedProbe) -> Cohort:
    """Return a scan, or those of a folder, named after their files: participant and session, where as in BIDS."""
    if len(channels) > 1:
        raise DataError(
            f"{place}: a scan of this run has {len(channels)} files ({', '.join(channels)}), and their names do not "
            "say which belong together. Give a table with these columns."
        )
    folder = (place if place.is_dir() else place.parent).absolute()
    paths = [path.absolute() for path in (scans_below(place) if place.is_dir() else [place])]
    known = [_BIDS.match(path.name) for path in paths]
    names = pd.DataFrame(
        {
            "participant_id": [f"sub-{found['subject']}" if found else None for found in known],
            "session": [(found["session"] or "") if found else "" for found in known],
        }
    )
    whole = names.duplicated(keep=False) | names["participant_id"].isna()  # told apart by their paths alone
    of_file = [path.relative_to(folder).as_posix().partition(".")[0] for path in paths]
    names["participant_id"] = np.where(whole, of_file, names["participant_id"])
    names["session"] = np.where(whole, "", names["session"])
    subjects = [
        _subject(found["subject"], fitted) if found else name
        for found, name in zip(known, names["participant_id"], strict=True)
    ]
    return Cohort(names.assign(subject_id=subjects, path=list(map(str, paths))), place, folder)


def _subject(label: str, fitted: FittedProbe) -> str:
    """Return how tables may call a subject of BIDS: by its label, as `index` does, where the probe knows that one."""
    return label if subject_digest(label) in fitted.trained_on else f"sub-{label}"


def _json(value: Any) -> Any:
    """Return a cell as JSON has it; what is missing, or no finite number, is null."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if plain is None or (isinstance(plain, float) and not np.isfinite(plain)) else plain
