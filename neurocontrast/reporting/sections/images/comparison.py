"""The sections of a comparison of models of images: accuracies side by side, and accuracy against fairness."""

from __future__ import annotations

import pandas as pd

from neurocontrast.reporting.blocks import Block, Cell, Items, Numbered, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.comparison import ComparisonFiles
from neurocontrast.reporting.figures import draw_differences, draw_fairness, draw_models
from neurocontrast.reporting.images.sentences import SHARES, metric_range, metric_text
from neurocontrast.reporting.methods_statistics import describe_intervals
from neurocontrast.reporting.metrics import DASH, describe_metric, interval_text, number_text
from neurocontrast.reporting.references import Citations
from neurocontrast.reporting.tables import cell

__all__ = ["build_fairness", "build_methods", "build_result", "build_silences"]

SIGNIFICANCE = 0.05
_ALL = "all"
"""The mean over the sensitive columns, in sensitive.tsv."""


def build_result(files: ComparisonFiles) -> Section:
    """Build the accuracies of all models and their paired differences from the reference."""
    blocks: list[Block] = [Paragraph(_say(files), role="quote")]
    drawn = []
    for metric in files.leading[:2]:
        drawn += [
            draw_models(files.models, metric, n_classes=files.n_classes, words=files.words),
            draw_differences(files.differences, metric, words=files.words),
        ]
    pictures = [picture for picture in drawn if picture is not None]
    blocks.append(Pictures(pictures) if pictures else Paragraph("No metric is defined.", role="note"))
    blocks.append(_summary(files))
    blocks.append(_all_metrics(files))
    return Section("result", "Result", blocks)


def _say(files: ComparisonFiles) -> str:
    """Say for each model whether it differs in the headline metric, by interval and test."""
    if not files.leading:
        return "No metric is defined for any model."
    key = files.leading[0]
    about = describe_metric(key, files.words)
    sentences = []
    for row in files.differences[files.differences["metric"] == key].to_dict("records"):
        if pd.isna(row["difference"]):
            continue
        p = "" if pd.isna(row["p_adjusted"]) else f", adjusted p {_p_equals(row['p_adjusted'])}"
        sentences.append(
            f"{row['model']} {_verdict(row, higher_is_better=about.higher_is_better)}: {about.name} "
            f"{_difference_text(key, row)}{p}."
        )
    if not sentences:
        return f"The {about.name} of the models is defined for none of the pairs."
    return f"Beside {files.reference}, {' '.join(sentences)} Each model is one pretraining: see below."


def _verdict(row: dict, *, higher_is_better: bool) -> str:
    direction = "better" if (row["difference"] > 0) == higher_is_better else "worse"
    outside = row["low"] > 0 or row["high"] < 0
    if not outside:
        return "cannot be told apart from it by these images"
    if pd.notna(row["p_adjusted"]) and row["p_adjusted"] >= SIGNIFICANCE:
        return f"looks {direction}, but only the interval says so, not the adjusted test"
    return f"is {direction} on these images"


def _difference_text(key: str, row: dict) -> str:
    scale, digits, unit = (100, 1, " points") if key in SHARES else (1, 3, "")
    value = number_text(row["difference"] * scale, digits=digits, signed=True)
    interval = interval_text((row["low"] * scale, row["high"] * scale), digits=digits, signed=True)
    return f"{value}{unit} ({interval})"


def _p_equals(value: float) -> str:
    text = _p_text(value)
    return text if text.startswith("<") else f"= {text}"


def _p_text(value: float) -> str:
    return f"{value:.3g}" if value >= 0.0001 else "< 0.0001"


