"""The page of a comparison: models on the same folds, their differences, and intervals."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from neurocontrast.documents.comparison import ComparisonRecord
from neurocontrast.reporting.blocks import (
    Block,
    Citations,
    Column,
    Head,
    Items,
    Numbered,
    Paragraph,
    Section,
    Table,
    make_table,
    note,
    pictures,
    render,
)
from neurocontrast.reporting.naming import name_design, name_folds, name_pretraining
from neurocontrast.reporting.prose import say_difference
from neurocontrast.reporting.result_tables import Results, words_of
from neurocontrast.reporting.sections.learning import draw_learning
from neurocontrast.reporting.sections.provenance import record_block
from neurocontrast.reporting.style import (
    Picture,
    Series,
    distinct_labels,
    draw_intervals,
    plain_label,
)
from neurocontrast.reporting.texts import fill_paragraphs, one_line, section
from neurocontrast.reporting.wording import (
    Words,
    count_text,
    describe_metric,
    interval_text,
    is_error,
    join_words,
    number_text,
)

_NO_METRIC = "No metric is defined for any model."
_SEE = re.compile(r"\bSee (?=[“A-Z])")
"""Pattern of "See" before the title of a report's section, which a comparison's page lacks."""


@dataclass(frozen=True)
class Comparison(Results):
    """Content of a comparison's folder: ``comparison.json`` as `summary`, and four tables.

    `models` holds the metrics of each model, and `differences` those metrics minus the metrics of
    the reference model. `learning_curves` holds metrics over the number of training scans.
    `tradeoff` holds, for each model, how well the site is predicted from the embedding, and the
    target's main metric at known and at unseen sites. The last two tables may be empty.
    """

    summary: ComparisonRecord
    models: pd.DataFrame
    differences: pd.DataFrame
    learning_curves: pd.DataFrame
    tradeoff: pd.DataFrame

    @property
    def kind(self) -> str:
        """Kind of the target: ``binary``, ``multiclass`` or ``continuous``."""
        return self.summary.kind

    @property
    def words(self) -> Words:
        """Nouns for the evaluated samples: scans, or images."""
        return words_of(self.summary.models[0].run)

    @property
    def fixed(self) -> bool:
        """Whether models have one test set, fixed beforehand, and no cross-validation."""
        return self.summary.splits == "fixed"

    @property
    def names(self) -> list[str]:
        """Names of the compared models, the reference first."""
        return list(dict.fromkeys(self.models["model"]))

    @property
    def reference(self) -> str:
        """Name of the model from which the differences of all other models are taken."""
        return self.summary.reference

    @property
    def classes(self) -> list[str]:
        """Names of the target's classes; empty for a continuous target."""
        return self.summary.classes

    @property
    def metrics(self) -> list[str]:
        """Names of metrics that any model has a value of, in the order of the rows of `models`."""
        return list(dict.fromkeys(self.models.loc[self.models["value"].notna(), "metric"]))

    @property
    def level(self) -> float:
        """Confidence level of the comparison's bootstrap intervals, such as 0.95."""
        return self.summary.confidence_level


def render_comparison(files: Comparison, sections: Sequence[Section]) -> str:
    """Return the HTML text of a comparison's page, which needs no other file and no script.

    `files` is the content of the comparison's folder, and `sections` are the sections of the page.
    """
    s = files.summary
    items = files.words.items
    design = f"the same training, validation and test {items} for every model"
    if not files.fixed:
        rule = name_design(s.splits, s.splitter, s.n.sites)
        folds = name_folds(s.n_folds, s.n_repeats)
        design = f"{folds}, {rule}; the same {items} and folds for every model"
    return render(
        sections,
        Head(
            kicker="neurocontrast comparison of models",
            title=f"Predicting {s.target}: {join_words(files.names)}",
            summary=say_comparison(files),
            facts=[
                ("Reference", files.reference),
                (
                    "Compared with it",
                    join_words([name for name in files.names if name != files.reference]),
                ),
                ("Result" if files.fixed else "Cross-validation", design),
            ],
        ),
        simulated=any(model.simulated for model in s.models),
        environment=s.environment,
    )


