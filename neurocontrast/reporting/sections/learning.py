"""Section of the learning curve: the metric over the number of training subjects."""

import pandas as pd
from matplotlib.ticker import NullLocator, StrMethodFormatter

from neurocontrast.documents.findings import LearningCurve
from neurocontrast.evaluation.measure.learning import (
    check_sizes,
    measure_learning_curve,
    tabulate_curves,
)
from neurocontrast.reporting import style
from neurocontrast.reporting.baselines import list_baselines
from neurocontrast.reporting.blocks import Section, pictures
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.result_tables import Results
from neurocontrast.reporting.texts import section
from neurocontrast.reporting.wording import Words, capitalise, leading_metrics, number_text


def show_learning(files: EvaluationFolder) -> Section | None:
    """Return the section with the models' learning curves in one metric; None if not measured."""
    curve = files.summary.part(LearningCurve)
    words = files.words
    if curve is None or not curve.metrics:
        return None
    draws = f"{curve.n_draws} random draws" if curve.n_draws else "random draws"
    how = f"{draws} of each size from every training fold"
    metric = leading_metrics(files.kind, curve.metrics, words)[0]
    curves = {"Embedding": curve.metrics, "Covariates only": curve.baseline}
    for baseline in list_baselines(files.summary):
        curves[capitalise(baseline.name)] = curve.of_model(baseline.key)
    drawn = draw_learning(files, words, tabulate_curves(curves), metric, how=how)
    return section("learning", pictures(drawn), items=words.items)


@style.styled
def draw_learning(
    files: Results, words: Words, rows: pd.DataFrame, metric: str, *, how: str
) -> style.Picture | None:
    """Return a figure of a metric of every model over the number of training subjects.

    None without values. `rows` holds ``model``, ``metric``, ``n_train``, ``mean`` and ``sd``. `how`
    follows "mean and one SD over" in the caption.
    """
    rows = rows[(rows["metric"] == metric) & rows["mean"].notna() & rows["n_train"].notna()]
    if rows.empty:
        return None
    figure, axes = style.new_figure(height=4.2)
    named = files.describe(metric)
    curves = []
    chance = files.chance(metric)
    for number, (model, of_model) in enumerate(rows.groupby("model", sort=False)):
        points = of_model.sort_values("n_train")
        look = style.look_of(number)
        n_train = points["n_train"]
        mean = points["mean"]
        sd = points["sd"].fillna(0.0)
        axes.fill_between(
            n_train, mean - sd, mean + sd, color=look["color"], alpha=0.12, linewidth=0
        )
        axes.plot(n_train, mean, linewidth=2, label=style.plain_label(model), **look)
        values = [
            f"{n:.0f} {words.units} {number_text(value, digits=2)}"
            for n, value in zip(n_train, mean, strict=True)
        ]
        curves.append(f"{model}: {', '.join(values)}")
    axes.set_xscale("log")
    axes.set_xticks(sorted(rows["n_train"].unique()), minor=False)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if chance is not None:
        axes.axhline(chance, color=style.CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    axes.set(xlabel=f"Training {words.units} of the probe", ylabel=named.label)
    style.legend_below(figure, axes)
    title = f"{named.label} over the number of training {words.units}"
    return style.Picture(
        f"learning_{metric}",
        figure,
        alt=f"Learning curves: {title}. {'; '.join(curves)}.",
        caption=f"{title}: mean and one SD over {how} (a spread, not a confidence interval).",
        numbers=rows.reset_index(drop=True),
    )


LEARNING = Finding(
    "learning", show_learning, measure_learning_curve, check_sizes, record=LearningCurve
)
