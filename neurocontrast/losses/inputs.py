"""Check the embeddings and sample weights given to a loss, and stack the views of a batch."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.losses.reductions import Unit

NamedViews = dict[str, Tensor]
"""Embeddings of each view, by the view's name in messages; checked later to be tensors."""

Views = Tensor | Sequence[Tensor]
"""Embeddings (n, d) of one view, a list of such tensors, or a tensor (V, n, d) of V views."""


def normalise(*views: Tensor) -> Tensor:
    """Stack `views`, (n, d) each, to one tensor (V, n, d) of embeddings with unit norm.

    The result has at least the precision of float32. A zero vector stays 0.
    """
    return cast(Tensor, Unit.apply(at_least_float32(views[0]), *views))


def at_least_float32(tensor: Tensor) -> torch.dtype:
    """Return the dtype for computing a loss of `tensor`: float64 for float64, or else float32."""
    if tensor.dtype == torch.float64:
        return torch.float64
    return torch.float32


def checked_weights(values: Any, view: Tensor) -> Tensor:
    """Return `values` as sample weights (n,) on the device of `view`, embeddings (n, d).

    A DataError refuses another shape, and on a CPU weights that are negative or not finite.
    """
    weights = torch.as_tensor(values, dtype=at_least_float32(view), device=view.device).detach()
    if weights.shape != view.shape[:1]:
        raise DataError(
            f"weights must be one number a sample, ({len(view)},), "
            f"got shape {tuple(weights.shape)}."
        )
    if weights.device.type == "cpu" and not ((weights >= 0) & weights.isfinite()).all():
        raise DataError("weights must be finite and at least 0.")
    return weights


def checked_views(z1: Views, z2: Tensor | None) -> list[Tensor]:
    """Return the embeddings (n, d) of all views as one list: first of `z1`, then of `z2`.

    `z1` is one view, a list of views or a tensor (V, n, d) of V views, and `z2` a further view or
    None. A DataError refuses views that differ in shape, dtype or device.
    """
    views = _named_views(z1, z2)
    if not views:
        raise DataError("z1 must be a tensor or a list of views, got an empty list.")
    for name, z in views.items():
        _check_view(name, z)
    (first, reference), *others = views.items()
    for name, z in others:
        if z.shape != reference.shape or z.dtype != reference.dtype or z.device != reference.device:
            raise DataError(
                f"{name} must match {first} in shape, dtype and device: {first} is "
                f"{reference.dtype} of shape {tuple(reference.shape)} on {reference.device}, "
                f"{name} is {z.dtype} of shape {tuple(z.shape)} on {z.device}."
            )
    return [z.as_subclass(Tensor) for z in views.values()]  # of MONAI's MetaTensor, too


def _named_views(z1: Views, z2: Tensor | None) -> NamedViews:
    """Return all views in `z1` and `z2` by name for messages, such as ``z1[0]``.

    Arrays of NumPy become tensors.
    """
    views: NamedViews = {}
    if isinstance(z1, Tensor | np.ndarray) and z1.ndim != 3:
        views["z1"] = z1
    else:
        for number, z in enumerate(z1):
            views[f"z1[{number}]"] = z
    if z2 is not None:
        views["z2"] = z2
    for name, z in views.items():
        if isinstance(z, np.ndarray):
            views[name] = torch.as_tensor(z)
    return views


def _check_view(name: str, z: object) -> None:
    """Raise a DataError for a view `z` that is not a floating-point tensor of shape (n, d).

    `name` is the view's name for the message.
    """
    noun = type(z).__name__
    if isinstance(z, Tensor):
        if z.ndim == 2 and z.shape[0] > 0 and z.is_floating_point():
            return
        noun = f"{z.dtype} of shape {tuple(z.shape)}"
    raise DataError(
        f"{name} must be a floating-point tensor of shape (n, d) with n ≥ 1, got {noun}."
    )
