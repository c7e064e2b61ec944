"""Measure validation scans between epochs, or a batch of training scans where there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
import pandas as pd
import torch
from torch import nn

from neurocontrast.collectives import of_all_processes
from neurocontrast.data.batches import even_batches
from neurocontrast.exceptions import TrainingError
from neurocontrast.seeds import derive_generator
from neurocontrast.training.averaging import averaged_weights
from neurocontrast.training.batchnorm import batch_statistics, layers_of, reestimate_statistics
from neurocontrast.training.metrics import alignment, effective_rank, uniformity
from neurocontrast.training.session import Session
from neurocontrast.training.steps import parts_of

__all__ = ["MOST_SCANS_OF_STATISTICS", "measure_contrast", "measure_probe", "reestimate_model"]

_VALIDATION_EPOCH = -1
MOST_SCANS_OF_STATISTICS = 1000


@torch.no_grad()
def measure_contrast(session: Session, *, after_batch: Callable[[], None]) -> dict[str, float | None]:
    """Return loss, alignment, uniformity and effective ranks on the validation scans.

    The views are the same after every epoch, so a change of the curve is a change of the network. Batches have their
    own statistics, as in training. Without validation scans all but the loss are measured on as many training scans as
    a batch has, always the same. Ranks are None for two scans, which always lie on a line.
    """
    rows_of_all, prefix = session.data.validation_rows, "val"
    if not len(rows_of_all):
        drawn = derive_generator("measured", session.seed).permutation(len(session.data.training_rows))
        rows_of_all = [session.data.training_rows[place] for place in np.sort(drawn[: session.settings.batch_size])]
        prefix = "train"
    total, seen = 0.0, []
    batches = even_batches(rows_of_all, session.settings.batch_size)
    with (
        averaged_weights(session.model, session.average),
        batch_statistics(session.model),
        session.divided(batches) as shares,
    ):
        encoded = _encoded(session, shares, after_batch=after_batch)
        for batch, (rows, features) in zip(batches, encoded, strict=True):
            z1, z2 = session.project(features)
            total += session.objective(z1, z2, session.metadata_of(rows)).item() * len(batch)
            everyones = [of_all_processes(part) for part in (features.transpose(0, 1), z1, z2)]
            seen.append((everyones[0].transpose(0, 1).cpu(), everyones[1].cpu(), everyones[2].cpu()))
    features, z1, z2 = (torch.cat(parts, dim=-2) for parts in zip(*seen, strict=True))
    _check_finite(session, rows_of_all, torch.cat([features.transpose(0, 1).flatten(1), z1, z2], dim=1))
    ranks = [effective_rank(x).item() if len(z1) > 2 else None for x in (torch.cat([z1, z2]), features.flatten(0, 1))]
    return {
        **({"val_loss": total / len(rows_of_all)} if prefix == "val" else {}),
        f"{prefix}_alignment": alignment(z1, z2).item(),
        f"{prefix}_uniformity": (uniformity(z1).item() + uniformity(z2).item()) / 2,
        f"{prefix}_effective_rank": ranks[0],
        f"{prefix}_features_effective_rank": ranks[1],
    }


def _check_finite(session: Session, rows: Sequence[int], representations: torch.Tensor) -> None:
    """Refuse weights under which scans have no finite representation."""
    broken = [session.data.names[row] for row, x in zip(rows, representations, strict=True) if not x.isfinite().all()]
    if broken:
        rate = session.optimizer.param_groups[0]["lr"]
        raise TrainingError(
            f"after the epoch's last step (learning rate {rate:g}) the embeddings of {len(broken)} of the {len(rows)} "
            f"samples that are measured are not finite: {', '.join(broken[:20])}. Nothing was overwritten: the last "
            "checkpoint, if there is one, stands. If it is not these (look at them with `neurocontrast check`), "
            "lower training.learning_rate, or set training.warmup_epochs or training.clip_norm."
        )


def _encoded(
    session: Session, batches: Sequence[Sequence[int]], *, after_batch: Callable[[], None]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield rows (n,) and both views' features (2, n, n_features) batch by batch, encoded as in training."""
    parts = [parts_of(batch, session.settings.micro_batch_size) for batch in batches]
    with session.read([part for each in parts for part in each]) as reading:
        for batch, each in zip(batches, parts, strict=True):
            encoded = []
            for rows, images in islice(reading, len(each)):
                encoded.append(session.encode_views(images, rows, epoch=_VALIDATION_EPOCH))
            yield torch.tensor(batch), torch.cat(encoded, dim=1)
            after_batch()  # not after each micro-batch, of which processes may have different numbers