def build_comparison(files: Comparison) -> list[Section]:
    """Return the sections of a comparison in reading order, without empty sections."""
    built = (
        _build_warnings(files),
        _build_result(files),
        _build_new_sites(files),
        _build_learning(files),
        _build_methods(files),
        Section(
            "silences",
            "What this page does not say",
            [Items(fill_paragraphs("comparison_silences.j2", files.words))],
        ),
        _build_provenance(files),
    )
    return [section for section in built if section is not None]


def _build_warnings(files: Comparison) -> Section:
    """Return the section that lists each warning of the evaluations once, with names of models."""
    raised = [
        {"model": model.name, **warning.content()}
        for model in files.summary.models
        for warning in model.warnings
    ]
    warnings = (
        pd.DataFrame(raised, columns=["model", "code", "message", "explanation"])
        .fillna("")
        .drop_duplicates()
    )
    if warnings.empty:
        return Section(
            "warnings", "Read this first", [note("None of the evaluations raised a warning.")]
        )
    warnings["message"] = warnings["message"].where(
        warnings["message"] != "", warnings["code"].str.replace("_", " ")
    )
    # A model can have several warnings of one code: of the embedding, say, and of the baseline.
    warnings["number"] = warnings.groupby(["model", "code"]).cumcount()
    items = []
    for _, alike in warnings.groupby(["code", "number"], sort=False):
        sentences = []
        for message, names in alike.groupby("message", sort=False)["model"].agg(list).items():
            whose = "All models" if len(names) == len(files.names) else join_words(names)
            sentences.append(f"{whose}: {message}")
        meaning = _SEE.sub("In the model's own report, see ", alike["explanation"].iloc[-1])
        items.append((" ".join(sentences), meaning))
    title = f"Read this first: {count_text(len(items), 'warning')}"
    return Section("warnings", title, [Items(items, role="warnings")])


def _build_result(files: Comparison) -> Section:
    drawn = [
        draw(files, metric)
        for metric in files.leading[:2]
        for draw in (_draw_models, _draw_differences)
    ]
    blocks: list[Block] = [Paragraph(say_differences(files), role="quote")]
    blocks += pictures(*drawn) or [note("No metric is defined.")]
    blocks.append(
        _table(files, files.leading, "All models, and their differences from the reference.")
    )
    rest = [metric for metric in files.metrics if metric not in files.leading]
    if rest:
        blocks.append(_table(files, rest, "Further metrics of all models.", folded=True))
    return Section("result", "Result", blocks)


def _draw_models(files: Comparison, metric: str) -> Picture | None:
    """Return a figure of `metric` for each compared model, with intervals; None without values."""
    rows = files.models[
        (files.models["metric"] == metric) & files.models["value"].notna()
    ].reset_index(drop=True)
    named = files.describe(metric)
    pooled = "" if files.fixed else ", pooled out-of-fold"
    return draw_intervals(
        f"models_{metric}",
        [Series(rows)],
        distinct_labels(rows["model"], length=26),
        f"{named.label} of each model{pooled}, with bootstrap intervals over the same resamples.",
        xlabel=named.label,
        reference=(files.chance(metric), "Chance"),
        limits=named.limits,
        numbers=rows,
    )


def _draw_differences(files: Comparison, metric: str) -> Picture | None:
    """Return a figure of the differences in `metric` of all models from the reference model.

    None if no difference is defined.
    """
    rows = files.differences[files.differences["metric"] == metric].dropna(subset=["difference"])
    rows = rows.rename(columns={"difference": "value"}).reset_index(drop=True)
    named = files.describe(metric)
    reference = plain_label(files.reference, length=24)
    settled = (rows["low"] > 0) | (rows["high"] < 0)
    return draw_intervals(
        f"differences_{metric}",
        [Series(rows[settled], marker="s"), Series(rows[~settled], marker="s", filled=False)],
        distinct_labels(rows["model"], length=26),
        f"Paired differences in {named.name} from {reference}, with bootstrap intervals.",
        note="Filled squares: the interval leaves out zero; hollow ones: it does not.",
        xlabel=f"Difference in {named.name} from {reference}",
        reference=(0.0, "No difference"),
        sides=("worse ←", "→ better") if named.higher_is_better else ("better ←", "→ worse"),
        numbers=rows,
    )


