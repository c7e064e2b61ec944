"""Load the networks of a run for commands that train or explain each network by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from monai.transforms import Compose

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.settings import AnyDataSettings
from neurocontrast.data.sources import Brains, brains_of_run
from neurocontrast.documents.encoder import EncoderContract, EncoderDescription
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.embedding.readers import check_same_scans
from neurocontrast.encoders import Encoder, load_encoder
from neurocontrast.encoders.members import describe_run, members_of, preparation_of
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.probes.members import check_same_members
from neurocontrast.evaluation.probes.members import members_of as probed_members_of
from neurocontrast.progress import Progress
from neurocontrast.runs.skipped import NONE, leave_out, without


@dataclass(frozen=True, eq=False)
class RunNetwork:
    """Network of a run, or one of several networks (members) of a run, with its description."""

    folder: Path
    """Folder of the run, or of the network within a run of several."""
    encoder: Encoder
    contract: EncoderContract
    """Content of the network's ``encoder.json``."""


def load_networks(run: Path) -> list[RunNetwork]:
    """Load each network of a run, of which there is one or several, with its ``encoder.json``."""
    networks = []
    for folder in members_of(run):
        encoder, contract = load_encoder(folder)
        networks.append(RunNetwork(folder, encoder, contract))
    return networks


def describe_networks(run: Path, networks: Sequence[RunNetwork]) -> EncoderDescription:
    """Return the content of a run's ``encoder.json``, or a joint description of several networks.

    `networks` are the loaded networks of the run in folder `run`. A joint description has the keys
    that are equal for all networks, and under ``members`` a list with the keys of each network.
    """
    contracts = []
    sizes = []
    for network in networks:
        contracts.append(network.contract)
        sizes.append(network.encoder.n_features)
    return describe_run(run, contracts, sizes)


def check_probe_members(
    probe: FittedProbe, described: EncoderDescription, *, parameter: str
) -> None:
    """Refuse a probe that was fitted on features of other encoders than the encoders of a run.

    `described` is the description of the run, which has one encoder or several (members).
    `parameter` begins the message.
    """
    info = EmbeddingsInfo.model_validate({"run": described})
    members = probed_members_of(info, described.n_features or 0)
    check_same_members(probe.members, members, parameter=parameter)


def sources_of(
    networks: Sequence[RunNetwork],
    data: AnyDataSettings,
    *,
    what: str,
    transforms: Compose | None = None,
) -> list[Brains]:
    """Return for each network the object that reads and preprocesses its scans: its source.

    Networks with equal preprocessing share one source. `data` is section ``data`` of the
    configuration. `what` is the beginning of the message that refuses networks of natural images.
    """
    sources = list[Brains]()
    prepared = list[str]()
    for network in networks:
        how = preparation_of(network.contract)
        if how in prepared:
            sources.append(sources[prepared.index(how)])
        else:
            source = brains_of_run(
                network.folder, network.contract, data, what=what, transforms=transforms
            )
            sources.append(source)
        prepared.append(how)
    return sources


def first_alike(sources: Sequence[Brains]) -> list[int]:
    """Return for each network the position of the first network with the same entry in `sources`.

    An entry of `sources` is the object that reads and preprocesses the scans of a network; networks
    with equal preprocessing share one object. Scans need to be prepared once for all networks with
    the same position.
    """
    identities = list(map(id, sources))
    return list(map(identities.index, identities))


def list_scans(
    sources: Sequence[Brains],
    participants: AnyTable,
    images_root: str | os.PathLike[str] | None,
    progress: Progress,
) -> tuple[list[Cohort], pd.DataFrame]:
    """List the scans of a table for each network; return cohorts, and a table of scans left out.

    `sources` has for each network the object that reads and preprocesses its scans. A scan that one
    network cannot read is left out for all networks, if ``data.skip_unreadable`` is set.
    """
    listed = dict[int, Cohort]()
    tables = []
    warned = set[str]()
    first = first_alike(sources)
    for number in dict.fromkeys(first):
        source = sources[number]
        cohort = source.read_cohort(participants, images_root=images_root)
        for warning in cohort.warnings:
            if warning not in warned:
                progress.warning(warning)
        warned |= set(cohort.warnings)
        skipped = NONE
        if source.skips:
            cohort, skipped = leave_out(source, cohort, progress)
        listed[number] = cohort
        tables.append(skipped)
    skipped = pd.concat(tables, ignore_index=True).drop_duplicates("scan")
    cohorts = []
    for number in first:
        cohorts.append(without(listed[number], set(skipped["scan"])))
    check_same_scans(cohorts)
    return cohorts, skipped
