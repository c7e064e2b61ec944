"""The page of `neurocontrast qc` for regional measures: people and measures, the worst first."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from neurocontrast.reporting.blocks import (
    Block,
    Column,
    Head,
    Items,
    Paragraph,
    Pictures,
    Section,
    Shades,
    make_table,
    render,
)
from neurocontrast.reporting.style import (
    BASELINE,
    MAIN,
    Picture,
    distinct_labels,
    new_figure,
    styled,
)
from neurocontrast.reporting.texts import fill_paragraphs, section
from neurocontrast.reporting.wording import SCANS

N_PICTURES = 20
"""Number of measures that are drawn, the worst first."""
N_PEOPLE = 1500
"""Most rows of the table of people: with more, the page takes long to open."""
UNITS_OF_KINDS = {"thickness": "mm", "volume": "mm³", "area": "mm²"}
"""Kind of regional measure → unit at the axis of its figure."""
_N_SITES = 10
_SHADES = (0.5, 1.0, 2.0)
"""Shifts of a site's median, in robust deviations, from which a cell is one shade darker."""


@dataclass(frozen=True, eq=False)
class MeasureQuality:
    """Regional measures checked by `neurocontrast qc`: values, and tables of people and sites.

    Parameters
    ----------
    people, measures, sites, by_site : DataFrame
        One row for each person, measure, site, and measure at a site, the worst first.
    values, is_outside : DataFrame
        People (rows) × measures: the values, and whether a value is outside the usual range.
    site : Series
        Site of each row of `values`.
    usual : DataFrame
        Columns ``low`` and ``high``: centre of each measure minus and plus two standard deviations.
    reference : str
        People who define the usual range, in words.
    n_deviations : float
        Distance from the centre, in standard deviations, from which a value is outside.
    least : int
        Number of outlying measures from which a person without missing measures is flagged; it may
        be smaller for a person with missing measures.
    """

    people: pd.DataFrame
    measures: pd.DataFrame
    sites: pd.DataFrame
    by_site: pd.DataFrame
    values: pd.DataFrame
    is_outside: pd.DataFrame
    site: pd.Series
    usual: pd.DataFrame
    reference: str
    n_deviations: float
    least: int

    @property
    def n_flagged(self) -> int:
        """Number of people whom `qc` flagged, for instance for many unusual measures."""
        return int((self.people["flagged"] == "yes").sum())


def render_measures(
    quality: MeasureQuality,
    *,
    source: str,
    measured: str,
    problems: Sequence[str],
    warnings: Sequence[str],
    simulated: bool,
    version: str,
) -> str:
    """Return the HTML page of `neurocontrast qc` on people with regional measures.

    `source` names the table of people, and `measured` the measures with the program that measured
    them. `problems` are faults of the tables as a whole, not of one person.
    """
    noted = list(zip([*problems, *warnings], itertools.repeat(""), strict=False))
    sections = []
    if noted:
        sections.append(Section("warnings", "About the tables", [Items(noted, role="warnings")]))
    n_deviations = quality.n_deviations
    reference = quality.reference
    sections += [
        section(
            "measured_people",
            _people(quality),
            least=quality.least,
            n_deviations=n_deviations,
            reference=reference,
        ),
        section("measured_sites", [_sites(quality)]),
        section("measured_shifts", [_shifts(quality)]),
        section("measured_distributions", [Pictures(_pictures(quality))]),
        section("measured_regions", [_measures(quality)]),
        Section(
            "limits",
            "What cannot be told",
            [Items(fill_paragraphs("measure_quality.j2", SCANS))],
        ),
    ]
    n = len(quality.people)
    return render(
        sections,
        Head(
            kicker="neurocontrast quality control",
            title=f"{quality.n_flagged:,} of {n:,} people of {source} are flagged",
            facts=[
                ("People", f"{n:,}"),
                ("Sites", f"{len(quality.sites):,}"),
                ("Measures", measured),
                ("Flagged", f"{quality.n_flagged:,}"),
                ("Compared with", quality.reference),
            ],
        ),
        simulated=simulated,
        environment={"neurocontrast": version},
        script="filter.js",
    )


def _people(quality: MeasureQuality) -> list[Block]:
    """Return the table of people who are flagged, or have an unusual, missing or zero measure.

    `qc` flags people, for instance for many unusual measures. At most `N_PEOPLE` people are listed.
    Without such people, a remark takes the table's place.
    """
    people = quality.people
    is_said = (people["flagged"] == "yes") | (people["n_outside"] > 0)
    is_said |= (people["n_missing"] > 0) | (people["n_zero"] > 0)
    shown = people[is_said].head(N_PEOPLE)
    n_others = len(people) - len(shown)
    if shown.empty:
        return [Paragraph("Nobody is outside, and nothing is missing.", role="note")]
    columns = [
        Column("Scan and site", "name", "heading"),
        Column("Outside", "n_outside", "count"),
        Column("Furthest", "worst", "text", reason="no measure is outside"),
        Column("Missing", "n_missing", "count"),
        Column("Zero", "n_zero", "count"),
        Column("Why flagged", "why", "text", reason="not flagged"),
    ]
    is_flagged = shown["flagged"] == "yes"
    rows = shown.assign(
        name=shown["name"].mask(is_flagged, "⚑ " + shown["name"].astype(str)),
        name_detail=shown["site"],
        worst=shown["worst"].replace("", None),
        why=shown["why"].replace("", None),
    )
    note = f"{n_others:,} others are in qc.tsv alone." * bool(n_others)
    return [
        make_table(
            "⚑ marks a flag", rows, columns, note=note, filter="Name, site, measure or reason"
        )
    ]


