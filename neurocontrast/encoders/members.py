"""Runs of several encoders, called members: read and write members.json, and encode by all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import nn

from neurocontrast.documents.document import Json, shared_content
from neurocontrast.documents.encoder import (
    BesideRecord,
    EncoderContract,
    EncoderDescription,
    PreprocessingRecord,
    RunDescription,
    Samples,
    Start,
)
from neurocontrast.documents.members import JoinedMember, MembersRecord
from neurocontrast.encoders.encoder import ContrastiveModel, Encoder
from neurocontrast.encoders.weights import MEMBERS, folder_of_member, read_contract
from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import digest_of, write_json
from neurocontrast.reading import read_json

_REMEDY = "Copy the run again."
_OF_ONE = ("beside", "blocks", "members", "seed", "provenance", "weights", "head", "n_features")
"""Keys of ``encoder.json`` that concern one encoder, left out of the description of a run of
several."""
_OF_KIND = ("encoder", "objective", "augment", "epochs", "channels", "cache_dtype")
"""Keys of ``encoder.json``, besides preprocessing, that must be equal for two encoders of a kind
(same settings, other seeds or training people)."""
_LEARNED = ("is_volume", "medians", "means", "sds", "slopes", "head", "left_out")
"""Keys of the section ``preprocessing`` whose values are learned from the training people."""
_JOINED = 2
"""Format number of ``members.json`` in a run made by joining several runs; earlier versions of the
package refuse the number."""


def write_members(run: Path, record: MembersRecord) -> None:
    """Write ``members.json``, which lists the encoders of a run, into the run's folder."""
    content = record.model_dump(mode="json")
    if record.joined is None:
        del content["joined"]
    write_json(run / MEMBERS, content)


def has_members(run: Path) -> bool:
    """Tell whether a folder is a run of several encoders ("members")."""
    return (run / MEMBERS).is_file()