def say_comparison(files: Comparison) -> str:
    """Return a sentence on each model's difference from the reference model in the headline metric.

    The headline metric is the most important one for the kind of target, `headline` of the
    comparison `files`; the reference model is its `reference`.
    """
    if files.headline is None:
        return _NO_METRIC
    named = files.describe(files.headline)
    differences = _differences(files)
    if differences.empty:
        return f"The {named.name} of the models is defined for none of the pairs."
    verdicts = []
    for _, row in differences.iterrows():
        verdicts.append(_verdict(files, row))
    return one_line(f"By {named.name}, and next to {files.reference}: {'; '.join(verdicts)}.")


def say_differences(files: Comparison) -> str:
    """Return a text with a sentence on each model's difference from the reference model.

    The sentence says whether the models differ in the headline metric, the most important metric
    for the kind of target, with the difference, its interval and p-value. Estimators are named if
    they differ. Without differences, the text is that of `say_comparison`.
    """
    metric = files.headline
    differences = _differences(files)
    if metric is None or differences.empty:
        return say_comparison(files)
    name = files.describe(metric).name
    scale = 1
    digits = 3
    unit = ""
    if metric in files.words.in_percent:
        scale = 100
        digits = 1
        unit = " points"
    sentences = [f"Next to {files.reference},"]
    for _, row in differences.iterrows():
        gain = number_text(row["difference"] * scale, digits=digits, signed=True)
        bounds = (row["low"] * scale, row["high"] * scale)
        ends = interval_text(bounds, digits=digits, signed=True)
        tested = f"adjusted p = {row['p_adjusted']:.3g}"
        if pd.isna(row["p_adjusted"]):
            tested = "not tested" if files.fixed else "not tested over folds"
        verdict = _verdict(files, row)
        sentences.append(f"{verdict}: {name} {gain}{unit} ({ends}, {tested}).")
    sentences.append(_say_estimators(files))
    return one_line(" ".join(sentences))


def _differences(files: Comparison) -> pd.DataFrame:
    """Tabulate each model's difference from the reference in the headline metric, as floats.

    The headline metric is the most important one for the kind of target, `headline` of the
    comparison `files`. Models without a difference are left out.
    """
    of_metric = files.differences[files.differences["metric"] == files.headline]
    rows = of_metric.dropna(subset=["difference"])
    return rows.astype(dict.fromkeys(("difference", "low", "high", "p_adjusted"), float))


def _verdict(files: Comparison, row: "pd.Series[Any]") -> str:
    test = "McNemar's test" if files.fixed else "the corrected test over folds"
    higher_is_better = files.describe(str(files.headline)).higher_is_better
    differs = say_difference(row, higher_is_better=higher_is_better, test=test)
    return f"{row['model']} {differs}"


def _say_estimators(files: Comparison) -> str:
    """Return words that name the models' estimators; "" if all models have the same."""
    estimators = {}
    for model in files.summary.models:
        if model.estimator:
            estimators[model.name] = model.estimator
    if len(set(estimators.values())) < 2:
        return ""
    named = "; ".join(map("{}: {}".format, estimators, estimators.values()))
    return (
        f"The models do not have one estimator ({named}): a difference can be the estimator's as "
        "well as the encoder's."
    )


