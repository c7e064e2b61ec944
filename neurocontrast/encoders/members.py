"""Read and write ``members.json``, which makes several runs one, and encode by all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter, methodcaller
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from torch import nn

from neurocontrast.encoders.encoder import ContrastiveModel, Encoder
from neurocontrast.encoders.weights import MEMBERS, folder_of_member, read_contract
from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import digest_of, write_json
from neurocontrast.provenance import Description, Record, shared_keys
from neurocontrast.reading import read_json

_REMEDY = "Copy the run again."
_OF_ONE = ("beside", "blocks", "members", "seed", "provenance", "weights", "head", "n_features")
"""Keys of ``encoder.json`` that say nothing of several encoders together."""
_OF_KIND = ("encoder", "objective", "augment", "epochs", "channels", "cache_dtype")
"""Keys of ``encoder.json`` that members of one kind share, beside their preprocessing."""
_LEARNED = ("is_volume", "medians", "means", "sds", "slopes", "head", "left_out")
"""Keys of ``preprocessing`` that the people learned from decide."""
_T1 = ("t1",)
"""Channels of runs that do not say theirs."""
_JOINED = 2
"""Format of ``members.json`` of runs that were joined, which earlier versions refuse."""


class JoinedMember(BaseModel):
    """Origin and recipe of a member that was trained as a run of its own."""

    model_config = ConfigDict(frozen=True)

    run: StrictStr
    """Name of the run that was joined; several members of one run share it."""
    kind: StrictInt
    """Number of its kind: members of one kind differ by seed and people alone."""
    samples: StrictStr
    """``volumes`` or ``measures``, which the encoder reads."""
    encoder: StrictStr
    """Name of the network or linear model."""
    objective: StrictStr | None = None
    """Title of the loss; None where the run does not say."""


class MembersRecord(BaseModel):
    """Content of ``members.json``."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1, 2] = 1
    neurocontrast: StrictStr
    seeds: Annotated[tuple[StrictInt | None, ...], Field(min_length=2)]
    """Seed of each member; None of joined weights that do not say theirs."""
    left_out: tuple[tuple[StrictStr, ...], ...] | None = None
    """Sites that each member is trained without; None where all learn from everybody."""
    weights: tuple[StrictStr, ...] | None = None
    """SHA-256 of the weights of each member; None until all are trained."""
    joined: tuple[JoinedMember, ...] | None = None
    """Origin of each member of joined runs; None where one configuration trained all members."""


def write_members(run: Path, record: MembersRecord) -> None:
    """Write ``members.json``."""
    content = record.model_dump(mode="json")
    if record.joined is None:
        del content["joined"]
    write_json(run / MEMBERS, content)


def has_members(run: Path) -> bool:
    """Tell whether a folder is a run of several members."""
    return (run / MEMBERS).is_file()


def read_record(run: Path) -> MembersRecord:
    """Read ``members.json``, and refuse one that is damaged."""
    path = run / MEMBERS
    content = read_json(path, error=CheckpointError, remedy=_REMEDY)
    try:
        record = MembersRecord.model_validate(content)
    except ValidationError as error:
        key = error.errors()[0]["loc"][0]
        raise CheckpointError(f"{path}: '{key}' missing or damaged. {_REMEDY}") from None
    if (record.format == _JOINED) != (record.joined is not None):
        raise CheckpointError(f"{path}: 'joined' missing or damaged. {_REMEDY}")
    n = len(record.seeds)
    for key in ("left_out", "weights", "joined"):
        values = getattr(record, key)
        if values is not None and len(values) != n:
            raise CheckpointError(
                f"{path}: '{key}' must have one entry for each of {n} members, has {len(values)}. "
                f"{_REMEDY}"
            )
    unlike = ["weights"]
    if record.joined is None:
        unlike.insert(0, "seeds")
    for key in unlike:
        values = getattr(record, key)
        if values is not None and len(set(values)) < n:
            raise CheckpointError(
                f"{path}: '{key}' has {_first_twice(values)!r} twice, and a member that is "
                f"there twice would count twice. {_REMEDY}"
            )
    return record


