"""Sections of ``evaluation.json`` that each hold a further analysis, such as the learning curve."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict, StrictBool, StrictFloat, StrictInt, TypeAdapter

from neurocontrast.documents.document import Json
from neurocontrast.documents.figures import Estimate, Increment, Interval, Metric, ModelFigures
from neurocontrast.documents.result import Counts, Result
from neurocontrast.documents.section import Part, ResultSection


class OpenBHB(ResultSection):
    """OpenBHB challenge score of the features, made of an age error and a site accuracy."""

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


class Confounds(Part):
    """Adjustment of the features for confounds, and the OpenBHB score or the reason for none.

    The score combines how well age and site can be predicted from the features that the probe gets
    (`OpenBHB`). There is none if the site was taken out of these features (`harmonise`,
    `residualise`).
    """

    key = "confounds"

    harmonise: str = "none"
    harmonise_preserve: list[str] = []
    residualise: list[str] = []
    openbhb: OpenBHB | None = None
    openbhb_reason: str | None = None


class SiteOutside(ResultSection):
    """How many scans a site has, how many are outlying, and their median distance percentile.

    `n` and `median_percentile` are of all tested scans of the site. The distance of a scan is from
    the mean of the nearest training site, and its percentile is among the distances of training
    scans. An outlying scan is beyond `Outlyingness.threshold_percentile`.
    """

    site: str | None
    n: StrictInt = 0
    n_outside: StrictInt = 0
    median_percentile: StrictFloat | None = None


class Outlyingness(Part):
    """Numbers of tested scans far from the scans that a probe learned from, in all and by site."""

    key = "outlyingness"

    reference: str | None = None
    threshold_percentile: StrictFloat | None = None
    n_outside: StrictInt | None = None
    n: StrictInt | None = None
    by_site: list[SiteOutside] = []
    note: str | None = None


class SkippedSite(ResultSection):
    """Site that was never held out, so not tested as an unseen site, and the reason."""

    site: str
    why: str = ""


class SitePredictability(ResultSection):
    """Balanced accuracy with which the site of a scan is predicted from the embedding.

    `chance` is the balanced accuracy at chance level.
    """

    balanced_accuracy: StrictFloat | None = None
    low: StrictFloat | None = None
    high: StrictFloat | None = None
    chance: StrictFloat | None = None
    n_sites: StrictInt | None = None


class NewSite(Part):
    """Metrics of each model at sites with training scans (`home`) and without (`unseen`), compared.

    Training is the fit of the model in a fold, such as a probe; pretraining of the encoder does not
    count. `ratio` is unseen over home, and `difference` is unseen minus home.
    """

    key = "new_site"

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


class LearningPoint(ResultSection):
    """Point of a learning curve: mean and SD of a metric over fits to `n_train` subjects.

    `n` is the number of fits in which the metric is defined.
    """

    n_train: StrictInt
    mean: StrictFloat | None = None
    sd: StrictFloat | None = None
    n: StrictInt | None = None


class LearningCurve(Part):
    """Learning curves of the embedding (`metrics`) and of the covariates (`baseline`), by metric.

    The curves of each other model are under the model's name.
    """

    model_config = ConfigDict(frozen=True, protected_namespaces=(), extra="allow")
    key = "learning_curve"

    sizes: list[StrictInt] = []
    n_draws: StrictInt | None = None
    unit: str | None = None
    metrics: dict[str, list[LearningPoint]] = {}
    baseline: dict[str, list[LearningPoint]] = {}

    def of_model(self, key: str) -> dict[str, list[LearningPoint]]:
        """Return name of a metric → points of the learning curve of the model named `key`.

        Empty for a model without curves, and for the embedding and the covariates, whose curves are
        the attributes `metrics` and `baseline`.
        """
        return _POINTS.validate_python((self.model_extra or {}).get(key) or {})


_POINTS = TypeAdapter(dict[str, list[LearningPoint]])


class ExternalMetric(ResultSection):
    """Value of a metric on the external test set, with its interval."""

    value: StrictFloat | None = None
    interval: Interval = None
    reason: str | None = None


class ExternalBaseline(ResultSection):
    """Metrics of a model without an encoder on the external test set, and the embedding's gain.

    The gain in a metric (`increment`) is the embedding's value minus the value of this model.
    """

    metrics: dict[str, ExternalMetric] = {}
    increment: dict[str, Increment] = {}


class ExternalTest(Part):
    """External test: scans and sites, metrics of embedding and covariates, and outlying scans."""

    key = "external"

    file: str | None = None
    digest: str | None = None
    n: Counts = Counts()
    sites: list[str] = []
    n_train: StrictInt | None = None
    strength: StrictFloat | None = None
    threshold: StrictFloat | None = None
    weight: StrictFloat | None = None
    """Share of the network in the features' total variance, chosen on inner folds.

    The rest is the share of the appended components; None without components.
    """
    metrics: dict[str, ExternalMetric] = {}
    baseline: dict[str, ExternalMetric] = {}
    baseline_covariates: list[str] = []
    increment: dict[str, Increment] = {}
    rivals: dict[str, ExternalBaseline] = {}
    """Name of a baseline of regional measures → its metrics on the external test set. Images of the
    test set are not read.
    """
    n_overlap: StrictInt = 0
    overlap_by: list[str] | None = None
    outlyingness: Outlyingness | None = None

    def as_result(self, evaluation: Result) -> Result:
        """Return an `evaluation` with metrics and threshold replaced by the external test's.

        Numbers of scans and outlying scans are replaced too; the permutation test is removed.
        """
        models = {}
        for key, baseline in self.rivals.items():
            metrics = _as_metrics(baseline.metrics)
            models[key] = ModelFigures(metrics=metrics, increment=baseline.increment)
        threshold: Json = {"rule": self.threshold, "values": []}
        changes = {
            "n": self.n,
            "metrics": _as_metrics(self.metrics),
            "baseline": _as_metrics(self.baseline),
            "increment": self.increment,
            "baseline_covariates": self.baseline_covariates,
            "threshold": evaluation.threshold.model_copy(update=threshold),
            "permutation": None,
            "splits": "fixed",
            "models": models,
            Outlyingness.key: self.outlyingness,
        }
        return evaluation.model_copy(update=changes)


def _as_metrics(figures: Mapping[str, ExternalMetric]) -> dict[str, Metric]:
    """Convert a model's metrics on the external test set to `Metric`, as a `Result` holds them."""
    metrics = {}
    for name, figure in figures.items():
        metrics[name] = Metric(pooled=figure.value, interval=figure.interval, reason=figure.reason)
    return metrics
