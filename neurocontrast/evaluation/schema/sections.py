"""The sections of ``evaluation.json``, typed; attributes have the names of the keys."""

# ruff: noqa: D101 - the names of sections say what they are; pydantic copies the defaults of its models

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, ValidationInfo, model_validator

from neurocontrast.exceptions import one_of

__all__ = [
    "Bootstrap", "Confounds", "Counts", "Document", "EmbeddingsOrigin", "Estimate", "External", "ExternalMetric",
    "FixedSplit", "Increment", "LearningCurve", "LearningPoint", "Metric", "NewSite", "Notice",
    "OpenBHB", "Outlyingness", "Permutation", "Probe", "Section",
    "SiteOutside", "SitePredictability", "SkippedSite", "Threshold", "VoxelsAbout",
]  # fmt: skip

Interval = tuple[StrictFloat, StrictFloat] | None
Document = dict[str, Any] | None
"""A section that another command wrote and that is kept as it is."""


@dataclass(frozen=True)
class Notice:
    """A warning of an evaluation: a code for machines, a message, and what the message means for a reader.

    Parameters
    ----------
    code : str
        A short name, the same in every evaluation.
    message : str
        What was found, with its numbers.
    explanation : str
        What this means for reading the results, and what to do; empty in evaluations of earlier versions.
    """

    code: str
    message: str = ""
    explanation: str = ""


