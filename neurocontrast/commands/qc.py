"""Quality control of scans in MNI space, or of regional measures: flags and a page."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from neurocontrast.cells import is_missing
from neurocontrast.commands.qc_measures import compare_measures
from neurocontrast.commands.qc_scans import (
    MeasuredScans,
    compare_at_sites,
    measure_scans,
    read_imported,
    read_thumbnail,
)
from neurocontrast.data.addresses import address_of
from neurocontrast.data.advice import recipe_for
from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.columns import matching_columns
from neurocontrast.data.listing import write_rows
from neurocontrast.data.measures.inspecting import is_of_measures
from neurocontrast.data.people import check_not_described, read_people
from neurocontrast.data.problems import Problems, shown
from neurocontrast.data.quality import warn_of_headers
from neurocontrast.display import as_progress
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.quality import RuleRecord, ScanQualityRecord
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import check_writable, write_json, write_table, write_text
from neurocontrast.prepare.flags import N_DEVIATIONS, N_SITE, RULES, Flag, Rule, flag_scans
from neurocontrast.prepare.measures import template_strip
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment, version
from neurocontrast.reporting.scan_quality import N_SHOWN, RATINGS, render_quality


@dataclass(frozen=True, eq=False)
class Quality:
    """Result of `qc`: table of scans or of people with regional measures, and path of the page.

    Both are written to a folder, as ``qc.tsv`` and ``qc.html``.
    """

    table: pd.DataFrame
    """One row per scan or, for regional measures, per person, the worst first, as in ``qc.tsv``."""
    page: Path
    """The path of ``qc.html``."""
    n_unreadable: int = 0
    """Number of scans that cannot be read, which are the first rows of `table`."""
    rated: Path | None = None
    """Path of the table of scans with the column ``qc_rating``; None if no ratings were given."""
    recipe: tuple[str, ...] = ("small",)
    """Recipe for a first run on this table, as the command line takes it after ``--config``."""
    kind: Literal["volumes", "measures"] = "volumes"
    """Kind of the samples that were controlled: scans (volumes), or regional measures."""

    @property
    def flagged(self) -> dict[str, str]:
        """Identifier of each flagged participant → reasons why scan or measures are flagged."""
        if self.kind == "measures":
            rows = self.table[self.table["flagged"] == "yes"]
            return dict(zip(rows["participant_id"], rows["why"], strict=True))
        rows = self.table[self.table["n_flags"] > 0]
        return dict(zip(rows["participant_id"], rows["flags"], strict=True))


def qc(
    participants: str | Path,
    out: str | os.PathLike[str],
    *,
    images_root: str | Path | None = None,
    ratings: str | Path | None = None,
    run: str | os.PathLike[str] | None = None,
    n_workers: int = 2,
    progress: Progress | bool | None = None,
) -> Quality:
    """Measure skull-stripped scans in MNI space; flag scans unlike the template or their site.

    No scan is dropped, and one that cannot be read is flagged. A scan that was measured before is
    not measured again, so an interrupted call is continued by the same call.
    Regional measures are compared without preprocessing: each person with the person's site, or
    with the training people of a run.

    Parameters
    ----------
    participants : path
        Table of scans; or of people with measures (``measures.tsv`` beside a table without a column
        ``path``), or a table or folder of measures. Columns ``mask_path``, ``gm`` and ``wm`` give
        brain masks and tissue maps; ``iqr`` (CAT12) and ``euler`` (FreeSurfer) are taken over, and
        the affine scales of ``quality.tsv`` beside the table, if `prepare` wrote one.
    out : path
        Folder of the results: ``qc.tsv`` and ``qc.html``; ``qc.json`` with the bounds; and
        ``scans/``, the measures and thumbnail of each scan; or, of regional measures,
        ``qc_measures.tsv``, a row a measure and site.
    images_root : path, optional
        Folder that relative paths start from; by default the table's.
    ratings : path, optional
        Table with ``participant_id``, ``session`` where there are sessions, and ``qc_rating``,
        which ``qc.html`` makes. The table of scans with that column is then written to
        ``participants.tsv`` in `out`.
    run : path, optional
        Run directory, or weights, of regional measures: people are compared with the training
        people of the run.
    n_workers : int, default=2
        Processes; the results do not depend on it.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.

    Notes
    -----
    A scan is flagged by a bound on a measure, or where the measure is odd for the site: beyond 6
    robust standard deviations (1.4826 median absolute deviations) from the median of the site's
    people, at sites of ten people or more. A person with several scans counts once, by their
    median.

    - ``correlation`` with the MNI152 template inside its brain, at 4 mm: below 0.4, or low for the
      site. (Over the whole box a brain upside down has more than 0.8.)
    - ``dice``, overlap with the template's brain: below 0.8, or low for the site. ``brain_ml``,
      volume in MNI space: outside 1,300 to 2,700 mL, or odd for the site.
    - ``shift_mm``, translation by which the template fits best: above 5 mm, or high for the site.
    - ``flip_gain``: above 0, where the template fits better front to back, upside down, or both.
    - ``site_correlation`` with the mean of the site's other people: below 0.5, or low for the site.
    - ``asymmetry``, correlation of the left-right asymmetry with that of the site's other people:
      below -0.05.
    - ``cjv`` and ``efc``, MRIQC's coefficient of joint variation and entropy focus criterion: high
      for the site.
    - ``scale_min`` and ``scale_max``, affine scales of `prepare`: below 0.6, above 1.5, or odd for
      the site.
    - ``iqr``, CAT12's grade: above 4; ``euler``, FreeSurfer's Euler number (mean of the
      hemispheres): below -217; or odd for the site.
    """
    progress = as_progress(progress)
    if is_of_measures(Path(participants).expanduser()):
        _refuse_options_of_scans(images_root, ratings)
        compared = compare_measures(Path(participants), Path(out).absolute(), run, progress)
        return Quality(
            compared.table,
            compared.page,
            compared.n_unreadable,
            recipe=compared.recipe,
            kind="measures",
        )
    if run is not None:
        raise ConfigError(
            f"run: is of people with regional measures, and {participants} is a table of scans. "
            "Leave it out."
        )
    cohort = read_cohort(participants, images_root=images_root)
    _refuse_other_images(cohort)
    imported = read_imported(cohort)
    rated = None
    if ratings is not None:
        rated = _ratings_of(cohort, ratings)
    target = Path(out).absolute()
    check_writable(target / "qc.tsv", parameter="out")
    if rated is not None:
        _check_rated_table(target / "participants.tsv", cohort, out)
    measured = measure_scans(cohort, target / "scans", n_workers, progress)
    warn_of_headers(cohort.scans, progress)
    scans = _flag(_table_of_scans(cohort, measured, imported, rated), measured)
    write_text(target / "qc.html", _render(scans, cohort))
    _write_record(target / "qc.json", scans.table, n_unreadable=len(measured.unreadable))
    table = scans.table.drop(columns=["name", "subject_id"])
    write_table(target / "qc.tsv", table.astype(object).where(table.notna() & (table != ""), "n/a"))
    rated_table = None
    if rated is not None:
        rated_table = target / "participants.tsv"
        people = read_people(cohort.source).cells
        write_rows(rated_table, people.assign(qc_rating=rated), root=cohort.root)
    return Quality(
        table,
        target / "qc.html",
        len(measured.unreadable),
        rated_table,
        recipe_for(cohort.table).words,
    )


def _check_rated_table(path: Path, cohort: Cohort, out: str | os.PathLike[str]) -> None:
    """Refuse to write ratings over the table of scans, or next to a JSON file that explains codes.

    `path` is the rated table to write into `out`, the folder that the user named. A JSON file of
    the same name that explains units or codes of its columns is refused, since the cells to write
    are decoded already.
    """
    if path.resolve() == cohort.source.resolve():
        raise ConfigError(
            f"out: '{out}' holds the table of scans, which ratings would replace. "
            "Give another folder."
        )
    check_not_described(path, cohort.table.columns)


def _table_of_scans(
    cohort: Cohort, measured: MeasuredScans, imported: pd.DataFrame, rated: list[str] | None
) -> pd.DataFrame:
    """Return the table of ``qc.tsv`` before flags, one row a scan: identifiers, measures, ratings.

    `measured` has the files with each scan's quality measures, and `imported` measures of other
    programs. Ratings are those in `rated`; if that is None, those of the cohort's own table.
    """
    table = cohort.table[["participant_id", "session"]].copy()
    subjects = cohort.table["subject_id"].astype(str)
    table["site"] = "all"
    if "site" in cohort.table:
        table["site"] = cohort.table["site"].fillna("n/a").astype(str)
    table = table.assign(name=cohort.names(), subject_id=subjects)
    table = table.join(compare_at_sites(table["site"], subjects, measured.files)).join(imported)
    if rated is None:
        table["qc_rating"] = cohort.table.get("qc_rating", "")
    else:
        table["qc_rating"] = rated
    return table


@dataclass(frozen=True, eq=False)
class _FlaggedScans:
    """Scans that `qc` has checked, with the flags of each, the worst scan first.

    A flag says that a measure of the scan is beyond a bound, or that the scan cannot be read.
    `table` has a row a scan, as ``qc.tsv``.
    """

    table: pd.DataFrame
    flags: list[list[Flag]]
    """Flags of the scan in each row of `table`."""
    shown: list[Path | None]
    """Files with the thumbnails of the first rows of `table`; None for a scan that cannot be
    read."""


def _flag(table: pd.DataFrame, measured: MeasuredScans) -> _FlaggedScans:
    """Return the scans with their flags, the worst first: unusual measures, or unreadable files.

    `table` has a row for each scan; the columns ``n_flags`` and ``flags`` are added to it in place.
    The rows are sorted in a copy, which the `_FlaggedScans` holds.
    """
    flags, worst = flag_scans(table)
    for row, why in measured.unreadable.items():
        flags[row] = [Flag("unreadable", f"cannot be read: {why}")]
        worst[row] = np.inf
    sentences = []
    for of_scan in flags:
        sentences.append("; ".join(flag.text for flag in of_scan))
    table.insert(3, "n_flags", list(map(len, flags)))
    table.insert(4, "flags", sentences)
    is_readable = worst < np.inf
    order = np.lexsort((table["name"], -worst, -table["n_flags"], is_readable)).tolist()
    return _FlaggedScans(
        table.iloc[order].reset_index(drop=True),
        list(map(flags.__getitem__, order)),
        list(map(measured.files.get, order[:N_SHOWN])),
    )


def _render(scans: _FlaggedScans, cohort: Cohort) -> str:
    """Return the page ``qc.html`` as text: the scans with their flags, measures and thumbnails."""
    strip = template_strip()
    thumbnails = {row: read_thumbnail(file, strip.shape) for row, file in enumerate(scans.shown)}
    return render_quality(
        scans.table,
        scans.flags,
        thumbnails,
        strip,
        source=cohort.source.name,
        simulated=cohort.simulated,
        version=version(),
    )


def _write_record(path: Path, table: pd.DataFrame, *, n_unreadable: int) -> None:
    """Write ``qc.json`` to `path`: how many scans are flagged, and by which bounds."""
    record = ScanQualityRecord(
        n=len(table),
        n_flagged=int((table["n_flags"] > 0).sum()),
        n_unreadable=n_unreadable,
        n_deviations=N_DEVIATIONS,
        n_site=N_SITE,
        rules=dict(zip(RULES, map(_record_of, RULES.values()), strict=True)),
        environment=Environment.model_validate(describe_environment()),
    )
    write_json(path, record.content())


def _record_of(rule: Rule) -> RuleRecord:
    """Return the finite bounds of `rule`, outside of which a scan is flagged, as in ``qc.json``."""
    bounds = {}
    if np.isfinite(rule.low):
        bounds["low"] = rule.low
    if np.isfinite(rule.high):
        bounds["high"] = rule.high
    return RuleRecord.model_validate({**bounds, "worse": rule.worse})


def _refuse_options_of_scans(images_root: object, ratings: object) -> None:
    """Refuse the options for scans, `images_root` and `ratings`, with regional measures."""
    if images_root is not None:
        raise ConfigError("images_root: regional measures have no images. Leave it out.")
    if ratings is not None:
        raise ConfigError(
            "ratings: are of scans, which a person looks at, and this is a table of regional "
            "measures. Leave it out; qc.tsv has the column flagged."
        )


def _refuse_other_images(cohort: Cohort) -> None:
    """Refuse natural images and maps of grey matter, since only T1-weighted images are measured."""
    problems = Problems(cohort.source.name)
    for name, path, grey in zip(
        cohort.names(), cohort.table["path"], cohort.paths_in("gm"), strict=True
    ):
        address = address_of(str(path))
        if address is not None:
            problems.add(
                f"qc measures scans of brains, and this is {address.sample}",
                column="path",
                name=name,
            )
        elif grey == path:
            problems.add(
                "qc measures T1-weighted images, and this is a map of grey matter",
                column="path",
                name=name,
            )
    problems.raise_if_any()


def _ratings_of(cohort: Cohort, ratings: str | Path) -> list[str]:
    """Return the rating of each scan in the table `ratings`, as a list in the order of the cohort.

    A scan without a rating has the text ``n/a``. Ratings of unknown scans, and second ratings, are
    refused. Codes are decoded by ``Levels`` of the JSON file beside `ratings`.
    """
    rated_people = read_people(Path(ratings), ("participant_id", "session", "qc_rating"))
    sheet = rated_people.cells
    needed = ("participant_id", "qc_rating")
    problems = Problems(Path(ratings).name)
    for row, refusal in rated_people.refused.get("qc_rating", {}).items():
        cell = shown(sheet["qc_rating"].iloc[row])
        problems.add(f"found {cell}; {refusal.rule}", line=int(sheet.index[row]))
    matching_columns(needed, list(sheet.columns), where=problems.source)
    people, rated = (sheet[column] for column in needed)
    sessions = sheet.get("session", [""] * len(people))
    scans = list(zip(cohort.table["participant_id"], cohort.table["session"], strict=True))
    listed = set(scans)
    rating_of: dict[tuple[str, str], str] = {}
    for line, name, session, rating in zip(sheet.index, people, sessions, rated, strict=True):
        scan = name, "" if is_missing(session) else session
        if scan not in listed or scan in rating_of:
            why = "is rated twice" if scan in rating_of else f"is no scan of {cohort.source.name}"
            problems.add(why, line=line, name=" ".join(scan).strip())
        if is_missing(rating):
            rating_of[scan] = "n/a"
        elif rating.lower() in RATINGS:
            rating_of[scan] = rating.lower()
        else:
            rating_of[scan] = rating
    problems.raise_if_any()
    return [rating_of.get(scan, "n/a") for scan in scans]
