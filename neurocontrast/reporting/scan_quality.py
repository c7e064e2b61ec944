"""The page of `neurocontrast qc` for scans: pictures, measures and flags, the worst scan first."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from contourpy import contour_generator

from neurocontrast.files import digest_of
from neurocontrast.prepare.flags import N_DEVIATIONS, N_SITE, RULES, Flag, bounds_of
from neurocontrast.reporting.blocks import (
    Gallery,
    Head,
    Items,
    Paragraph,
    Pictures,
    Section,
    render,
)
from neurocontrast.reporting.style import (
    BASELINE,
    MAIN,
    MUTED,
    Picture,
    distinct_labels,
    new_figure,
    styled,
)
from neurocontrast.reporting.texts import fill_paragraphs, section
from neurocontrast.reporting.wording import SCANS, capitalise

N_SHOWN = 500
"""Most scans of the gallery: with more, the page takes long to open."""
RATINGS = ("pass", "doubt", "fail")
"""Ratings that the page offers; the column ``qc_rating`` may hold other ratings, too."""


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
    """Return the HTML page of `neurocontrast qc` on scans, the worst scan first.

    Parameters
    ----------
    table : DataFrame
        One row for each scan: ``participant_id``, ``session``, ``subject_id``, ``name``, ``site``
        and the measures. A rating in a column ``qc_rating`` is preselected on the page.
    flags : sequence
        Flags of each scan, in the order of the rows: measures that are beyond a bound.
    thumbnails : mapping
        Row → JPEG file of three slices of the scan.
    template : array of bool, shape (height, width)
        Brain of the template on the same slices.
    source : str
        Name of the table of scans.
    simulated : bool
        Whether a banner says that the scans are simulated.
    version : str
        Version of neurocontrast, for the last line.
    """
    names = [name for name in RULES if name in table and table[name].notna().any()]
    raised = pd.DataFrame(index=range(len(flags)))
    for name in names:
        raised[name] = [any(flag.measure == name for flag in of_scan) for of_scan in flags]
    n_flagged = sum(map(bool, flags))
    shown = (
        f" The {N_SHOWN} worst of {len(table):,} are shown; qc.tsv has all."
        if len(table) > N_SHOWN
        else ""
    )
    sections = [
        section("gallery", _gallery(table, flags, raised, thumbnails, template), shown=shown),
        section(
            "distributions",
            [Pictures([_draw_by_site(table, name, raised[name].to_numpy()) for name in names])],
            n_site=N_SITE,
            n_deviations=N_DEVIATIONS,
        ),
        Section(
            "limits",
            "What cannot be told",
            [Items(fill_paragraphs("quality.j2", SCANS, n_site=N_SITE))],
        ),
    ]
    facts = [
        ("Scans", f"{len(table):,}"),
        ("Sites", f"{table['site'].nunique():,}"),
        ("Flagged", f"{n_flagged:,}"),
    ]
    return render(
        sections,
        Head(
            kicker="neurocontrast quality control",
            title=f"{n_flagged:,} of {len(table):,} scans of {source} are flagged",
            facts=facts,
        ),
        simulated=simulated,
        environment={"neurocontrast": version},
        script="ratings.js" if len(table) else "",
    )


def _gallery(
    table: pd.DataFrame,
    flags: Sequence[Sequence[Flag]],
    raised: pd.DataFrame,
    thumbnails: Mapping[int, bytes],
    template: npt.NDArray[np.bool_],
) -> list[Gallery | Paragraph]:
    """Return a gallery of the scans in `table` that have one of the `thumbnails`.

    A remark takes the gallery's place if the table has no scan. `raised` marks the flagged measures
    (columns) of all scans (rows).
    """
    if not len(table):
        return [Paragraph("No scan.", role="note")]
    names = list(map(str, raised))
    flagged = np.array(list(map(bool, flags)))
    matches = {
        "any flag": flagged,
        **{RULES[name].title: raised[name] for name in names if raised[name].any()},
    }
    kinds = pd.DataFrame(matches | {"no flag": ~flagged})
    sites = table["site"].value_counts(sort=False).sort_index()
    by_site = table.groupby("site")[names]
    ranks = by_site.rank(method="min")
    sizes = by_site.transform("count")
    scans = []
    for row, content in thumbnails.items():
        scan: Any = table.iloc[row]
        texts = [flag.text for flag in flags[row]]
        classes = [f"of-site-{sites.index.get_loc(scan['site'])}"]
        classes += [f"of-flag-{number}" for number in np.flatnonzero(kinds.iloc[row])]
        title = f"{scan['name']}, {scan['site']}"
        scans.append(
            {
                "name": title,
                "participant": scan["participant_id"],
                "session": scan["session"],
                "rating": scan.get("qc_rating", ""),
                "classes": " ".join([*classes, *(["flagged"] if texts else [])]),
                "uri": f"data:image/jpeg;base64,{base64.b64encode(content).decode('ascii')}",
                "alt": (
                    f"Three slices of {title} with the template's outline; "
                    f"{'; '.join(texts) or 'no flag'}."
                ),
                "flags": texts,
                "rows": [
                    {
                        "title": RULES[name].title,
                        "value": f"{scan[name]:.4g}",
                        "rank": f"{ranks[name].iloc[row]:.0f} of {sizes[name].iloc[row]}",
                        "beyond": raised[name].iloc[row],
                    }
                    for name in names
                    if np.isfinite(scan[name])
                ],
            }
        )
    counted = [(str(kind), int(count)) for kind, count in kinds.sum().items()]
    listed = [(str(site), int(count)) for site, count in sites.items()]
    height, width = template.shape
    key = digest_of(*table["name"], *map(digest_of, thumbnails.values()))
    return [Gallery(scans, listed, counted, _outline(template), width, height, RATINGS, key)]


def _outline(mask: npt.NDArray[np.bool_]) -> str:
    """Return the contour of a mask as an SVG path, in units of pixels."""
    lines = contour_generator(z=np.pad(mask.astype(float), 1)).lines(0.5)
    return "".join(
        f"M{'L'.join(f'{x - 0.5:.1f} {y - 0.5:.1f}' for x, y in np.asarray(line))}z"
        for line in lines
    )


@styled
def _draw_by_site(table: pd.DataFrame, name: str, flagged: npt.NDArray[np.bool_]) -> Picture:
    """Return a figure of the measure `name` of all scans by site, with the bounds of usual values.

    Each site has bounds of its own. Scans that are `flagged` are crosses.
    """
    sites = sorted(map(str, table["site"].unique()))
    figure, axes = new_figure(height=1.1 + 0.34 * len(sites))
    sentences = []
    for height, site in enumerate(sites):
        of_site = (table["site"] == site).to_numpy()
        is_measured = of_site & table[name].notna().to_numpy()
        values = table[name].to_numpy(dtype=float)[is_measured]
        bad = flagged[is_measured]
        heights = height + np.random.default_rng(0).uniform(-0.3, 0.3, len(values))
        axes.scatter(values[~bad], heights[~bad], s=9, color=MAIN, alpha=0.6, linewidth=0)
        axes.scatter(values[bad], heights[bad], s=36, color=BASELINE, marker="x", linewidth=1.4)
        everyone = table[name].to_numpy(dtype=float)[of_site]
        for bound in bounds_of(name, everyone, people=table["subject_id"][of_site].tolist()):
            if np.isfinite(bound.value):
                ends = [height - 0.42, height + 0.42]
                axes.plot([bound.value] * 2, ends, color=MUTED, linewidth=1.2)
        if len(values):
            low, middle, high = np.quantile(values, (0, 0.5, 1))
            sentences.append(
                f"{site}: median {middle:.3g}, {low:.3g} to {high:.3g}, {int(bad.sum())} flagged"
            )
    title = RULES[name].title
    axes.set_yticks(range(len(sites)), distinct_labels(sites, length=20))
    axes.set_ylim(len(sites) - 0.4, -0.6)
    axes.set_title(title)
    axes.grid(visible=False, axis="y")
    caption = f"{capitalise(title)}: {RULES[name].about}." if RULES[name].about else ""
    return Picture(
        f"quality_{name}", figure, alt=f"{title}. {'; '.join(sentences)}.", caption=caption
    )