def _first_twice(values: Sequence[int | str | None]) -> str:
    for value in values:
        if values.count(value) > 1:
            return str(value)
    return ""


def members_of(run: Path) -> tuple[Path, ...]:
    """Return the runs that are embedded as one: all members, or the run itself.

    Members that are not trained yet, or are not those that ``members.json`` names, are refused.
    """
    if not has_members(run):
        return (run,)
    record = read_record(run)
    if record.weights is None:
        raise CheckpointError(
            f"{run}: not all of its {len(record.seeds)} members are trained. Continue the run with "
            f"--resume, or give one that is finished, such as {folder_of_member(run, 0)}."
        )
    folders = tuple(map(partial(folder_of_member, run), range(len(record.seeds))))
    for folder, seed, sha256 in zip(folders, record.seeds, record.weights, strict=True):
        contract = read_contract(folder)
        if contract["weights"]["sha256"] != sha256:
            remedy = "continue the run with --resume"
            if record.joined is not None:
                remedy = "join the runs again"
            raise CheckpointError(
                f"{folder}: its weights are not those of this member, whose SHA-256 is "
                f"{sha256[:12]}… in {MEMBERS} of the run. Copy the whole run again, or, where this "
                f"member was trained further, {remedy}."
            )
        if contract.get("seed") != seed:
            raise CheckpointError(
                f"{folder}: its seed is {contract.get('seed')}, and {MEMBERS} of the run says "
                f"{seed}. {_REMEDY}"
            )
    return folders


def number_kinds(contracts: Sequence[Record]) -> list[int]:
    """Return the number of the kind of each encoder, from 0 in the order of their first encoders.

    Encoders of one kind differ by seed, people and what is learned from these alone.
    """
    kinds = list[Description]()
    numbers = []
    for contract in contracts:
        kind = _kind_of(contract)
        if kind not in kinds:
            kinds.append(kind)
        numbers.append(kinds.index(kind))
    return numbers


def _kind_of(contract: Record) -> Description:
    """Return the keys of ``encoder.json`` by which encoders are of one kind."""
    kind: Description = {}
    for key in _OF_KIND:
        if contract.get(key) is not None:
            kind[key] = contract[key]
    kind["preprocessing"] = _settings_of_preprocessing(contract)
    if "beside" in contract:
        kind["beside"] = _beside_of(contract)
    return kind


def _settings_of_preprocessing(contract: Record) -> Description:
    """Return the settings of preprocessing, without numbers learned from people.

    Columns are those of the tables: which of them differ between people is learned.
    """
    settings = dict(contract["preprocessing"])
    if "columns" in settings:
        settings["columns"] = sorted({*settings["columns"], *settings.get("left_out", ())})
    for key in _LEARNED:
        settings.pop(key, None)
    return settings


def _beside_of(contract: Record) -> Description:
    beside = contract["beside"]
    return {"name": beside["name"], "n_components": beside["n_components"]}


def digest_of_members(record: MembersRecord) -> str | None:
    """Return the digest by which a run of members is named; None until all are trained."""
    if record.weights is None:
        return None
    return join_digests(record.weights)


def join_digests(digests: Iterable[str]) -> str:
    """Return the digest of the weights of all members, of that of each."""
    return digest_of("members", *digests)


def join_starts(starts: Sequence[Record]) -> Description:
    """Describe the weights that members started from: those of one run, or of a run's members."""
    start = shared_keys(starts)
    if len(start) == len(starts[0]):
        return dict(starts[0])
    start["name"] = str(starts[0]["name"]).partition("/members/")[0]
    start["sha256"] = join_digests(map(itemgetter("sha256"), starts))
    start["subjects_known"] = all(map(itemgetter("subjects_known"), starts))
    return start


def preparation_of(contract: Record) -> str:
    """Return all of ``encoder.json`` that decides how samples are prepared, as text."""
    decisive = [
        contract["preprocessing"],
        list(contract.get("channels") or _T1),
        contract.get("cache_dtype", "float32"),
    ]
    return json.dumps(decisive, sort_keys=True)


