"""Measure validation scans between epochs, detect collapse, and re-estimate BatchNorm."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.functional import normalize
from torch.optim.swa_utils import update_bn

from neurocontrast.data.batches import even_batches
from neurocontrast.documents.document import Json
from neurocontrast.exceptions import TrainingError
from neurocontrast.parallel.collectives import of_all_processes
from neurocontrast.seeds import derive_generator
from neurocontrast.training.batchnorm import batch_statistics, layers_of
from neurocontrast.training.position import MetricsRow
from neurocontrast.training.signals import CheckStop
from neurocontrast.training.state import ContrastiveState, TrainerState
from neurocontrast.training.steps import parts_of

MOST_SCANS_OF_STATISTICS = 1000
_VALIDATION_EPOCH = -1
_UNIFORMITY_OF_A_POINT = -0.02
"""Uniformity above which embeddings count as collapsed to one point.

At this value the typical distance of two embeddings is below 0.1 (6 degrees). Embeddings that are
spread over the sphere have a uniformity of −2 or less.
"""
_NUMBERS = ("", "_2")
"""Suffixes of metric names that tell the first from the second of two encoders."""
_RANK_OF_A_LINE = 1.2
"""Effective rank below which embeddings count as collapsed to a line.

At this rank, all singular values but the first sum to 4 % of the total.
"""


def alignment(z1: torch.Tensor, z2: torch.Tensor) -> torch.Tensor:
    """Compute the mean squared distance between two views of each sample on the unit sphere.

    The best value is 0 (Wang & Isola 2020, with alpha = 2).

    Parameters
    ----------
    z1, z2 : tensor (n, d)
        Embeddings of two views, of any norm.
    """
    return (normalize(z1, dim=1) - normalize(z2, dim=1)).square().sum(dim=1).mean()


def uniformity(z: torch.Tensor) -> torch.Tensor:
    """Compute log E exp(-2 distance²) over pairs of samples on the unit sphere.

    Lower values mean more uniform embeddings (Wang & Isola 2020, with t = 2).

    Parameters
    ----------
    z : tensor (n, d)
        Embeddings, of any norm.
    """
    n_pairs = torch.tensor(len(z) * (len(z) - 1) / 2)
    return (-2 * torch.pdist(normalize(z, dim=1)).square()).logsumexp(dim=0) - n_pairs.log()


def effective_rank(z: torch.Tensor) -> torch.Tensor:
    """Compute the exponential of the entropy of the embeddings' normalised singular values.

    The effective rank is 1 if all embeddings lie on a line, a collapse that the loss alone does not
    show.

    Parameters
    ----------
    z : tensor (n, d)
        Embeddings of any norm, which are normalised and centred first.
    """
    z = normalize(z, dim=1).double()
    values = torch.linalg.svdvals(z - z.mean(dim=0))
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return torch.special.entr(shares).sum().exp()


@torch.no_grad()
def measure_contrast(state: ContrastiveState, *, after_batch: CheckStop) -> MetricsRow:
    """Measure loss, alignment, uniformity and effective rank on the validation scans.

    Random views are the same after every epoch, so that differences between epochs are due to the
    network. Batch normalisation uses the statistics of each batch, as in training. Without
    validation scans, all metrics but the loss are measured on a fixed set of training scans, as
    many as a batch holds. Ranks are None for two scans, which always lie on a line. A supervised
    loss has no alignment and uniformity.
    """
    rows = state.data.validation_rows
    has_validation = len(rows) > 0
    if not has_validation:
        rows = _some_training_rows(state, "measured", state.settings.batch_size)
    embedded = _embed_views(state, rows, after_batch=after_batch)
    _refuse_infinite(state, rows, embedded)
    figures: MetricsRow = {}
    if has_validation:
        figures["loss"] = embedded.loss
    if state.objective.contrasts:
        figures |= _spread_of(embedded.z1, embedded.z2)
    of_encoders = [embedded.features.transpose(0, 1).flatten(0, 1)]
    if state.is_pair:
        of_encoders = list(embedded.features.unbind(1))
    for number, features in zip(_NUMBERS, of_encoders, strict=False):
        figures[f"features{number}_effective_rank"] = _rank_of(features, n_scans=len(rows))
    side = _side_of(has_validation=has_validation)
    return {f"{side}_{name}": value for name, value in figures.items()}


def _side_of(*, has_validation: bool) -> str:
    """Return the prefix of metric names: ``val``, or ``train`` without validation samples."""
    if has_validation:
        return "val"
    return "train"


@dataclass(frozen=True)
class _EmbeddedViews:
    """Features and embeddings of two fixed random views of samples, with their mean loss.

    The n samples are the validation samples, or without these some training samples. `_embed_views`
    makes an instance after each epoch; tensors are on the CPU. `z1` and `z2` are the embeddings of
    both views, (n, d).
    """

    loss: float
    features: torch.Tensor
    """Features of both views, (n, 2, n_features)."""
    z1: torch.Tensor
    z2: torch.Tensor


def _embed_views(
    state: ContrastiveState, rows: Sequence[int], *, after_batch: CheckStop
) -> _EmbeddedViews:
    """Return embeddings and mean loss of two fixed random views of the data's samples at `rows`.

    The network is in evaluation mode, but BatchNorm normalises by the statistics of each batch.
    `after_batch` is called after each batch.
    """
    total = 0.0
    features_of_all = []
    z1_of_all = []
    z2_of_all = []
    batches = even_batches(rows, state.settings.batch_size)
    micro = state.settings.micro_batch_size
    n_fewest = len(state.model.halves)
    state.views_total = None
    with batch_statistics(state.model), state.divided(batches) as shares:
        passes = []
        for share in shares:
            passes.append(parts_of(share, micro, n_fewest=n_fewest))
        with state.read(list(chain.from_iterable(passes))) as reading:
            for batch, share, parts in zip(batches, shares, passes, strict=True):
                encoded = []
                for numbers, images in islice(reading, len(parts)):
                    encoded.append(state.encode_views(images, numbers, epoch=_VALIDATION_EPOCH))
                features = torch.cat(encoded, dim=1)
                z1, z2 = state.project(features)
                metadata = state.metadata_of(torch.tensor(share), features)
                total += state.objective(z1, z2, metadata).item() * len(batch)
                features_of_all.append(of_all_processes(features.transpose(0, 1)).cpu())
                z1_of_all.append(of_all_processes(z1).cpu())
                z2_of_all.append(of_all_processes(z2).cpu())
                # Not after each micro-batch: processes may have different numbers of them.
                after_batch()
    return _EmbeddedViews(
        loss=total / len(rows),
        features=torch.cat(features_of_all),
        z1=torch.cat(z1_of_all),
        z2=torch.cat(z2_of_all),
    )


def _refuse_infinite(
    state: ContrastiveState, rows: Sequence[int], embedded: _EmbeddedViews
) -> None:
    """Raise a TrainingError that names samples at `rows` whose embeddings are not finite.

    Views that are not finite are refused before, by `ContrastiveState.refuse_views`.
    """
    if state.views_total is not None and not state.views_total.isfinite():
        state.refuse_views(torch.as_tensor(rows), epoch=_VALIDATION_EPOCH)
    everything = torch.cat([embedded.features.flatten(1), embedded.z1, embedded.z2], dim=1)
    is_finite = everything.isfinite().all(dim=1).tolist()
    broken = []
    for row, is_fine in zip(rows, is_finite, strict=True):
        if not is_fine:
            broken.append(state.data.names[row])
    if broken:
        rate = state.optimizer.param_groups[0]["lr"]
        raise TrainingError(
            f"after the epoch's last step (learning rate {rate:g}) the embeddings of {len(broken)} "
            f"of the {len(rows)} samples that are measured are not finite: "
            f"{', '.join(broken[:20])}. Nothing was overwritten: the last checkpoint, if there is "
            "one, is kept. If it is not these (look at them with `neurocontrast check`), lower "
            "training.learning_rate, or set training.warmup_epochs or training.clip_norm."
        )


def _spread_of(z1: torch.Tensor, z2: torch.Tensor) -> MetricsRow:
    """Return alignment, uniformity and effective rank of embeddings `z1`, `z2` of two views.

    Uniformity is the mean over the two views; the rank is that of both views' embeddings together.
    """
    return {
        "alignment": alignment(z1, z2).item(),
        "uniformity": (uniformity(z1).item() + uniformity(z2).item()) / 2,
        "effective_rank": _rank_of(torch.cat([z1, z2]), n_scans=len(z1)),
    }


def _rank_of(embeddings: torch.Tensor, *, n_scans: int) -> float | None:
    """Return the effective rank of embeddings or features; None for up to two scans.

    The embeddings of two scans always lie on a line.
    """
    if n_scans <= 2:
        return None
    return effective_rank(embeddings).item()


def _some_training_rows(state: TrainerState, purpose: str, n: int) -> list[int]:
    """Choose at most `n` training rows at random, the same rows for a run's seed and a `purpose`.

    The rows are returned sorted by position in the data's training rows.
    """
    rows = np.asarray(state.data.training_rows)
    order = derive_generator(purpose, state.seed).permutation(len(rows))
    chosen: list[int] = rows[np.sort(order[:n])].tolist()
    return chosen


@dataclass(frozen=True)
class NormStatistics:
    """Number of training samples and batches from which `reestimate` took statistics.

    The statistics are means and variances of batch normalisation.
    """

    n_scans: int = 0
    n_batches: int = 0


def reestimate_model(state: ContrastiveState, *, after_batch: CheckStop) -> Json:
    """Re-estimate BatchNorm statistics on up to 1,000 training samples without augmentation.

    Running averages during training lag behind quickly changing weights, and describe augmented
    views. The statistics of encoder and projection head are replaced; if the encoder has no batch
    normalisation, the head keeps its running averages.

    Returns
    -------
    dict
        Record for ``encoder.json``: kind of statistics, number of the encoder's BatchNorm layers,
        and numbers of samples and batches that were read.
    """
    n_layers = len(layers_of(state.model.encoder))
    module: nn.Module = state.model.encoder
    if n_layers:
        module = state.model
    statistics = reestimate(state, module, after_batch=after_batch)
    return {
        "statistics": "cumulative average over un-augmented training samples",
        "n_layers": n_layers,
        **asdict(statistics),
    }


def reestimate(state: TrainerState, module: nn.Module, *, after_batch: CheckStop) -> NormStatistics:
    """Set a module's BatchNorm statistics to averages over training samples without augmentation.

    At most `MOST_SCANS_OF_STATISTICS` samples are read. Returned are the numbers of samples and
    batches, 0 if the module has no BatchNorm.
    """
    if not layers_of(module):
        return NormStatistics()
    rows = _some_training_rows(state, "batchnorm", MOST_SCANS_OF_STATISTICS)
    batches = even_batches(rows, _n_together(state))

    def images() -> Iterator[tuple[Any]]:
        for _, volumes in reading:
            # PyTorch takes the first value of a tuple: samples may be a pair.
            yield (state.seen(volumes),)
            after_batch()

    with state.divided(batches) as shares, state.read(shares) as reading:
        update_bn(images(), module)
    return NormStatistics(n_scans=len(rows), n_batches=len(batches))


def _n_together(state: TrainerState) -> int:
    """Return the number of samples to encode at once outside training steps.

    The number is the batch size. If training divides batches into micro-batches, the number is at
    most the size of two micro-batches, so that memory stays within that of training.
    """
    n_samples = state.settings.batch_size
    micro = state.settings.micro_batch_size
    if micro is None:
        return n_samples
    return min(n_samples, 2 * micro)


@torch.no_grad()
def measure_probe(state: ContrastiveState, *, after_batch: CheckStop) -> MetricsRow:
    """Fit linear probes to features of training scans, and score predictions of validation scans.

    Features are computed as by a saved encoder: with re-estimated BatchNorm statistics, without
    augmentation. Returned are scores by column of ``metrics.csv``; processes other than the first
    get an empty dictionary.
    """
    data = state.data
    reestimate(state, state.model.encoder, after_batch=after_batch)
    state.model.eval()
    x_train = _features_of(state, data.training_rows, after_batch)
    x_val = _features_of(state, data.validation_rows, after_batch)
    state.model.train()
    figures: MetricsRow = {}
    if not state.processes.is_first:
        return figures
    for name, values in data.targets.items():
        y_train = values[list(data.training_rows)]
        y_val = values[list(data.validation_rows)]
        with_train = pd.notna(y_train)
        with_val = pd.notna(y_val)
        for number, of_train, of_val in zip(_NUMBERS, x_train, x_val, strict=False):
            scores = _score(
                of_train[with_train], y_train[with_train], of_val[with_val], y_val[with_val]
            )
            for metric, score in scores.items():
                figures[f"probe{number}_{name}_{metric}"] = score
    return figures


def _features_of(
    state: ContrastiveState, rows: Sequence[int], after_batch: CheckStop
) -> np.ndarray:
    """Compute the features of samples at `rows` of the data, (n_encoders, n, n_features).

    The result is a float64 array. `after_batch` is called after each batch.
    """
    of_batches = []
    batches = even_batches(rows, _n_together(state))
    with state.processes.divided(batches) as shares, state.read(shares) as reading:
        for _, images in reading:
            encoded = state.model.encoder(state.seen(images))
            of_encoders = encoded.unflatten(0, (len(state.model.halves), -1)).transpose(0, 1)
            of_batches.append(of_all_processes(of_encoders.contiguous()).cpu())
            after_batch()
    return torch.cat(of_batches).transpose(0, 1).numpy().astype(np.float64)


def _score(
    x_train: np.ndarray, y_train: np.ndarray, x_val: np.ndarray, y_val: np.ndarray
) -> MetricsRow:
    """Fit a linear probe to training scans' features, and score predictions of validation scans.

    Returned is {"r2": score} of ridge regression for labels that are numbers (floats),
    {"balanced_accuracy": score} of logistic regression for others. The score is None if training or
    validation has fewer than two scans (ridge regression) or two classes.
    """
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.metrics import r2_score, recall_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if y_train.dtype.kind == "f":
        if min(len(y_train), len(y_val)) < 2:
            return {"r2": None}
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13)))
        ridge.fit(x_train, y_train)
        return {"r2": float(r2_score(y_val, ridge.predict(x_val)))}
    if min(len(set(y_train)), len(set(y_val))) < 2:
        return {"balanced_accuracy": None}
    logistic = LogisticRegression(C=0.01, class_weight="balanced", max_iter=1000)
    predicted = make_pipeline(StandardScaler(), logistic).fit(x_train, y_train).predict(x_val)
    # A class that only training scans have cannot be recalled.
    score = recall_score(
        y_val, predicted, labels=sorted(set(y_val)), average="macro", zero_division=0
    )
    return {"balanced_accuracy": float(score)}


def collapse_of(row: MetricsRow) -> str | None:
    """Describe a collapse of embeddings to a point or a line; None without collapse.

    Parameters
    ----------
    row : dict
        Metrics of an epoch, a row of ``metrics.csv``.
    """
    has_validation = any(name.startswith("val_") for name in row)
    side = _side_of(has_validation=has_validation)
    samples = "training samples"
    if has_validation:
        samples = "validation samples"
    spread = row.get(f"{side}_uniformity")
    if spread is not None and spread > _UNIFORMITY_OF_A_POINT:
        return (
            f"all embeddings of {samples} are nearly the same point (uniformity {spread:.3g}; "
            "spread ones have −2)"
        )
    names = {
        "": "embeddings",
        "features_": "features",
        "features_2_": "features of the second encoder",
    }
    for name, noun in names.items():
        rank = row.get(f"{side}_{name}effective_rank")
        if rank is not None and rank < _RANK_OF_A_LINE:
            return f"the {noun} of {samples} lie on a line (effective rank {rank:.3g})"
    return None


def collapse_warning(row: MetricsRow, previous: MetricsRow | None) -> str | None:
    """Return a warning if embeddings collapsed in the epoch of `row`, but not in the one before.

    `previous` are the metrics of the epoch before, or None. Without a new collapse, None is
    returned.
    """
    collapse = collapse_of(row)
    if collapse is None or (previous is not None and collapse_of(previous) is not None):
        return None
    return (
        f"epoch {row['epoch']}: the representation has collapsed: {collapse}. Nothing tells the "
        "samples apart then. Lower training.learning_rate or add training.warmup_epochs, use a "
        "larger training.batch_size, or another objective.temperature. In the first epochs it may "
        "pass; with a loss that only separates two classes, a line is its minimum."
    )
