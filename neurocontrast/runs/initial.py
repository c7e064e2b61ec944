"""Weights from which a new run starts (``training.init``), adapted to the layers of its network.

The weights come from another run or are imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import EncoderContract, EncoderDescription, Samples, Start
from neurocontrast.encoders import ContrastiveModel, Encoder, load_encoder, load_model, save_encoder
from neurocontrast.encoders.members import has_members, members_of, read_record
from neurocontrast.encoders.weights import (
    CONTRACT,
    MEMBERS,
    WEIGHTS,
    folder_of_member,
    misfits,
)
from neurocontrast.exceptions import CheckpointError
from neurocontrast.progress import Progress
from neurocontrast.provenance import KnownPeople
from neurocontrast.runs.folder import INITIAL, find_provenance

_OF_THE_NETWORK = ("name", "norm", "final_norm", "stem")
_OF_THE_INPUT = ("mean", "std")
"""Buffers of an encoder, named here, that a new run measures on its training images.

They are not taken over from earlier weights.
"""
_FITTED = ("columns", "is_volume", "medians", "means", "sds", "slopes", "head", "left_out")
"""Keys of the preprocessing of measures whose values every run learns from its training people."""
_MOST_LINES = 20
_MOST_NAMED = 5


@dataclass(frozen=True)
class InitialWeights:
    """Description of weights that a run starts from, and of the people on whom they were trained.

    `start_from` makes one for ``training.init``. People are recorded by digests of their
    identifiers and scans.
    """

    start: Start
    """Section ``init`` of ``provenance.json`` and ``encoder.json``, which describes the weights."""
    people: KnownPeople = field(default_factory=KnownPeople)
    """Digests of the people in the pretraining of the weights; empty where no record names them."""
    contract: EncoderContract | None = None
    """Content of the ``encoder.json`` next to the weights."""

    def keep(
        self, model: ContrastiveModel, folder: Path, samples: Samples, progress: Progress
    ) -> None:
        """Write the weights that a new run starts from into the folder of the run.

        Report the origin of the weights; warn if the new run preprocesses scans differently from
        the training of the earlier weights.
        """
        start = self.start
        progress.message(
            f"starting from {start.name}: {start.encoder}; projection head {start.head}"
        )
        if self.contract is not None:
            differences = _differences(self.contract, samples)
            if differences:
                progress.warning(
                    "training.init: scans were prepared otherwise for these weights: "
                    f"{'; '.join(differences)}."
                )
        if not start.subjects_known:
            progress.warning(
                f"training.init: {start.name} does not say who was in its pretraining, so nobody "
                "can tell whether participants of a later evaluation were."
            )
        described = EncoderDescription.model_validate(samples.content())
        save_encoder(folder / INITIAL, model.encoder, described, head=model.head)


def _preparation(samples: Samples) -> Json:
    """Return the preprocessing settings and channels of a run, or of weights, as one mapping."""
    return {**samples.preprocessing.content(), "channels": samples.channels}


def _differences(before: Samples, now: Samples) -> list[str]:
    """Return as texts the preprocessing settings that differ between earlier weights and a new run.

    `before` describes the samples of the earlier weights, `now` the samples of the new run. Values
    that every run learns from its own training people are not compared.
    """
    settings_before = _preparation(before)
    settings = _preparation(now)
    differences = []
    for key in {**settings_before, **settings}:
        value_before = settings_before.get(key)
        value = settings.get(key)
        if value_before != value and key not in _FITTED:
            differences.append(f"{key} was {value_before}, is {value}")
    return differences


def initial_of_member(path: Path, number: int, *, n_members: int) -> Path:
    """Return the folder of the weights from which encoder `number` of a run starts.

    `path` is ``training.init``. If `path` is a run of several encoders (members), encoder k starts
    from encoder k of that run, and both runs must have the same number of encoders, `n_members`. If
    `path` has one encoder, all start from that encoder.
    """
    folder = path.parent if path.name in (CONTRACT, WEIGHTS, MEMBERS) else path
    if not has_members(folder):
        return folder
    n_before = len(read_record(folder).seeds)
    if n_before != n_members:
        raise CheckpointError(
            f"training.init: '{path}' has {n_before} members, and this run has {n_members} "
            "(training.members). Member k starts from member k, so that the numbers must be equal: "
            f"set training.members={n_before}, or start from one member: "
            f"training.init={folder_of_member(folder, 0)}."
        )
    return members_of(folder)[number]


def _name_of(folder: Path) -> str:
    """Return the name by which a run records the earlier encoder whose weights are its start.

    `folder` is the folder of the earlier encoder. The name is the last part of the path. For one of
    several encoders of a run, in ``members`` of the run's folder, the last three parts are the
    name, such as ``first/members/0`` of the run ``first``.
    """
    resolved = folder.resolve()
    run = resolved.parent.parent
    if has_members(run):
        return f"{run.name}/{resolved.relative_to(run).as_posix()}"
    return resolved.name


def start_from(
    model: ContrastiveModel, path: Path, *, measures: tuple[str, ...] = ()
) -> InitialWeights:
    """Give a model the weights of an earlier run, or of a folder with ``encoder.json``.

    If the weights are of one channel and the model has several, the first convolution is divided
    among the channels; in the opposite case it is summed over the channels. A scan with equal
    channels then gives the same features as before.

    For regional measures, the columns of the first layer are put in the order of `measures`, the
    measures that the model reads. Columns of other measures are left out; weights without a column
    for one of `measures` are refused.

    The projection head is taken over if its layers are the same; if not, the model keeps its new
    head. Weights that do not fit are refused with a list of all differences. Returned is a
    description of the weights, for the records of the new run.
    """
    folder = initial_of_member(path, 0, n_members=1)
    if not (folder / CONTRACT).is_file():
        raise CheckpointError(
            f"training.init: '{path}' is no run. Give one, or a folder of `neurocontrast weights "
            "import`, with which weights of other programs come in."
        )
    earlier, contract = load_encoder(folder)
    earlier.without_beside()
    encoder = model.encoder
    tensors = earlier.state_dict()
    n_left = 0
    problems = _unlike_settings(earlier, encoder)
    if measures:
        tensors, n_left = _of_measures(tensors, contract, measures, problems)
    fitted, n_channels = _adapted(tensors, encoder, path, problems)
    encoder.load_state_dict(fitted)
    head = "taken over" if _take_over_head(model, folder, contract) else "new"
    people = KnownPeople()
    all_known = False
    provenance = find_provenance(folder)
    if provenance is not None:
        people = provenance.known_people()
        all_known = provenance.init.subjects_known
    start: Json = {
        "name": _name_of(folder),
        "sha256": contract.sha256,
        "encoder": _describe_taken(n_left, is_adapted=n_channels != encoder.n_channels),
        "n_channels": n_channels,
        "head": head,
        "subjects_known": all_known,
    }
    if contract.imported:
        start["imported"] = contract.imported.content()
    return InitialWeights(Start.model_validate(start), people, contract)


def _unlike_settings(earlier: Encoder, encoder: Encoder) -> list[str]:
    """Return as texts the network settings that differ between earlier weights and an encoder."""
    problems = []
    for key in _OF_THE_NETWORK:
        before = getattr(earlier.settings, key)
        now = getattr(encoder.settings, key)
        if before != now:
            problems.append(f"encoder.{key}: is {before} there, {now} here")
    return problems


def _take_over_head(model: ContrastiveModel, folder: Path, contract: EncoderContract) -> bool:
    """Load the projection head of earlier weights into a model; tell whether a head was loaded.

    `folder` holds the earlier weights. The model keeps its new head if the layers differ, or if the
    folder or the model has no head.
    """
    if contract.head is None or not len(model.head.state_dict()):
        return False
    head = load_model(folder)[0].head
    if repr(head) != repr(model.head):
        return False
    model.head.load_state_dict(head.state_dict())
    return True


def _describe_taken(n_left: int, *, is_adapted: bool) -> str:
    """Describe in words which weights of the encoder are taken over, for ``provenance.json``.

    `n_left` is the number of measures of the earlier run whose weights in the first layer are not
    taken over, as the new run does not read these measures. `is_adapted` tells whether the first
    convolution was changed to another number of channels.
    """
    taken = "all weights"
    if n_left:
        taken += f" but those of {n_left} measures, which differ in nobody here or are not there"
    if is_adapted:
        taken += ", the first convolution adapted"
    return taken


def restore_initial(model: ContrastiveModel, folder: Path) -> None:
    """Load the initial weights that a run keeps in its own folder into `model`.

    `folder` is the folder of the run. A new run with ``training.init`` copies the weights there
    (`InitialWeights.keep`), so that resuming the run does not need the weights that
    ``training.init`` names.
    """
    kept, _ = load_model(folder / INITIAL)
    model.load_state_dict(kept.state_dict())


def _adapted(
    tensors: Mapping[str, torch.Tensor], encoder: Encoder, path: Path, problems: list[str]
) -> tuple[dict[str, torch.Tensor], int]:
    """Fit earlier weights to an encoder's channels; return also the earlier number of channels.

    `tensors` is the state dict of the earlier weights, and the first value that is returned is the
    fitted state dict. Weights that do not fit are refused. The message also lists `problems`, the
    differences that the caller has found before.
    """
    drawn = encoder.state_dict()
    fitted = {name: tensor for name, tensor in tensors.items() if name not in _OF_THE_INPUT}
    fitted |= {name: drawn[name] for name in _OF_THE_INPUT if name in drawn}
    first = _first_layer(drawn)
    weight = fitted.get(first)
    n_channels = encoder.n_channels
    n_before = n_channels
    if weight is not None and weight.ndim == drawn[first].ndim:
        n_before = weight.shape[1]
    if weight is not None and n_before != n_channels and 1 in (n_before, n_channels):
        fitted[first] = (
            weight.sum(dim=1, keepdim=True).expand(-1, n_channels, *weight.shape[2:]) / n_channels
        )
    elif n_before != n_channels:
        problems.append(
            f"channels: {n_before} there, {n_channels} here, and nothing says which of them is "
            "which"
        )
    problems += misfits(fitted, drawn)
    if problems:
        more = [f"and {len(problems) - _MOST_LINES} more"] if len(problems) > _MOST_LINES else []
        shown = "".join(f"\n  {line}" for line in [*problems[:_MOST_LINES], *more])
        raise CheckpointError(
            f"training.init: the weights in '{path}' do not fit the encoder of this run:{shown}"
        )
    return fitted, n_before


def _first_layer(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the key, in a state dict, of the weights of the first convolution or linear layer."""
    return next(
        name for name, tensor in tensors.items() if name.endswith("weight") and tensor.ndim > 1
    )


def _of_measures(
    tensors: Mapping[str, torch.Tensor],
    contract: EncoderContract,
    measures: tuple[str, ...],
    problems: list[str],
) -> tuple[dict[str, torch.Tensor], int]:
    """Put the first layer's columns of earlier weights in the order of a run's `measures`.

    Return the weights and the number of columns that are left out. Measures of the run that the
    earlier weights lack are added to `problems`, and the weights are returned unchanged.
    """
    before = contract.preprocessing.columns
    if not before:
        problems.append("measures: nothing says which these weights are of; give a run of measures")
        return dict(tensors), 0
    lacking = [name for name in measures if name not in before]
    if lacking:
        shown = ", ".join(lacking[:_MOST_NAMED]) + (" …" if len(lacking) > _MOST_NAMED else "")
        problems.append(f"measures: {len(lacking)} of this run are not there: {shown}")
        return dict(tensors), 0
    first = _first_layer(tensors)
    columns = list(map(before.index, measures))
    return {**tensors, first: tensors[first][:, columns]}, len(before) - len(measures)
