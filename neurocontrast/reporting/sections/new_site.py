"""Section of new sites: the main metric at sites that no training scan came from."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.documents.figures import Estimate
from neurocontrast.documents.findings import NewSite
from neurocontrast.evaluation.measure.new_site import measure_new_sites
from neurocontrast.reporting.blocks import (
    Block,
    Column,
    Paragraph,
    Section,
    Table,
    make_table,
    note,
    pictures,
)
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.prose import (
    OfGuess,
    is_open_ratio,
    judge_chance,
    judge_guess,
    say_chance,
    say_guess,
)
from neurocontrast.reporting.style import (
    INK,
    PALETTE,
    Picture,
    Series,
    distinct_labels,
    draw_intervals,
)
from neurocontrast.reporting.texts import one_line, section, write
from neurocontrast.reporting.wording import (
    DASH,
    capitalise,
    describe_metric,
    estimate_text,
    interval_phrase,
    interval_text,
    is_error,
    leading_metrics,
    number_text,
)

_ORDERS = {
    "auc",
    "auc_within_fold",
    "average_precision",
    "pearson",
    "spearman",
    "age_bias_slope",
    "calibration_slope",
    "calibration_intercept",
}
"""Metrics that need predictions to differ: undefined for a constant guess."""
_TITLES = {"bias": "Bias", "spread": "Spread"}
"""Column of new_sites.tsv → heading in the table."""
_NOTE_ON_BIAS = (
    "Bias and spread are the mean and the standard deviation of a site's errors while it is "
    "unseen. A few labelled scans of the site take the bias out (predict --calibrate); the spread "
    "stays."
)


def show_new_site(files: EvaluationFolder) -> Section:
    """Return the section on unseen sites, with the reason if the result there was not measured.

    A site is unseen while none of its scans is in training.
    """
    metric = new_site_metric(files)
    if metric is None:
        remark = (
            "The result above is that of unseen sites already: each was left out in turn. See Site "
            "by site."
        )
        if files.sites_tested != "unseen":
            why = capitalise((files.summary.model_extra or {}).get("new_site_note") or "")
            why = why or "new_sites.tsv is absent or empty; it is written from two sites on."
            remark = f"Not shown: how the model does at a site that it has not seen. {why}"
        return replace(section("new_site", [note(remark)]), lead="")
    rows = site_rows(files, metric)
    quote = say_new_site(files)
    block = files.summary.part(NewSite)
    details = write("new_site.j2", files, n_sites=len(rows) - 1, block=block)
    blocks: list[Block] = [Paragraph(quote, label="To quote.", role="quote")] if quote else []
    blocks.append(Paragraph(details, label="For a methods reviewer.", role="quote"))
    blocks += pictures(draw_new_sites(files, metric))
    blocks.append(_table(files, metric, rows))
    return section("new_site", blocks)


def _sites_of(files: EvaluationFolder) -> pd.DataFrame | None:
    return files.table("new_sites", "site", "model", "n")


def new_site_metric(files: EvaluationFolder) -> str | None:
    """Return the name of the metric that the section on unseen sites shows.

    None if the evaluation did not measure metrics at unseen sites.
    """
    block = files.summary.part(NewSite)
    table = _sites_of(files)
    if block is None or table is None:
        return None
    metrics = [name for name in table.columns if f"home_{name}" in table]
    return (
        block.metric
        if block.metric in metrics
        else next(iter(leading_metrics(files.kind, metrics)), None)
    )


def _estimate(files: EvaluationFolder, quantity: str, model: str, metric: str) -> Estimate | None:
    """Return the `Estimate` of a model's metric over all sites from the record `NewSite`.

    `quantity` is a field of the record: ``home`` is the metric of scans whose site is in training,
    ``unseen`` the metric of scans whose site is not; other fields compare the two. None if the
    record has no such estimate, or if its value is absent.
    """
    record = files.summary.part(NewSite)
    if record is None:
        return None
    estimate = getattr(record, quantity).get(model, {}).get(metric)
    return None if estimate is None or estimate.value is None else estimate


def constant_estimate(files: EvaluationFolder, metric: str) -> Estimate | None:
    """Return `metric` of a constant guess at all unseen sites together; None if undefined.

    The `Estimate` has a value and an interval.
    """
    return None if metric in _ORDERS else _estimate(files, "unseen", "constant", metric)


def judge_constant(files: EvaluationFolder, metric: str) -> OfGuess | None:
    """Return the verdict on the embedding against a constant guess at unseen sites.

    The verdict, such as ``better`` or ``not shown``, follows from the difference in `metric` and
    its interval. None if the difference was not measured.
    """
    gain = _estimate(files, "unseen_minus_constant", "embedding", metric)
    if gain is None or constant_estimate(files, metric) is None:
        return None
    return judge_guess(gain.value, gain.low, gain.high, higher_is_better=not is_error(metric))


def _beside_constant(files: EvaluationFolder, metric: str) -> str:
    constant = constant_estimate(files, metric)
    guess = None if constant is None else constant.value
    return say_guess(judge_constant(files, metric), guess)


def say_new_site(files: EvaluationFolder) -> str | None:
    """Return a text that compares the embedding at unseen sites with known sites and with guessing.

    A site is unseen while none of its scans is in training. The metric is the one that
    `new_site_metric` returns. None if the metric is undefined at unseen sites.
    """
    key = new_site_metric(files)
    unseen = _estimate(files, "unseen", "embedding", key) if key else None
    if key is None or unseen is None or unseen.value is None:
        return None
    name = "mean absolute error" if key == "mae" else describe_metric(key).name
    years = " years" if files.target == "age" else ""
    scans = "" if unseen.n is None else f"; {unseen.n:,} scans"
    ends = interval_text(unseen.interval, digits=2)
    claim = (
        f"At a site that the model has not seen, the {name} of {files.target} is "
        f"{number_text(unseen.value, digits=2)}{years} "
        f"({interval_phrase(files.level, ends)}{scans})"
    )
    home = _shown(_estimate(files, "home", "embedding", key))
    if is_error(key):
        return one_line(f"{claim}{_grown(files, key, home)}{_beside_constant(files, key)}.")
    if home:
        claim += f", against {home} at sites that it knows"
    sentences = [f"{claim}."]
    chance = files.chance(key)
    if chance is not None:
        verdict = judge_chance(unseen.value, unseen.low, unseen.high, chance=chance)
        sentences.append(say_chance(verdict, chance))
    sentences.append(_say_error(files, key))
    return one_line(" ".join(sentences))


def _shown(estimate: Estimate | None) -> str:
    """Return an estimate with its interval as text, "7.21 (6.80 to 7.70)"; "" without a value."""
    if estimate is None or estimate.value is None:
        return ""
    return estimate_text(estimate.value, (estimate.low, estimate.high))


def _grown(files: EvaluationFolder, key: str, home: str) -> str:
    """Return words that compare an error at unseen sites with the error at known sites.

    The words, which continue a sentence, give the ratio of the two errors and its interval. `home`
    is the error at known sites in words; "" if that error is not known.
    """
    at_home = f"{home or 'that'} at sites that it knows"
    ratio = _ratio(files, key)
    if ratio is None or ratio.value is None:
        return f", against {at_home}"
    between = interval_text(ratio.interval, digits=2)
    if between == DASH:
        between = "no interval"
    the = "the " if home else ""
    comparison = f", {number_text(ratio.value, digits=2)} times ({between}) {the}{at_home}"
    if is_open_ratio(ratio.low, ratio.high):
        comparison += " (whether that is a change at all, these data do not settle)"
    return comparison


def _say_error(files: EvaluationFolder, key: str) -> str:
    """Return a sentence on how much larger an error is at unseen sites than at known sites.

    The error is the embedding's: the first of Brier score, log-loss and mean absolute error for
    which the ratio was measured. The metric `key` is passed over, because the section shows that
    metric already. The text is "" without such a ratio.
    """
    record = files.summary.part(NewSite) or NewSite()
    for error in ("brier", "log_loss", "mae"):
        if error in record.ratio.get("embedding", {}) and error != key:
            ratio = _shown(_ratio(files, error))
            if not ratio:
                return ""
            label = describe_metric(error).label
            beside = _beside_constant(files, error)
            return f"The {label} there is {ratio} times that at known sites{beside}."
    return ""


def _ratio(files: EvaluationFolder, metric: str) -> Estimate | None:
    """Return the embedding's error at unseen sites divided by the error at known sites.

    None if `metric` is no error, or the ratio was not measured.
    """
    return _estimate(files, "ratio", "embedding", metric) if is_error(metric) else None


def site_rows(files: EvaluationFolder, metric: str) -> pd.DataFrame:
    """Tabulate a metric by site, the largest site first, and of all sites pooled in the last row.

    Columns: ``site``; ``n``, the number of the site's tested scans; ``n_train``, the number of
    training scans while the site is left out; ``note``, ``bias`` and ``spread``; for each model,
    the metric while the site is known (``<model>_home``) and while the site is unseen
    (``<model>_unseen``), each with the ends of its interval in ``…_low`` and ``…_high``. Models are
    the embedding, the baseline of covariates, and a constant guess. ``bias`` and ``spread`` are the
    mean and the standard deviation of the embedding's errors at a site while unseen. ``note`` says
    why a metric or an interval is absent, and is empty if none is. Absent values are NaN.
    """
    table = _sites_of(files)
    assert table is not None, "needed"
    table = table.assign(site=table["site"].fillna("not stated")).drop_duplicates(["model", "site"])
    rows = table[table["model"] == "embedding"].reindex(
        columns=["site", "n", "n_train", "note", *_TITLES]
    )
    rows["note"] = rows["note"].fillna("").astype(object)
    pooled: dict[str, Any] = {"site": "All left out, pooled", "n": rows["n"].sum(), "note": ""}
    for model, quantity in product(("embedding", "baseline", "constant"), ("home", "unseen")):
        values = table[table["model"] == model].set_index("site").reindex(rows["site"])
        estimate = _estimate(files, quantity, model, metric) or Estimate()
        has_value = model != "constant" or metric not in _ORDERS
        for end, value in (("", estimate.value), ("_low", estimate.low), ("_high", estimate.high)):
            key = f"{model}_{quantity}{end}"
            source = f"home_{metric}{end}" if quantity == "home" else f"{metric}{end}"
            rows[key] = np.nan
            if source in values:
                rows[key] = values[source].to_numpy(dtype=float)
            pooled[key] = np.nan
            if value is not None and has_value:
                pooled[key] = value
    rows = rows.sort_values(["n", "site"], ascending=[False, True])
    return pd.concat([rows, pd.DataFrame([pooled])], ignore_index=True)


def draw_new_sites(files: EvaluationFolder, metric: str) -> Picture | None:
    """Return a figure of `metric` for the scans of each site, while known and while unseen.

    A site is known if other scans of the site are in training, and unseen if none is.
    """
    rows = site_rows(files, metric)
    named = files.describe(metric)
    chance = files.chance(metric)
    series = [
        Series(
            rows,
            "Site known (others of it trained on)",
            "embedding_home",
            filled=False,
            shift=-0.13,
        ),
        Series(rows, "Site unseen (left out)", "embedding_unseen", PALETTE[1], "s", shift=0.13),
    ]
    if chance is None:
        series.append(Series(rows, "Constant guess, no scan", "constant_unseen", INK, "|"))
    names = zip(distinct_labels(rows["site"], length=24), rows["n"], strict=True)
    return draw_intervals(
        f"new_sites_{metric}",
        series,
        [f"{name} (n={number_text(n, digits=0)})" for name, n in names],
        f"{named.label} of the people of each site: while other people of the site are trained on, "
        "and while none is.",
        note=f"With {files.percent} intervals; a point without a line has none.",
        xlabel=named.label,
        reference=(chance, "Chance"),
        limits=named.limits,
        total=True,
        numbers=rows.dropna(axis="columns", how="all"),
    )


def _table(files: EvaluationFolder, metric: str, rows: pd.DataFrame) -> Table:
    """Return a table of the page for `rows`: a row for each site, and a last row for all sites.

    One column has the embedding's metric while the site is known (other scans of the site are in
    training), and another while the site is unseen. Further columns have the metric of the
    covariates at the unseen site and, for an error, two more: the embedding's value at the unseen
    site divided by its value at the known site, and the error of a constant guess.
    """
    ratio = rows["embedding_unseen"] / rows["embedding_home"].where(rows["embedding_home"] > 0)
    grown = _ratio(files, metric)
    if grown is not None:
        ratio.iloc[-1] = grown.value
    trained = [f"trained on {n:,.0f}" if pd.notna(n) else "" for n in rows["n_train"]]
    rows = rows.assign(ratio=ratio, n_detail=trained)
    error = is_error(metric)
    named = files.describe(metric)
    short: Any = {"digits": 2, "reason": "not defined there: see the note of the row"}
    long: Any = {"interval": True, **short}
    few: Any = {"digits": 2, "reason": "of single sites with enough subjects"}
    columns = (
        Column("Site", "site", "heading"),
        Column("n", "n", "count"),
        Column("Known", "embedding_home", **long),
        Column("Unseen", "embedding_unseen", **long),
        Column("Unseen ÷ known", "ratio", **short) if error else None,
        Column("Covariates only, unseen", "baseline_unseen", **long),
        Column("Constant guess", "constant_unseen", **short) if error else None,
        *(
            Column(title, name, **few)
            for name, title in _TITLES.items()
            if rows["spread"].notna().any()
        ),
        Column("Note", "note", "text") if (rows["note"] != "").any() else None,
    )
    caption = (
        f"{named.label} while a site is known, and while it is left out. Further metrics are in "
        "new_sites.tsv."
    )
    meanings = f"{named.short}: {named.meaning}"
    if rows["spread"].notna().any():
        meanings += f" {_NOTE_ON_BIAS}"
    return make_table(caption, rows, columns, note=meanings, total_rows=1)


NEW_SITE = Finding(
    "new_site",
    show_new_site,
    measure_new_sites,
    record=NewSite,
    methods="methods_unseen_sites.j2",
    of=("scans",),
    last=True,
)
