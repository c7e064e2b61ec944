"""What an evaluation found of sites that the probe has not seen, in two lines on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from neurocontrast.evaluation.schema import Estimate, Evaluation, NewSite, read_evaluation

__all__ = ["new_site_lines", "show_new_site"]

_CLOSE = {"auc": "log_loss", "balanced_accuracy": "log_loss"}
"""Which error stands for a metric of which more is better, where a ratio is wanted."""


def show_new_site(folder: Path, *, console: Console) -> None:
    """Print the error at home and at unseen sites, and how many scans lie outside, of a written evaluation."""
    for line in new_site_lines(read_evaluation(folder)):
        console.print(Text(line), soft_wrap=True)


def new_site_lines(evaluation: Evaluation) -> list[str]:
    """Return the lines of an evaluation: none of what was not asked for."""
    lines, block = [], evaluation.new_site
    if block is not None:
        lines += [_error_line(block, model) for model in block.models if model != "baseline"]
    elif evaluation.new_site_note and evaluation.splits != "fixed":  # whose test set is what was asked for
        lines.append(f"New site: not measured: {evaluation.new_site_note}.")
    beside = None if evaluation.external is None else evaluation.external.outlyingness
    for name, found in (("Scans", evaluation.outlyingness), ("External scans", beside)):
        if found is not None:
            lines.append(f"{name} outside the training distribution: {found.n_outside} of {found.n}.")
    return lines


def _error_line(block: NewSite, model: str) -> str:
    metric = block.metric or ""
    home, unseen = block.home[model][metric], block.unseen[model][metric]
    named = metric if model == "embedding" else f"{metric} {model}"
    line = f"New site: {named} {_figure(home)} at known sites, {_figure(unseen)} at unseen ones"
    error = _CLOSE.get(metric, metric)
    ratio = block.ratio[model].get(error)
    if ratio is not None and ratio.value is not None:
        of = "" if error == metric else f"{error} "
        line += f"; {of}{_figure(ratio)} times as large"
    return f"{line} ({block.n_sites} sites left out)."


def _figure(figure: Estimate) -> str:
    if figure.value is None:
        return "not defined"
    interval = "" if figure.low is None else f" [{figure.low:.3g}, {figure.high:.3g}]"
    return f"{figure.value:.3g}{interval}"