def read_record(run: Path) -> MembersRecord:
    """Read ``members.json`` of a run, which lists the run's encoders with seeds and digests.

    A CheckpointError refuses a damaged file.
    """
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
    """Return the folders of all encoders of a run, or the run's folder if there is one encoder.

    Raises
    ------
    CheckpointError
        If encoders are not trained yet, or have other weights than ``members.json`` lists.
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
        if contract.sha256 != sha256:
            remedy = "continue the run with --resume"
            if record.joined is not None:
                remedy = "join the runs again"
            raise CheckpointError(
                f"{folder}: its weights are not those of this member, whose SHA-256 is "
                f"{sha256[:12]}… in {MEMBERS} of the run. Copy the whole run again, or, where this "
                f"member was trained further, {remedy}."
            )
        if contract.seed != seed:
            raise CheckpointError(
                f"{folder}: its seed is {contract.seed}, and {MEMBERS} of the run says "
                f"{seed}. {_REMEDY}"
            )
    return folders


def number_kinds(contracts: Sequence[EncoderContract]) -> list[int]:
    """Return the number of the kind of each encoder; kinds are numbered from 0 as they first occur.

    Encoders of one kind differ only by seed, training people, and values learned from these people.
    """
    kinds = list[Json]()
    numbers = []
    for contract in contracts:
        kind = _kind_of(contract)
        if kind not in kinds:
            kinds.append(kind)
        numbers.append(kinds.index(kind))
    return numbers


def _kind_of(contract: EncoderContract) -> Json:
    """Return the content of ``encoder.json`` that is equal in all encoders of one kind.

    The result is a dictionary; `contract` is the content of one encoder's file. Encoders of one
    kind differ only by seed, training people, and values learned from these people.
    """
    content = contract.content()
    kind: Json = {}
    for key in _OF_KIND:
        if content.get(key) is not None:
            kind[key] = content[key]
    kind["preprocessing"] = _settings_of_preprocessing(contract)
    if contract.beside is not None:
        kind["beside"] = _beside_of(contract.beside)
    return kind


def _settings_of_preprocessing(contract: EncoderContract) -> Json:
    """Return the section ``preprocessing`` of an encoder, without values learned from people.

    The key ``columns`` lists all measures of the training table: also measures that were left out
    because they are the same for all training people.
    """
    preprocessing = contract.preprocessing
    settings = preprocessing.content()
    if "columns" in settings:
        settings["columns"] = sorted({*preprocessing.columns, *preprocessing.left_out})
    for key in _LEARNED:
        settings.pop(key, None)
    return settings


def _beside_of(beside: BesideRecord) -> Json:
    return {"name": beside.name, "n_components": beside.n_components}


def digest_of_members(record: MembersRecord) -> str | None:
    """Return one SHA-256 for the weights of all encoders that `record` (``members.json``) lists.

    The result is None before all encoders are trained.
    """
    if record.weights is None:
        return None
    return join_digests(record.weights)


def join_digests(digests: Iterable[str]) -> str:
    """Combine digests of the weights of several encoders, in order, into one digest."""
    return digest_of("members", *digests)


def join_starts(starts: Sequence[Start]) -> Start:
    """Combine the entries ``init`` of a run's encoders, on their initial weights, into one entry.

    If all entries are equal, the first is returned. If not, the joint entry has the keys with equal
    values, one digest over the digests of all weights, and as name the name of the run of the
    initial weights, without the part ``/members/NUMBER`` that names one encoder of that run.
    """
    contents = list(map(Start.content, starts))
    shared = shared_content(contents)
    if len(shared) == len(contents[0]):
        return starts[0]
    shared["name"] = starts[0].name.partition("/members/")[0]
    shared["sha256"] = join_digests(map(str, map(attrgetter("sha256"), starts)))
    shared["subjects_known"] = all(map(attrgetter("subjects_known"), starts))
    return Start.model_validate(shared)


def preparation_of(samples: Samples) -> str:
    """Return preprocessing, channels and cache dtype of `samples` as JSON, to compare encoders.

    The texts of two encoders are equal if both read equally preprocessed samples.
    """
    decisive = [samples.preprocessing.content(), samples.channels, samples.cache_dtype]
    return json.dumps(decisive, sort_keys=True)


class SeveralEncoders(nn.Module):
    """Encode the same samples by several networks, and concatenate the features.

    Parameters
    ----------
    networks : sequence of Encoder or ContrastiveModel
        Networks that read samples of one kind with the same preprocessing.
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
        """Return the features (n, n_features) of samples: columns of all networks, in order."""
        features = []
        for network in self.networks:
            features.append(network(samples))
        return torch.cat(features, dim=1)


def describe_members(
    contracts: Sequence[EncoderContract],
    sizes: Sequence[int],
    left_out: Sequence[Sequence[str]] | None = None,
    *,
    joined: Sequence[JoinedMember] | None = None,
) -> RunDescription:
    """Return the description of a run of several encoders: equal keys of their ``encoder.json``.

    The key ``members`` lists each encoder ("member") with its weights, seed and feature columns.

    Parameters
    ----------
    contracts : sequence of EncoderContract
        Content of the ``encoder.json`` of each member.
    sizes : sequence of int
        Number of features of each member.
    left_out : sequence of sequence of str, optional
        Sites that each member was trained without.
    joined : sequence of JoinedMember, optional
        Run of each member before runs were joined, if they were. Each member then has the number of
        its kind, and the key ``kinds`` describes each kind: members that differ only by seed,
        training people and values learned from these people.
    """
    kinds = number_kinds(contracts)
    members = []
    start = 0
    for number, (contract, size) in enumerate(zip(contracts, sizes, strict=True)):
        member: Json = {
            "name": f"member{number}",
            "n_features": size,
            "columns": [f"feature_{start:04d}", f"feature_{start + size - 1:04d}"],
            "weights": contract.weights,
            "seed": contract.seed,
        }
        if contract.beside is not None:
            member["beside"] = _beside_of(contract.beside)
        if left_out is not None:
            member["left_out"] = list(left_out[number])
        if joined is not None:
            member |= {"run": joined[number].run, "kind": kinds[number]}
        members.append(member)
        start += size
    shared = _shared_by(contracts)
    if joined is not None:
        shared["kinds"] = _describe_kinds(contracts, sizes, joined)
    starts = list(filter(None, map(attrgetter("init"), contracts)))
    if len(starts) == len(contracts):
        shared["init"] = join_starts(starts)
    weights = {"sha256": join_digests(map(attrgetter("sha256"), contracts))}
    whole = {"n_features": start, "weights": weights, "members": members}
    return RunDescription.model_validate(shared | whole)


