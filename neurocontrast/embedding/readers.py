"""Networks of a run, of its members too, and the samples as each reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from neurocontrast.data.cohort import Cohort
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.encoders import ContrastiveModel, Encoder, load_encoder, load_model
from neurocontrast.encoders.members import (
    SeveralEncoders,
    describe_members,
    members_of,
    read_record,
)
from neurocontrast.exceptions import ConfigError
from neurocontrast.progress import Progress
from neurocontrast.provenance import Description, join_contents

if TYPE_CHECKING:
    from neurocontrast.data.sources import AnySource

Source = TypeVar("Source", bound="AnySource")
Network = Encoder | ContrastiveModel | SeveralEncoders


def load_network(
    run: str | os.PathLike[str], settings: EmbeddingSettings
) -> tuple[Encoder | ContrastiveModel, dict[str, Any]]:
    """Load the network of a run, read out as the settings say, and its ``encoder.json``."""
    network, contract = load_encoder(run) if settings.layer == "encoder" else load_model(run)
    if settings.read_out is not None:
        if not isinstance(network, Encoder):
            raise ConfigError(
                "embedding.read_out: the head takes the encoder's own features. Leave it out, or layer."
            )
        try:
            network.set_read_out(settings.read_out)
        except ValueError as error:
            raise ConfigError(f"embedding.{error}.") from None
    return network, contract


@dataclass(frozen=True, eq=False)
class Reader:
    """Networks of a run that read samples prepared alike: one, or several members."""

    folder: Path
    network: Network
    contract: Description
    """``encoder.json`` of the network, or of the first of several."""


def load_readers(
    run: str | os.PathLike[str], settings: EmbeddingSettings
) -> tuple[list[Reader], Description]:
    """Load the networks of a run, in the order of their features, and its description.

    A run of one encoder has one reader, and its description is ``encoder.json``. So has a run of
    members whose samples are prepared alike; members that standardise by the people whom each
    learned from have a reader each.
    """
    readers = []
    networks = []
    contracts = []
    sizes = []
    preprocessing = []
    for folder in members_of(Path(run)):
        network, contract = load_network(folder, settings)
        readers.append(Reader(folder, network, contract))
        networks.append(network)
        contracts.append(contract)
        sizes.append(network.n_features)
        preprocessing.append(contract["preprocessing"])
    if len(readers) == 1:
        return readers, contracts[0]
    described = describe_members(contracts, sizes, read_record(Path(run)).left_out)
    if preprocessing.count(preprocessing[0]) == len(preprocessing):
        readers = [Reader(readers[0].folder, SeveralEncoders(networks), contracts[0])]
    return readers, described


@dataclass(frozen=True, eq=False)
class Reading(Generic[Source]):
    """Samples as a network of a run reads them: of members that are prepared alike, all at once."""

    network: Network
    source: Source
    cohort: Cohort


def contents_of(readings: Sequence[Reading[Any]], progress: Progress) -> list[str]:
    """Return the digests of the content of each sample, by all readings of the same samples."""
    contents = []
    for reading in readings:
        contents.append(reading.source.contents(reading.cohort, progress))
    return join_contents(contents)
