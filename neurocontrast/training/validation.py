"""Measure validation scans between epochs, or a batch of training scans where there are none; find collapses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.functional import normalize
from torch.optim.swa_utils import update_bn

from neurocontrast.data.batches import even_batches
from neurocontrast.exceptions import TrainingError
from neurocontrast.parallel.collectives import of_all_processes
from neurocontrast.seeds import derive_generator
from neurocontrast.training.batchnorm import batch_statistics, layers_of
from neurocontrast.training.session import BaseSession, Session
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
def measure_contrast(
    session: Session, *, after_batch: Callable[[], None]
) -> dict[str, float | None]:
    """Return loss, alignment, uniformity and effective ranks on the validation scans.

    The views are the same after every epoch, so a change of the curve is a change of the network.
    Batches have their own statistics, as in training. Without validation scans all but the loss are
    measured on as many training scans as a batch has, always the same. Ranks are None for two
    scans, which always lie on a line. A loss that predicts has the loss and the rank of the
    features alone.
    """
    rows_of_all = session.data.validation_rows
    prefix = "val"
    if not len(rows_of_all):
        rows_of_all = _some_training_rows(session, "measured", session.settings.batch_size)
        prefix = "train"
    total = 0.0
    seen = []
    batches = even_batches(rows_of_all, session.settings.batch_size)
    micro = session.settings.micro_batch_size
    n_fewest = len(session.model.halves)
    session.views_total = None
    with batch_statistics(session.model), session.divided(batches) as shares:
        passes = [parts_of(share, micro, n_fewest=n_fewest) for share in shares]
        with session.read([part for each in passes for part in each]) as reading:
            for batch, share, each in zip(batches, shares, passes, strict=True):
                encoded = []
                for rows, images in islice(reading, len(each)):
                    encoded.append(session.encode_views(images, rows, epoch=_VALIDATION_EPOCH))
                features = torch.cat(encoded, dim=1)
                z1, z2 = session.project(features)
                metadata = session.metadata_of(torch.tensor(share), features)
                total += session.objective(z1, z2, metadata).item() * len(batch)
                seen.append(
                    [of_all_processes(part).cpu() for part in (features.transpose(0, 1), z1, z2)]
                )
                after_batch()  # not after each micro-batch: processes may have different numbers of them
    if session.views_total is not None and not session.views_total.isfinite():
        session.refuse_views(torch.as_tensor(rows_of_all), epoch=_VALIDATION_EPOCH)
    features, z1, z2 = (torch.cat(parts) for parts in zip(*seen, strict=True))
    everything = torch.cat([features.flatten(1), z1, z2], dim=1)
    broken = [
        session.data.names[row]
        for row, x in zip(rows_of_all, everything, strict=True)
        if not x.isfinite().all()
    ]
    if broken:
        rate = session.optimizer.param_groups[0]["lr"]
        raise TrainingError(
            f"after the epoch's last step (learning rate {rate:g}) the embeddings of {len(broken)} of the "
            f"{len(rows_of_all)} samples that are measured are not finite: {', '.join(broken[:20])}. Nothing was "
            "overwritten: the last checkpoint, if there is one, is kept. If it is not these (look at them with "
            "`neurocontrast check`), lower training.learning_rate, or set training.warmup_epochs or training.clip_norm."
        )
    figures: dict[str, float | None] = {"loss": total / len(rows_of_all)} if prefix == "val" else {}
    if session.objective.contrasts:
        figures["alignment"] = alignment(z1, z2).item()
        figures["uniformity"] = (uniformity(z1).item() + uniformity(z2).item()) / 2
        figures["effective_rank"] = (
            effective_rank(torch.cat([z1, z2])).item() if len(z1) > 2 else None
        )
    both = features.transpose(0, 1).flatten(0, 1)
    for number, here in enumerate(features.unbind(1) if session.is_pair else [both]):
        rank = effective_rank(here).item() if len(z1) > 2 else None
        figures[f"features{_NUMBERS[number]}_effective_rank"] = rank
    return {f"{prefix}_{name}": value for name, value in figures.items()}


def _some_training_rows(session: BaseSession, what: str, n: int) -> list[int]:
    """Return `n` training rows, always the same, in order; all of them where there are no more."""
    rows = np.asarray(session.data.training_rows)
    chosen: list[int] = rows[
        np.sort(derive_generator(what, session.seed).permutation(len(rows))[:n])
    ].tolist()
    return chosen


def reestimate_model(session: Session, *, after_batch: Callable[[], None]) -> dict[str, Any]:
    """Re-estimate BatchNorm statistics on up to 1,000 un-augmented training samples; return a record of it.

    The running averages of training lag behind quickly changing weights, and describe augmented
    views. Where the encoder has no such layers, the head keeps its running averages.
    """
    n_layers = len(layers_of(session.model.encoder))
    record = reestimate(
        session, session.model if n_layers else session.model.encoder, after_batch=after_batch
    )
    return {
        "statistics": "cumulative average over un-augmented training samples",
        "n_layers": n_layers,
        **record,
    }


def reestimate(
    session: BaseSession, module: nn.Module, *, after_batch: Callable[[], None]
) -> dict[str, int]:
    """Re-estimate the statistics of a part of the model on un-augmented training samples; return on how many."""
    if not layers_of(module):
        return {"n_scans": 0, "n_batches": 0}
    rows = _some_training_rows(session, "batchnorm", MOST_SCANS_OF_STATISTICS)
    batches = even_batches(rows, _n_together(session))

    def images() -> Iterator[tuple[Any]]:
        for _, volumes in reading:
            yield (
                session.seen(volumes),
            )  # of a tuple PyTorch takes the first: samples may be a pair themselves
            after_batch()

    with session.divided(batches) as shares, session.read(shares) as reading:
        update_bn(images(), module)
    return {"n_scans": len(rows), "n_batches": len(batches)}


def _n_together(session: BaseSession) -> int:
    """Return how many samples pass the encoder at a time: at most as many as views in training."""
    micro = session.settings.micro_batch_size
    return (
        session.settings.batch_size
        if micro is None
        else min(session.settings.batch_size, 2 * micro)
    )


@torch.no_grad()
def measure_probe(session: Session, *, after_batch: Callable[[], None]) -> dict[str, float | None]:
    """Fit linear models on the training scans' features and score them on the validation scans'.

    Features are those that would be saved now: statistics re-estimated, no augmentation.
    """
    data = session.data
    figures = dict[str, float | None]()
    reestimate(session, session.model.encoder, after_batch=after_batch)
    session.model.eval()
    features = [
        _features_of(session, rows, after_batch)
        for rows in (data.training_rows, data.validation_rows)
    ]
    session.model.train()
    for name, values in data.targets.items() if session.processes.is_first else ():
        known = [
            pd.notna(values[list(rows)]) for rows in (data.training_rows, data.validation_rows)
        ]
        y_train = values[list(data.training_rows)][known[0]]
        y_val = values[list(data.validation_rows)][known[1]]
        for number, of_encoder in zip(_NUMBERS, zip(*features, strict=True), strict=False):
            x_train, x_val = (x[here] for x, here in zip(of_encoder, known, strict=True))
            found = _score(x_train, y_train, x_val, y_val)
            figures |= {f"probe{number}_{name}_{key}": value for key, value in found.items()}
    return figures


def _features_of(
    session: Session, rows: Sequence[int], after_batch: Callable[[], None]
) -> np.ndarray:
    """Return the features of each encoder, (n_encoders, n, n_features)."""
    parts = []
    batches = even_batches(rows, _n_together(session))
    with session.processes.divided(batches) as shares, session.read(shares) as reading:
        for _, images in reading:
            encoded = session.model.encoder(session.seen(images)).unflatten(
                0, (len(session.model.halves), -1)
            )
            parts.append(of_all_processes(encoded.transpose(0, 1).contiguous()).cpu())
            after_batch()
    return torch.cat(parts).transpose(0, 1).numpy().astype(np.float64)


def _score(
    x_train: np.ndarray, y_train: np.ndarray, x_val: np.ndarray, y_val: np.ndarray
) -> dict[str, float | None]:
    """Fit ridge (numbers) or logistic regression, and score on the validation scans; None for too few values."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.metrics import r2_score, recall_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if y_train.dtype.kind == "f":
        if min(len(y_train), len(y_val)) < 2:
            return {"r2": None}
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13))).fit(
            x_train, y_train
        )
        return {"r2": float(r2_score(y_val, ridge.predict(x_val)))}
    if min(len(set(y_train)), len(set(y_val))) < 2:
        return {"balanced_accuracy": None}
    logistic = LogisticRegression(C=0.01, class_weight="balanced", max_iter=1000)
    found = make_pipeline(StandardScaler(), logistic).fit(x_train, y_train).predict(x_val)
    # Recall over the classes that occur: a class that only the training scans have cannot be
    # recalled.
    score = recall_score(y_val, found, labels=sorted(set(y_val)), average="macro", zero_division=0)
    return {"balanced_accuracy": float(score)}


def collapse_of(row: Mapping[str, Any]) -> str | None:
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
    for name, what in names.items():
        rank = row.get(f"{side}_{name}effective_rank")
        if rank is not None and rank < _RANK_OF_A_LINE:
            return f"the {what} of {on} lie on a line (effective rank {rank:.3g})"
    return None


def collapse_warning(row: Mapping[str, Any], previous: Mapping[str, Any] | None) -> str | None:
    """Return the warning of an epoch at which a collapse begins, or None."""
    found = collapse_of(row)
    if found is None or (previous is not None and collapse_of(previous) is not None):
        return None
    return (
        f"epoch {row['epoch']}: the representation has collapsed: {found}. Nothing tells the samples apart then. "
        "Lower training.learning_rate or add training.warmup_epochs, use a larger training.batch_size, or another "
        "objective.temperature. In the first epochs it may pass; with a loss that only separates two classes, "
        "a line is its minimum."
    )
