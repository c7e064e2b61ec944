"""Measure validation scans between epochs, or a batch of training scans where there are none; find collapses."""

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
# Embeddings spread over the sphere have −2 and less; above this their typical distance is below 0.1
# (6 degrees).
_UNIFORMITY_OF_A_POINT = -0.02
_NUMBERS = ("", "_2")
"""What the figures of the first and of the second encoder have in their names."""
# At this effective rank all directions but the first have 4 % of the singular values' sum together.
_RANK_OF_A_LINE = 1.2


def alignment(z1: torch.Tensor, z2: torch.Tensor) -> torch.Tensor:
    """Return the mean squared distance of two views on the sphere (Wang & Isola 2020, alpha = 2); 0 is best."""
    return (normalize(z1, dim=1) - normalize(z2, dim=1)).square().sum(dim=1).mean()


def uniformity(z: torch.Tensor) -> torch.Tensor:
    """Return log E exp(-2 distance²) over pairs on the sphere (Wang & Isola 2020, t = 2); lower is more uniform."""
    n_pairs = len(z) * (len(z) - 1) / 2
    return (-2 * torch.pdist(normalize(z, dim=1)).square()).logsumexp(dim=0) - torch.tensor(
        n_pairs
    ).log()


def effective_rank(z: torch.Tensor) -> torch.Tensor:
    """Return the exponential of the entropy of the centred embeddings' normalised singular values.

    It falls to 1 where all embeddings lie on a line, which a loss alone does not show.
    """
    z = normalize(z, dim=1).double()
    values = torch.linalg.svdvals(z - z.mean(dim=0))
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return torch.special.entr(shares).sum().exp()


@torch.no_grad()
def measure_contrast(state: ContrastiveState, *, after_batch: CheckStop) -> MetricsRow:
    """Return loss, alignment, uniformity and effective ranks on the validation scans.

    The views are the same after every epoch, so a change of the curve is a change of the network.
    Batches have their own statistics, as in training. Without validation scans all but the loss are
    measured on as many training scans as a batch has, always the same. Ranks are None for two
    scans, which always lie on a line. A loss that predicts has the loss and the rank of the
    features alone.
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
    prefix = "val" if has_validation else "train"
    return {f"{prefix}_{name}": value for name, value in figures.items()}


@dataclass(frozen=True)
class _EmbeddedViews:
    """Both views of samples as the network embeds them, on the CPU, and their mean loss."""

    loss: float
    features: torch.Tensor
    """(n, 2, n_features)."""
    z1: torch.Tensor
    z2: torch.Tensor


def _embed_views(
    state: ContrastiveState, rows: Sequence[int], *, after_batch: CheckStop
) -> _EmbeddedViews:
    """Embed the views of a fixed epoch, in batches with statistics of their own, as in training."""
    total = 0.0
    seen = []
    batches = even_batches(rows, state.settings.batch_size)
    micro = state.settings.micro_batch_size
    n_fewest = len(state.model.halves)
    state.views_total = None
    with batch_statistics(state.model), state.divided(batches) as shares:
        passes = [parts_of(share, micro, n_fewest=n_fewest) for share in shares]
        with state.read(list(chain.from_iterable(passes))) as reading:
            for batch, share, parts in zip(batches, shares, passes, strict=True):
                encoded = []
                for numbers, images in islice(reading, len(parts)):
                    encoded.append(state.encode_views(images, numbers, epoch=_VALIDATION_EPOCH))
                features = torch.cat(encoded, dim=1)
                z1, z2 = state.project(features)
                metadata = state.metadata_of(torch.tensor(share), features)
                total += state.objective(z1, z2, metadata).item() * len(batch)
                seen.append(
                    [
                        of_all_processes(values).cpu()
                        for values in (features.transpose(0, 1), z1, z2)
                    ]
                )
                # Not after each micro-batch: processes may have different numbers of them.
                after_batch()
    features, z1, z2 = map(torch.cat, zip(*seen, strict=True))
    return _EmbeddedViews(total / len(rows), features, z1, z2)


def _refuse_infinite(
    state: ContrastiveState, rows: Sequence[int], embedded: _EmbeddedViews
) -> None:
    """Refuse views, or embeddings, that are not finite, and name their samples."""
    if state.views_total is not None and not state.views_total.isfinite():
        state.refuse_views(torch.as_tensor(rows), epoch=_VALIDATION_EPOCH)
    everything = torch.cat([embedded.features.flatten(1), embedded.z1, embedded.z2], dim=1)
    is_finite = everything.isfinite().all(dim=1).tolist()
    broken = [state.data.names[row] for row, fine in zip(rows, is_finite, strict=True) if not fine]
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
    """Measure how near the two views of a sample are, and how the embeddings are spread."""
    return {
        "alignment": alignment(z1, z2).item(),
        "uniformity": (uniformity(z1).item() + uniformity(z2).item()) / 2,
        "effective_rank": _rank_of(torch.cat([z1, z2]), n_scans=len(z1)),
    }


def _rank_of(embeddings: torch.Tensor, *, n_scans: int) -> float | None:
    """Return the effective rank; None for two scans, which always lie on a line."""
    if n_scans <= 2:
        return None
    return effective_rank(embeddings).item()


def _some_training_rows(state: TrainerState, purpose: str, n: int) -> list[int]:
    """Return `n` training rows, always the same, in order; all of them where there are no more."""
    rows = np.asarray(state.data.training_rows)
    order = derive_generator(purpose, state.seed).permutation(len(rows))
    chosen: list[int] = rows[np.sort(order[:n])].tolist()
    return chosen


@dataclass(frozen=True)
class NormStatistics:
    """Number of training samples, and batches of them, by which normalisation was estimated again."""

    n_scans: int = 0
    n_batches: int = 0


def reestimate_model(state: ContrastiveState, *, after_batch: CheckStop) -> Json:
    """Re-estimate BatchNorm statistics on up to 1,000 un-augmented training samples; return a record of it.

    The running averages of training lag behind quickly changing weights, and describe augmented
    views. Where the encoder has no such layers, the head keeps its running averages.
    """
    n_layers = len(layers_of(state.model.encoder))
    module = state.model if n_layers else state.model.encoder
    statistics = reestimate(state, module, after_batch=after_batch)
    return {
        "statistics": "cumulative average over un-augmented training samples",
        "n_layers": n_layers,
        **asdict(statistics),
    }


def reestimate(state: TrainerState, module: nn.Module, *, after_batch: CheckStop) -> NormStatistics:
    """Re-estimate the statistics of a part of the model on un-augmented training samples."""
    if not layers_of(module):
        return NormStatistics()
    rows = _some_training_rows(state, "batchnorm", MOST_SCANS_OF_STATISTICS)
    batches = even_batches(rows, _n_together(state))

    def images() -> Iterator[tuple[Any]]:
        for _, volumes in reading:
            # Of a tuple PyTorch takes the first: samples may be a pair themselves.
            yield (state.seen(volumes),)
            after_batch()

    with state.divided(batches) as shares, state.read(shares) as reading:
        update_bn(images(), module)
    return NormStatistics(n_scans=len(rows), n_batches=len(batches))


def _n_together(state: TrainerState) -> int:
    """Return how many samples pass the encoder at a time: at most as many as views in training."""
    n_samples = state.settings.batch_size
    micro = state.settings.micro_batch_size
    if micro is None:
        return n_samples
    return min(n_samples, 2 * micro)


@torch.no_grad()
def measure_probe(state: ContrastiveState, *, after_batch: CheckStop) -> MetricsRow:
    """Fit linear models on the training scans' features and score them on the validation scans'.

    Features are those that would be saved now: statistics re-estimated, no augmentation.
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
    """Return the features of each encoder, (n_encoders, n, n_features)."""
    parts = []
    batches = even_batches(rows, _n_together(state))
    with state.processes.divided(batches) as shares, state.read(shares) as reading:
        for _, images in reading:
            encoded = state.model.encoder(state.seen(images))
            of_encoders = encoded.unflatten(0, (len(state.model.halves), -1)).transpose(0, 1)
            parts.append(of_all_processes(of_encoders.contiguous()).cpu())
            after_batch()
    return torch.cat(parts).transpose(0, 1).numpy().astype(np.float64)


