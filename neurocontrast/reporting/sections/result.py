"""The result: numbers in large print, two sentences, the intervals, and all metrics."""

from typing import Any

from neurocontrast.documents.figures import Increment, Metric
from neurocontrast.reporting import style
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
from neurocontrast.reporting.rivals import (
    Rival,
    rivals,
    say_estimators,
    strongest,
)
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
    """Return the headline: numbers in large print, the plain sentences, the intervals, all metrics."""
    result = result_prose(files)
    words = [
        Paragraph(result.plain(), label="In plain words.", role="quote"),
        Paragraph(result.reviewer(), label="For a methods reviewer.", role="quote"),
    ]
    blocks: list[Block] = [Cards(_cards(files))] if files.headline else []
    compared = files.summary.baseline_covariates or rivals(files.summary)
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
    about = describe_metric(key)
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
            gain + ("" if about.higher_is_better else "; negative is better"),
        ),
        *[
            _card(files, key, f" of {rival.named}", rival.metrics[key])
            for rival in strongest(rivals(s), key)
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
    """Draw the headline metric of embedding and baselines; None for a metric without a value."""
    key = files.headline
    s = files.summary
    if key is None or point_estimate(files.metrics[key]) is None:
        return None
    units = f"{files.words.unit_of(s.bootstrap.unit)}s"
    drawn = f"Bars: {files.percent} bootstrap interval ({s.bootstrap.n or 0:,} draws of {units})."
    bars = drawn if s.bootstrap.n else "No interval was computed."
    covariates = f"Only {' + '.join(s.baseline_covariates) or 'covariates'}"
    others = rivals(s)
    looks = {"Embedding": style.MAIN, covariates: style.BASELINE}
    looks |= {
        capitalise(each.alone): style.PALETTE[(2 + place) % len(style.PALETTE)]
        for place, each in enumerate(others)
    }
    models = zip(
        looks, (files.metrics, s.baseline, *(each.metrics for each in others)), strict=True
    )
    rows = tabulate_estimates([(name, found.get(key)) for name, found in models])
    about = files.describe(key)
    series = [
        Series(rows.loc[[row]], color=looks[name], marker="D" if row else "o", filled=not row)
        for row, name in enumerate(rows["model"])
    ]
    labels = style.distinct_labels(rows["model"], length=26)
    tested = f"{about.label}{f' of the test {files.words.items}' if files.fixed else ', pooled out-of-fold'}."
    return draw_intervals(
        "headline",
        series,
        labels,
        tested,
        note=bars,
        numbers=rows,
        xlabel=about.label,
        limits=about.limits,
        reference=(files.chance(key), "Chance"),
    )


def table_metrics(files: ResultTables, *, caption: str = "") -> Table:
    """Return every metric: pooled with its interval, over folds, and next to the other models."""
    s = files.summary
    keys = list(dict.fromkeys([*files.leading, *files.metrics]))
    rows = [_metric_row(files, key) for key in keys]
    abouts = [files.describe(key) for key in keys]
    columns = [Column("Metric", "metric", "heading"), Column("Pooled", "pooled", interval=True)]
    texts = [f"{about.short}: {about.meaning}" for about in abouts if about.meaning]
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
    models = rivals(s)
    for rival in models:
        reason = "not tested: no better or worse, too few folds, or sites held out"
        columns += _against(_name_column(rival), f"Minus {rival.name}", rival.key, "not defined")
        if s.splits == "fixed":
            continue  # p-values are over folds
        columns.append(Column("p", f"{rival.key}_p", "p", reason=reason))
        texts.append(
            f"p next to {rival.name}: corrected resampled t-test of embedding and {rival.name} "
            "over folds."
        )
    if len(models) > 1 and s.splits != "fixed":
        texts.append(f"These are adjusted by Holm for {len(models)} models within each metric.")
    about = f"All metrics, of all tested {files.words.items} at once, with their {files.percent} intervals."
    if any(row["sd"] is not None for row in rows):
        about += " Under means of folds: their standard deviation and number, a spread and not an interval."
    return make_table(caption or about, rows, columns, note=" ".join(texts))


def _name_column(rival: Rival) -> str:
    """Return the heading of a rival's column."""
    if rival.beside:
        return capitalise(rival.name)
    return f"{rival.name} only".capitalize()


def _against(name: str, gain: str, key: str, absent: str) -> list[Column]:
    return [
        Column(name, key, reason=absent),
        Column(gain, f"{key}_gain", signed=True, interval=True, reason=absent),
    ]


def _metric_row(files: ResultTables, key: str) -> dict[str, Any]:
    values = files.metrics[key]
    about = files.describe(key)
    s = files.summary
    n_defined = values.n_folds_defined
    undefined = (
        f"defined in {n_defined} folds only" if n_defined else "no fold has a value of its own"
    )
    tested = permutation_result(files, key)
    row = {"metric": about.label, "pooled": values.pooled, **ends("pooled", values.interval)}
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
    if about.ideal is not None:
        row["p_reason"] = "not tested: neither more nor less of it is better"
    others = [(each.key, each.metrics, each.increment) for each in rivals(s)]
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
    """Say how permutation p-values are made, for the table of metrics."""
    test = files.summary.permutation
    assert test is not None, "asked for with a permutation test alone"
    held = within_text(test.within_site, test.within_fold)
    within = f" within {held}" if held else ""
    text = (
        "Perm. p: permutation p-value (1 + k)/(1 + n), one-sided, from n = "
        f"{test.n or 0:,} permutations of labels between {test.unit or 'subject'}s{within}; k of "
        "them did at least as well."
    )
    if files.headline:
        label = files.describe(files.headline).label
        text += f" {label} is the primary metric; p-values are not adjusted for the others."
    return text


RESULT = Finding("result", show_result)