def _summary(files: ComparisonFiles) -> Table:
    """Return one row a model: the leading metrics, the error of the sensitive variable, the paired difference."""
    shown = [key for key in files.leading if key in SHARES][:2] or files.leading[:2]
    values = {(row["metric"], row["model"]): row for row in files.models.to_dict("records")}
    paired = {(row["metric"], row["model"]): row for row in files.differences.to_dict("records")}
    means = _sensitive_means(files)
    sensitive = None if means is None else {row["model"]: row for row in means.reset_index().to_dict("records")}
    rows = []
    for name in files.names:
        is_reference = name == files.reference
        cells = [Cell(name + (" (reference)" if is_reference else ""), heading=True)]
        cells += [_value(key, values.get((key, name), {})) for key in shown]
        if sensitive is not None:
            cells.append(_mse(sensitive.get(name, {})))
        reason = "the reference itself" if is_reference else "not computed"
        cells += _paired(shown[0], paired.get((shown[0], name), {}), reason) if shown else []
        rows.append(tuple(cells))
    labels = [describe_metric(key, files.words).label for key in shown]
    header = ["Model", *labels, *(["MSE of the sensitive variable"] if sensitive is not None else [])]
    header += [f"Difference in {describe_metric(shown[0], files.words).name}", "p adjusted"] if shown else []
    return Table("All models, with their intervals.", header, rows)


def _value(key: str, row: dict) -> Cell:
    if row.get("value") is None or pd.isna(row["value"]):
        return Cell(DASH, reason="not defined")
    detail = metric_range(key, (row["low"], row["high"])) if pd.notna(row.get("low")) else "no interval"
    return Cell(metric_text(key, row["value"]), detail=detail)


def _mse(row: dict) -> Cell:
    if row.get("mse") is None or pd.isna(row["mse"]):
        return Cell(DASH, reason="not measured")
    return Cell(number_text(row["mse"], digits=4), detail=interval_text((row["low"], row["high"]), digits=4))


def _paired(key: str, row: dict, reason: str) -> list[Cell]:
    if row.get("difference") is None or pd.isna(row["difference"]):
        return [Cell(DASH, reason=reason), Cell(DASH, reason=reason)]
    value, _, interval = _difference_text(key, row).partition(" (")
    p = row.get("p_adjusted")
    untested = Cell(DASH, reason="no test of this metric")
    return [Cell(value, detail=interval.rstrip(")")), untested if p is None or pd.isna(p) else Cell(_p_text(p))]


def _all_metrics(files: ComparisonFiles) -> Table:
    rows = []
    paired = files.differences.set_index(["metric", "model"])
    for metric in [*files.leading, *(key for key in files.metrics if key not in files.leading)]:
        of_metric = files.models[files.models["metric"] == metric].to_dict("records")
        for number, row in enumerate(of_metric):
            key = (metric, row["model"])
            other = paired.loc[key].to_dict() if key in paired.index else {}
            reason = "the reference itself" if row["model"] == files.reference else "not computed"
            interval = interval_text((row["low"], row["high"]))
            rows.append(
                (
                    Cell(describe_metric(metric, files.words).label if number == 0 else "", heading=number == 0),
                    Cell(str(row["model"])),
                    cell(row["value"], reason="not defined"),
                    Cell(interval, reason="not computed" if interval == DASH else ""),
                    cell(other.get("difference"), reason=reason, signed=True),
                    _interval(other, reason),
                )
            )
    header = ("Metric", "Model", "Value", "Interval", "Difference", "Its interval")
    return Table("All metrics of all models.", header, rows, text_columns=(0, 1), folded=True)


def _interval(row: dict, reason: str) -> Cell:
    text = interval_text((row.get("low"), row.get("high")), signed=True)
    return Cell(text, reason=reason if text == DASH else "")


def _sensitive_means(files: ComparisonFiles) -> pd.DataFrame | None:
    """Return the mean error over the sensitive columns, one row a model."""
    if files.sensitive is None:
        return None
    means = files.sensitive[files.sensitive["column"] == _ALL]
    return None if means.empty else means.drop_duplicates("model").set_index("model")


