"""Training curves: the loss and its terms, training beside validation."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import MaxNLocator

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import describe_metric
from neurocontrast.reporting.style import BASELINE, MAIN, Picture, legend_below, new_figure, plain_label, styled

__all__ = ["draw_training", "list_terms"]

_NOT_SHOWN = {"epoch", "step", "lr", "learning_rate", "seconds", "gradient_norm"}
_TITLES = {
    "loss": "Loss",
    "alignment": "Alignment of two views (0 is best)",
    "uniformity": "Uniformity (lower is more even)",
    "effective_rank": "Effective rank (1 is collapse)",
    "samples_per_second": "Images per second",
    "volumes_per_second": "Volumes per second",
    "features_effective_rank": "Effective rank of the features (1 is collapse)",
}
_ORDER = ("loss", "term_", "alignment", "uniformity", "effective_rank", "probe_")
_MAX_TERMS = 8


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
    terms = [name for name in names if name.startswith("term_")]
    if len(terms) == 1:  # a loss of one term is that term
        names.remove(terms[0])
    names.sort(key=lambda name: next((rank for rank, start in enumerate(_ORDER) if name.startswith(start)), 9))
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
        validation = column != term and column.startswith("val")
        on_probe = f"Probe on validation {files.words.items}"
        label = "Validation" if validation else on_probe if term.startswith("probe") else "Training"
        values = means[column].dropna()
        axes.plot(
            values.index, values, color=BASELINE if validation else MAIN, linestyle="--" if validation else "-",
            marker="s" if validation else "o", markersize=4 if len(values) < 40 else 0, linewidth=1.8,
            label=label,
        )  # fmt: skip
    axes.set(xlabel=(clock or "row").capitalize(), title=plain_label(_title(term), length=60))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, axes)
    return Picture(f"training_{term}", figure, alt=_alt(term, means, columns), caption="", numbers=means.reset_index())


def _bare(column: str) -> str:
    for mark in ("train_", "val_", "validation_", "train/", "val/", "validation/"):
        column = column.removeprefix(mark)
    return column


def _is_clock(name: str) -> bool:
    return name in _NOT_SHOWN or name.endswith(("_seconds", "_per_second", "_bytes", "_gib", "_mib"))


def _title(term: str) -> str:
    if term.startswith("term_"):
        return f"Term of the loss: {term.removeprefix('term_').replace('_', ' ')}"
    if term.startswith("bound_"):
        return f"Implied by the loss: {term.removeprefix('bound_').replace('_', ' ')}"
    if term.startswith("probe_"):
        column, metric = _column_and_metric(term.removeprefix("probe_"))
        return f"Linear probe: {describe_metric(metric).short} of {column.replace('_', ' ')}"
    return _TITLES.get(term, term.replace("_", " ").capitalize())


def _column_and_metric(name: str) -> tuple[str, str]:
    """Split "label_balanced_accuracy": names of columns and of metrics may both hold underscores."""
    parts = name.split("_")
    ends = ["_".join(parts[place:]) for place in range(1, len(parts))]
    metric = next((end for end in ends if describe_metric(end).meaning), ends[-1] if ends else "")
    return name.removesuffix(metric).removesuffix("_"), metric


def _alt(term: str, means: pd.DataFrame, columns: list[str]) -> str:
    parts = []
    for column in columns:
        values = means[column].dropna()
        if len(values):
            parts.append(f"{column} from {values.iloc[0]:.3g} to {values.iloc[-1]:.3g}")
    return f"{_title(term)} during pretraining: " + "; ".join(parts) + "."
