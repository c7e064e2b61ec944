"""Join several finished runs to one run, whose encoders' predictions are averaged.

The weights are copied, so that the joined run needs none of the runs that it was made of. The
encoders of a run are called members; a run of several gives all of them to the joined run.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from operator import attrgetter
from pathlib import Path

from neurocontrast.config import load_config
from neurocontrast.data.kinds import KINDS
from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import EncoderContract, ObjectiveRecord
from neurocontrast.documents.members import JoinedMember, MembersRecord
from neurocontrast.documents.provenance import Provenance, RunCohort
from neurocontrast.encoders import load_encoder, load_model
from neurocontrast.encoders.members import (
    has_members,
    members_of,
    number_kinds,
    read_record,
    write_members,
)
from neurocontrast.encoders.weights import MEMBERS, copy_encoder, folder_of_member
from neurocontrast.exceptions import CheckpointError, ConfigError, NeurocontrastError
from neurocontrast.files import (
    atomic_folder,
    check_output_folder,
    digest_of,
)
from neurocontrast.progress import Progress
from neurocontrast.provenance import (
    KnownPeople,
    describe_environment,
    join_people,
    version,
)
from neurocontrast.runs.answer import ANSWER
from neurocontrast.runs.folder import (
    UNKNOWN,
    find_provenance,
    is_finished,
    read_json,
    write_provenance,
)

_KEPT = ("config.yaml", "provenance.json", "metrics.csv", "skipped.tsv")
"""Files of an encoder's folder, besides the weights, that are copied into a joined run."""
_BRAINS = {"volumes": "scans", "measures": "regional measures"}
"""Kind of samples in ``encoder.json`` → words for messages."""


@dataclass(frozen=True)
class RunToJoin:
    """Finished run of one encoder or several (members), to be joined with other runs."""

    name: str
    folder: Path
    members: tuple[Path, ...]
    contracts: tuple[EncoderContract, ...]
    """Content of the ``encoder.json`` of each encoder, in the order of `members`."""
    record: MembersRecord | None = None
    """Content of ``members.json`` of a run of several encoders; None for a run of one encoder."""
    provenance: Provenance | None = None
    """Content of ``provenance.json``; None for weights without a record of the people of
    pretraining.
    """

    @property
    def samples(self) -> str:
        """Kind of samples that the encoders read: volumes or measures."""
        return self.contracts[0].preprocessing.kind

    @property
    def says_people(self) -> bool:
        """Whether the run records everybody on whom its encoders were trained."""
        return self.provenance is not None and self.provenance.says_people

    def origin(self, number: int) -> str:
        """Return the name of the run that trained encoder `number` of this run, counted from 0.

        The name is ``OUTER/INNER`` if this run was itself joined from several runs: OUTER is this
        run, and INNER the run among those from which it was joined.
        """
        if self.record is None or self.record.joined is None:
            return self.name
        return f"{self.name}/{self.record.joined[number].run}"


def join_runs(
    folders: Mapping[str, Path], target: Path, *, overwrite: bool, progress: Progress
) -> MembersRecord:
    """Copy the encoders of several runs into a new run, and return its list of encoders.

    `folders` maps a name for each run to the run's folder, and `target` is the new run's folder.
    The list is the content of the file ``members.json`` that is written there, with seed, weights
    and origin of each encoder. A joined run in `target` is replaced if `overwrite` is set.
    """
    _check_target(target, list(folders.values()), overwrite=overwrite)
    runs = read_runs(folders)
    _check_samples(runs)
    _check_different(runs)
    _check_transforms(runs)
    unknown = list(map(attrgetter("name"), filterfalse(attrgetter("says_people"), runs)))
    if unknown:
        progress.warning(
            f"{', '.join(unknown)}: does not say who was in pretraining, so no evaluation can look "
            "for its subjects."
        )
    record = _record_of(runs)
    with atomic_folder(target) as folder:
        number = 0
        for run in runs:
            for member, contract in zip(run.members, run.contracts, strict=True):
                _copy(member, contract, folder_of_member(folder, number))
                number += 1
        write_provenance(folder, _provenance_of(runs, unknown))
        write_members(folder, record)
    return record


