"""What was predicted, beside the truth: curves, calibration, confusion or predicted values, and the worst errors."""

import hmac
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.colors import PowerNorm
from sklearn.metrics import ConfusionMatrixDisplay, precision_recall_curve, roc_curve

from neurocontrast.findings.finding import Finding
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.prose import naming, section
from neurocontrast.page import style
from neurocontrast.page.blocks import Column, Section, make_table, note, pictures
from neurocontrast.page.style import about_thinning, draw_groups, thin_rows
from neurocontrast.page.wording import interval_text, number_text, point_estimate

_TITLES = {"roc": "ROC", "precision_recall": "Precision–recall"}
_AREAS = {"roc": ("auc", "AUC"), "precision_recall": ("average_precision", "average precision")}
_LOOKS: dict[str, dict[str, Any]] = {
    "baseline": {"color": style.BASELINE, "linestyle": "--"},
    "embedding": {"color": style.MAIN, "linestyle": "-"},
}
_CHANCE: dict[str, Any] = {"color": style.CHANCE, "linestyle": ":", "linewidth": 1.3}


def show_curves(files: EvaluationFolder) -> Section:
    """Return the ROC and precision–recall curves."""
    shown = pictures(*(draw_curve(files, curve) for curve in _TITLES))
    why = note("No curve is defined: the predictions are of one class only.")
    return Section("curves", "Discrimination", shown or [why])


@style.styled
def draw_curve(files: EvaluationFolder, curve: str) -> style.Picture | None:
    """Draw ``roc`` or ``precision_recall`` of the baseline, and of the embedding over it; None where undefined."""
    title, (metric, area), s, tested = (
        _TITLES[curve],
        _AREAS[curve],
        files.summary,
        tested_rows(files),
    )
    figure, axes = style.new_figure(height=style.WIDTH * 1.02)
    covariates = (
        f" ({style.plain_label(' + '.join(s.baseline_covariates))})"
        if s.baseline_covariates
        else ""
    )
    named = {"baseline": f"Baseline{covariates}", "embedding": "Embedding"}
    parts = []
    for model, column, found in (
        ("baseline", "baseline_score", s.baseline),
        ("embedding", "y_score", files.metrics),
    ):
        values = found.get(metric)
        drawn = _points(tested, column, files.positive, curve)
        label = f"{named[model]}: {area} {number_text(point_estimate(values), digits=2)}"
        label += (
            f" [{interval_text(values.interval, digits=2)}]" if values and values.interval else ""
        )
        for repeat, points in enumerate(drawn):
            look: dict[str, Any] = (
                {"linewidth": 2.1} if len(drawn) == 1 else {"linewidth": 1.0, "alpha": 0.6}
            )
            look |= {
                "drawstyle": "default" if curve == "roc" else "steps-pre",
                "label": None if repeat else label,
            }
            axes.plot(points["x"], points["y"], **_LOOKS[model], **look)
            parts.append(points.assign(curve=named[model], repeat=repeat))
    if not parts:
        return None
    share = float((tested["y_true"] == files.positive).mean())
    note = ""
    if curve == "roc":
        axes.plot([0, 1], [0, 1], label="Chance: 0.50", **_CHANCE)
    else:
        axes.axhline(share, label=f"Chance: share of positives, {share:.2f}", **_CHANCE)
        note = (
            f" Precision depends on how common “{files.positive}” is in this cohort ({share:.0%})."
        )
    found_class = f" (“{style.plain_label(files.positive, length=20)}” found)"
    labels = {"roc": ("1 − specificity", f"Sensitivity{found_class}")}
    xlabel, ylabel = labels.get(curve, (f"Recall{found_class}", "Precision"))
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.legend_below(figure, axes, n_columns=1)
    legend = "; ".join(
        str(label).replace("\\", "") for label in axes.get_legend_handles_labels()[1]
    )
    about = f"{title} curves of all tested {files.words.items} pooled"
    about += ", a line for each repeat" if tested["repeat"].nunique() > 1 else ""
    return style.Picture(
        curve,
        figure,
        alt=f"{title} curves for {files.target}. {legend}.",
        caption=f"{about}. Brackets: {files.percent} intervals.{note}",
        numbers=pd.concat(parts, ignore_index=True),
    )


