"""Section of the result: numbers in large print, sentences, a figure, and all metrics."""

from typing import Any

from neurocontrast.documents.figures import Increment, Metric
from neurocontrast.reporting import style
from neurocontrast.reporting.baselines import (
    MeasuredBaseline,
    list_baselines,
    say_estimators,
    strongest,
)
from neurocontrast.reporting.blocks import (
    Block,
    Card,
    Cards,
    Column,
    Columns,
    Paragraph,
    Section,
    Table,
    ends,
    make_table,
    pictures,
)
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.naming import name_covariates
from neurocontrast.reporting.result_prose import result_prose
from neurocontrast.reporting.result_tables import ResultTables
from neurocontrast.reporting.style import Series, draw_intervals, tabulate_estimates
from neurocontrast.reporting.texts import permutation_result, within_text
from neurocontrast.reporting.wording import (
    capitalise,
    describe_metric,
    interval_phrase,
    interval_text,
    is_error,
    metric_range,
    metric_text,
    number_text,
    point_estimate,
)


def show_result(files: EvaluationFolder) -> Section:
    """Return the section of the result: numbers in large print, sentences, a figure, a table."""
    result = result_prose(files)
    words = [
        Paragraph(result.plain(), label="In plain words.", role="quote"),
        Paragraph(result.reviewer(), label="For a methods reviewer.", role="quote"),
    ]
    blocks: list[Block] = [Cards(_cards(files))] if files.headline else []
    compared = files.summary.baseline_covariates or list_baselines(files.summary)
    blocks += [Columns(words, pictures(draw_headline(files)))] if compared else words
    return Section("result", "Result", [*blocks, table_metrics(files)] if files.metrics else blocks)


def _cards(files: EvaluationFolder) -> list[Card]:
    s = files.summary
    level = files.level
    key = str(files.headline)
    if not s.baseline_covariates:
        return [
            _card(files, name, "", s.metrics[name], strong=name == key)
            for name in files.leading[:2]
        ]
    named = describe_metric(key)
    increment = s.increment.get(key, Increment())
    better = "lower" if is_error(key) else "higher"
    gain = interval_phrase(level, interval_text(increment.interval, digits=2, signed=True))
    return [
        _card(
            files, key, " of the embedding", s.metrics[key], f"; {better} is better", strong=True
        ),
        _card(
            files, key, f" of {name_covariates(s.baseline_covariates)} only", s.baseline.get(key)
        ),
        Card(
            "Difference",
            number_text(increment.difference, digits=2, signed=True),
            gain + ("" if named.higher_is_better else "; negative is better"),
        ),
        *[
            _card(files, key, f" of {baseline.named}", baseline.metrics[key])
            for baseline in strongest(list_baselines(s), key)
        ],
    ]


def _card(
    files: EvaluationFolder,
    key: str,
    of: str,
    values: Metric | None,
    more: str = "",
    *,
    strong: bool = False,
) -> Card:
    value = point_estimate(values)
    interval = values.interval if values else None
    chance = files.chance(key)
    if key in files.words.in_percent:
        shown = metric_text(key, value)
        ends = metric_range(key, interval)
        guessed = metric_text(key, chance)
    else:
        shown = number_text(value, digits=2)
        ends = interval_text(interval, digits=2)
        guessed = number_text(chance, digits=2)
    more = f"; chance {guessed}" if not of and chance is not None else more
    detail = interval_phrase(files.level, ends) if values else "no baseline was computed"
    return Card(capitalise(files.describe(key).name + of), shown, detail + more, strong)


def draw_headline(files: EvaluationFolder) -> style.Picture | None:
    """Return a figure of the headline metric of embedding and baselines.

    The headline metric is the most important one for the kind of target. Baselines are models that
    the embedding is tested against. None if the embedding has no value.
    """
    key = files.headline
    s = files.summary
    if key is None or point_estimate(files.metrics[key]) is None:
        return None
    units = f"{files.words.unit_of(s.bootstrap.unit)}s"
    drawn = f"Bars: {files.percent} bootstrap interval ({s.bootstrap.n or 0:,} draws of {units})."
    bars = drawn if s.bootstrap.n else "No interval was computed."
    covariates = f"Only {' + '.join(s.baseline_covariates) or 'covariates'}"
    colours = {"Embedding": style.MAIN, covariates: style.BASELINE}
    estimates = [("Embedding", files.metrics.get(key)), (covariates, s.baseline.get(key))]
    for number, baseline in enumerate(list_baselines(s), start=2):
        name = capitalise(baseline.alone)
        colours[name] = style.PALETTE[number % len(style.PALETTE)]
        estimates.append((name, baseline.metrics.get(key)))
    rows = tabulate_estimates(estimates)
    named = files.describe(key)
    series = [
        Series(rows.loc[[row]], color=colours[name], marker="D" if row else "o", filled=not row)
        for row, name in enumerate(rows["model"])
    ]
    labels = style.distinct_labels(rows["model"], length=26)
    scans = f" of the test {files.words.items}" if files.fixed else ", pooled out-of-fold"
    return draw_intervals(
        "headline",
        series,
        labels,
        f"{named.label}{scans}.",
        note=bars,
        numbers=rows,
        xlabel=named.label,
        limits=named.limits,
        reference=(files.chance(key), "Chance"),
    )


