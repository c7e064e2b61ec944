"""What an evaluation found of sites that the probe has not seen, in two lines on the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

__all__ = ["new_site_lines", "show_new_site"]

_CLOSE = {"auc": "log_loss", "balanced_accuracy": "log_loss"}
"""Which error stands for a metric of which more is better, where a ratio is wanted."""


def show_new_site(folder: Path, *, console: Console) -> None:
    """Print the error at home and at unseen sites, and how many scans lie outside, of a written evaluation."""
    summary = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    for line in new_site_lines(summary):
        console.print(Text(line), soft_wrap=True)


def new_site_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return the lines of a summary: none of what was not asked for."""
    lines, block = [], summary.get("new_site")
    if block is not None:
        lines += [_error_line(block, model) for model in block["models"] if model != "baseline"]
    elif summary.get("new_site_note") and summary.get("splits") != "fixed":  # whose test set is what was asked for
        lines.append(f"New site: not measured: {summary['new_site_note']}.")
    external = summary.get("external") or {}
    for name, found in (("Scans", summary.get("outlyingness")), ("External scans", external.get("outlyingness"))):
        if found:
            lines.append(f"{name} outside the training distribution: {found['n_outside']} of {found['n']}.")
    return lines


def _error_line(block: Mapping[str, Any], model: str) -> str:
    metric = block["metric"]
    home, unseen = (block[where][model][metric] for where in ("home", "unseen"))
    named = metric if model == "embedding" else f"{metric} {model}"
    line = f"New site: {named} {_figure(home)} at known sites, {_figure(unseen)} at unseen ones"
    error = _CLOSE.get(metric, metric)
    ratio = block["ratio"][model].get(error)
    if ratio is not None and ratio["value"] is not None:
        of = "" if error == metric else f"{error} "
        line += f"; {of}{_figure(ratio)} times as large"
    return f"{line} ({block['n_sites']} sites left out)."


def _figure(figure: Mapping[str, float | None]) -> str:
    if figure["value"] is None:
        return "not defined"
    interval = "" if figure["low"] is None else f" [{figure['low']:.3g}, {figure['high']:.3g}]"
    return f"{figure['value']:.3g}{interval}"
