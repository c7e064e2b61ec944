"""Losses that read one metadata column: classes to contrast, numbers to order, or to predict."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from neurocontrast.exceptions import DataError, one_of
from neurocontrast.kernels import Categorical, Kernel, Kind, Metadata
from neurocontrast.kernels.base import column_of
from neurocontrast.kernels.column import listed
from neurocontrast.losses.core import Pool, distances
from neurocontrast.losses.objective import Objective, Temperature
from neurocontrast.losses.pairs import Pairs
from neurocontrast.losses.reductions import EMPTY, softplus_of
from neurocontrast.provenance import Description
from neurocontrast.settings import Column, NonNegative, checked


class EpsilonSupInfoNCE(Objective):
    """Epsilon-SupInfoNCE: scans of one label attract until closer than other scans by a margin.

    mean_i Σ_{p∈P_i} (1/n_i) [ −s_ip + log( exp(s_ip − ε) + Σ_{j∈N_i} exp s_ij ) ], where s_ij =
    <z_i, z_j>/τ is the similarity of two embeddings, P_i are the n_i other embeddings of the
    anchor's label, with the anchor's other view, and N_i the embeddings of other labels (Barbano et
    al. 2023). ε is subtracted from similarities that are divided by τ already. Without any other
    label in the batch the loss is −ε. The loss is a mean over the positives, as in the released
    code, while the paper's equation is a sum over the positives.

    Parameters
    ----------
    label : str
        A categorical metadata column, whose categories are the labels.
    temperature : float, default 0.1
        Temperature τ. With a small τ the hardest negatives decide.
    epsilon : float, default 0.25
        Margin ε ≥ 0 by which the similarity of positives should exceed the similarity of negatives.

    Examples
    --------
    >>> import torch
    >>> loss = EpsilonSupInfoNCE("label", temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"label": torch.tensor([0, 1])})
    tensor(0.4151)
    """

    title = "ε-SupInfoNCE"
    citation = (
        "Barbano CA, Dufumier B, Tartaglione E, Grangetto M, Gori P. Unbiased supervised "
        "contrastive learning. ICLR 2023."
    )
    n_views = (1, None)
    kernel: Kernel

    @checked
    def __init__(
        self, label: Column, *, temperature: Temperature = 0.1, epsilon: NonNegative = 0.25
    ) -> None:
        super().__init__(kernel=Categorical(label), temperature=temperature)
        self.label = label
        self.epsilon = epsilon

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def contrast(pairs: Pairs) -> tuple[Tensor, Tensor]:
            same = pairs.weights(self.kernel)
            negatives = pairs.log_sum_exp(1 - same)  # L_i = log Σ_{j∈N_i} exp s_ij
            # −s_ip + log(exp(s_ip − ε) + exp L_i) = log(1 + exp(L_i + ε − s_ip)) − ε of each
            # positive p.
            of_positives = softplus_of(negatives[..., None, None] + self.epsilon - pairs.s)
            summed = (of_positives * same.unsqueeze(1)).masked_fill(pairs.itself, 0).sum((2, 3))
            n_positives = pairs.mass(same)
            return summed / n_positives.clamp_min(1), n_positives

        values, n_positives = pool.each_anchor(contrast)
        n_negatives = pool.n_candidates - n_positives
        if not self.epsilon:
            pool.figures["bound"] = pool.mean((n_negatives + 1).log() - values, n_positives)
        parts = {"contrast": pool.mean(values, n_positives)}
        if self.epsilon:
            parts["margin"] = pool.mean(torch.full_like(values, -self.epsilon), n_positives)
        return parts


class SINCERE(EpsilonSupInfoNCE):
    """SINCERE: scans of one label attract, scans of different labels repel, and no pair does both.

    mean_i Σ_{p∈P_i} (1/n_i) [ −s_ip + log( exp s_ip + Σ_{j∈N_i} exp s_ij ) ] (Feeney and Hughes
    2023), where s_ij = <z_i, z_j>/τ is the similarity of two embeddings, P_i are the n_i other
    embeddings of the anchor's label and N_i the embeddings of other labels. The gradient on a pair
    of one label is never positive, so that, unlike with `SupCon`, classes are not pushed apart from
    within. The KL divergence of positives from negatives is at least mean_i log(#N_i + 1) − L, the
    `bound` in the metrics of training (theorem 3 has the looser log #N_i).

    Parameters
    ----------
    label : str
        A categorical metadata column, whose categories are the labels.
    temperature : float, default 0.1
        Temperature τ. With a small τ the hardest negatives decide.

    Examples
    --------
    >>> import torch
    >>> loss = SINCERE("label", temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"label": torch.tensor([0, 1])})
    tensor(0.5514)
    """

    title = "SINCERE"
    citation = (
        "Feeney P, Hughes MC. SINCERE: supervised information noise-contrastive estimation "
        "revisited. arXiv:2309.14277, 2023."
    )

    @checked
    def __init__(self, label: Column, *, temperature: Temperature = 0.1) -> None:
        super().__init__(label, temperature=temperature, epsilon=0.0)


class Triplet(Objective):
    """Triplet loss: an anchor should be nearer to scans of its label than to others, by a margin.

    Over all triplets of an anchor a, another embedding p of its label and an embedding q of another
    label, the loss is the mean of the values d(a, p) − d(a, q) + margin that are above 0, with d
    the Euclidean distance of normalised embeddings (Schroff et al. 2015). Without such values the
    loss is 0.

    The number of triplets grows with the cube of the batch; here the distances of an anchor are
    sorted instead, which gives the same value and gradient in O(n² log n) time and O(n) memory.

    The loss has no temperature and no normaliser, and triplets that satisfy the margin do not
    count. `SupCon` or `SINCERE` usually learn better embeddings; choose the triplet loss as a
    baseline.

    Parameters
    ----------
    label : str
        A categorical metadata column, whose categories are the labels.
    margin : float, default 0.2
        Margin, at least 0, in units of the distance of unit vectors (at most 2). With a larger
        margin more triplets count, and classes lie further apart.

    Examples
    --------
    >>> import torch
    >>> Triplet("label")(torch.eye(2), torch.ones(2, 2), {"label": torch.tensor([0, 1])})
    tensor(0.4551)
    """

    title = "triplet loss"
    n_views = (1, None)
    of_anchors = False
    citation = (
        "Schroff F, Kalenichenko D, Philbin J. FaceNet: a unified embedding for face recognition "
        "and clustering. CVPR 2015."
    )

    kernel: Kernel

    @checked
    def __init__(self, label: Column, *, margin: NonNegative = 0.2) -> None:
        super().__init__(kernel=Categorical(label))
        self.label = label
        self.margin = margin

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def of_anchors(pairs: Pairs) -> tuple[Tensor, Tensor]:
            apart = distances(pairs.s).flatten(2)
            same = pairs.weights(self.kernel)
            alike = (same > 0).unsqueeze(1).expand_as(pairs.s)
            # The sum over active triplets is linear in the distances: a distance counts once for
            # every active triplet in which it pulls, minus once for every one in which it pushes.
            counts, n_active = _counts(
                apart.detach(), (alike & ~pairs.itself).flatten(2), ~alike.flatten(2), self.margin
            )
            # Weights that are NaN, of a label missing on an accelerator, stay.
            return (counts * apart).sum(2) + self.margin * n_active + 0 * pairs.mass(same), n_active

        totals, n_triplets = pool.each_anchor(of_anchors)
        if pool.sample_weights is not None:
            weights = pool.sample_weights.to(totals)
            totals = weights * totals
            n_triplets = weights * n_triplets
        n_active = n_triplets.sum()
        return {"triplet": totals.sum() / torch.where(n_active > 0, n_active, 1)}


@torch.no_grad()
def _counts(
    distances: Tensor, positive: Tensor, negative: Tensor, margin: float
) -> tuple[Tensor, Tensor]:
    """Return how often each of the `distances` enters a sum over active triplets, with sign.

    The distances (V, n_i, N) are from the anchors, V views of n_i samples, to all N embeddings. A
    triplet has an anchor, an embedding of its label (mask `positive`) and an embedding of another
    label (mask `negative`). A triplet is active if the distance to the positive plus `margin` is
    above the distance to the negative. The counts have the shape of the distances: above 0 for a
    distance to a positive, below 0 to a negative. The second result is the number of active
    triplets of each anchor, (V, n_i).
    """
    reach = (distances + margin).masked_fill_(~positive, -torch.inf)
    barrier, order = distances.masked_fill(~negative, torch.inf).sort(2)
    pulls = torch.searchsorted(barrier, reach)
    # A positive reaches the negatives of rank below its number of pulls.
    ends = pulls.new_zeros(*pulls.shape[:2], pulls.shape[2] + 1)
    ends.scatter_add_(2, pulls, torch.ones_like(pulls))
    pushes = pulls.shape[2] - ends[..., :-1].cumsum(2)
    counts = pulls.scatter_add(2, order, -pushes)
    return counts.to(distances.dtype), pulls.sum(2).to(distances.dtype)


class RankNContrast(Objective):
    """Rank-N-Contrast: order distances of embeddings like the differences of a number such as age.

    mean_i mean_{j≠i} [ −s_ij + log Σ_{k≠i: d_ik ≥ d_ij} exp s_ik ] over the 2n embeddings of a
    batch (Zha et al. 2023, equations 1 and 2), with s_ij = −‖z_i − z_j‖/τ and d_ij = ``|y_i −
    y_j|``. Each other embedding j is the positive in turn, with the embeddings at least as far from
    the anchor in y as negatives. Only the order of the differences in y counts, so that there is no
    bandwidth. The distances of an anchor are sorted once: O(n² log n) time, O(n) memory.

    Choose the loss to predict one continuous variable such as age. Embeddings have unit norm as in
    every loss of this package, while the paper's embeddings have any norm: the default temperature
    of 2 is the paper's, and lower temperatures may suit unit vectors better.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,), without missing values.
    temperature : float, default 2.0
        Temperature τ, in units of the distance of two unit vectors (at most 2). With a small τ the
        nearest negatives decide.

    Examples
    --------
    >>> import torch
    >>> RankNContrast("age")(torch.eye(3), torch.eye(3), {"age": torch.tensor([20.0, 30.0, 60.0])})
    tensor(1.0496)
    """

    title = "Rank-N-Contrast"
    citation = (
        "Zha K, Cao P, Son J, Yang Y, Katabi D. Rank-N-Contrast: learning continuous "
        "representations for regression. NeurIPS 2023."
    )

    n_views = (1, None)

    @checked
    def __init__(self, column: Column, *, temperature: Temperature = 2.0) -> None:
        super().__init__(temperature=temperature)
        self.column = column

    @property
    def scale(self) -> float:
        """Factor 1 of inner products, because distances are divided by the temperature instead."""
        return 1.0

    @property
    def columns(self) -> dict[str, Kind]:
        return {self.column: "continuous"}

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        """Raise a DataError if the loss's column has missing or infinite values, or vectors."""
        check_complete(metadata, self.column, "continuous", names=names)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        y = pool.metadata[self.column]
        if y.ndim != 1:
            raise DataError(
                f"metadata['{self.column}'] must be one number a sample, (n,), "
                f"got {tuple(y.shape)}."
            )
        if y.device.type == "cpu":
            self.check(pool.metadata)

        def of_anchors(pairs: Pairs, *learned: Tensor) -> tuple[Tensor]:
            apart = (y[pairs.samples].unsqueeze(1) - y).abs()
            (temperature,) = learned or (self.tau,)
            return (_sum_over_positives(distances(pairs.s) / -temperature, apart, pairs.itself),)

        learned = list[Tensor]()
        if isinstance(self.tau, Tensor):
            learned.append(self.tau.to(pool.anchors.dtype))
        (totals,) = pool.each_anchor(of_anchors, *learned)
        contrast = pool.mean(totals) / max(1, pool.n_candidates)
        if y.device.type != "cpu":  # nothing asked for missing values: they make the loss NaN
            contrast = contrast + 0 * y.sum()
        return {"contrast": contrast}


def _sum_over_positives(similarities: Tensor, apart: Tensor, itself: Tensor) -> Tensor:
    """Return Σ_j ( −s_ij + log Σ_{k: d_ik ≥ d_ij} exp s_ik ) of each anchor i, (V, n_i).

    Inputs are the similarities s (V, n_i, V, n), the differences d of samples in y (n_i, n), and
    the mask of the pairs of an anchor with itself (V, n_i, V, n).
    """
    n_views = len(similarities)
    pulled = similarities.masked_fill(itself, 0).sum((2, 3))
    of_samples = similarities.masked_fill(itself, EMPTY).logsumexp(2)
    # From the nearest sample in y to the furthest: the negatives are the sample, its equals, and
    # all behind.
    ordered, order = apart.sort(1)
    first_equal = torch.searchsorted(ordered, ordered)
    behind = of_samples.gather(2, order.expand_as(of_samples)).flip(2).logcumsumexp(2).flip(2)
    # The anchor's own sample has one view fewer, and all others are at least as far.
    sums = n_views * behind.gather(2, first_equal.expand_as(behind)).sum(2) - behind[..., 0]
    return sums - pulled


class Supervised(Objective):
    r"""Prediction error of a metadata column such as age, averaged over views and scans.

    Regression: the mean of \|ẑ − (y − μ)/s\| or of its square, with ẑ the single output, and μ and
    s the column's mean and standard deviation over the training scans. Classification: the
    cross-entropy, with one output for each class. The projection head of such a run ends in a
    linear layer with `n_outputs` outputs. Use the loss as a baseline for contrastive pretraining
    with metadata, as the L1 loss on age in Barbano et al. 2023.

    Parameters
    ----------
    column : str
        Column to predict: numbers, or classes with ``error="cross-entropy"``.
    error : {"absolute", "squared", "cross-entropy"}, default "absolute"
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
        "Barbano CA, Dufumier B, Duchesnay E, Grangetto M, Gori P. Contrastive learning for "
        "regression in multi-site brain age prediction. ISBI 2023."
    )
    n_views = (1, None)
    contrasts = normalise = False
    mean: Tensor
    sd: Tensor

    @checked
    def __init__(
        self,
        column: Column,
        *,
        error: Literal["absolute", "squared", "cross-entropy"] = "absolute",
    ) -> None:
        super().__init__()
        self.column = column
        self.error = error
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("sd", torch.ones(()))

    @property
    def kind(self) -> Kind:
        """Kind of the column to predict: categorical with the cross-entropy, or else continuous."""
        if self.error == "cross-entropy":
            return "categorical"
        return "continuous"

    @property
    def columns(self) -> dict[str, Kind]:
        return {self.column: self.kind}

    def n_outputs(self, categories: Mapping[str, Sequence[str]]) -> int:
        """Return the number of outputs that the projection head needs for the column to predict.

        The number is 1 for a column of numbers. If the setting ``error`` of this loss is
        ``cross-entropy``, the column has classes, and the number is that of its classes.
        `categories` has the names of the categories of each column.
        """
        if self.kind == "continuous":
            return 1
        return len(categories[self.column])

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        n_views, n, _ = pool.anchors.shape
        truth = column_of(pool.metadata, self.column, needed_by="the loss")
        if self.kind == "categorical":
            codes = truth.repeat(n_views)
            values = cross_entropy(pool.anchors.flatten(0, 1), codes, reduction="none").view(
                n_views, n
            )
        else:
            values = pool.anchors[..., 0] - (truth - self.mean) / self.sd
            values = {"absolute": torch.abs, "squared": torch.square}[self.error](values)
        return {self.error.replace("-", "_"): pool.mean(values)}

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        """Raise a DataError if the column to predict has missing values, or vectors."""
        check_complete(metadata, self.column, self.kind, names=names)

    def fit(self, metadata: Metadata) -> None:
        """Set the mean and standard deviation of the column to predict, over training scans.

        A DataError refuses a column with one value. Classes have no mean.
        """
        values = column_of(metadata, self.column, needed_by="the loss")
        if len(values) and (values == values[0]).all():
            raise DataError(
                f"objective.column: '{self.column}' is the same for all {len(values)} training "
                "scans, so there is nothing to predict. Name another column."
            )
        if self.kind == "continuous":
            exact = values.double()
            self.mean = exact.mean().to(self.mean)
            self.sd = exact.std(correction=0).to(self.sd)

    def target(self, metadata: Metadata, categories: Mapping[str, Sequence[str]]) -> Description:
        """Return a dictionary on the column that the network predicts, for ``encoder.json``.

        The keys are ``column`` and ``kind``, and ``classes`` for classes, or for numbers ``mean``,
        ``sd``, ``lowest`` and ``highest`` over the training scans.

        Parameters
        ----------
        metadata : mapping
            Columns of the training scans.
        categories : mapping
            Names of the categories of each column, in the order of the codes.

        Raises
        ------
        DataError
            If a class has no training scan.
        """
        values = metadata[self.column]
        target: Description = {"column": self.column, "kind": self.kind}
        if self.kind == "continuous":
            target["mean"] = self.mean.item()
            target["sd"] = self.sd.item()
            target["lowest"] = values.min().item()
            target["highest"] = values.max().item()
            return target
        classes = list(categories[self.column])
        seen = set(values.tolist())
        unseen = [name for code, name in enumerate(classes) if code not in seen]
        if unseen:
            raise DataError(
                f"objective.column: no training scan has '{self.column}' {one_of(unseen)}, which "
                "only validation scans have. Leave such scans out (data.where), or set "
                "data.val_fraction to 0."
            )
        target["classes"] = classes
        return target


def check_complete(
    metadata: Metadata, name: str, kind: Kind, *, names: Sequence[str] | None = None
) -> None:
    """Raise a DataError if column `name` has missing or infinite values, or vectors.

    The error lists the rows, by `names` if given.
    """
    values = column_of(metadata, name, needed_by="the loss")
    if values.ndim != 1:
        raise DataError(f"objective.column: '{name}' is a vector; name a single column.")
    if kind == "continuous" and math.isfinite(float(values.sum())):
        return  # a single value that is not finite would show in the sum
    wrong = ~values.isfinite()
    if kind == "categorical":
        wrong = values < 0
    if wrong.any():
        rows = cast(list[int], wrong.nonzero()[:, 0].tolist())
        raise DataError(
            f"objective.column: '{name}' is missing or infinite for {listed(rows, names)}. Fill it "
            "in, or leave these out (data.where)."
        )
