"""Supervised pretraining: predict a column of the metadata from each view, contrasting nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from neurocontrast.exceptions import DataError, one_of
from neurocontrast.kernels import Kind, Metadata
from neurocontrast.kernels.base import column_of
from neurocontrast.losses.core import Pool
from neurocontrast.losses.objective import LossSettings, Objective, check_complete
from neurocontrast.settings import Column


class Supervised(Objective):
    r"""Error of the prediction of a column from each view, such as the age, averaged over the views of a batch.

    Regression: the mean of \|ẑ − (y − μ)/s\| or of its square, with ẑ the single output, and μ and s the column's mean
    and standard deviation over the training scans. Classification: the cross-entropy of one output a class. The
    projection head of such a run ends in a linear layer with these outputs (`n_outputs`). It is what contrastive
    pretraining with metadata is compared with, such as the L1 loss on age in Barbano et al. 2023.

    Parameters
    ----------
    column : str
        Column that is predicted: of numbers, or of classes with ``error="cross-entropy"``.
    error : {"absolute", "squared", "cross-entropy"}
        Error of one prediction.

    Examples
    --------
    >>> import torch
    >>> loss = Supervised("age")
    >>> loss.fit({"age": torch.tensor([20.0, 40.0])})
    >>> loss(torch.zeros(2, 1), torch.zeros(2, 1), {"age": torch.tensor([30.0, 40.0])})
    tensor(0.5000)
    """

    title = "supervised prediction"
    citation = (
        "Barbano CA, Dufumier B, Duchesnay E, Grangetto M, Gori P. Contrastive learning for regression in multi-site "
        "brain age prediction. ISBI 2023."
    )
    n_views = (1, None)
    contrasts = normalise = False
    mean: Tensor
    sd: Tensor

    class Settings(LossSettings):
        column: Column
        error: Literal["absolute", "squared", "cross-entropy"] = "absolute"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("sd", torch.ones(()))

    @property
    def kind(self) -> Kind:
        """How the column is read."""
        return "categorical" if self.error == "cross-entropy" else "continuous"

    @property
    def columns(self) -> dict[str, Kind]:
        return {self.column: self.kind}

    def n_outputs(self, categories: Mapping[str, Sequence[str]]) -> int:
        """Return the outputs of the projection head: one number, or one for each class."""
        return len(categories[self.column]) if self.kind == "categorical" else 1

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        n_views, n, _ = pool.anchors.shape
        truth = column_of(pool.metadata, self.column, needed_by="the loss")
        if self.kind == "categorical":
            codes = truth.repeat(n_views)
            values = cross_entropy(pool.anchors.flatten(0, 1), codes, reduction="none").view(n_views, n)
        else:
            apart = pool.anchors[..., 0] - (truth - self.mean) / self.sd
            values = apart.abs() if self.error == "absolute" else apart.square()
        return {self.error.replace("-", "_"): pool.mean(values)}

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        """Refuse missing values, which nothing could be learnt from, and vectors."""
        check_complete(metadata, self.column, self.kind, names=names)

    def fit(self, metadata: Metadata) -> None:
        """Take mean and standard deviation of the training scans; refuse a column that is the same for all."""
        values = column_of(metadata, self.column, needed_by="the loss")
        if len(values) and (values == values[0]).all():
            raise DataError(
                f"objective.column: '{self.column}' is the same for all {len(values)} training scans, so there is "
                "nothing to predict. Name another column."
            )
        if self.kind == "continuous":
            exact = values.double()
            self.mean, self.sd = exact.mean().to(self.mean), exact.std(correction=0).to(self.sd)

    def target(self, metadata: Metadata, categories: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return the meaning of a prediction, from the training scans' `metadata`; refuse classes that none has."""
        values, about = metadata[self.column], {"column": self.column, "kind": self.kind}
        if self.kind == "continuous":
            places = {"mean": self.mean.item(), "sd": self.sd.item()}
            return {**about, **places, "lowest": values.min().item(), "highest": values.max().item()}
        classes, seen = list(categories[self.column]), set(values.tolist())
        unseen = [name for code, name in enumerate(classes) if code not in seen]
        if unseen:
            raise DataError(
                f"objective.column: no training scan has '{self.column}' {one_of(unseen)}, which only validation scans "
                "have. Leave such scans out (data.where), or set data.val_fraction to 0."
            )
        return {**about, "classes": classes}