def table_metrics(files: ResultTables, *, caption: str = "") -> Table:
    """Return the table of the embedding's metrics: pooled, over folds, and minus each baseline.

    Baselines are models that the embedding is tested against. Without a `caption`, one is written.
    """
    s = files.summary
    keys = list(dict.fromkeys([*files.leading, *files.metrics]))
    rows = [_metric_row(files, key) for key in keys]
    named = [files.describe(key) for key in keys]
    columns = [Column("Metric", "metric", "heading"), Column("Pooled", "pooled", interval=True)]
    texts = [f"{metric.short}: {metric.meaning}" for metric in named if metric.meaning]
    texts.append(say_estimators(s))
    if any(row["sd"] is not None for row in rows):
        columns += [Column("Mean of folds", "mean")]
    if s.baseline_covariates:
        columns += _against("Covariates only", "Difference", "baseline", "not defined")
    else:
        columns.append(Column("Chance", "chance", reason="depends on the data"))
        texts += (
            ["Chance: naming classes at random, whatever their sizes."] if files.classes else []
        )
    if s.permutation:
        columns.append(Column("Perm. p", "p", "p", reason="not tested"))
        texts.append(say_permutation(files))
    baselines = list_baselines(s)
    for baseline in baselines:
        name = baseline.name
        columns += _against(_heading(baseline), f"Minus {name}", baseline.key, "not defined")
        if s.splits == "fixed":
            continue  # p-values are over folds
        reason = "not tested: no better or worse, too few folds, or sites held out"
        columns.append(Column("p", f"{baseline.key}_p", "p", reason=reason))
        texts.append(
            f"p next to {name}: corrected resampled t-test of embedding and {name} over folds."
        )
    if len(baselines) > 1 and s.splits != "fixed":
        texts.append(f"These are adjusted by Holm for {len(baselines)} models within each metric.")
    caption = caption or _say_all_metrics(
        files, with_folds=any(row["sd"] is not None for row in rows)
    )
    return make_table(caption, rows, columns, note=" ".join(texts))


def _say_all_metrics(files: ResultTables, *, with_folds: bool) -> str:
    """Return the caption of the table of all metrics.

    In the table, the standard deviation and the number of folds are printed below each mean over
    folds. With `with_folds`, the caption explains these two numbers.
    """
    sentence = (
        f"All metrics, of all tested {files.words.items} at once, with their {files.percent} "
        "intervals."
    )
    if with_folds:
        sentence += (
            " Under means of folds: their standard deviation and number, a spread and not an "
            "interval."
        )
    return sentence


def _heading(baseline: MeasuredBaseline) -> str:
    """Return the heading of a baseline's column in the table of metrics, such as "Regions only"."""
    if baseline.beside:
        return capitalise(baseline.name)
    return f"{baseline.name} only".capitalize()


def _against(name: str, gain: str, key: str, absent: str) -> list[Column]:
    return [
        Column(name, key, reason=absent),
        Column(gain, f"{key}_gain", signed=True, interval=True, reason=absent),
    ]


def _metric_row(files: ResultTables, key: str) -> dict[str, Any]:
    values = files.metrics[key]
    named = files.describe(key)
    s = files.summary
    n_defined = values.n_folds_defined
    undefined = (
        f"defined in {n_defined} folds only" if n_defined else "no fold has a value of its own"
    )
    tested = permutation_result(files, key)
    row = {"metric": named.label, "pooled": values.pooled, **ends("pooled", values.interval)}
    row |= {
        "pooled_reason": values.reason or "not defined for all tested scans together",
        "chance": files.chance(key),
    }
    row |= {
        "mean": values.mean,
        "mean_reason": undefined,
        "sd": values.sd,
        "p": tested.p_value if tested else None,
    }
    if values.sd is not None:
        row["mean_detail"] = f"± {number_text(values.sd)}, {n_defined} folds"
    if named.ideal is not None:
        row["p_reason"] = "not tested: neither more nor less of it is better"
    others = [(model.key, model.metrics, model.increment) for model in list_baselines(s)]
    for name, figures, gains in (("baseline", s.baseline, s.increment), *others):
        gain = gains.get(key) or Increment()
        row |= {
            name: point_estimate(figures.get(key)),
            f"{name}_gain": gain.difference,
            f"{name}_p": gain.p_tested,
        }
        row |= ends(f"{name}_gain", gain.interval)
    return row


def say_permutation(files: ResultTables) -> str:
    """Return a text that explains the permutation p-values, for the note of the metrics' table."""
    test = files.summary.permutation
    assert test is not None, "asked for with a permutation test alone"
    held = within_text(test.within_site, test.within_fold)
    within = f" within {held}" if held else ""
    sentences = (
        "Perm. p: permutation p-value (1 + k)/(1 + n), one-sided, from n = "
        f"{test.n or 0:,} permutations of labels between {test.unit or 'subject'}s{within}; k of "
        "them did at least as well."
    )
    if files.headline:
        label = files.describe(files.headline).label
        sentences += f" {label} is the primary metric; p-values are not adjusted for the others."
    return sentences


RESULT = Finding("result", show_result)
