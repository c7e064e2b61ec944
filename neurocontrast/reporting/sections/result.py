"""The result: numbers in large print, two sentences, the intervals, and all metrics."""

from __future__ import annotations

from typing import Any, NamedTuple

from neurocontrast.evaluation.schema import Evaluation, Increment, Metric
from neurocontrast.reporting import style
from neurocontrast.reporting.page import (
    Block,
    Card,
    Cards,
    Columns,
    Paragraph,
    Section,
    SectionBuilder,
    Table,
    pictures,
)
from neurocontrast.reporting.plots import Series, draw_intervals, tabulate_estimates
from neurocontrast.reporting.prose import covariates_text, interval_phrase, permutation_result, write
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.tables import Column, ends, make_table
from neurocontrast.reporting.wording import (
    IMAGES,
    capitalise,
    describe_metric,
    interval_text,
    is_error,
    metric_range,
    metric_text,
    number_text,
    point_estimate,
)

__all__ = ["RESULT", "besides", "draw_headline", "say_result", "table_metrics"]


def _build(files: EvaluationFiles) -> Section:
    """Build the headline: numbers in large print, the plain sentences, the intervals, all metrics."""
    cards = _image_cards(files) if files.words is IMAGES else _cards(files)
    words = [
        Paragraph(say_result(files, "plain"), label="In plain words.", role="quote"),
        Paragraph(say_result(files, "reviewer"), label="For a methods reviewer.", role="quote"),
    ]
    blocks: list[Block] = [Cards(cards)] if cards else []
    blocks += words if files.words is IMAGES else [Columns(words, pictures(draw_headline(files)))]
    return Section("result", "Result", [*blocks, table_metrics(files)] if files.metrics else blocks)


def say_result(files: EvaluationFiles, what: str, key: str | None = None) -> str:
    """Say what the headline metric, or `key`, means.

    `what` is ``plain`` (all without a technical term), ``reviewer`` (all, with what a reviewer asks for first),
    ``increment`` or ``beside`` (whether the embedding adds to the covariates; to voxels and regional measures).
    """
    key = key or files.headline
    return write("result.j2", files, what=what, key=key, permutation=permutation_result(files, key))


def _cards(files: EvaluationFiles) -> list[Card]:
    key, s = files.headline, files.summary
    if key is None:
        return []
    about, increment = describe_metric(key), s.increment.get(key)
    name = f"{about.name} of {covariates_text(files)} only" if s.baseline else "Baseline"
    cards = [
        _card(files, f"{about.name} of the embedding", s.metrics[key], strong=True),
        _card(files, name, s.baseline.get(key)),
        Card("Difference", number_text(None), "not computed"),
    ]
    if increment is not None:
        value = number_text(increment.difference, digits=2, signed=True)
        detail = interval_phrase(files, interval_text(increment.interval, digits=2, signed=True))
        cards[-1] = Card("Difference", value, detail + ("" if about.higher_is_better else "; negative is better"))
    for beside in besides(s):
        if key in beside.metrics:
            cards.append(_card(files, f"{about.name} of {beside.what}", beside.metrics[key]))
    return cards


class Beside(NamedTuple):
    """Another model of the scans that the result is shown beside: its figures, and how it is called."""

    key: str
    name: str
    only: str
    what: str
    color: str
    metrics: dict[str, Metric]
    increment: dict[str, Increment]


def besides(s: Evaluation) -> list[Beside]:
    """Return the voxels and the regional measures, as far as an evaluation has them."""
    voxels, regional = "the voxels' principal components", f"{len(s.regional_columns)} regional measures"
    found = [
        Beside("voxels", "voxels", "Only voxels (PCA)", voxels, style.VOXELS, s.voxels, s.voxels_increment),
        Beside("regional", "regions", "Only regional measures", regional, style.REGIONAL, s.regional,
               s.regional_increment),
    ]  # fmt: skip
    return [each for each in found if each.metrics]


def _card(files: EvaluationFiles, name: str, values: Metric | None, *, strong: bool = False) -> Card:
    detail = interval_phrase(files, interval_text(values.interval, digits=2)) if values else "no baseline was computed"
    if strong:
        detail += "; lower is better" if is_error(files.headline or "") else "; higher is better"
    return Card(capitalise(name), number_text(point_estimate(values), digits=2), detail, strong)


def _image_cards(files: EvaluationFiles) -> list[Card]:
    cards = []
    for place, key in enumerate(files.leading[:2]):
        values, chance = files.metrics[key], files.chance(key)
        detail = interval_phrase(files, metric_range(key, values.interval))
        detail += f"; chance {metric_text(key, chance)}" if chance is not None else ""
        name = capitalise(files.describe(key).name)
        cards.append(Card(name, metric_text(key, point_estimate(values)), detail, place == 0))
    return cards


