"""Embed scans, measures or images with the frozen encoder of a run."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from monai.transforms import Compose, Transform

from neurocontrast.commands.written import Written
from neurocontrast.config import AnyConfig, Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.columns import Where
from neurocontrast.data.kinds import KINDS
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.settings import AnyDataSettings
from neurocontrast.data.sources import RegionalMeasures, Source, source_of_run
from neurocontrast.display import as_progress
from neurocontrast.documents.document import content_of
from neurocontrast.documents.embeddings import read_embeddings, write_embeddings
from neurocontrast.documents.info import EmbeddingsInfo, FlowStep
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.embedding.extract import FinishedBatches, extract_features
from neurocontrast.embedding.readers import (
    Reader,
    Reading,
    check_same_scans,
    contents_of,
    load_readers,
    table_of,
    warnings_of,
)
from neurocontrast.files import check_output_file, digest_of
from neurocontrast.parallel.devices import refuse_several, usable_accelerator
from neurocontrast.progress import Progress
from neurocontrast.provenance import CONTENT
from neurocontrast.runs.folder import describe_embedded, warn_of_imitations
from neurocontrast.runs.skipped import leave_out, without, write_skipped
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.weights import folder_of


class EmbeddingsTable(Written):
    """Path of a table of features that `embed` wrote.

    `neurocontrast.embedding.read_embeddings` reads the table.
    """

    def summary(self) -> str:
        """Return a line with the table's numbers of scans, people and features."""
        read = read_embeddings(self.location)
        scans = f"{len(read.table):,} scans"
        if "subject_id" in read.table:
            scans += f" of {read.table['subject_id'].nunique():,} people"
        return f"{scans}, {read.features.shape[1]:,} features each"


