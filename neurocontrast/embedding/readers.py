"""Load the networks of a run, and preprocess the samples of a table for each network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pandas as pd

from neurocontrast.data.cohort import Cohort, columns_of
from neurocontrast.data.problems import first_names
from neurocontrast.documents.encoder import EncoderContract, EncoderDescription
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.encoders import ContrastiveModel, Encoder, load_encoder, load_model
from neurocontrast.encoders.members import (
    SeveralEncoders,
    describe_run,
    members_of,
    preparation_of,
)
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import Progress
from neurocontrast.provenance import CONTENT, join_contents

if TYPE_CHECKING:
    from neurocontrast.data.sources import Source

OneSource = TypeVar("OneSource", bound="Source")
Network = Encoder | ContrastiveModel | SeveralEncoders


def load_network(
    run: str | os.PathLike[str], settings: EmbeddingSettings
) -> tuple[Encoder | ContrastiveModel, EncoderContract]:
    """Load a run's network, up to the layer in `settings`, and the content of its ``encoder.json``.

    The network is an `Encoder`, or for the layer ``head`` a model with projection head. With
    ``read_out`` in the settings, the blocks whose feature maps become features, and the grid over
    which the maps are averaged, replace the encoder's own.
    """
    network: Encoder | ContrastiveModel
    if settings.layer == "encoder":
        network, contract = load_encoder(run)
    else:
        network, contract = load_model(run)
    if settings.read_out is not None:
        if not isinstance(network, Encoder):
            raise ConfigError(
                "embedding.read_out: the head takes the encoder's own features. "
                "Leave it out, or layer."
            )
        try:
            network.set_read_out(settings.read_out)
        except ValueError as error:
            raise ConfigError(f"embedding.{error}.") from None
    return network, contract


@dataclass(frozen=True, eq=False)
class Reader:
    """Network of a run, or several networks of a run that read the same preprocessed samples."""

    folder: Path
    """Folder of the network's ``encoder.json``."""
    network: Network
    contract: EncoderContract
    """Content of ``encoder.json``, of the first network if there are several."""


def load_readers(
    run: str | os.PathLike[str], settings: EmbeddingSettings
) -> tuple[list[Reader], EncoderDescription]:
    """Load the networks of a run, grouped by preprocessing, and the description of the run.

    A `Reader` is one network, or several that read the same preprocessed samples. A run of one
    encoder has one, and is described by ``encoder.json``. Successive encoders (members) of a run of
    several are in one group if their samples have the same preprocessing; encoders whose measures
    are standardised by different training people are not. Groups are in the order of the columns of
    features.
    """
    readers = list[Reader]()
    contracts = []
    sizes = []
    for folder in members_of(Path(run)):
        network, contract = load_network(folder, settings)
        readers.append(Reader(folder, network, contract))
        contracts.append(contract)
        sizes.append(network.n_features)
    return _share(readers), describe_run(Path(run), contracts, sizes)


def _share(readers: Sequence[Reader]) -> list[Reader]:
    """Join successive encoders of a run whose samples have the same preprocessing.

    `readers` has one `Reader` for each encoder of a run, with one network, in the order in which
    the encoders' features are joined. The result is a list in the same order. Each stretch of
    successive encoders with the same preprocessing has one `Reader` in the list, whose network
    joins the features of all encoders of the stretch; any other encoder keeps its own.
    """
    shared = []
    for _, alike in groupby(readers, key=_preparation):
        first, *others = alike
        if others:
            networks = list(map(attrgetter("network"), [first, *others]))
            first = replace(first, network=SeveralEncoders(networks))
        shared.append(first)
    return shared


def _preparation(reader: Reader) -> str:
    return preparation_of(reader.contract)


@dataclass(frozen=True, eq=False)
class Reading(Generic[OneSource]):
    """Network, with the preprocessed samples of a table that the network reads.

    `cohort` lists the samples of the table, and `source` reads and preprocesses them.
    """

    network: Network
    source: OneSource
    cohort: Cohort


def check_same_scans(cohorts: Sequence[Cohort]) -> None:
    """Refuse a table of which a run's encoders read different scans: features would be mixed up.

    `cohorts` has for each encoder the scans of the table that the encoder reads.
    """
    first, *others = cohorts
    names = first.names()
    for cohort in others:
        if cohort.names() != names:
            odd = sorted(set(names) ^ set(cohort.names())) or names
            raise DataError(
                f"{first.source.name}: members of this run read other scans of the table: "
                f"{first_names(odd)}. Give a table whose rows every member can read."
            )


def check_table(readers: Sequence[Reader], place: str) -> None:
    """Refuse scans without a table if a run's encoders read different table columns.

    Scans alone do not say to which column they belong. `place` begins the message.
    """
    columns = dict.fromkeys(map(_columns_of, readers))
    if len(columns) > 1:
        listed = "; ".join(map(", ".join, columns))
        raise DataError(
            f"{place}: members of this run read other columns of a table ({listed}), and scans "
            "alone do not say which they are. Give a table with these columns."
        )


def _columns_of(reader: Reader) -> tuple[str, ...]:
    return columns_of(reader.contract.channels)


def table_of(readings: Sequence[Reading[Any]]) -> pd.DataFrame:
    """Return the metadata of the embedded scans, with the columns that the encoders of a run read.

    `readings` has an entry for each encoder, or for each group of encoders with equal
    preprocessing; its `cohort` lists the embedded scans, with metadata and paths of files as that
    encoder reads them from the user's table. The result has a row for each scan, in the order of
    the first entry: all columns of that entry, then columns that only other entries have.
    """
    first, *others = readings
    table: pd.DataFrame = first.source.table_of(first.cohort)
    for reading in others:
        columns = reading.source.table_of(reading.cohort).set_axis(table.index)
        # Paths of another member's files are as written in the table: this member knows the files.
        if reading.source.channels is not None:
            files = list(columns_of(reading.source.channels))
            table = table.assign(**columns[files])
        new = columns.columns.difference(table.columns, sort=False)
        table = pd.concat([table, columns[new]], axis=1)
    return table.drop(columns=CONTENT, errors="ignore")


def warnings_of(readings: Sequence[Reading[Any]]) -> list[str]:
    """Return the warnings that came up when samples were listed, each warning once.

    `readings` has the listed samples for each encoder of a run, or for each group of encoders with
    equal preprocessing.
    """
    warnings = list[str]()
    for reading in readings:
        warnings += reading.cohort.warnings
    return list(dict.fromkeys(warnings))


def contents_of(readings: Sequence[Reading[Any]], progress: Progress) -> list[str]:
    """Return for each sample one digest of the content of all files that a run's encoders read.

    `readings` has the listed samples for each encoder, or for each group of encoders with equal
    preprocessing.
    """
    contents = []
    for reading in readings:
        contents.append(reading.source.contents(reading.cohort, progress))
    return join_contents(contents)