def _check_target(target: Path, folders: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse the folder `target` if a joined run cannot be written there.

    A joined run has copies of the encoders of several runs. Refused are a folder that holds other
    files than a joined run, and a folder that is, holds or lies in one of the runs to join
    (`folders`).
    """
    check_output_folder(target, overwrite=overwrite, marker=MEMBERS, what="a joined run")
    if has_members(target) and read_record(target).joined is None:
        raise ConfigError(
            f"out: '{target}' is a run that was trained, and is not replaced. Give another folder."
        )
    wanted = target.resolve()
    for folder in folders:
        run = folder.resolve()
        if wanted.is_relative_to(run) or run.is_relative_to(wanted):
            raise ConfigError(
                f"out: '{target}' is one of the runs to join, or lies within one. Give another "
                "folder."
            )


def read_runs(folders: Mapping[str, Path]) -> list[RunToJoin]:
    """Read the runs to be joined, in the order of `folders`, which maps run names to folders.

    If any run is unfinished or damaged, or any folder is no run, one CheckpointError names them
    all.
    """
    runs = []
    problems = []
    for name, folder in folders.items():
        try:
            runs.append(_read_run(name, folder))
        except NeurocontrastError as error:
            problems.append(str(error))
    if problems:
        raise CheckpointError("\n".join(problems))
    return runs


def _read_run(name: str, folder: Path) -> RunToJoin:
    """Read a run to be joined: descriptions of its encoders, and records of its training people."""
    record = None
    if has_members(folder):
        record = read_record(folder)
    provenance = find_provenance(folder)
    members = members_of(folder)
    contracts = tuple(map(_load, members))
    return RunToJoin(name, folder, members, contracts, record, provenance)


def _load(member: Path) -> EncoderContract:
    """Return the content of ``encoder.json`` of an encoder to be joined, and check its weights.

    `member` is the folder of the encoder. Unfinished training and damaged weights are refused.
    """
    _, contract = load_encoder(member)
    if contract.head is not None:
        load_model(member)
    config = member / "config.yaml"
    was_trained = contract.epochs is not None and config.is_file()
    if was_trained and not is_finished(member, load_config(config)):
        raise CheckpointError(
            f"{member}: the run was to go on after {contract.epochs} epochs and is not "
            "finished. Continue it with --resume."
        )
    return contract


def _check_samples(runs: Sequence[RunToJoin]) -> None:
    """Refuse runs of natural images, and runs of scans together with runs of regional measures."""
    kinds: dict[str, list[str]] = {}
    for run in runs:
        kinds.setdefault(run.samples, []).append(run.name)
    listed = []
    for kind, names in kinds.items():
        listed.append(f"{', '.join(names)} of {_BRAINS.get(kind, kind)}")
        sample_kind = KINDS.find(kind)
        if sample_kind is not None:
            raise ConfigError(
                f"runs: {', '.join(names)} was trained on {sample_kind.title}, and runs of brains "
                f"are joined. Join tables of embeddings of {sample_kind.items}."
            )
    if len(kinds) > 1:
        raise ConfigError(
            f"runs: unlike samples: {'; '.join(listed)}. Runs of one kind of samples are joined. "
            "Embed each, and join the tables."
        )


def _check_different(runs: Sequence[RunToJoin]) -> None:
    """Refuse runs with the same weights, which would count twice in the mean of predictions.

    All encoders of all runs are compared by the digests of their weights.
    """
    names: dict[str, list[str]] = {}
    for run in runs:
        for member, contract in zip(run.members, run.contracts, strict=True):
            name = run.name
            if len(run.members) > 1:
                name = f"{run.name}/members/{member.name}"
            names.setdefault(contract.sha256, []).append(name)
    same = [" = ".join(several) for several in names.values() if len(several) > 1]
    if same:
        raise ConfigError(f"runs: the same weights, which would count twice: {'; '.join(same)}.")


def _check_transforms(runs: Sequence[RunToJoin]) -> None:
    """Refuse runs of unlike preprocessing if any was pretrained with transforms passed from Python.

    Transforms from Python replace the preprocessing of the configuration. For a joined run, `embed`
    takes one list of transforms for all encoders.
    """
    by_python = []
    for run in runs:
        if run.contracts[0].preprocessing.has("image_shape"):
            by_python.append(run.name)
    if not by_python:
        return
    first = runs[0].contracts[0].preprocessing
    for run in runs:
        for contract in run.contracts:
            if contract.preprocessing != first:
                raise ConfigError(
                    f"runs: {', '.join(by_python)} has transforms from Python, and '{run.name}' "
                    f"and '{runs[0].name}' differ in theirs: nobody could give both. Join tables "
                    "of embeddings."
                )


def _record_of(runs: Sequence[RunToJoin]) -> MembersRecord:
    """Return the content of ``members.json`` of a joined run, with an entry for each encoder.

    Entries are the seed, left-out sites, digest of the weights, and the run that the encoder comes
    from.
    """
    contracts: list[EncoderContract] = []
    names = []
    left_out: list[tuple[str, ...]] = []
    for run in runs:
        for number, contract in enumerate(run.contracts):
            contracts.append(contract)
            names.append(run.origin(number))
            sites: tuple[str, ...] = ()
            if run.record is not None and run.record.left_out is not None:
                sites = run.record.left_out[number]
            left_out.append(sites)
    joined = []
    for name, kind, contract in zip(names, number_kinds(contracts), contracts, strict=True):
        objective = contract.objective or ObjectiveRecord()
        joined.append(
            JoinedMember(
                run=name,
                kind=kind,
                samples=contract.preprocessing.kind,
                encoder=contract.encoder.name,
                objective=objective.name,
            )
        )
    return MembersRecord(
        format=2,
        neurocontrast=version(),
        seeds=tuple(map(attrgetter("seed"), contracts)),
        left_out=tuple(left_out) if any(left_out) else None,
        weights=tuple(map(attrgetter("sha256"), contracts)),
        joined=tuple(joined),
    )


def _copy(member: Path, contract: EncoderContract, target: Path) -> None:
    """Copy an encoder's weights, settings and records, but no checkpoints, into a folder `target`.

    `member` is the encoder's folder before joining, and `target` the encoder's folder within the
    joined run. `contract` is the content of the encoder's ``encoder.json``, which is written to
    `target`.
    """
    copy_encoder(member, contract, target)
    for name in _KEPT:
        if (member / name).is_file():
            shutil.copyfile(member / name, target / name)
    # An answer about a scan of its own folder, as shipped weights have, stays with its probes.
    if (member / ANSWER).is_file() and read_json(member / ANSWER).get("sample") is None:
        shutil.copyfile(member / ANSWER, target / ANSWER)


def _provenance_of(runs: Sequence[RunToJoin], unknown: Sequence[str]) -> Json:
    """Return the content of ``provenance.json`` of joined `runs`: cohorts and training people.

    `unknown` has the names of the runs that do not record everybody on whom they were trained. The
    result lists these names under the key `UNKNOWN`.
    """
    provenances = list(filter(None, map(attrgetter("provenance"), runs)))
    of_runs = []
    for run in runs:
        people_of_run = KnownPeople()
        if run.provenance is not None:
            people_of_run = run.provenance.known_people()
        of_runs.append(people_of_run)
    people = join_people(of_runs)
    cohorts = {}
    joined = []
    for run in runs:
        joined.append({"run": run.name, "n_members": len(run.members)})
        if run.provenance is not None:
            cohorts[run.name] = run.provenance.cohort
    cohort = _one_cohort(provenances)
    content: Json = {
        "format": 1,
        "environment": describe_environment(),
        "joined": joined,
        "n_members": sum(map(len, map(attrgetter("members"), runs))),
        "cohort": cohort,
        "simulated": any(map(attrgetter("simulated"), provenances)),
        "pretraining_subjects": sorted(people.subjects or ()),
        "pretraining_contents": sorted(people.contents),
        "pretraining_contents_complete": people.is_complete,
    }
    if cohorts and cohort.n_scans is None:
        content["cohorts"] = cohorts
    if unknown:
        content[UNKNOWN] = list(unknown)
    return content


def _one_cohort(provenances: Sequence[Provenance]) -> RunCohort:
    """Return the training cohort that all runs share, or, if cohorts differ, a new description.

    The new description joins the names of the cohorts' tables and their digests, and has None as
    the numbers of scans and subjects.
    """
    sizes = []
    sources = []
    digests = []
    for provenance in provenances:
        cohort = provenance.cohort
        people = sorted(provenance.pretraining_subjects)
        sizes.append([cohort.n_scans, cohort.n_subjects, cohort.people, people])
        sources.append(cohort.source)
        digests.append(cohort.digest)
    if sizes and sizes.count(sizes[0]) == len(sizes) and len(set(sources)) == 1:
        return provenances[0].cohort
    content = {
        "source": "; ".join(dict.fromkeys(sources)),
        "digest": digest_of("joined", *digests),
        "n_scans": None,
        "n_subjects": None,
    }
    return RunCohort.model_validate(content)
