"""The way of the scans into the evaluation: how many came in, who was left out and why."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.naming import capitalise
from neurocontrast.reporting.style import INK, MUTED, Picture, shorten, styled
from neurocontrast.reporting.words import Words

__all__ = ["draw_flow", "list_steps"]

_ROW, _WIDTH, _BOX, _MIDDLE = 0.82, 7.2, 3.0, 0.52


@dataclass(frozen=True)
class Step:
    """One box: scans that go on, or scans that leave, with the reason."""

    name: str
    n_scans: float
    n_subjects: float
    left_out: bool


def list_steps(files: EvaluationFiles) -> list[Step]:
    """Return the boxes of the flow diagram; from the counts of evaluation.json where flow.tsv is absent."""
    if files.flow is not None:
        table = files.flow.reindex(columns=["step", "n_scans", "n_subjects", "reason"])
        return [_step(row) for row in table.to_dict("records")]
    n = files.summary.get("n") or {}
    if n.get("scans") is None or n.get("excluded") is None:
        return []
    gone = {reason: count for reason, count in n["excluded"].items() if count}
    evaluated = Step("Evaluated", n["scans"], n.get("subjects") or float("nan"), left_out=False)
    if not gone:
        return [evaluated]
    n_embedded = n["scans"] + sum(gone.values())
    came_in = Step(f"{capitalise(files.words.items)} in the embeddings", n_embedded, float("nan"), left_out=False)
    return [came_in, *(Step(_words(reason), count, float("nan"), left_out=True) for reason, count in gone.items()),
            evaluated]  # fmt: skip


def _step(row: dict) -> Step:
    reason = "" if pd.isna(row["reason"]) else str(row["reason"])
    name = "" if pd.isna(row["step"]) else str(row["step"])
    left_out = "exclu" in name.lower() or "left out" in name.lower()
    return Step(_words(reason or name) if left_out else _words(name, reason), float(row["n_scans"]),
                float(row["n_subjects"]), left_out)  # fmt: skip


def _words(name: str, detail: str = "") -> str:
    text = name.replace("_", " ").strip()
    text = text[:1].upper() + text[1:]
    return f"{text}: {detail}" if detail else text


@styled
def draw_flow(files: EvaluationFiles) -> Picture | None:
    """Draw the flow of scans; None where nothing is known of it."""
    steps = list_steps(files)
    if not steps:
        return None
    figure = Figure(figsize=(_WIDTH, 0.25 + _ROW * len(steps)))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, _WIDTH), ylim=(-_ROW * len(steps) - 0.1, 0.15))
    axes.axis("off")
    main = [place for place, step in enumerate(steps) if not step.left_out]
    for above, below in pairwise(main):
        x = _BOX / 2 + 0.1
        axes.annotate("", (x, -_ROW * below), (x, -_ROW * above - _MIDDLE), arrowprops=_arrow())
    for place, step in enumerate(steps):
        _draw_step(axes, step, -_ROW * place, files.words)
    return Picture(
        "cohort_flow",
        figure,
        alt=f"Flow of {files.words.items}: " + "; ".join(_sentence(step, files.words) for step in steps) + ".",
        caption=f"How the {files.words.items} came to be evaluated. Boxes with a broken frame left the analysis.",
        numbers=pd.DataFrame([vars(step) for step in steps]),
    )


def _draw_step(axes: Axes, step: Step, top: float, words: Words) -> None:
    left = _BOX + 0.75 if step.left_out else 0.1
    height = _MIDDLE
    axes.add_patch(
        FancyBboxPatch(
            (left, top - height), _BOX, height, boxstyle="round,pad=0,rounding_size=0.06", facecolor="#f5f7f9",
            edgecolor=MUTED if step.left_out else INK, linewidth=1.2, linestyle="--" if step.left_out else "-",
        )
    )  # fmt: skip
    if step.left_out:
        axes.annotate("", (left, top - height / 2), (_BOX / 2 + 0.1, top - height / 2), arrowprops=_arrow())
    name = "\n".join(textwrap.wrap(shorten(step.name, length=74), 40)[:2]).replace("$", r"\$")
    many = "\n" in name
    axes.text(left + _BOX / 2, top - height / 2, f"{name}\n{_counts(step, words)}", ha="center", va="center",
              fontsize=8.2 if many else 9.5, linespacing=1.15)  # fmt: skip


def _arrow() -> dict[str, object]:
    return {"arrowstyle": "-|>", "color": MUTED, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}


def _counts(step: Step, words: Words) -> str:
    scans = f"{step.n_scans:,.0f} {words.item if step.n_scans == 1 else words.items}"
    if pd.isna(step.n_subjects) or words.unit == words.item:
        return scans
    return f"{scans}, {step.n_subjects:,.0f} {words.unit if step.n_subjects == 1 else words.units}"


def _sentence(step: Step, words: Words) -> str:
    return f"{'left out: ' if step.left_out else ''}{step.name}, {_counts(step, words)}"
