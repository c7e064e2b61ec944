"""Tables of `new_site.py`: means over seeds with 95 % t-intervals, in Markdown, and aims met or missed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from benchmarks.new_site.variants import VARIANTS

__all__ = ["write_tables"]

DESIGNS = {
    (
        "transfer",
        "novosibirsk",
    ): "Real: pretrained on london + ucla, tested on novosibirsk and on held-out london",
    (
        "left-out",
        "london",
    ): "Real: pretrained on novosibirsk + ucla (19–55 years), tested on london (20–79) and at home",
    (
        "left-out",
        "ucla",
    ): "Real: pretrained on london + novosibirsk, tested on ucla (14 scans) and at home",
    (
        "simulated",
        "four scanners",
    ): "Simulated: pretrained at six sites, tested at four others and at home",
}
COLUMNS = {
    "age MAE, home": "home_age_mae",
    "aged alike": "home_like_mae",
    "age MAE, new site": "new_age_mae",
    "new / home": "ratio",
    "bias, new": "new_age_bias",
    "Spearman, new": "new_age_spearman",
    "sex AUC, home": "home_sex_auc",
    "sex AUC, new": "new_sex_auc",
    "site bal. acc.": "site_accuracy",
    "outside, new": "outside_new",
    "outside, home": "outside_home",
}


def write_tables(out: Path) -> None:
    """Write ``table.md`` and ``table.tsv`` from the scores found so far, and print the first."""
    scores = pd.read_json(out / "scores.jsonl", lines=True)
    scores["ratio"] = scores["new_age_mae"] / scores["home_age_mae"]
    text = "\n".join(_section(name, scores[_of(scores, place)]) for place, name in DESIGNS.items())
    (out / "table.md").write_text(text)
    _summary(scores).to_csv(out / "table.tsv", sep="\t", index=False)
    print(text)


def _of(scores: pd.DataFrame, place: tuple[str, str]) -> pd.Series:
    return (scores["design"] == place[0]) & (scores["left_out"] == place[1])


def _section(name: str, scores: pd.DataFrame) -> str:
    if scores.empty:
        return ""
    columns = {
        title: key for title, key in COLUMNS.items() if key in scores and scores[key].notna().any()
    }
    lines = [
        f"**{name}**",
        "",
        "| variant | seeds | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for variant in [name for name in VARIANTS if name in set(scores["variant"])]:
        part = scores[scores["variant"] == variant]
        cells = [mean_interval(part[key]) for key in columns.values()]
        lines.append(f"| {VARIANTS[variant].label} | {len(part)} | " + " | ".join(cells) + " |")
    medians = scores.groupby("seed").first()
    constant = f"| median age of the pretraining scans | | {mean_interval(medians['home_median_mae'])} | | "
    constant += mean_interval(medians["new_median_mae"])
    return "\n".join([*lines, constant + " |" + " |" * (len(columns) - 3), ""])


def mean_interval(values: pd.Series) -> str:
    """Return a mean and its 95 % t-interval over seeds, or the mean alone of a single seed."""
    known = values.dropna().to_numpy(dtype=float)
    if known.size == 0:
        return ""
    digits = 1 if np.abs(known).max() > 2 else 2
    if known.size == 1:
        return f"{known[0]:.{digits}f}"
    half = student.ppf(0.975, known.size - 1) * known.std(ddof=1) / np.sqrt(known.size)
    return f"{known.mean():.{digits}f} ± {half:.{digits}f}"


def _summary(scores: pd.DataFrame) -> pd.DataFrame:
    keys = ["design", "left_out", "variant"]
    wanted: Mapping[str, str] = {key: key for key in COLUMNS.values() if key in scores}
    found = scores.groupby(keys, sort=False)[list(wanted)].agg(["mean", "std", "count"])
    found.columns = [f"{name}_{what}" for name, what in found.columns]
    return found.reset_index()