def _points(rows: pd.DataFrame, column: str, positive: str, curve: str) -> list[pd.DataFrame]:
    """Return the curve of all folds together, as ``x`` and ``y``, of each repeat in which it is defined."""
    known = rows.dropna(subset=[column, "y_true"]) if column in rows else rows.iloc[:0]
    curves = []
    for _, part in known.groupby("repeat"):
        truth = part["y_true"] == positive
        if truth.nunique() > 1:
            if curve == "roc":
                x, y, _ = roc_curve(truth, part[column])
            else:
                y, x, _ = (
                    each[-2::-1]
                    for each in precision_recall_curve(truth, part[column], drop_intermediate=True)
                )
            curves.append(pd.DataFrame({"x": x, "y": y}))
    return curves


def show_calibration(files: EvaluationFolder) -> Section | None:
    """Return the calibration of each class; None without a table of it."""
    table = files.table("calibration", "model", "n", "mean_predicted", "observed")
    if table is None:
        return None
    known = set(table["class"].dropna()) if "class" in table else {files.positive}
    shown = pictures(
        *(_draw_calibration(files, table, name) for name in files.classes if name in known)
    )
    return section("calibration", shown) if shown else None


@style.styled
def _draw_calibration(
    files: EvaluationFolder, table: pd.DataFrame, name: str
) -> style.Picture | None:
    """Draw observed shares over predicted probabilities of a class, bin by bin; None where there is no bin."""
    rows = table[table["class"] == name] if "class" in table else table
    rows = rows.dropna(subset=["mean_predicted", "observed"]).reset_index(drop=True)
    if rows.empty:
        return None
    suffix = f"_{files.classes.index(name) + 1}" if files.kind == "multiclass" else ""
    label = style.plain_label(name, length=20)
    parts = []
    figure, axes = style.new_figure(height=style.WIDTH)
    axes.plot([0, 1], [0, 1], label="Perfectly calibrated", **_CHANCE)
    for model, title, marker in (
        ("baseline", "Covariates only", "D"),
        ("embedding", "Embedding", "o"),
    ):
        part = rows[rows["model"] == model].sort_values("mean_predicted")
        if part.empty:
            continue
        x = part["mean_predicted"]
        y = part["observed"]
        look = _LOOKS[model]
        if {"observed_low", "observed_high"} <= set(part):
            axes.vlines(
                x,
                part["observed_low"],
                part["observed_high"],
                color=look["color"],
                linewidth=1.4,
                alpha=0.75,
            )
        axes.plot(x, y, marker=marker, markersize=6, linewidth=1.7, label=title, **look)
        bins = [
            f"{a:.2f} → {b:.2f} (n = {size:.0f})"
            for a, b, size in zip(x, y, part["n"], strict=True)
        ]
        parts.append(f"{title}, predicted → observed: {', '.join(bins)}")
    axes.set(xlabel=f"Predicted probability of “{label}”", ylabel=f"Observed share of “{label}”")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    style.legend_below(figure, axes, n_columns=1)
    return style.Picture(
        f"calibration{suffix}",
        figure,
        alt=f"Calibration of the probability of {name}. {'. '.join(parts)}.",
        caption=f"Observed share of “{name}” among scans of alike predicted probability, with {files.percent} "
        "intervals.",
        numbers=rows,
    )


OLDEST_SHOWN = 89
"""Ages from this on are shown as "89+": with a site, an older age can name a person."""
_MAX_CELLS = 12
_MAX_NAMED = 120
"""Classes up to which the confusion matrix has numbers in its cells, and names beside it."""
_N_WORST = 10


def rough_ages(ages: pd.Series) -> pd.Series:
    """Return ages as texts that name nobody: whole years, and "89+"; None for a missing one."""
    texts = ages.map(lambda age: f"{OLDEST_SHOWN}+" if age >= OLDEST_SHOWN else f"{age:.0f}")
    return texts.astype(object).where(ages.notna(), None)