def _table(files: Comparison, metrics: list[str], caption: str, *, folded: bool = False) -> Table:
    names = {"low": "value_low", "high": "value_high"}
    rows = files.models[files.models["metric"].isin(metrics)].rename(columns=names)
    paired = files.differences.rename(columns={"low": "difference_low", "high": "difference_high"})
    rows = rows.merge(paired, on=["metric", "model"], how="left", suffixes=("", "_paired"))
    rows = rows.sort_values("metric", key=lambda keys: keys.map(metrics.index), kind="stable")
    is_reference = rows["model"] == files.reference
    untested = (
        "no test: of too few folds, of folds that are no random draws, or not made for this metric"
    )
    for key, reason in (
        ("difference", "not computed"),
        ("p_value", untested),
        ("p_adjusted", untested),
    ):
        rows[f"{key}_reason"] = is_reference.map({True: "the reference itself", False: reason})
    rows["n_folds_reason"] = rows["difference_reason"]
    rows["model"] = rows["model"].where(~is_reference, rows["model"] + " (reference)")
    rows["label"] = [files.describe(key).label for key in rows["metric"]]
    rows["label"] = rows["label"].where(~rows["metric"].duplicated(), "")
    columns = (
        Column("Metric", "label", "heading"),
        Column("Model", "model", "text"),
        Column("Value", "value", reason="not defined"),
        Column("Interval", "value", "interval", reason="not computed"),
        Column("Difference", "difference", signed=True),
        Column("Its interval", "difference", "interval", signed=True),
        Column("Folds", "n_folds", "count"),
        Column("p", "p_value", "p"),
        Column("p adjusted", "p_adjusted", "p"),
    )
    return make_table(caption, rows, columns, folded=folded)


def _build_learning(files: Comparison) -> Section | None:
    table = files.learning_curves
    words = files.words
    drawn = [
        draw_learning(files, words, table, metric, how="draws and folds")
        for metric in files.leading[:2]
        if table.loc[table["metric"] == metric, "model"].nunique() > 1
    ]
    if not drawn:
        return None
    tested = words.items if files.fixed else "folds"
    shown = pictures(*drawn, wide=True)
    return section("comparison_learning", shown, name="learning", tested=tested, units=words.units)


def _build_methods(files: Comparison) -> Section:
    cite = Citations()
    tests = set(files.differences["test"].dropna()) if "test" in files.differences else set()
    unseen = bool(files.tradeoff["unseen"].notna().any())
    (_, methods), *_ = fill_paragraphs(
        "comparison_methods.j2",
        files.words,
        s=files.summary,
        percent=files.percent,
        is_fixed=files.fixed,
        cite=cite,
        tests=tests,
        unseen=unseen,
    )
    return section(
        "comparison_methods",
        [Paragraph(methods), Numbered("References", cite.listed())],
        name="methods",
    )


def _build_provenance(files: Comparison) -> Section:
    """Return the section on provenance for the page that compares several models.

    The section has a block of text for each model, with the records of its pretraining and
    embeddings, and a last block with the software environment of the comparison.
    """
    keys = ("run", "objective", "embeddings", "n_overlap", "simulated")
    blocks = []
    for model in files.summary.models:
        content = model.content()
        recorded = {key: content[key] for key in keys if content.get(key) is not None}
        title = f"{model.name}: {name_pretraining(model.run, model.objective)}"
        blocks.append(record_block(title, recorded))
    environment = {
        key: value for key, value in files.summary.environment.items() if key != "command"
    }
    return Section("provenance", "Provenance", [*blocks, record_block("Environment", environment)])


def _build_new_sites(files: Comparison) -> Section | None:
    rows = files.tradeoff
    if rows.empty or files.fixed:
        return None
    named = describe_metric(str(rows["metric"].iloc[0]))
    rows = rows.rename(
        columns={
            "site_low": "site_balanced_accuracy_low",
            "site_high": "site_balanced_accuracy_high",
        }
    )
    counts = zip(rows["n_outside"], rows["n"], strict=True)
    rows["outside"] = rows["n_outside"] / rows["n"]
    rows["outside_detail"] = [f"{n_outside:.0f} of {n:.0f}" for n_outside, n in counts]
    short: Any = {"digits": 2, "interval": True}
    columns = (
        Column("Model", "model", "heading"),
        Column("Site told (bal. acc.)", "site_balanced_accuracy", **short),
        Column("Chance", "site_chance", digits=2),
        Column(f"{named.short}, known sites", "known", **short),
        Column(f"{named.short}, unseen sites", "unseen", **short),
        Column("Unseen ÷ known", "ratio", **short) if is_error(named.key) else None,
        Column("Constant guess, unseen", "constant", digits=2),
        Column("Scans outside", "outside", "share", 1),
    )
    remark = "Scans outside: outside the distribution of what the probe was fitted on."
    caption = "Every model at new sites (tradeoff.tsv; all metrics are in models.tsv)."
    table = make_table(caption, rows, columns, note=remark)
    return section("tradeoff", [table])