def reestimate_model(session: Session, *, after_batch: Callable[[], None]) -> dict[str, object]:
    """Re-estimate BatchNorm statistics on up to 1,000 un-augmented training samples; return what was done.

    Where the encoder has no such layers, the head keeps its running averages of training.
    """
    layers = layers_of(session.model.encoder)
    record = _reestimate(session, session.model if layers else session.model.encoder, after_batch=after_batch)
    return {**record, "n_layers": len(layers)}


def _reestimate(session: Session, module: nn.Module, *, after_batch: Callable[[], None]) -> dict[str, object]:
    rows = np.asarray(session.data.training_rows)
    if len(rows) > MOST_SCANS_OF_STATISTICS:
        drawn = derive_generator("batchnorm", session.seed).permutation(len(rows))
        rows = rows[np.sort(drawn[:MOST_SCANS_OF_STATISTICS])]
    with (
        session.divided(even_batches(rows, _n_together(session))) as shares,
        session.read(shares) as batches,
    ):
        record = reestimate_statistics(module, (images for _, images in batches), after_batch=after_batch)
    return {**record, "n_scans": len(rows) if record["n_batches"] else 0}


def _n_together(session: Session) -> int:
    """Return how many samples pass the encoder at a time: at most as many as views in training."""
    micro = session.settings.micro_batch_size
    return session.settings.batch_size if micro is None else min(session.settings.batch_size, 2 * micro)


@torch.no_grad()
def measure_probe(session: Session, *, after_batch: Callable[[], None]) -> dict[str, float | None]:
    """Fit linear models on the training scans' features and score them on the validation scans'.

    Features are those that would be saved now: averaged weights, statistics re-estimated, no augmentation.
    """
    with averaged_weights(session.model, session.average):
        features = _features_of_splits(session, after_batch=after_batch)
    figures: dict[str, float | None] = {}
    if not session.processes.is_first:
        return figures
    for name, values in session.data.targets.items():
        train, val = values[list(session.data.training_rows)], values[list(session.data.validation_rows)]
        figures |= {f"probe_{name}_{key}": value for key, value in _score(features, train, val).items()}
    return figures


def _features_of_splits(session: Session, *, after_batch: Callable[[], None]) -> dict[str, np.ndarray]:
    _reestimate(session, session.model.encoder, after_batch=after_batch)
    features = {}
    for split, rows in (("train", session.data.training_rows), ("val", session.data.validation_rows)):
        parts = []
        session.model.eval()
        with (
            session.processes.divided(even_batches(rows, _n_together(session))) as shares,
            session.read(shares) as batches,
        ):
            for _, images in batches:
                parts.append(of_all_processes(session.model.encoder(images)).cpu())
                after_batch()
        features[split] = torch.cat(parts).numpy().astype(np.float64)
    session.model.train()
    return features


def _score(features: dict[str, np.ndarray], train: np.ndarray, val: np.ndarray) -> dict[str, float | None]:
    """Fit ridge or logistic regression where the target is known, and score it on the validation scans."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.metrics import r2_score, recall_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    known_train, known_val = pd.notna(train), pd.notna(val)
    train, val, number = train[known_train], val[known_val], train.dtype.kind == "f"
    if min(len(train), len(val)) < 2 if number else min(len(set(train)), len(set(val))) < 2:
        return {"r2" if number else "balanced_accuracy": None}
    logistic = LogisticRegression(C=0.01, class_weight="balanced", max_iter=1000)
    probe = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13)) if number else logistic)
    probe.fit(features["train"][known_train], train)
    predicted = probe.predict(features["val"][known_val])
    if number:
        return {"r2": float(r2_score(val, predicted))}
    # Recall over the classes that occur: a class that only the training scans have cannot be recalled.
    score = recall_score(val, predicted, labels=sorted(set(val)), average="macro", zero_division=0)
    return {"balanced_accuracy": float(score)}