def _sites(quality: MeasureQuality) -> Block:
    columns = [
        Column("Site", "site", "heading"),
        Column("People", "people", "count"),
        Column("Median age", "age", "number", reason="no age is known"),
        Column("Program", "software", "text"),
        Column("Lack measures", "lacking", "count"),
        Column("Have zeros", "with_zeros", "count"),
        Column("Flagged", "flagged", "count"),
    ]
    return make_table("Sites", quality.sites, columns, filter="Site or program")


def _measures(quality: MeasureQuality) -> Block:
    columns = [
        Column("Measure", "measure", "heading"),
        Column("Kind", "kind", "text"),
        Column("Median", "median", "number", digits=4, reason="nobody has a value"),
        Column("People outside", "n_outside", "count"),
        Column("Missing", "n_missing", "count"),
        Column("Zero", "n_zero", "count"),
        Column("Furthest site", "furthest_site", "text"),
        Column("Shift", "shift", "number", digits=2, signed=True, reason="one site alone"),
    ]
    return make_table("All measures, the worst first", quality.measures, columns, filter="Measure")


def _shifts(quality: MeasureQuality) -> Block:
    """Return shaded numbers (`Shades`): the shift of each site (column) in each measure (row).

    A shift is the distance, in standard deviations, of the median of the site's people from the
    median of other people: of the people that a run was trained on if people were compared with a
    run, or else of other sites. Measures with a large shift at any site come first.
    """
    shifts = quality.by_site.pivot(index="measure", columns="site", values="shift")
    order = shifts.reindex(quality.measures["measure"])
    furthest = order.abs().max(axis=1).fillna(0).sort_values(ascending=False, kind="stable")
    rows = []
    for measure in furthest.index:
        shaded = list(map(_shaded, order.loc[measure].tolist()))
        rows.append((str(measure), shaded))
    return Shades(
        "Shift of each site's median, in deviations",
        list(map(str, order.columns)),
        rows,
        filter="Measure",
    )


def _shaded(value: float) -> tuple[str, str]:
    """Return the shift of a site's median as text, and the CSS class of its shade, "" for none.

    The shift, `value`, is the distance from the median of the people whom the site is compared with
    (other sites, or the training people of a run), in standard deviations; it is negative below
    that median. Both results are empty for NaN.
    """
    if np.isnan(value):
        return "", ""
    strength = int(np.searchsorted(_SHADES, abs(value), side="right"))
    if not strength:
        return f"{value:.1f}", ""
    side = ("down", "up")[value > 0]
    return f"{value:.1f}", f"{side}{strength}"


def _pictures(quality: MeasureQuality) -> list[Picture]:
    """List a figure for each of the `N_PICTURES` measures with the most outlying people.

    Among measures with equally many, those with the larger `shift` in `quality.measures` come
    first. Constant measures and measures without values are passed over.
    """
    measures = quality.measures
    drawn = measures[~measures["is_constant"] & measures["median"].notna()]
    return list(map(partial(_draw, quality), drawn["measure"].astype(str).head(N_PICTURES)))


@styled
def _draw(quality: MeasureQuality, measure: str) -> Picture:
    """Return a figure of a measure at up to ten sites, with outlying people as crosses.

    Lines are quantiles. Sites are chosen by the largest sum of two numbers: the count of outlying
    people, and the distance of the site's median from usual values in standard deviations.
    """
    of_measure = quality.by_site[quality.by_site["measure"] == measure].set_index("site")
    filled = of_measure[of_measure["n"] > 0]
    weight = filled["n_outside"] + filled["shift"].abs().fillna(0)
    drawn = filled.loc[sorted(weight.sort_values(kind="stable").index[-_N_SITES:], key=str)]
    figure, axes = new_figure(height=1.25 + 0.26 * len(drawn))
    ends = quality.usual.loc[measure].to_numpy(dtype=float)
    if np.isfinite(ends).all():
        axes.axvspan(*ends, color="#dce9f2", linewidth=0)
    rows = np.arange(len(drawn))
    axes.hlines(rows, drawn["q05"], drawn["q95"], color=MAIN, linewidth=1.2)
    axes.hlines(rows, drawn["q25"], drawn["q75"], color=MAIN, linewidth=4.5)
    axes.scatter(drawn["q50"], rows, s=16, color="white", edgecolor=MAIN, zorder=3)
    outside = quality.is_outside[measure].to_numpy()
    for row, site in enumerate(drawn.index):
        is_drawn = outside & (quality.site == site).to_numpy()
        values = quality.values[measure].to_numpy(dtype=float)[is_drawn]
        axes.scatter(values, [row] * len(values), s=30, color=BASELINE, marker="x", zorder=3)
    axes.set_yticks(rows, distinct_labels(drawn.index, length=22))
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_title(_titled(quality, measure).replace("$", r"\$"))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter("{x:,.10g}")
    axes.grid(visible=False, axis="y")
    caption = f"{int(of_measure['n_outside'].sum())} people outside."
    if len(filled) > len(drawn):
        caption += f" {len(filled) - len(drawn)} sites nearer to the others are not drawn."
    return Picture(f"measure_{measure}", figure, alt=_told(measure, drawn), caption=caption)


def _titled(quality: MeasureQuality, measure: str) -> str:
    """Return the name of a measure, with the unit in brackets if its kind has one."""
    kind = quality.measures.set_index("measure").loc[measure, "kind"]
    unit = UNITS_OF_KINDS.get(str(kind), "")
    return f"{measure} ({unit})".removesuffix(" ()")


def _told(measure: str, drawn: pd.DataFrame) -> str:
    """Return the alternative text of a measure's figure: each site's median and outlying people."""
    sentences = []
    for site, row in drawn.iterrows():
        sentences.append(f"{site}: median {row['q50']:.4g}, {int(row['n_outside'])} outside")
    return f"{measure}. {'; '.join(sentences)}."