def draw_headline(files: EvaluationFiles) -> style.Picture | None:
    """Draw the headline metric of embedding and baselines; None where it has no value."""
    key, s = files.headline, files.summary
    if key is None or point_estimate(files.metrics[key]) is None:
        return None
    drawn = f"Bars: {files.level:.0%} bootstrap interval ({s.bootstrap.n or 0:,} draws of {files.words.unit}s)."
    bars = drawn if s.bootstrap.n else "No interval was computed."
    covariates = f"Only {' + '.join(s.baseline_covariates) or 'covariates'}"
    others = besides(s)
    looks = {"Embedding": style.MAIN, covariates: style.BASELINE, **{each.only: each.color for each in others}}
    models = zip(looks, (files.metrics, s.baseline, *(each.metrics for each in others)), strict=True)
    rows, about = tabulate_estimates([(name, found.get(key)) for name, found in models]), files.describe(key)
    series = [
        Series(rows.loc[[row]], color=looks[name], marker="D" if row else "o", filled=not row)
        for row, name in enumerate(rows["model"])
    ]
    labels, pooled = style.distinct_labels(rows["model"], length=26), f"{about.label}, pooled out-of-fold."
    return draw_intervals(
        "headline", series, labels, pooled, note=bars, numbers=rows, xlabel=about.label, limits=about.limits,
        reference=(files.chance(key), "Chance"),
    )  # fmt: skip


def table_metrics(files: EvaluationFiles, *, caption: str = "") -> Table:
    """Return every metric: pooled, its interval, over folds, and beside baselines; of images beside chance."""
    images, s = files.words is IMAGES, files.summary
    keys = list(dict.fromkeys([*(files.leading if images else ()), *files.metrics]))
    rows, abouts = [_metric_row(files, key) for key in keys], [files.describe(key) for key in keys]
    over_folds = any(row["sd"] is not None for row in rows)
    folds = [Column("Mean of folds", "mean"), Column("SD", "sd"), Column("Folds", "n_folds", "count")]
    columns = [
        Column("Metric", "metric", "heading"),
        Column("Value" if images else "Pooled", "pooled"),
        Column("Interval", "pooled", "interval", reason="not computed"),
        *(folds if over_folds else []),
    ]
    texts = [f"{about.short}: {about.meaning}" for about in abouts if about.meaning]
    if images:
        columns.append(Column("Chance", "chance", reason="depends on the data"))
        texts.append("Chance: naming classes at random, whatever their sizes.")
    else:
        absent = "not defined" if s.baseline else "no baseline"
        columns += _beside("Covariates only", "Difference", "baseline", absent)
    if s.permutation and not images:
        columns.append(Column("Perm. p", "p", "p", reason="not tested"))
        texts.append(_about_p(files))
    for each in () if images else besides(s):
        reason = "not tested: no better or worse, too few folds, or sites held out"
        columns += _beside(f"{each.name} only".capitalize(), f"Minus {each.name}", each.key, "not defined")
        columns.append(Column("p", f"{each.key}_p", "p", reason=reason))
        texts.append(f"p beside {each.name}: corrected resampled t-test of embedding and {each.name} over folds.")
    about = f"All metrics, of all tested {files.words.items} at once. SD: spread between folds, not an interval."
    return make_table(caption or about, rows, columns, note=" ".join(texts))


def _beside(name: str, gain: str, key: str, absent: str) -> list[Column]:
    return [
        Column(name, key, reason=absent),
        Column(gain, f"{key}_gain", signed=True, reason=absent),
        Column("Its interval", f"{key}_gain", "interval", signed=True, reason="not computed"),
    ]


def _metric_row(files: EvaluationFiles, key: str) -> dict[str, Any]:
    values, about, s = files.metrics[key], files.describe(key), files.summary
    n_defined = values.n_folds_defined
    undefined = f"defined in {n_defined} folds only" if n_defined else "no fold has a value of its own"
    tested = permutation_result(files, key)
    row = {"metric": about.label, "pooled": values.pooled, **ends("pooled", values.interval), "n_folds": n_defined}
    row |= {"pooled_reason": values.reason or "not defined on pooled predictions", "chance": files.chance(key)}
    row |= {"mean": values.mean, "mean_reason": undefined, "sd": values.sd, "sd_reason": undefined}
    row |= {"p": tested["p_value"] if tested else None}
    if about.ideal is not None:
        row["p_reason"] = "not tested: neither more nor less of it is better"
    others = [(each.key, each.metrics, each.increment) for each in besides(s)]
    for name, beside, gains in (("baseline", s.baseline, s.increment), *others):
        gain = gains.get(key) or Increment()
        row |= {name: point_estimate(beside.get(key)), f"{name}_gain": gain.difference, f"{name}_p": gain.p_value}
        row |= ends(f"{name}_gain", gain.interval)
    return row


def _about_p(files: EvaluationFiles) -> str:
    permutation = files.summary.permutation
    assert permutation is not None, "the column is there"
    name = files.describe(files.headline).label if files.headline else ""
    primary = f" {name} is the primary metric; p-values are not adjusted for the others." if name else ""
    held = [unit for unit, within in (("site", permutation.within_site), ("fold", permutation.within_fold)) if within]
    where = f" within {' and '.join(held)}" if held else ""
    return (
        f"Perm. p: permutation p-value (1 + k)/(1 + n), one-sided, from n = {permutation.n or 0:,} permutations "
        f"of labels between {permutation.unit or 'subject'}s{where}; k of them did at least as well.{primary}"
    )


RESULT = SectionBuilder("result", "Result", order=10, build=_build)