class SeveralEncoders(nn.Module):
    """Encode the same samples by several networks, whose features are put side by side.

    Parameters
    ----------
    networks : sequence of Encoder or ContrastiveModel
        Networks that read samples of one kind, prepared alike.
    """

    def __init__(self, networks: Sequence[Encoder | ContrastiveModel]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.n_features = sum(map(attrgetter("n_features"), networks))
        self.inference_layout = torch.contiguous_format
        for network in networks:
            if network.inference_layout != torch.contiguous_format:
                self.inference_layout = network.inference_layout

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """Map samples to features (n, n_features) in the order of the networks."""
        features = []
        for network in self.networks:
            features.append(network(samples))
        return torch.cat(features, dim=1)


def describe_members(
    contracts: Sequence[Record],
    sizes: Sequence[int],
    left_out: Sequence[Sequence[str]] | None = None,
    *,
    joined: Sequence[JoinedMember] | None = None,
) -> Description:
    """Describe a run of members: the keys that all share, and each member.

    `sizes` are the numbers of features of each, `left_out` the sites that each was trained without.
    Of `joined` runs each member has its run and the number of its kind, and ``kinds`` describe
    these.
    """
    kinds = number_kinds(contracts)
    members = []
    start = 0
    for number, (contract, size) in enumerate(zip(contracts, sizes, strict=True)):
        member: Description = {
            "name": f"member{number}",
            "n_features": size,
            "columns": [f"feature_{start:04d}", f"feature_{start + size - 1:04d}"],
            "weights": contract["weights"],
            "seed": contract.get("seed"),
        }
        if "beside" in contract:
            member["beside"] = _beside_of(contract)
        if left_out is not None:
            member["left_out"] = list(left_out[number])
        if joined is not None:
            member |= {"run": joined[number].run, "kind": kinds[number]}
        members.append(member)
        start += size
    shared = shared_keys(contracts)
    preprocessing = list(map(itemgetter("preprocessing"), contracts))
    shared["preprocessing"] = shared_keys(preprocessing)
    if "columns" in preprocessing[0]:
        columns = chain.from_iterable(map(itemgetter("columns"), preprocessing))
        shared["preprocessing"]["columns"] = list(dict.fromkeys(columns))
    for key in _OF_ONE:
        shared.pop(key, None)
    shared["simulated"] = any(map(methodcaller("get", "simulated"), contracts))
    if joined is not None:
        shared["kinds"] = _describe_kinds(contracts, members)
    starts = list(filter(None, map(methodcaller("get", "init"), contracts)))
    if len(starts) == len(contracts):
        shared["init"] = join_starts(starts)
    digests = map(itemgetter("sha256"), map(itemgetter("weights"), contracts))
    weights = {"sha256": join_digests(digests)}
    return shared | {"n_features": start, "weights": weights, "members": members}


def describe_run(run: Path, contracts: Sequence[Record], sizes: Sequence[int]) -> Description:
    """Describe the encoders of a run: of one its ``encoder.json``, of members all of them.

    `sizes` are the numbers of features of each.
    """
    if not has_members(run):
        return dict(contracts[0])
    record = read_record(run)
    return describe_members(contracts, sizes, record.left_out, joined=record.joined)


def _describe_kinds(
    contracts: Sequence[Record], members: Sequence[Description]
) -> list[Description]:
    """Describe each kind of member: how many members of which runs, and their recipe."""
    kinds = list[Description]()
    for contract, member in zip(contracts, members, strict=True):
        if member["kind"] == len(kinds):
            kind = _kind_of(contract)
            kinds.append(kind | {"n_members": 0, "n_features": member["n_features"], "runs": []})
            kinds[-1]["preprocessing"].pop("columns", None)
        kind = kinds[member["kind"]]
        kind["n_members"] += 1
        if "columns" in contract["preprocessing"]:
            columns = [
                *kind["preprocessing"].get("columns", ()),
                *contract["preprocessing"]["columns"],
            ]
            kind["preprocessing"]["columns"] = list(dict.fromkeys(columns))
        if member["run"] not in kind["runs"]:
            kind["runs"].append(member["run"])
    return kinds
