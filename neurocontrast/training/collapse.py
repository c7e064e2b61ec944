"""Whether a representation has collapsed: everything in one point, or on one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["collapse_of", "collapse_warning"]

_UNIFORMITY_OF_A_POINT = -0.02
_RANK_OF_A_LINE = 1.2


def collapse_of(row: Mapping[str, Any]) -> str | None:
    """Say how the representation has collapsed, judged by an epoch's figures, or None.

    A *point*: the uniformity of the embeddings is above −0.02. Where embeddings are close together, the uniformity
    is about −2 times the mean squared distance of two of them, so their typical distance is below 0.1 on a
    sphere of radius 1 (6 degrees). Spread ones have −2 and less.

    A *line*: the effective rank of the embeddings, or of the features, is below 1.2. It is the exponential of the
    entropy of the centred singular values' shares: at 1.2 all directions but the first have 4 % of the sum together
    (2 % if there are a hundred of them), so whatever varies is one number. A little noise lifts it far above: a
    hundred directions with a hundredth of the first's value each give over 20. A boundary between two classes can be
    such a line without being a failure, which is why the warning names the losses whose minimum it is.

    Parameters
    ----------
    row : mapping
        A row of ``metrics.csv``: the figures of the validation scans, or without them of training scans.

    Returns
    -------
    str or None
        What was found, with its figure.
    """
    side = "val" if "val_uniformity" in row else "train"
    on = "validation samples" if side == "val" else "training samples"
    uniformity = row.get(f"{side}_uniformity")
    if uniformity is not None and uniformity > _UNIFORMITY_OF_A_POINT:
        return f"all embeddings of {on} are nearly the same point (uniformity {uniformity:.3g}; spread ones have −2)"
    for what, name in (("embeddings", f"{side}_effective_rank"), ("features", f"{side}_features_effective_rank")):
        rank = row.get(name)
        if rank is not None and rank < _RANK_OF_A_LINE:
            return f"the {what} of {on} lie on a line (effective rank {rank:.3g})"
    return None


def collapse_warning(row: Mapping[str, Any], previous: Mapping[str, Any] | None) -> str | None:
    """Return what to tell the user after an epoch; None where nothing is new.

    It depends on the two rows alone, so a resumed run tells the same: once when a collapse begins, and
    again only when there was an epoch without one in between.
    """
    found = collapse_of(row)
    if found is None or (previous is not None and collapse_of(previous) is not None):
        return None
    return (
        f"epoch {row['epoch']}: the representation has collapsed: {found}. Nothing tells the samples apart then. "
        "Lower training.learning_rate or add training.warmup_epochs, use a larger training.batch_size, or another "
        "objective.temperature. In the first epochs it may pass; with a loss that only separates two classes, "
        "a line is its minimum."
    )
