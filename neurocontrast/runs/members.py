"""Plan, begin and finish a run of several encoders, called members.

A member is a separate run in ``RUN/members`` with one encoder. Its seed is derived from the seed of
the configuration. With ``training.members_leave``, each member is trained without some of the sites
(``data.where``). ``members.json`` lists the seeds of all members and, when all are trained, the
digests of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from neurocontrast.config import Config, differences, load_config, write_config
from neurocontrast.data.cohort import Cohort
from neurocontrast.data.columns import Where, levels_of, no_column
from neurocontrast.data.connected import number_connected
from neurocontrast.data.problems import first_names
from neurocontrast.data.sources import Source
from neurocontrast.documents.document import Json
from neurocontrast.documents.members import MembersRecord
from neurocontrast.documents.provenance import Provenance
from neurocontrast.encoders.members import join_starts, read_record, write_members
from neurocontrast.encoders.weights import digest_of_weights, folder_of_member
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.locks import hold
from neurocontrast.parallel.launch import Engine, after_first
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment, join_people, version
from neurocontrast.runs.components import build_components
from neurocontrast.runs.folder import (
    FREE_TO_DIFFER,
    check_new,
    continue_run,
    describe_cohort,
    find_provenance,
    is_finished,
    read_provenance,
    text_of_changes,
    write_provenance,
)
from neurocontrast.runs.initial import initial_of_member
from neurocontrast.runs.run import Run
from neurocontrast.runs.skipped import leave_out_unlearnable, read_skipped
from neurocontrast.seeds import derive_seed


def seed_of_member(seed: int, number: int) -> int:
    """Derive the seed of encoder `number` of a run from `seed`, the seed of the configuration."""
    return derive_seed("member", seed, number)


def plan_members(settings: Config, cohort: Cohort) -> MembersRecord:
    """Return the content of ``members.json`` of a new run: seed and left-out sites of each encoder.

    The several encoders of a run are called members. With ``training.members_leave: sites`` each is
    trained without some of the sites in `cohort`.
    """
    n = settings.training.members
    seeds = tuple(map(partial(seed_of_member, settings.seed), range(n)))
    left_out = None
    if settings.training.members_leave == "sites":
        left_out = share_sites(cohort, n)
    return MembersRecord(neurocontrast=version(), seeds=seeds, left_out=left_out)


def share_sites(cohort: Cohort, n_members: int) -> tuple[tuple[str, ...], ...]:
    """Divide sites among a run's encoders (members); return the sites that each is trained without.

    Each site is left out of the training of one member. Sites with a common person go to the same
    member, so that no person has scans both in the training and at the left-out sites. Members
    leave out nearly equal numbers of people: groups of sites are assigned from the largest to the
    smallest, each to the member with the fewest people so far.
    """
    source = cohort.source.name
    key = "training.members_leave: sites"
    if "site" not in cohort.table:
        raise DataError(no_column(f"{key}: {source}", "site", cohort.table.columns))
    sites = pd.Series(levels_of("site", cohort.table["site"]), dtype=object)
    _refuse_unknown_sites(cohort, sites, key)
    groups = _groups_of_sites(sites, cohort.table["subject_id"])
    if len(groups) < n_members:
        names = sorted(set(sites))
        why = f"{len(names)} sites ({first_names(names)})"
        if len(groups) < len(names):
            why += f" in {len(groups)} groups, since people were scanned at several sites"
        raise ConfigError(
            f"{key}: {n_members} members need {n_members} sites or more that share nobody, and "
            f"{source} has {why}. Set training.members to {len(groups)} or fewer, or leave "
            "members_leave out."
        )
    shares = list[list[str]]()
    for _ in range(n_members):
        shares.append([])
    n_people = np.zeros(n_members, dtype=int)
    for names, n in groups:
        smallest = int(n_people.argmin())
        shares[smallest] += names
        n_people[smallest] += n
    return tuple(map(tuple, map(sorted, shares)))


def _refuse_unknown_sites(cohort: Cohort, sites: pd.Series, key: str) -> None:
    """Refuse a table of scans in which column ``site`` is empty for some scans.

    `sites` has the site of each scan of `cohort`. The sites are divided among the encoders of a
    run, each of which is trained without some of them. `key` begins the message.
    """
    absent = np.flatnonzero(sites.isna())
    if not len(absent):
        return
    names = first_names(cohort.subset(absent).names())
    raise DataError(
        f"{key}: {cohort.source.name}: {len(absent)} of {len(sites)} scans have no site "
        f"({names}). Fill in column 'site', or leave them out: data.where={{site: "
        "{not: n/a}}."
    )


def _groups_of_sites(sites: pd.Series, subjects: pd.Series) -> list[tuple[list[str], int]]:
    """Divide sites into groups of which no two have a person in common.

    `sites` and `subjects` have a value for each scan. The result has for each group the names of
    its sites and its number of people. The group with most people is first; of equal groups, the
    first by name.
    """
    codes, names = pd.factorize(sites, sort=True)
    people = pd.factorize(subjects)[0]
    labels = number_connected(codes, people)
    groups = []
    for label in pd.unique(labels):
        n_people = len(np.unique(people[labels[codes] == label]))
        groups.append((list(names[labels == label]), n_people))
    return sorted(groups, key=_by_size)


def _by_size(group: tuple[list[str], int]) -> tuple[int, list[str]]:
    names, n_people = group
    return -n_people, names


def start_of_member(settings: Config, number: int) -> Config:
    """Return the settings of one encoder of a new run, with its own ``training.init``.

    The encoder is number `number` of a new run of several (members). If ``training.init`` names an
    earlier run of several encoders, the result is a copy that names the folder of the earlier
    encoder with the same number; both runs must have equally many encoders. If the earlier run has
    one encoder, or without ``training.init``, `settings` itself is returned.
    """
    init = settings.training.init
    if init is None:
        return settings
    n_members = settings.training.members
    start = initial_of_member(init, number, n_members=n_members)
    if start in (init, init.parent):
        return settings
    training = settings.training.model_copy(update={"init": start})
    return settings.model_copy(update={"training": training})


def warn_of_learned_sites(
    settings: Config, record: MembersRecord, cohort: Cohort, progress: Progress
) -> None:
    """Warn if an encoder's initial weights were trained on people of the encoder's left-out sites.

    With ``training.members_leave``, each encoder of a run (member) is trained without the sites
    that `record` lists for it. Weights of ``training.init`` may have been trained on people of
    these sites.
    """
    if record.left_out is None or settings.training.init is None:
        return
    sites = np.array(levels_of("site", cohort.table["site"]), dtype=object)
    learned = []
    for number, left_out in enumerate(record.left_out):
        start = start_of_member(settings, number).training.init
        assert start is not None
        folder = initial_of_member(start, 0, n_members=1)
        provenance = find_provenance(folder)
        if provenance is None:
            continue
        people = provenance.known_people().subjects or frozenset()
        n_learned = len(people & set(cohort.subset(np.isin(sites, left_out)).subject_digests()))
        if n_learned:
            learned.append(f"member {number} from {n_learned} people of {first_names(left_out)}")
    if learned:
        progress.warning(
            "training.members_leave: sites: the weights of training.init have been learned from "
            f"sites that members leave out: {'; '.join(learned)}. A member that starts from them "
            "has seen these people."
        )


def settings_of_member(settings: Config, record: MembersRecord, number: int) -> Config:
    """Return the configuration to train alone one encoder of a run of several encoders (members).

    `settings` is the configuration of the run. The seed of encoder `number`, and the sites without
    which it is trained, are taken from `record`, the content of ``members.json``.
    """
    training = start_of_member(settings, number).training
    training = training.model_copy(update={"members": 1, "members_leave": None})
    data = settings.data
    if record.left_out is not None:
        where = _without_sites(data.where, record.left_out[number])
        data = data.model_copy(update={"where": where})
    changes = {"seed": record.seeds[number], "training": training, "data": data}
    return settings.model_copy(update=changes)


def _without_sites(where: Where, left_out: Sequence[str]) -> Where:
    """Return ``data.where``, a selection of rows, with the sites in `left_out` left out too."""
    chosen = where.get("site", {"not": ()})
    if isinstance(chosen, Mapping):
        return {**where, "site": {"not": (*chosen["not"], *left_out)}}
    kept = []
    for name, level in zip(chosen, levels_of("site", chosen), strict=True):
        if level not in left_out:
            kept.append(name)
    return {**where, "site": tuple(kept)}


@dataclass(frozen=True)
class OpenedMembers:
    """Run of several encoders (members) that is ready to be trained, and its ``members.json``."""

    run: Run
    """Run, with the table of samples if the run is new: encoders then need not read the table."""
    record: MembersRecord

    @classmethod
    def as_told(cls, run: Run, content: Json) -> Self:
        """Return the opened run in a process other than the first, which sends `content`.

        `run` is the run as this other process has opened it. `content` is that of ``members.json``,
        which the first process has read or written; no file is read here.
        """
        return cls(run, MembersRecord.model_validate(content))

    def for_others(self) -> Json:
        """Return the JSON-ready content of ``members.json``, which other processes are told."""
        return self.record.model_dump(mode="json")


def train_members(run: Run, engine: Engine, progress: Progress) -> None:
    """Train the several encoders (members) of a run one after another, each as a separate run."""
    with ExitStack() as stack:
        opened = after_first(
            engine.processes,
            partial(_open_members, run, stack, progress),
            partial(OpenedMembers.as_told, run),
            tell=OpenedMembers.for_others,
        )
        run = opened.run
        record = opened.record
        n_members = len(record.seeds)
        for number in range(n_members):
            progress.message(f"{run.folder}: member {number + 1} of {n_members}.")
            run_of_member(run, record, number).train(engine, progress)
        if engine.processes.is_first:
            _finish_members(run, record)
            progress.message(f"{run.folder}: all {n_members} members are trained.")


def run_of_member(run: Run, record: MembersRecord, number: int) -> Run:
    """Return a `Run` that trains one encoder of a run of several; nothing is trained here.

    The encoder (member) has number `number` in `record`, the content of ``members.json``. It is
    trained in its own folder, in ``members`` of the folder of `run`; unfinished training there is
    continued.
    """
    settings = settings_of_member(run.settings, record, number)
    folder = folder_of_member(run.folder, number)
    return replace(run, settings=settings, folder=folder, resumes=True)


def _open_members(run: Run, stack: ExitStack, progress: Progress) -> OpenedMembers:
    """Check all encoders (members) of a run before one is trained; return the run and its record.

    The record is the content of ``members.json``. For a new run, data, network and loss of each
    encoder are built, as a check, and ``members.json`` and ``config.yaml`` are written. For a run
    that is continued, ``members.json`` is read, and a configuration with which the run cannot be
    continued is refused; the digests of weights are removed from the file if an encoder is not
    trained yet. The lock on the run's folder is held until `stack` closes.
    """
    settings = run.settings
    folder = run.folder
    is_new = check_new(folder, resume=run.resumes)
    if is_new:
        run = replace(run, listed=run.list_samples())
        # Members leave the same people out, and name them.
        cohort, _ = leave_out_unlearnable(settings, run.source, run.read_cohort(), SILENT)
        record = plan_members(settings, cohort)
        check_members(settings, record, cohort, run.source)
        warn_of_learned_sites(settings, record, cohort, progress)
    else:
        record = read_record(folder)
        _check_can_continue(folder, settings)
    stack.enter_context(hold(folder, progress))
    if check_new(folder, resume=not is_new) != is_new:
        raise ConfigError(f"out: '{folder}' has changed while this command began. Start it again.")
    if is_new:
        write_members(folder, record)
        write_config(folder / "config.yaml", settings)
        return OpenedMembers(run, record)
    continue_run(folder, settings, progress)
    for number in range(len(record.seeds)):
        if not is_finished(folder_of_member(folder, number), settings):
            record = record.model_copy(update={"weights": None})
            write_members(folder, record)
            break
    return OpenedMembers(run, record)


def check_members(
    settings: Config, record: MembersRecord, cohort: Cohort, source: Source | None = None
) -> None:
    """Refuse a run of several encoders if one of them cannot be built from its training scans.

    The encoders are called members. The training scans of a member are the scans of `cohort`
    without the sites that `record` leaves out for the member. Data, network and loss are built for
    each member, as before training, and the first error is raised.
    """
    sites = np.array(levels_of("site", cohort.table.get("site", ())), dtype=object)
    for number in range(len(record.seeds)):
        seen = cohort
        if record.left_out is not None:
            seen = cohort.subset(~np.isin(sites, record.left_out[number]))
        build_components(settings_of_member(settings, record, number), seen, source)


def _check_can_continue(folder: Path, settings: Config) -> None:
    """Refuse to continue a run of several encoders with a configuration unlike its ``config.yaml``.

    Settings in `FREE_TO_DIFFER`, ``training.epochs`` and ``training.init`` may differ.
    """
    before = load_config(folder / "config.yaml")
    ignored = (*FREE_TO_DIFFER, "training.epochs", "training.init")
    changes = differences(before, settings, ignore=ignored)
    if changes:
        raise CheckpointError(text_of_changes(folder, changes))


def _finish_members(run: Run, record: MembersRecord) -> None:
    """Write ``provenance.json`` and digests of weights of a run whose several encoders are trained.

    The encoders are called members. The digest of each one's weights is added to ``members.json``,
    whose content so far is `record`. Nothing is written if `record` has the digests already.
    """
    if record.weights is not None:
        return
    folder = run.folder
    folders = list(map(partial(folder_of_member, folder), range(len(record.seeds))))
    provenances = list(map(read_provenance, folders))
    people = join_people(list(map(Provenance.known_people, provenances)))
    skipped = set[str]()
    for member in folders:
        skipped |= set(read_skipped(member))
    cohort = run.read_cohort(check_images=False, skipped=skipped)
    start = {}
    if provenances[0].has("init"):
        start["init"] = join_starts(list(map(attrgetter("init"), provenances)))
    write_provenance(
        folder,
        {
            "format": 1,
            "environment": describe_environment(),
            "seed": run.settings.seed,
            "cohort": describe_cohort(cohort),
            "simulated": cohort.simulated,
            "simulation": provenances[0].simulation,
            "n_members": len(folders),
            **start,
            "pretraining_subjects": sorted(people.subjects or ()),
            "pretraining_contents": sorted(people.contents),
            "pretraining_contents_complete": people.is_complete,
        },
    )
    weights = tuple(map(digest_of_weights, folders))
    write_members(folder, record.model_copy(update={"weights": weights}))
