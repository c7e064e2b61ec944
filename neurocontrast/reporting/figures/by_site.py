"""A measure of scans, site by site: every scan a point, the flagged ones told apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from neurocontrast.reporting.style import BASELINE, MAIN, MUTED, WIDTH, Picture, blank_figure, distinct_labels, styled

__all__ = ["draw_by_site"]


@styled
def draw_by_site(
    table: pd.DataFrame, name: str, title: str, bounds: Mapping[str, tuple[float, float]], flagged: pd.Series
) -> Picture:
    """Draw a column of `table` by its column ``site``, with the bounds of each site and the flagged scans."""
    sites = list(bounds)
    figure = blank_figure(height=1.1 + 0.34 * len(sites), width=WIDTH)
    axes = figure.add_subplot()
    told = []
    for place, site in enumerate(sites):
        here = (table["site"] == site) & table[name].notna()
        heights = place + np.random.default_rng(0).uniform(-0.3, 0.3, int(here.sum()))
        bad = flagged[here].to_numpy()
        values = table.loc[here, name].to_numpy(dtype=float)
        axes.scatter(values[~bad], heights[~bad], s=9, color=MAIN, alpha=0.6, linewidth=0)
        axes.scatter(values[bad], heights[bad], s=36, color=BASELINE, marker="x", linewidth=1.4)
        for bound in bounds[site]:
            if np.isfinite(bound):
                axes.plot([bound, bound], [place - 0.42, place + 0.42], color=MUTED, linewidth=1.2)
        if len(values):
            low, middle, high = np.quantile(values, (0, 0.5, 1))
            told.append(f"{site}: median {middle:.3g}, {low:.3g} to {high:.3g}, {int(bad.sum())} flagged")
    axes.set_yticks(range(len(sites)), distinct_labels(sites, length=20))
    axes.set_ylim(len(sites) - 0.4, -0.6)
    axes.set_title(title)
    axes.grid(visible=False, axis="y")
    return Picture(f"quality_{name}", figure, alt=f"{title}. {'; '.join(told)}.", caption="")