def tested_rows(files: EvaluationFolder) -> pd.DataFrame:
    """Return the predictions of the scans that were tested: one row a scan and repeat."""
    scores = [name for name in files.predictions.columns if _is_score(name)]
    return files.predictions.dropna(subset=scores, how="all").reset_index(drop=True)


def _is_score(column: object) -> bool:
    return str(column).endswith("_score") or str(column).startswith("score_")


def _class_scores(files: EvaluationFolder, rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the probability of each class (columns) for each row."""
    if files.kind == "binary":
        positive = rows["y_score"].to_numpy(dtype=float)
        return np.column_stack(
            [positive if name == files.positive else 1 - positive for name in files.classes]
        )
    return rows.reindex(columns=[f"score_{name}" for name in files.classes]).to_numpy(dtype=float)


def _pool_repeats(files: EvaluationFolder) -> pd.DataFrame:
    """Return one row a scan: its scores averaged over repeats, and the class that it was given most often."""
    table = tested_rows(files)
    if "participant_id" not in table or table["repeat"].nunique() < 2:
        return table
    keys = [name for name in ("participant_id", "session") if name in table]
    how = {
        name: "mean" if _is_score(name) else "first" for name in table.columns if name not in keys
    }
    most: dict = {"y_pred": lambda given: given.mode().iat[0]} if "y_pred" in how else {}
    return table.groupby(keys, sort=False, dropna=False).agg(how | most).reset_index()


def show_errors(files: EvaluationFolder) -> Section:
    """Return the confusion matrix, or predicted against true values."""
    if files.kind == "continuous":
        return Section("errors", "Predicted and true values", pictures(draw_predicted(files)))
    wide = len(files.classes) > _MAX_CELLS
    return Section("errors", "What is taken for what", pictures(draw_confusion(files), wide=wide))


def count_confusion(files: EvaluationFolder) -> npt.NDArray[np.float64]:
    """Return the number of scans by true class (rows) and predicted class (columns), as means over repeats."""
    tested = tested_rows(files)
    counts = pd.crosstab(tested["y_true"], tested["y_pred"])
    square = counts.reindex(index=files.classes, columns=files.classes, fill_value=0)
    return square.to_numpy(dtype=float) / max(tested["repeat"].nunique(), 1)


def _count_text(n: float) -> str:
    """Write a count, with one decimal where it is a mean over repeats."""
    return f"{n:.1f}".removesuffix(".0")


@style.styled
def draw_confusion(files: EvaluationFolder) -> style.Picture:
    """Draw the confusion matrix; of many classes as shares in colour, without numbers in the cells."""
    numbers = count_confusion(files)
    rule = naming("threshold", files)
    n_classes = len(files.classes)
    totals = numbers.sum(axis=1)
    many = n_classes > _MAX_CELLS
    shares = numbers / np.where(totals > 0, totals, 1)[:, None]
    side = float(np.clip(2.6 + 0.55 * min(n_classes, 7) + 0.1 * n_classes, 3.8, 10.6))
    figure, axes = style.new_figure(height=side * 0.94, width=side)
    shown = ConfusionMatrixDisplay(
        shares, display_labels=style.distinct_labels(files.classes, length=16)
    )
    # A square root shows the mistakes of each class, which are small beside what is right.
    shown.plot(
        ax=axes,
        include_values=not many,
        values_format=".0%",
        cmap="Blues",
        colorbar=many,
        xticks_rotation="vertical" if n_classes > 4 else "horizontal",
        im_kw={"norm": PowerNorm(0.5 if many else 1.0, vmin=0, vmax=1)},
        text_kw={"fontsize": 10 if n_classes < 7 else 7},
    )
    axes.tick_params(length=0, labelsize=float(np.clip(40 * side / n_classes, 4.5, 9)))
    axes.set(xlabel="Predicted", ylabel="True")
    axes.grid(visible=False)
    if n_classes > _MAX_NAMED:
        axes.set(xticks=[], yticks=[])
    n_repeats = tested_rows(files)["repeat"].nunique()
    what = f"shares of each true class of the {'test' if files.fixed else 'out-of-fold'} {files.words.items}"
    what += f", means over {n_repeats} repeats" if n_repeats > 1 else ""
    right = [
        f"{_count_text(numbers[row, row])} of {_count_text(totals[row])} {files.classes[row]} right"
        for row in np.argsort(-shares.diagonal(), kind="stable")
    ]
    alt = "; ".join(right)
    if many:
        what += ", darker by the square root"
        alt = f"Right most often: {'; '.join(right[:3])}. Least often: {'; '.join(right[-3:])}"
    else:
        for text, n in zip(shown.text_.flat, numbers.flat, strict=True):
            text.set_text(f"{_count_text(n)}\n{text.get_text()}")
        what += ", under their number"
    counts = (
        pd.DataFrame(numbers, index=files.classes, columns=files.classes)
        .rename_axis("true")
        .reset_index()
    )
    return style.Picture(
        "confusion",
        figure,
        alt=f"Confusion matrix {rule}, {n_classes} classes: {alt}.",
        caption=f"Confusion matrix {rule}: {what}.",
        numbers=counts.melt(id_vars="true", var_name="predicted", value_name="n"),
    )


@style.styled
def draw_predicted(files: EvaluationFolder) -> style.Picture:
    """Draw predicted values against true ones by site, with their trend."""
    pooled = _pool_repeats(files)
    target = style.plain_label(files.target)
    items = files.words.items
    everyone = pd.DataFrame(
        {"site": pooled.get("site", "all"), "true": pooled["y_true"].astype(float)}
    )
    everyone = everyone.assign(predicted=pooled["y_score"].astype(float)).dropna(
        subset=["true", "predicted"]
    )
    everyone = everyone.reset_index(drop=True)
    known = everyone["true"]
    rough = files.target == "age" and not files.show_ids
    if rough:
        everyone = everyone.assign(true=known.round().clip(upper=OLDEST_SHOWN))
    rows = thin_rows(everyone)
    ends = np.quantile(everyone["true"], [0, 1])
    figure, axes = style.new_figure(height=style.WIDTH + 0.1 * min(rows["site"].nunique(), 12))
    axes.plot(
        ends, ends, label="Perfect prediction", color=style.CHANCE, linestyle="--", linewidth=1.4
    )
    about = f"{'Prediction' if files.fixed else 'Out-of-fold prediction'} of {files.target} against the truth."
    mae, r2 = (
        number_text(point_estimate(files.metrics.get(key)), digits=2) for key in ("mae", "r2")
    )
    about += f" Mean absolute error {mae}, R² {r2}."
    if known.nunique() > 2:
        slope, intercept = np.polyfit(known, everyone["predicted"], 1)
        shown = f"slope {number_text(slope, digits=2)}"
        axes.plot(
            ends, intercept + slope * ends, color=style.INK, linewidth=1.8, label=f"Trend: {shown}"
        )
        about += f" The fitted trend has {shown}."
    draw_groups(axes, rows["true"], rows["predicted"], rows["site"])
    axes.set(xlabel=f"True {target}", ylabel=f"Predicted {target}")
    more = (
        f" One point for each of the {items} (averaged over repeats, if any). A slope below 1 means that low values "
        "are overestimated and high ones underestimated, as every shrunken prediction does; no residual is a “gap” "
        "before that is corrected."
    )
    if rough:
        more += f" True ages are drawn in whole years, {OLDEST_SHOWN} and more at {OLDEST_SHOWN}."
    return style.Picture(
        "predicted_true",
        figure,
        alt=f"{about} Scatter of {len(everyone)} {items}.",
        caption=about + more + about_thinning(len(rows), len(everyone), items),
        numbers=everyone,
    )


def name_scans(files: EvaluationFolder, rows: pd.DataFrame) -> list[str]:
    """Return identifiers of scans, or pseudonyms that only who has the evaluation's files can trace back."""
    names = rows.get("participant_id", pd.Series(rows.index.astype(str), index=rows.index)).fillna(
        ""
    )
    sessions = rows.get("session", pd.Series("", index=rows.index)).fillna("")
    if files.show_ids:
        return [f"{name} {session}".strip() for name, session in zip(names, sessions, strict=True)]
    key = files.key.encode()
    pairs = zip(names, sessions, strict=True)
    return [
        hmac.new(key, f"{name}\t{session}".encode(), "sha256").hexdigest()[:10]
        for name, session in pairs
    ]


def list_errors(files: EvaluationFolder) -> pd.DataFrame:
    """Return the scans that the model got wrong, the most confident mistakes or the largest residuals first.

    Columns: ``scan, age, sex, site, y_true, given, score, error``. Of classes, a scan is wrong
    where most repeats gave another class than the true one, whose probability is ``score``; of a
    number, ``score`` is predicted − true.
    """
    rows = _pool_repeats(files).dropna(subset=["y_true"]).reset_index(drop=True)
    if files.kind == "continuous":
        residual = rows["y_score"].astype(float) - rows["y_true"].astype(float)
        rows = rows.assign(given=rows["y_score"], score=residual, error=residual.abs())
    else:
        place = pd.Categorical(rows["y_true"], categories=files.classes).codes
        score = _class_scores(files, rows)[np.arange(len(rows)), place]
        rows = rows.assign(given=rows["y_pred"], score=score, error=1 - score)[
            rows["y_pred"] != rows["y_true"]
        ]
    rows = rows.dropna(subset=["error"]).sort_values(
        "error", ascending=False, kind="stable", ignore_index=True
    )
    rows["scan"] = name_scans(files, rows)
    if "age" in rows and not files.show_ids:
        rows["age"] = rough_ages(rows["age"])
    return rows.reindex(columns=["scan", "age", "sex", "site", "y_true", "given", "score", "error"])


def show_worst(files: EvaluationFolder) -> Section:
    """Return the table of most confident mistakes, or of largest residuals."""
    errors = list_errors(files)
    continuous = files.kind == "continuous"
    if errors.empty:
        return Section("worst", "Worst errors", [note("No scan was given to a wrong class.")])
    number, score = ("number", "Predicted − true") if continuous else ("text", "P(true class)")
    shown = errors.head(_N_WORST)
    digits = 1
    if continuous and files.target == "age" and not files.show_ids:
        young = shown["y_true"] < OLDEST_SHOWN
        digits = 0
        shown = shown.assign(y_true=rough_ages(shown["y_true"]), score=shown["score"].where(young))
    columns = (
        Column("Scan", "scan", "heading"),
        Column("Age", "age", "number" if files.show_ids else "text", 1),
        Column("Sex", "sex", "text"),
        Column("Site", "site", "text"),
        Column("True", "y_true", number if digits else "text", 1),
        Column("Predicted", "given", number, digits),
        Column(
            score,
            "score",
            digits=digits if continuous else 2,
            signed=continuous,
            reason="would tell a high age",
        ),
    )
    hidden = "Scans have pseudonyms and ages are rounded; with the evaluation folder, --show-ids names them."
    about = "Scans have their identifiers." if files.show_ids else hidden
    caption = f"The {len(shown)} largest residuals of {'test' if files.fixed else 'out-of-fold'} predictions."
    if not continuous:
        how = " in most repeats" if files.predictions["repeat"].nunique() > 1 else ""
        caption = f"The {len(shown)} most confident of the {len(errors):,} mistakes{how}: the true class was given so "
        caption += "little probability."
    return section("worst", [make_table(caption, shown, columns, note=about)])


CURVES = Finding("curves", show_curves, kinds=("binary",))
CALIBRATION = Finding(
    "calibration", show_calibration, kinds=("binary", "multiclass"), of=("scans",)
)
ERRORS = Finding("errors", show_errors)
WORST = Finding("worst", show_worst, of=("scans",))