@in_default_torch_state
def embed(
    run: str | os.PathLike[str],
    *,
    participants: AnyTable,
    out: str | os.PathLike[str],
    images_root: str | os.PathLike[str] | None = None,
    config: AnyConfig | None = None,
    transforms: Compose | Sequence[Transform] | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> EmbeddingsTable:
    """Write a table of features of scans, prepared exactly as in pretraining; return its path.

    Measures of a run of regional measures, and natural images, are embedded in the same way. A call
    that was killed continues where it stopped when it is made again.

    Parameters
    ----------
    run : str or path
        Run directory, any folder with ``encoder.json``, or weights by name.
    participants : path or DataFrame
        Table of scans or images.
    out : path
        Parquet file to write, with one row a scan.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    config : Config, mapping or path of a YAML file, optional
        Section `embedding`; and section `data`, for the places of images and cache, and
        ``skip_unreadable``: scans that cannot be used are left out then, and listed in
        ``OUT.skipped.tsv``.
    transforms : Compose or sequence of Transform, optional
        Transforms that were passed to `pretrain` from Python, if any.
    overwrite : bool
        Whether an `out` that exists is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    """
    progress = as_progress(progress)
    folder = folder_of(run)
    target = Path(out)
    check_output_file(target, ".parquet", overwrite=overwrite)
    settings = as_config({} if config is None else config)
    refuse_several("embed")
    device = usable_accelerator(settings.embedding.accelerator, section="embedding")
    readers, described = load_readers(folder, settings.embedding)
    composed = None
    if transforms is not None:
        composed = Compose(transforms)
    listings = _list_scans(readers, participants, images_root, settings.data, composed)
    for warning in warnings_of(listings):
        progress.warning(warning)
    listed = listings[0].cohort
    cohort = listed.select(settings.embedding.where)
    warn_of_imitations(cohort, "embedding.where", progress)
    _warn_of_training_selection(settings, len(cohort), progress)
    info = describe_embedded(folder, described, cohort, progress)
    readings, skipped = _leave_out(listings, settings.embedding.where, progress)
    usable = readings[0].cohort
    info = info.with_keys(
        **settings.embedding.reading(),
        flow=_flow(listed, cohort, usable),
        cohort_digest=usable.digest(),
        **_allowed_missing(readings),
    )
    batches = _find_finished(readings, target, _depends_on(info, settings.embedding, device))
    features = _extract(readings, batches, settings, progress)
    write_skipped(target.with_suffix(".skipped.tsv"), skipped)
    table = table_of(readings)
    table[CONTENT] = contents_of(readings, progress)
    write_embeddings(target, table, features, info)
    batches[-1].remove()
    return EmbeddingsTable(target)


def _list_scans(
    readers: Sequence[Reader],
    participants: AnyTable,
    images_root: str | os.PathLike[str] | None,
    data: AnyDataSettings,
    transforms: Compose | None,
) -> list[Reading[Source]]:
    """List the scans of the table `participants` as each network of a run reads them.

    Each of `readers` has one network, or several with the same preprocessing. The result has one
    `Reading` for each reader, in the same order: network, preprocessing, and the cohort of scans. A
    table of which the networks would read different scans is refused.
    """
    listings: list[Reading[Source]] = []
    for reader in readers:
        source = source_of_run(reader.folder, reader.contract, data, transforms=transforms)
        listed = source.read_cohort(participants, images_root=images_root)
        listings.append(Reading(reader.network, source, listed))
    check_same_scans([listing.cohort for listing in listings])
    return listings


def _warn_of_training_selection(settings: Config, n_scans: int, progress: Progress) -> None:
    """Warn that `embed` takes all scans if ``data.where`` is set and ``embedding.where`` is not."""
    if KINDS.find(settings.data.kind) is not None or settings.embedding.where:
        return
    if settings.data.where:
        progress.warning(
            f"data.where is of training: all {n_scans} scans of the table are embedded. "
            "embedding.where selects."
        )


def _depends_on(info: EmbeddingsInfo, settings: EmbeddingSettings, device: str) -> list[object]:
    """List the weights, settings and software on which features depend to the last digit.

    The digest of the list names the folder in which a stopped call of `embed` keeps features, so
    that a call with other weights or settings does not use them.
    """
    environment = content_of(info.environment)
    return [
        info.run.content(),
        info.cohort_digest,
        settings.reading(),
        settings.batch_size,
        device,
        [environment[key] for key in ("neurocontrast", "packages", "platform")],
    ]


def _find_finished(
    readings: Sequence[Reading[Source]], target: Path, depends_on: list[object]
) -> list[FinishedBatches]:
    """Return, for each network, the features that a stopped call has kept on disk beside `target`.

    `target` is the table to write. Kept features are used if they were made from the same inputs:
    the digest of `depends_on` (weights, settings and software) and of the scans as the network
    reads them is in the name of their folder.
    """
    batches = []
    for number, reading in enumerate(readings):
        # Of members that are prepared alike there is one reader, and one pass over the scans.
        of_reader = [*depends_on, reading.source.signatures(reading.cohort)]
        if number:
            of_reader.append(number)
        key = digest_of("features", json.dumps(of_reader, sort_keys=True))
        batches.append(FinishedBatches(target, key))
    return batches


def _extract(
    readings: Sequence[Reading[Source]],
    batches: Sequence[FinishedBatches],
    settings: Config,
    progress: Progress,
) -> npt.NDArray[np.float32]:
    """Embed the scans by each network of a run; return an array of all features, one row a scan.

    The columns of the networks are side by side. Batches of scans that a stopped call has kept are
    not embedded again.
    """
    features = []
    for reading, finished in zip(readings, batches, strict=True):
        of_network = extract_features(
            reading.network,
            reading.source.images(reading.cohort),
            settings=settings.embedding,
            n_readers=settings.data.n_workers,
            progress=progress,
            finished=finished,
        )
        features.append(of_network)
    return np.concatenate(features, axis=1)


def _allowed_missing(readings: Sequence[Reading[Source]]) -> dict[str, float]:
    """Return the share of measures that a person may lack, if the user changed the run's own share.

    The result is ``{"max_missing": share}``, keys to add to the description of an embeddings table;
    it is an empty mapping for scans, and for the share that the run itself records.
    """
    for reading in readings:
        source = reading.source
        if isinstance(source, RegionalMeasures) and source.max_missing_of_run is not None:
            return {"max_missing": source.known.max_missing}
    return {}


def _leave_out(
    listings: Sequence[Reading[Source]], where: Where, progress: Progress
) -> tuple[list[Reading[Source]], pd.DataFrame]:
    """Select scans by `where`, and leave out unusable scans if `skip_unreadable` is set.

    Each of `listings` is a network with its scans (`cohort`). The selected scans are preprocessed
    here, by which unusable scans are found. Return copies of `listings` in which `cohort` has only
    the selected scans that all networks can read, and a table of the unusable scans. Without
    `skip_unreadable`, unusable scans are a DataError.
    """
    usable = []
    tables = []
    for listing in listings:
        cohort, skipped = leave_out(listing.source, listing.cohort.select(where), progress)
        usable.append(replace(listing, cohort=cohort))
        tables.append(skipped)
    skipped = pd.concat(tables, ignore_index=True).drop_duplicates("scan")
    names = set(skipped["scan"])
    return [replace(reading, cohort=without(reading.cohort, names)) for reading in usable], skipped


def _flow(listed: Cohort, chosen: Cohort, read: Cohort) -> list[FlowStep]:
    """Return a flow chart of exclusions: numbers of scans and subjects, in all and by reason.

    The list has a `FlowStep` for all scans that are `listed` in the table, and one for each reason
    to leave out scans: listed but not `chosen` by the settings, or chosen but not `read`, since
    they cannot be used. A step without scans is left out.
    """
    unchosen = without(listed, set(chosen.names()))
    unreadable = without(chosen, set(read.names()))
    steps = [
        ("listed", listed, None),
        ("excluded", unchosen, "not selected by embedding.where"),
        ("excluded", unreadable, "cannot be used (data.skip_unreadable)"),
    ]
    flow = []
    for step, rows, reason in steps:
        if len(rows):
            n_subjects = int(rows.table["subject_id"].nunique())
            counted = FlowStep(step=step, n_scans=len(rows), n_subjects=n_subjects, reason=reason)
            flow.append(counted)
    return flow
