"""The page of `neurocontrast qc`: every scan with its measures and flags, the worst first."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from contourpy import contour_generator

from neurocontrast.files import digest_of
from neurocontrast.findings.prose import section, write_paragraphs
from neurocontrast.page.blocks import Gallery, Items, Paragraph, Pictures, Section, render
from neurocontrast.page.style import BASELINE, MAIN, MUTED, Picture, blank_figure, distinct_labels, styled
from neurocontrast.page.wording import capitalise
from neurocontrast.prepare.flags import N_DEVIATIONS, N_SITE, RULES, Flag, bounds_of

N_SHOWN = 500
"""Scans of the gallery: a page of more takes long to open."""
RATINGS = ("pass", "doubt", "fail")
"""What a person can say of a scan; the column ``qc_rating`` may hold other words too."""


def render_quality(
    table: pd.DataFrame,
    flags: Sequence[Sequence[Flag]],
    thumbnails: Mapping[int, bytes],
    template: npt.NDArray[np.bool_],
    *,
    source: str,
    simulated: bool,
    version: str,
) -> str:
    """Return the page.

    Parameters
    ----------
    table : DataFrame
        One row a scan, the worst first: ``participant_id``, ``session``, ``name``, ``site`` and the measures; with a
        column ``qc_rating``, ratings are shown as chosen.
    flags : sequence of sequence of Flag
        Those of each row.
    thumbnails : mapping
        JPEG files by row, of the rows that are shown.
    template : ndarray (height, width) of bool
        The template's brain on the same slices.
    source : str
        What the table of scans is called.
    simulated : bool
        Whether the scans are simulated.
    version : str
        That of the package.
    """
    names = [name for name in RULES if name in table and table[name].notna().any()]
    by_site = {name: _bounds(table, name) for name in names}
    n_flagged = sum(map(bool, flags))
    shown = f" The {N_SHOWN} worst of {len(table):,} are shown; qc.tsv has all." if len(table) > N_SHOWN else ""
    sections = [
        section("gallery", _gallery(table, flags, thumbnails, template, names), shown=shown),
        section("distributions", [Pictures(_strips(table, flags, by_site))], n_site=N_SITE, n_deviations=N_DEVIATIONS),
        Section("limits", "What cannot be told", [Items(write_paragraphs("quality.j2", None, n_site=N_SITE))]),
    ]
    facts = [("Scans", f"{len(table):,}"), ("Sites", f"{table['site'].nunique():,}"), ("Flagged", f"{n_flagged:,}")]
    return render(
        sections,
        kicker="neurocontrast quality control",
        title=f"{n_flagged:,} of {len(table):,} scans of {source} are flagged",
        facts=facts,
        simulated=simulated,
        environment={"neurocontrast": version},
        script="ratings.js" if len(table) else "",
    )


def _bounds(table: pd.DataFrame, name: str) -> dict[str, tuple[float, float]]:
    groups = table.groupby("site", sort=True)[name]
    pairs = {str(site): bounds_of(name, values.to_numpy(dtype=float)) for site, values in groups}
    return {site: (low.value, high.value) for site, (low, high) in pairs.items()}


def _gallery(
    table: pd.DataFrame,
    flags: Sequence[Sequence[Flag]],
    thumbnails: Mapping[int, bytes],
    template: npt.NDArray[np.bool_],
    names: Sequence[str],
) -> list[Gallery | Paragraph]:
    if not len(table):
        return [Paragraph("No scan.", role="note")]
    sites = list(table["site"].value_counts(sort=False).sort_index().items())
    found = [{flag.measure for flag in each} for each in flags]
    kinds = ["any flag", *(RULES[name].title for name in names if any(name in each for each in found)), "no flag"]
    by_title = {RULES[name].title: name for name in names}
    matches = {
        kind: [bool(each) == (kind == "any flag") if kind not in by_title else by_title[kind] in each for each in found]
        for kind in kinds
    }
    ranks = table.groupby("site")[list(names)].rank(method="min")
    sizes = table.groupby("site")[list(names)].transform("count")
    of_site = {site: place for place, (site, _) in enumerate(sites)}
    scans = []
    for row, content in thumbnails.items():
        site, texts = table["site"].iloc[row], [flag.text for flag in flags[row]]
        classes = [f"of-site-{of_site[site]}", *(f"of-flag-{n}" for n, kind in enumerate(kinds) if matches[kind][row])]
        measured = [name for name in names if np.isfinite(table[name].iloc[row])]
        title = f"{table['name'].iloc[row]}, {site}"
        scans.append({
            "name": title,
            "participant": table["participant_id"].iloc[row],
            "session": table["session"].iloc[row],
            "rating": table["qc_rating"].iloc[row] if "qc_rating" in table else "",
            "classes": " ".join([*classes, *(["flagged"] if texts else [])]),
            "uri": f"data:image/jpeg;base64,{base64.b64encode(content).decode('ascii')}",
            "alt": f"Three slices of {title} with the template's outline; {'; '.join(texts) or 'no flag'}.",
            "flags": texts,
            "rows": [
                {
                    "title": RULES[name].title,
                    "value": f"{table[name].iloc[row]:.4g}",
                    "rank": f"{ranks[name].iloc[row]:.0f} of {sizes[name].iloc[row]}",
                    "beyond": name in found[row],
                }
                for name in measured
            ],
        })  # fmt: skip
    counted = [(kind, sum(matches[kind])) for kind in kinds]
    height, width = template.shape
    key = digest_of(*table["name"], *map(digest_of, thumbnails.values()))
    listed = [(str(site), int(count)) for site, count in sites]
    return [Gallery(scans, listed, counted, _outline(template), width, height, RATINGS, key)]


def _outline(mask: npt.NDArray[np.bool_]) -> str:
    """Return the contour of a mask as the path of an SVG, a pixel a unit."""
    lines = contour_generator(z=np.pad(mask.astype(float), 1)).lines(0.5)
    return "".join(f"M{'L'.join(f'{x - 0.5:.1f} {y - 0.5:.1f}' for x, y in np.asarray(line))}z" for line in lines)


def _strips(
    table: pd.DataFrame, flags: Sequence[Sequence[Flag]], by_site: Mapping[str, Mapping[str, tuple[float, float]]]
) -> list[Picture]:
    measures = [{flag.measure for flag in each} for each in flags]
    return [
        _draw_by_site(
            table, name, RULES[name].title, bounds, pd.Series([name in each for each in measures], table.index)
        )
        for name, bounds in by_site.items()
    ]


@styled
def _draw_by_site(
    table: pd.DataFrame, name: str, title: str, bounds: Mapping[str, tuple[float, float]], flagged: pd.Series
) -> Picture:
    """Draw a column of `table` by its column ``site``, with the bounds of each site and the flagged scans."""
    sites = list(bounds)
    figure = blank_figure(height=1.1 + 0.34 * len(sites))
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
    caption = f"{capitalise(title)}: {RULES[name].about}." if RULES[name].about else ""
    return Picture(f"quality_{name}", figure, alt=f"{title}. {'; '.join(told)}.", caption=caption)
