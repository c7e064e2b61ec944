"""Training curves: the loss and its terms, training beside validation."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import MaxNLocator

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.style import BASELINE, MAIN, Picture, legend_below, new_figure, plain_label, styled

__all__ = ["draw_training", "list_terms"]

_CLOCK = {"epoch", "step", "lr", "learning_rate", "seconds", "time", "samples_per_second", "throughput", "memory_gib"}
_MAX_TERMS = 6


def list_terms(files: EvaluationFiles) -> list[str]:
    """Return the logged quantities worth a curve: the loss first, then its terms and scores."""
    if files.training is None:
        return []
    names: list[str] = []
    for column in files.training.columns:
        name = _bare(column)
        numeric = pd.api.types.is_numeric_dtype(files.training[column])
        if numeric and files.training[column].notna().any() and name not in names and not _is_clock(name):
            names.append(name)
    names.sort(key=lambda name: name != "loss")
    return names[:_MAX_TERMS]


@styled
def draw_training(files: EvaluationFiles, term: str) -> Picture | None:
    """Draw one logged quantity over the epochs, with its validation where there is one."""
    table = files.training
    if table is None:
        return None
    clock = next((name for name in ("epoch", "step") if name in table), None)
    columns = [name for name in table.columns if _bare(name) == term]
    # Several rows an epoch (one a step, one for validation) become one point.
    means = table.groupby(clock)[columns].mean() if clock else table[columns]
    figure, axes = new_figure(height=3.2)
    for column in columns:
        validation = column != term and "val" in column
        values = means[column].dropna()
        axes.plot(
            values.index, values, color=BASELINE if validation else MAIN, linestyle="--" if validation else "-",
            marker="s" if validation else "o", markersize=4 if len(values) < 40 else 0, linewidth=1.8,
            label="Validation" if validation else "Training",
        )  # fmt: skip
    name = plain_label(term.replace("_", " "))
    axes.set(xlabel=(clock or "row").capitalize(), ylabel=name, title=name[:1].upper() + name[1:])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, axes)
    return Picture(f"training_{term}", figure, alt=_alt(term, means, columns), caption="", numbers=means.reset_index())


def _bare(column: str) -> str:
    for mark in ("train_", "val_", "validation_", "train/", "val/", "validation/"):
        column = column.removeprefix(mark)
    return column


def _is_clock(name: str) -> bool:
    return name in _CLOCK or name.endswith(("_seconds", "_per_second", "_bytes", "_gib", "_mib"))


def _alt(term: str, means: pd.DataFrame, columns: list[str]) -> str:
    parts = []
    for column in columns:
        values = means[column].dropna()
        if len(values):
            parts.append(f"{column} from {values.iloc[0]:.3g} to {values.iloc[-1]:.3g}")
    return f"{term.replace('_', ' ')} during pretraining: " + "; ".join(parts) + "."