class Section(BaseModel):
    """A section of the file. Null means that a key is absent; keys of other versions are skipped in reading."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, Mapping):
            return given
        unknown = [name for name in given if name not in cls.model_fields]
        if unknown and info.context == "writing":
            raise ValueError(f"{cls.__name__} has no field {one_of(unknown)}")
        fields = cls.model_fields.items()
        filled = {name for name, field in fields if field.default is not None and not field.is_required()}
        return {name: value for name, value in given.items() if value is not None or name not in filled}


class Metric(Section):
    """A metric over folds (`mean`, `sd`), and of all out-of-fold predictions together (`pooled`, `interval`)."""

    mean: StrictFloat | None = None
    sd: StrictFloat | None = None
    pooled: StrictFloat | None = None
    interval: Interval = None
    n_folds_defined: StrictInt | None = None
    reason: str | None = None


class Increment(Section):
    """A metric of the embedding minus that of another model."""

    difference: StrictFloat | None = None
    interval: Interval = None
    interval_method: str | None = None
    p_value: StrictFloat | None = None


class Estimate(Section):
    """A value and its interval."""

    value: StrictFloat | None = None
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    n: StrictInt | None = None


class Counts(Section):
    scans: StrictInt | None = None
    subjects: StrictInt | None = None
    sites: StrictInt | None = None
    features: StrictInt | None = None
    excluded: dict[str, StrictInt] = {}


class Probe(Section):
    name: str | None = None
    own: StrictBool = False
    estimator: str | None = None
    title: str | None = None
    citation: str | None = None
    strength_name: str | None = None
    strength: StrictFloat | None = None
    why_not_stored: str | None = None
    inner_splits: str | None = None
    blocks: str | None = None
    n_components: StrictFloat | None = None
    clip: StrictBool = False
    recentre: str = "none"
    recentre_preserve: list[str] = []


class Threshold(Section):
    rule: StrictFloat | str | None = None
    values: list[StrictFloat | None] = []


class Bootstrap(Section):
    n: StrictInt | None = None
    method: str | None = None
    unit: str | None = None
    n_units: StrictInt | None = None
    level: StrictFloat | None = None


class FixedSplit(Section):
    column: str | None = None
    n: dict[str, StrictInt] = {}
    chosen_on: str | None = None
    refit_on: list[str] = []
    n_fitted: StrictInt | None = None
    n_pretrained: dict[str, StrictInt | None] = {}
    n_duplicates: dict[str, StrictInt] = {}


class Permutation(Section):
    n: StrictInt | None = None
    unit: str | None = None
    within_site: StrictBool | None = None
    within_fold: StrictBool | None = None
    share_moved: StrictFloat | None = None
    repeat: StrictInt | None = None
    observed: dict[str, StrictFloat | None] = {}
    p_values: dict[str, StrictFloat | None] = {}
    seconds: StrictFloat | None = None


class OpenBHB(Section):
    score: StrictFloat | None = None
    interval: Interval = None
    lower_is_better: StrictBool = True
    chance: StrictFloat | None = None
    age_mae: StrictFloat | None = None
    age_mae_chance: StrictFloat | None = None
    site_balanced_accuracy: StrictFloat | None = None
    site_chance: StrictFloat | None = None
    exponent: StrictFloat | None = None
    n: Counts = Counts()
    n_site_folds: StrictInt | None = None


class Confounds(Section):
    harmonise: str = "none"
    harmonise_preserve: list[str] = []
    residualise: list[str] = []
    openbhb: OpenBHB | None = None
    openbhb_reason: str | None = None


class SiteOutside(Section):
    site: str | None
    n: StrictInt | None = None
    n_outside: StrictInt | None = None
    median_percentile: StrictFloat | None = None


class Outlyingness(Section):
    reference: str | None = None
    threshold_percentile: StrictFloat | None = None
    n_outside: StrictInt | None = None
    n: StrictInt | None = None
    by_site: list[SiteOutside] = []
    note: str | None = None
    covariance: str | None = None


class SkippedSite(Section):
    site: str
    why: str = ""


class SitePredictability(Section):
    balanced_accuracy: StrictFloat | None = None
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    chance: StrictFloat | None = None
    n_sites: StrictInt | None = None


class NewSite(Section):
    design: str | None = None
    metric: str | None = None
    models: list[str] = []
    home: dict[str, dict[str, Estimate]] = {}
    unseen: dict[str, dict[str, Estimate]] = {}
    ratio: dict[str, dict[str, Estimate]] = {}
    difference: dict[str, dict[str, Estimate]] = {}
    unseen_minus_constant: dict[str, dict[str, Estimate]] = {}
    n: Counts = Counts()
    bootstrap_unit: str | None = None
    n_sites: StrictInt | None = None
    left_out: list[str] = []
    skipped: list[SkippedSite] = []
    site_predictability: SitePredictability | None = None
    recentred: StrictBool = False


class LearningPoint(Section):
    """A metric with a number of training subjects."""

    n_train: StrictInt
    mean: StrictFloat | None = None
    sd: StrictFloat | None = None
    n: StrictInt | None = None


class LearningCurve(Section):
    sizes: list[StrictInt] = []
    n_draws: StrictInt | None = None
    unit: str | None = None
    metrics: dict[str, list[LearningPoint]] = {}
    baseline: dict[str, list[LearningPoint]] = {}
    voxels: dict[str, list[LearningPoint]] = {}
    regional: dict[str, list[LearningPoint]] = {}


class ExternalMetric(Section):
    value: StrictFloat | None = None
    interval: Interval = None
    interval_method: str | None = None
    reason: str | None = None


class External(Section):
    file: str | None = None
    digest: str | None = None
    n: Counts = Counts()
    sites: list[str] = []
    n_train: StrictInt | None = None
    strength: StrictFloat | None = None
    threshold: StrictFloat | None = None
    metrics: dict[str, ExternalMetric] = {}
    baseline: dict[str, ExternalMetric] = {}
    baseline_covariates: list[str] = []
    increment: dict[str, Increment] = {}
    n_overlap: StrictInt = 0
    outlyingness: Outlyingness | None = None


class VoxelsAbout(Section):
    spacing_mm: StrictFloat | None = None
    mask: str | None = None
    n_voxels: StrictInt | None = None
    smooth_mm: StrictFloat | None = None
    standardised: str | None = None
    n_components: StrictInt | None = None


class EmbeddingsOrigin(Section):
    file: str | None = None
    digest: str | None = None
    cohort_source: str | None = None
    cohort_digest: str | None = None
    environment: Document = None
    layer: str = "encoder"