def _shared_by(contracts: Sequence[EncoderContract]) -> Json:
    """Return the keys of ``encoder.json``, with values, that are equal in all encoders of a run.

    The list of measures, ``columns``, has every measure that any encoder reads. ``simulated`` is
    true if any encoder was trained on simulated data.
    """
    shared = shared_content(list(map(EncoderContract.content, contracts)))
    sections = list(map(attrgetter("preprocessing"), contracts))
    of_samples = shared_content(list(map(PreprocessingRecord.content, sections)))
    if contracts[0].preprocessing.has("columns"):
        of_samples["columns"] = _columns_of_any(contracts)
    shared["preprocessing"] = of_samples
    for key in _OF_ONE:
        shared.pop(key, None)
    shared["simulated"] = any(map(attrgetter("simulated"), contracts))
    return shared


def _columns_of_any(contracts: Sequence[EncoderContract]) -> list[str]:
    """List the regional measures that at least one of several encoders reads, without repeats."""
    columns = dict[str, None]()
    for contract in contracts:
        columns |= dict.fromkeys(contract.preprocessing.columns)
    return list(columns)


def describe_run(
    run: Path, contracts: Sequence[EncoderContract], sizes: Sequence[int]
) -> EncoderDescription:
    """Return the content of a run's ``encoder.json``, or a joint description of several encoders.

    A joint description has the keys of ``encoder.json`` that are equal for all encoders, and lists
    the encoders (members) with weights, seed and feature columns. No file is written.

    Parameters
    ----------
    run : Path
        Folder of the run.
    contracts : sequence of EncoderContract
        Content of the ``encoder.json`` of each encoder.
    sizes : sequence of int
        Number of features of each encoder.
    """
    if not has_members(run):
        return contracts[0]
    record = read_record(run)
    return describe_members(contracts, sizes, record.left_out, joined=record.joined)


def _describe_kinds(
    contracts: Sequence[EncoderContract], sizes: Sequence[int], joined: Sequence[JoinedMember]
) -> list[Json]:
    """Return a description of each kind of encoder in a run that was joined from several runs.

    Encoders of one kind differ only by seed, training people, and values learned from these people.
    A description has the kind's preprocessing, network and loss, its number of encoders and of
    features, and the names of the runs that they come from. `contracts`, `sizes` (numbers of
    features) and `joined` (origins) have an entry for each encoder.
    """
    of_kinds = dict[int, list[int]]()
    for member, number in enumerate(number_kinds(contracts)):
        of_kinds.setdefault(number, []).append(member)
    kinds = []
    for members in of_kinds.values():
        first = contracts[members[0]]
        of_kind = list(map(contracts.__getitem__, members))
        preprocessing = _settings_of_preprocessing(first)
        preprocessing.pop("columns", None)
        if first.preprocessing.has("columns"):
            preprocessing["columns"] = _columns_of_any(of_kind)
        runs = map(attrgetter("run"), map(joined.__getitem__, members))
        described = {
            "preprocessing": preprocessing,
            "n_members": len(members),
            "n_features": sizes[members[0]],
            "runs": list(dict.fromkeys(runs)),
        }
        kinds.append(_kind_of(first) | described)
    return kinds
