"""Read and write ``members.json``, which makes several runs one, and encode by all of them."""

from __future__ import annotations

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


class MembersRecord(BaseModel):
    """Content of ``members.json``."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    neurocontrast: StrictStr
    seeds: Annotated[tuple[StrictInt, ...], Field(min_length=2)]
    """Seed of each member."""
    left_out: tuple[tuple[StrictStr, ...], ...] | None = None
    """Sites that each member is trained without; None where all learn from everybody."""
    weights: tuple[StrictStr, ...] | None = None
    """SHA-256 of the weights of each member; None until all are trained."""


def write_members(run: Path, record: MembersRecord) -> None:
    """Write ``members.json``."""
    write_json(run / MEMBERS, record.model_dump(mode="json"))


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
    n = len(record.seeds)
    for key in ("left_out", "weights"):
        values = getattr(record, key)
        if values is not None and len(values) != n:
            raise CheckpointError(
                f"{path}: '{key}' must have one entry for each of {n} members, has {len(values)}. "
                f"{_REMEDY}"
            )
    for key in ("seeds", "weights"):
        values = getattr(record, key)
        if values is not None and len(set(values)) < n:
            raise CheckpointError(
                f"{path}: '{key}' has {_first_twice(values)!r} twice, and a member that is "
                f"there twice would count twice. {_REMEDY}"
            )
    return record


def _first_twice(values: Sequence[int | str]) -> str:
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
            raise CheckpointError(
                f"{folder}: its weights are not those of this member, whose SHA-256 is "
                f"{sha256[:12]}… in {MEMBERS} of the run. Copy the whole run again, or, where this "
                "member was trained further, continue the run with --resume."
            )
        if contract.get("seed") != seed:
            raise CheckpointError(
                f"{folder}: its seed is {contract.get('seed')}, and {MEMBERS} of the run says "
                f"{seed}. {_REMEDY}"
            )
    return folders


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
        self.inference_layout = networks[0].inference_layout

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
) -> Description:
    """Describe a run of members: the keys that all share, and each member.

    `sizes` are the numbers of features of each, `left_out` the sites that each was trained without.
    """
    members = []
    start = 0
    for number, (contract, size) in enumerate(zip(contracts, sizes, strict=True)):
        member = {
            "name": f"member{number}",
            "n_features": size,
            "columns": [f"feature_{start:04d}", f"feature_{start + size - 1:04d}"],
            "weights": contract["weights"],
            "seed": contract.get("seed"),
        }
        if "beside" in contract:
            beside = contract["beside"]
            member["beside"] = {"name": beside["name"], "n_components": beside["n_components"]}
        if left_out is not None:
            member["left_out"] = list(left_out[number])
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
    starts = list(filter(None, map(methodcaller("get", "init"), contracts)))
    if len(starts) == len(contracts):
        shared["init"] = join_starts(starts)
    digests = map(itemgetter("sha256"), map(itemgetter("weights"), contracts))
    weights = {"sha256": join_digests(digests)}
    return shared | {"n_features": start, "weights": weights, "members": members}
