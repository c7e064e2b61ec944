"""The way of the scans into the evaluation: how many came in, who was left out and why."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.patches import FancyBboxPatch

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.style import INK, MUTED, Picture, blank_figure, shorten, styled
from neurocontrast.reporting.words import Words

__all__ = ["draw_flow", "list_steps"]

_ROW, _WIDTH, _BOX, _HEIGHT = 0.82, 7.2, 3.0, 0.52
_ARROW = {"arrowstyle": "-|>", "color": MUTED, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}


@dataclass(frozen=True)
class Step:
    """One box: scans that go on, or scans that leave, with the reason."""

    name: str
    n_scans: float
    n_subjects: float
    left_out: bool

    def count(self, words: Words) -> str:
        """Return "40 scans, 38 subjects"."""
        scans = f"{self.n_scans:,.0f} {words.item if self.n_scans == 1 else words.items}"
        if np.isnan(self.n_subjects) or words.unit == words.item:
            return scans
        return f"{scans}, {self.n_subjects:,.0f} {words.unit if self.n_subjects == 1 else words.units}"


def list_steps(files: EvaluationFiles) -> list[Step]:
    """Return the boxes of the flow diagram; from the counts of evaluation.json where flow.tsv is absent."""
    if files.flow is not None:
        table = files.flow.reindex(columns=["step", "n_scans", "n_subjects", "reason"])
        table = table.fillna({"step": "", "reason": ""})
        return [_read_step(*row) for row in table.itertuples(index=False)]
    n = files.summary.n
    if n.scans is None:
        return []
    gone = {reason: count for reason, count in n.excluded.items() if count}
    evaluated = Step("Evaluated", n.scans, n.subjects or np.nan, left_out=False)
    if not gone:
        return [evaluated]
    items = files.words.items
    came = Step(f"{items[:1].upper()}{items[1:]} in the embeddings", n.scans + sum(gone.values()), np.nan, False)
    return [came, *(Step(_label(reason), count, np.nan, left_out=True) for reason, count in gone.items()), evaluated]


def _read_step(step: str, n_scans: float, n_subjects: float, reason: str) -> Step:
    left_out = "exclu" in step.lower() or "left out" in step.lower()
    name = _label(reason or step) if left_out else _label(step) + (f": {reason}" if reason else "")
    return Step(name, float(n_scans), float(n_subjects), left_out)


def _label(name: str) -> str:
    text = name.replace("_", " ").strip()
    return text[:1].upper() + text[1:]


@styled
def draw_flow(files: EvaluationFiles) -> Picture | None:
    """Draw the flow of scans; None where nothing is known of it."""
    steps, words = list_steps(files), files.words
    if not steps:
        return None
    figure = blank_figure(height=0.25 + _ROW * len(steps), width=_WIDTH, layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, _WIDTH), ylim=(-_ROW * len(steps) - 0.1, 0.15))
    axes.axis("off")
    trunk, above = _BOX / 2 + 0.1, None
    for place, step in enumerate(steps):
        top, left = -_ROW * place, _BOX + 0.75 if step.left_out else 0.1
        axes.add_patch(
            FancyBboxPatch(
                (left, top - _HEIGHT), _BOX, _HEIGHT, boxstyle="round,pad=0,rounding_size=0.06", facecolor="#f5f7f9",
                edgecolor=MUTED if step.left_out else INK, linewidth=1.2, linestyle="--" if step.left_out else "-",
            )
        )  # fmt: skip
        if step.left_out:
            axes.annotate("", (left, top - _HEIGHT / 2), (trunk, top - _HEIGHT / 2), arrowprops=_ARROW)
        else:
            if above is not None:
                axes.annotate("", (trunk, top), (trunk, above - _HEIGHT), arrowprops=_ARROW)
            above = top
        lines = textwrap.wrap(shorten(step.name, length=74), 40)[:2]
        text = "\n".join([*lines, step.count(words)]).replace("$", r"\$")
        axes.text(left + _BOX / 2, top - _HEIGHT / 2, text, ha="center", va="center", linespacing=1.15,
                  fontsize=8.2 if len(lines) > 1 else 9.5)  # fmt: skip
    parts = [f"{'left out: ' if step.left_out else ''}{step.name}, {step.count(words)}" for step in steps]
    return Picture(
        "cohort_flow",
        figure,
        alt=f"Flow of {words.items}: {'; '.join(parts)}.",
        caption=f"How the {words.items} came to be evaluated. Boxes with a broken frame left the analysis.",
        numbers=pd.DataFrame([vars(step) for step in steps]),
    )
