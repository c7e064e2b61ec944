"""The ``objective`` section: each loss with the keys it accepts, and no others."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from neurocontrast.exceptions import one_of, suggestion
from neurocontrast.settings import Settings

__all__ = ["KernelSettings", "ObjectiveSettings", "YAwareSettings"]

Temperature = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Column = Annotated[str, Field(min_length=1)]


def _bandwidth(sigma: Any) -> float | tuple[float, ...] | str:
    if sigma in ("scott", "silverman"):
        return str(sigma)
    numbers = sigma if isinstance(sigma, list | tuple) and sigma else [sigma]
    if any(isinstance(x, bool) or not isinstance(x, int | float) or not 0 < x < float("inf") for x in numbers):
        raise ValueError("must be a number above 0 (a standard deviation), 'scott' or 'silverman'")
    return tuple(float(x) for x in numbers) if numbers is sigma else float(numbers[0])


class _Factor(Settings):
    column: Column
    missing: Literal["error", "marginal"] = "error"


class GaussianFactor(_Factor):
    """exp(−((y − y')/sigma)²/2); sigma is in the column's own unit, years for age."""

    type: Literal["gaussian"]
    sigma: Annotated[Any, AfterValidator(_bandwidth)]


class LaplacianFactor(_Factor):
    """exp(−|y − y'|/sigma)."""

    type: Literal["laplacian"]
    sigma: Annotated[Any, AfterValidator(_bandwidth)]


class CosineFactor(_Factor):
    """<y, y'> / (|y||y'|)."""

    type: Literal["cosine"]


class LinearFactor(_Factor):
    """<y, y'>."""

    type: Literal["linear"]


class PolynomialFactor(_Factor):
    """(gamma <y, y'> + coef0)^degree."""

    type: Literal["polynomial"]
    degree: Annotated[int, Field(ge=1)] = 3
    gamma: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    coef0: NonNegative = 1.0


class CategoricalFactor(_Factor):
    """1 where equal, else 0."""

    type: Literal["categorical"]


class DifferentFactor(_Factor):
    """1 where different, `within` where equal: attract across sites, not only within one."""

    type: Literal["different"]
    within: Annotated[float, Field(ge=0, le=1)] = 0.0


Factor = Annotated[
    GaussianFactor
    | LaplacianFactor
    | CosineFactor
    | LinearFactor
    | PolynomialFactor
    | CategoricalFactor
    | DifferentFactor,
    Field(discriminator="type"),
]
KernelSettings = Annotated[tuple[Factor, ...], Field(min_length=1)]
"""Factors of a product kernel; one factor is a kernel by itself."""


def _is_psd(kernel: tuple[_Factor, ...]) -> tuple[_Factor, ...]:
    for factor in kernel:
        if isinstance(factor, DifferentFactor) and factor.within < 1:
            raise ValueError(
                "CCL-K needs a positive semi-definite kernel, and type: different is none; to forget the site, give "
                f"fair_cclk {{column: {factor.column}, type: categorical}}, and put type: different into the kernel of "
                "yaware, conditional or conditional_alignment"
            )
    return kernel


Condition = Annotated[KernelSettings, AfterValidator(_is_psd)]


class InfoNCESettings(Settings):
    """Cross-view InfoNCE."""

    loss: Literal["infonce"]
    temperature: Temperature = 0.1
    symmetric: bool = True


class NTXentSettings(Settings):
    """SimCLR's loss: no metadata."""

    loss: Literal["ntxent"]
    temperature: Temperature = 0.1


class YAwareSettings(Settings):
    """y-Aware InfoNCE: scans whose metadata are alike attract."""

    loss: Literal["yaware"]
    kernel: KernelSettings
    temperature: Temperature = 0.1
    negatives: KernelSettings | None = None


class ConditionalSettings(Settings):
    """Conditional alignment + weight × conditional uniformity."""

    loss: Literal["conditional"]
    kernel: KernelSettings
    temperature: Temperature = 0.1
    uniformity_weight: NonNegative = 1.0
    negatives: KernelSettings | None = None


class ConditionalAlignmentSettings(Settings):
    """Conditional alignment alone, which collapses: a part of a sum."""

    loss: Literal["conditional_alignment"]
    kernel: KernelSettings
    temperature: Temperature = 0.1


class ConditionalUniformitySettings(Settings):
    """Conditional uniformity alone: a part of a sum."""

    loss: Literal["conditional_uniformity"]
    kernel: KernelSettings
    temperature: Temperature = 0.1
    negatives: KernelSettings | None = None


class GlobalUniformitySettings(Settings):
    """Global uniformity alone: a part of a sum."""

    loss: Literal["global_uniformity"]
    temperature: Temperature = 0.1


class AlignmentUniformitySettings(Settings):
    """Wang & Isola's alignment + weight × uniformity."""

    loss: Literal["alignment_uniformity"]
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    t: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    uniformity_weight: NonNegative = 1.0


class SupConSettings(Settings):
    """Supervised contrast (L_out): scans of one label attract."""

    loss: Literal["supcon"]
    label: Column
    temperature: Temperature = 0.1


class SINCERESettings(Settings):
    """Supervised contrast that never repels a pair of one label."""

    loss: Literal["sincere"]
    label: Column
    temperature: Temperature = 0.1


class EpsilonSupInfoNCESettings(Settings):
    """SINCERE with a margin."""

    loss: Literal["epsilon_supinfonce"]
    label: Column
    temperature: Temperature = 0.1
    epsilon: Annotated[float, Field(allow_inf_nan=False)] = 0.25


class DebiasedSettings(Settings):
    """InfoNCE corrected for negatives that share the anchor's class."""

    loss: Literal["debiased"]
    temperature: Temperature = 0.5
    positive_prior: Annotated[float, Field(ge=0, lt=1)] = 0.1


class HardNegativeSettings(Settings):
    """Debiased InfoNCE that weighs near negatives more."""

    loss: Literal["hard_negative"]
    temperature: Temperature = 0.5
    positive_prior: Annotated[float, Field(ge=0, lt=1)] = 0.1
    concentration: NonNegative = 1.0


class FairInfoNCESettings(Settings):
    """NT-Xent whose negatives come from the anchor's cluster."""

    loss: Literal["fair_infonce"]
    cluster: Column
    temperature: Temperature = 0.1


class TripletSettings(Settings):
    """Triplets of normalised embeddings."""

    loss: Literal["triplet"]
    label: Column
    margin: NonNegative = 0.2


class _CCLKSettings(Settings):
    kernel: Condition
    temperature: Temperature = 0.1
    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.01
    symmetric: bool = False


class WeaklySupervisedCCLKSettings(_CCLKSettings):
    """CCL-K: scans whose condition is alike attract."""

    loss: Literal["weakly_supervised_cclk"]


class FairCCLKSettings(_CCLKSettings):
    """CCL-K: negatives have the anchor's condition, which is forgotten."""

    loss: Literal["fair_cclk"]


class HardNegativeCCLKSettings(_CCLKSettings):
    """CCL-K: negatives whose embeddings are alike; its kernel is on the column ``embedding``."""

    loss: Literal["hard_negative_cclk"]


Single = (
    InfoNCESettings
    | NTXentSettings
    | YAwareSettings
    | ConditionalSettings
    | ConditionalAlignmentSettings
    | ConditionalUniformitySettings
    | GlobalUniformitySettings
    | AlignmentUniformitySettings
    | SupConSettings
    | SINCERESettings
    | EpsilonSupInfoNCESettings
    | DebiasedSettings
    | HardNegativeSettings
    | FairInfoNCESettings
    | TripletSettings
    | WeaklySupervisedCCLKSettings
    | FairCCLKSettings
    | HardNegativeCCLKSettings
)
_Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class SumSettings(Settings):
    """Weighted sum of named objectives, each with its own kernel."""

    loss: Literal["sum"]
    objectives: Annotated[dict[_Name, Annotated[Single, Field(discriminator="loss")]], Field(min_length=1)]
    weights: dict[str, NonNegative] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name in self.weights:
            if name not in self.objectives:
                raise ValueError(
                    f"weights must be by the objectives' names, {one_of(self.objectives)}, got '{name}'."
                    f"{suggestion(name, self.objectives)}"
                )
        return self


ObjectiveSettings = Annotated[Single | SumSettings, Field(discriminator="loss")]