def build_fairness(files: ComparisonFiles) -> Section:
    """Build accuracy against the error of the sensitive variable."""
    title = "Accuracy against fairness"
    sensitive = _sensitive_means(files)
    key = next((key for key in files.leading if key in SHARES), None)
    if sensitive is None or files.sensitive is None or key is None:
        text = "Not shown: not all evaluations measured a sensitive variable (`evaluation.sensitive`)."
        return Section("fairness", title, [Paragraph(text, role="note")])
    names = {"mse": "mse", "low": "mse_low", "high": "mse_high", "constant_mse": "constant_mse"}
    errors = sensitive[list(names)].rename(columns=names).reset_index()
    rows = files.models[files.models["metric"] == key][["model", "value", "low", "high"]].merge(errors, on="model")
    picture = draw_fairness(rows, label=describe_metric(key, files.words).label, level=files.level)
    blocks: list[Block] = [Pictures([picture])] if picture else []
    blocks.append(_sensitive_table(files.sensitive, files.reference))
    lead = "The error of a linear model that predicts the sensitive variable from the features: higher is fairer."
    return Section("fairness", title, blocks, lead=lead)


def _sensitive_table(sensitive: pd.DataFrame, reference: str) -> Table:
    rows = []
    for row in sensitive.to_dict("records"):
        reason = "the reference itself" if row["model"] == reference else "not computed"
        interval = interval_text((row["low"], row["high"]), digits=4)
        between = interval_text((row["difference_low"], row["difference_high"]), digits=4, signed=True)
        rows.append(
            (
                Cell(str(row["model"]), heading=True),
                Cell("mean of the columns" if row["column"] == _ALL else str(row["column"])),
                cell(row["mse"], digits=4),
                Cell(interval, reason="not computed" if interval == DASH else ""),
                cell(row["constant_mse"], digits=4),
                cell(row["difference"], digits=4, reason=reason, signed=True),
                Cell(between, reason=reason if between == DASH else ""),
            )
        )
    header = ("Model", "Column", "MSE", "Interval", "MSE of a constant", "Difference", "Its interval")
    return Table("The sensitive variable (sensitive.tsv).", header, rows, text_columns=(0, 1))


def build_methods(files: ComparisonFiles) -> Section:
    """Build how the models were compared."""
    cite, s = Citations(), files.summary
    intervals = describe_intervals(files.level, s.get("interval_method"), cite)
    what = "the same test images" if files.fixed else "the same images in the same folds"
    text = f"All models were evaluated on {what}. Of values and of paired differences, "
    text += f"{intervals[0].lower() + intervals[1:]} {s.get('n_bootstraps', 0):,} bootstrap draws of images, the same "
    text += "draws for all models, with encoders and probes held fixed. "
    tests = set(files.differences["test"].dropna()) if "test" in files.differences else set()
    if "mcnemar" in tests:
        text += f"Accuracies were compared by McNemar's exact test {cite('mcnemar')}"
        text += f", AUCs by DeLong's {cite('delong')}. " if "delong" in tests else ". "
    elif "nadeau-bengio" in tests or not files.fixed:
        text += f"Differences over folds were tested by the corrected resampled t-test {cite('nadeau')}. "
    text += f"p-values were adjusted for the number of models within each metric by Holm's method {cite('holm')}."
    if files.sensitive is not None:
        text += (
            f" The sensitive variable was predicted from the features of each model by ridge regression {cite('cclk')}."
        )
    lead = "Generated from the record of this comparison, to be checked and pasted into a paper."
    return Section("methods", "Methods", [Paragraph(text), Numbered("References", cite.listed())], lead=lead)


def build_silences(files: ComparisonFiles) -> Section:
    """Build the list of what the page does not say."""
    del files
    items = [
        ("Not another pretraining.", "Each model is one encoder. Intervals and tests ask about other test images given "
                                     "these encoders; another seed of pretraining may turn a small difference round."),
        ("Not equal effort.", "Nothing here says that the models were tuned with the same care."),
        ("Not no difference.", "An interval that reaches zero says that these images do not settle it, no more."),
        ("No correction across metrics.", "Adjusted p-values count the models within one metric."),
    ]  # fmt: skip
    return Section("silences", "What this page does not say", [Items(items)])