def _score(
    x_train: np.ndarray, y_train: np.ndarray, x_val: np.ndarray, y_val: np.ndarray
) -> MetricsRow:
    """Fit ridge (numbers) or logistic regression, and score on the validation scans; None for too few values."""
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
    # Recall over the classes that occur: a class that only the training scans have cannot be
    # recalled.
    score = recall_score(
        y_val, predicted, labels=sorted(set(y_val)), average="macro", zero_division=0
    )
    return {"balanced_accuracy": float(score)}


def collapse_of(row: MetricsRow) -> str | None:
    """Return how the representation has collapsed by a row of ``metrics.csv``: to a point or a line, or None."""
    side = "val" if any(name.startswith("val_") for name in row) else "train"
    on = "validation samples" if side == "val" else "training samples"
    spread = row.get(f"{side}_uniformity")
    if spread is not None and spread > _UNIFORMITY_OF_A_POINT:
        return f"all embeddings of {on} are nearly the same point (uniformity {spread:.3g}; spread ones have −2)"
    names = {
        "": "embeddings",
        "features_": "features",
        "features_2_": "features of the second encoder",
    }
    for name, noun in names.items():
        rank = row.get(f"{side}_{name}effective_rank")
        if rank is not None and rank < _RANK_OF_A_LINE:
            return f"the {noun} of {on} lie on a line (effective rank {rank:.3g})"
    return None


def collapse_warning(row: MetricsRow, previous: MetricsRow | None) -> str | None:
    """Return the warning of an epoch at which a collapse begins, or None."""
    collapse = collapse_of(row)
    if collapse is None or (previous is not None and collapse_of(previous) is not None):
        return None
    return (
        f"epoch {row['epoch']}: the representation has collapsed: {collapse}. Nothing tells the "
        "samples apart then. Lower training.learning_rate or add training.warmup_epochs, use a "
        "larger training.batch_size, or another objective.temperature. In the first epochs it may "
        "pass; with a loss that only separates two classes, a line is its minimum."
    )
