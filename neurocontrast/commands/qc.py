"""Quality control of scans in MNI space, or of regional measures: flags and a page."""

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from PIL import Image
from threadpoolctl import threadpool_limits

from neurocontrast.cells import is_missing
from neurocontrast.commands.qc_measures import compare_measures
from neurocontrast.data.addresses import address_of
from neurocontrast.data.advice import recipe_for
from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.columns import matching_columns
from neurocontrast.data.listing import read_table, write_rows
from neurocontrast.data.measures.inspecting import is_of_measures
from neurocontrast.data.people import check_not_described, read_people
from neurocontrast.data.problems import Problems, shown
from neurocontrast.data.quality import warn_of_headers
from neurocontrast.display import as_progress
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.quality import RuleRecord, ScanQualityRecord
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import (
    atomic_path,
    check_writable,
    digest_of,
    write_json,
    write_table,
    write_text,
)
from neurocontrast.parallel.workers import N_SCANS_A_WORKER, map_files
from neurocontrast.prepare.flags import N_DEVIATIONS, N_SITE, RULES, Flag, Rule, flag_scans
from neurocontrast.prepare.measures import compare_with_others, measure_scan, template_strip
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment, version
from neurocontrast.reading import parse_json, read_arrays
from neurocontrast.reporting.scan_quality import N_SHOWN, RATINGS, render_quality

_RECIPE = 1
"""Raised when the same scan gives other measures."""


@dataclass(frozen=True, eq=False)
class Quality:
    """Table and page of `qc`.

    That of regional measures has `n_flagged` people and no ratings.
    """

    table: pd.DataFrame
    """One row per scan, the worst first, as in ``qc.tsv``."""
    page: Path
    """The path of ``qc.html``."""
    n_unreadable: int = 0
    """Scans that cannot be read; they come first."""
    rated: Path | None = None
    """The table of scans with the column ``qc_rating``, where ratings were given."""
    recipe: tuple[str, ...] = ("small",)
    """What follows ``--config`` to begin with."""
    kind: Literal["volumes", "measures"] = "volumes"
    """Kind of the data."""

    @property
    def flagged(self) -> dict[str, str]:
        """Flags of each flagged scan, by its participant."""
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
    Of people with regional measures the measures are compared, as they are: with their own site, or
    with the people whom a run learned from.

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
        Run directory, or weights, of regional measures: people are compared with those whom the
        run learned from.
    n_workers : int, default=2
        Processes; the results do not depend on it.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.

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
        measured = compare_measures(Path(participants), Path(out).absolute(), run, progress)
        return Quality(
            measured.table,
            measured.page,
            measured.n_unreadable,
            recipe=measured.recipe,
            kind="measures",
        )
    if run is not None:
        raise ConfigError(
            f"run: is of people with regional measures, and {participants} is a table of scans. "
            "Leave it out."
        )
    cohort = read_cohort(participants, images_root=images_root)
    _refuse_other_images(cohort)
    imported = _imported(cohort)
    given = None if ratings is None else _ratings_of(cohort, ratings)
    target = Path(out).absolute()
    check_writable(target / "qc.tsv", parameter="out")
    if given is not None and (target / "participants.tsv").resolve() == cohort.source.resolve():
        raise ConfigError(
            f"out: '{out}' holds the table of scans, which ratings would replace. Give another folder."
        )
    if given is not None:
        check_not_described(target / "participants.tsv", cohort.table.columns)
    kept, unreadable = _measure(cohort, target / "scans", n_workers, progress)
    warn_of_headers(cohort.scans, progress)
    table = cohort.table[["participant_id", "session"]].copy()
    subjects = cohort.table["subject_id"].astype(str)
    table["site"] = (
        cohort.table["site"].fillna("n/a").astype(str) if "site" in cohort.table else "all"
    )
    table = table.assign(name=cohort.names(), subject_id=subjects)
    table = table.join(_measured(table["site"], subjects, kept)).join(imported)
    table["qc_rating"] = cohort.table.get("qc_rating", "") if given is None else given
    flags, worst = flag_scans(table)
    for row, why in unreadable.items():
        flags[row] = [Flag("unreadable", f"cannot be read: {why}")]
        worst[row] = np.inf
    table.insert(3, "n_flags", list(map(len, flags)))
    table.insert(4, "flags", ["; ".join(flag.text for flag in each) for each in flags])
    order = np.lexsort((table["name"], -worst, -table["n_flags"], worst < np.inf))
    table = table.iloc[order].reset_index(drop=True)
    flags = [flags[row] for row in order]
    strip = template_strip()
    file_of = [kept.get(row) for row in order[:N_SHOWN]]
    thumbnails = {row: _thumbnail(file, strip.shape) for row, file in enumerate(file_of)}
    source = cohort.source.name
    page = render_quality(
        table,
        flags,
        thumbnails,
        strip,
        source=source,
        simulated=cohort.simulated,
        version=version(),
    )
    write_text(target / "qc.html", page)
    record = ScanQualityRecord(
        n=len(table),
        n_flagged=int((table["n_flags"] > 0).sum()),
        n_unreadable=len(unreadable),
        n_deviations=N_DEVIATIONS,
        n_site=N_SITE,
        rules=dict(zip(RULES, map(_record_of, RULES.values()), strict=True)),
        environment=Environment.model_validate(describe_environment()),
    )
    write_json(target / "qc.json", record.content())
    table = table.drop(columns=["name", "subject_id"])
    write_table(target / "qc.tsv", table.astype(object).where(table.notna() & (table != ""), "n/a"))
    rated = None
    if given is not None:
        rated = target / "participants.tsv"
        people = read_people(cohort.source).cells
        write_rows(rated, people.assign(qc_rating=given), root=cohort.root)
    return Quality(
        table, target / "qc.html", len(unreadable), rated, recipe_for(cohort.table).words
    )


def _record_of(rule: Rule) -> RuleRecord:
    """Return the finite bounds of a rule, as ``qc.json`` has them."""
    bounds = {}
    if np.isfinite(rule.low):
        bounds["low"] = rule.low
    if np.isfinite(rule.high):
        bounds["high"] = rule.high
    return RuleRecord.model_validate({**bounds, "worse": rule.worse})


def _refuse_options_of_scans(images_root: object, ratings: object) -> None:
    """Refuse options that people with regional measures have no use for."""
    if images_root is not None:
        raise ConfigError("images_root: regional measures have no images. Leave it out.")
    if ratings is not None:
        raise ConfigError(
            "ratings: are of scans, which a person looks at, and this is a table of regional "
            "measures. Leave it out; qc.tsv has the column flagged."
        )


def _refuse_other_images(cohort: Cohort) -> None:
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
    """Return the rating of each scan, n/a for one without; refuse ratings of unknown scans.

    Codes are decoded by ``Levels`` of the JSON file beside the table of ratings.
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
    known = set(scans)
    found: dict[tuple[str, str], str] = {}
    for line, name, session, rating in zip(sheet.index, people, sessions, rated, strict=True):
        scan = name, "" if is_missing(session) else session
        if scan not in known or scan in found:
            why = "is rated twice" if scan in found else f"is no scan of {cohort.source.name}"
            problems.add(why, line=line, name=" ".join(scan).strip())
        if is_missing(rating):
            found[scan] = "n/a"
        elif rating.lower() in RATINGS:
            found[scan] = rating.lower()
        else:
            found[scan] = rating
    problems.raise_if_any()
    return [found.get(scan, "n/a") for scan in scans]


def _thumbnail(file: Path | None, shape: tuple[int, ...]) -> bytes:
    """Return the JPEG file of a scan, black for one that cannot be read."""
    if file is not None:
        return read_arrays(file)["thumbnail"].tobytes()
    buffer = io.BytesIO()
    Image.fromarray(np.zeros(shape, dtype=np.uint8)).save(buffer, format="JPEG")
    return buffer.getvalue()


def _measure(
    cohort: Cohort, folder: Path, n_workers: int, progress: Progress
) -> tuple[dict[int, Path], dict[int, str]]:
    """Measure every new scan; return the file of each row, or why the scan cannot be read."""
    others = [
        cohort.paths_in(*names) for names in (("mask_path",), ("gm", "gm_path"), ("wm", "wm_path"))
    ]
    sources = list(zip(cohort.table["path"].astype(str), *others, strict=True))
    kept: dict[int, Path] = {}
    unreadable: dict[int, str] = {}
    for row, paths in enumerate(sources):
        try:
            states = [
                (path, Path(path).stat().st_size, Path(path).stat().st_mtime_ns)
                for path in filter(None, paths)
            ]
        except OSError as error:
            unreadable[row] = f"{error.filename}: {error.strerror}"
            continue
        kept[row] = folder / f"{digest_of('neurocontrast-qc', _RECIPE, paths, states)}.npz"
    work = [(row, sources[row], file) for row, file in kept.items() if not _is_kept(file)]
    with progress.task("Measuring scans", total=len(work), unit="scan") as task:
        for row, problem in map_files(
            _measure_one,
            work,
            n_workers=n_workers,
            option="n_workers",
            n_per_worker=N_SCANS_A_WORKER,
        ):
            if problem:
                del kept[row]
                unreadable[row] = problem
            task.advance()
    if not kept:
        reasons = [f"{name}: {unreadable[row]}" for row, name in enumerate(cohort.names())]
        raise DataError("\n".join(["none of the scans can be read:", *reasons]))
    return kept, unreadable


def _is_kept(file: Path) -> bool:
    """Say whether a file is one of `_measure_one`.

    A damaged file is removed, and its scan measured again.
    """
    try:
        found = read_arrays(file, shapes={"measures": (), "vector": (None,), "thumbnail": (None,)})
        parse_json(str(found["measures"]), place=file)
    except DataError:
        file.unlink(missing_ok=True)
        return False
    return True


def _measure_one(row: int, paths: Sequence[str], file: Path) -> tuple[int, str]:
    """Measure a scan into a file, or return why the scan cannot be measured."""
    try:
        with threadpool_limits(1):
            found = measure_scan(*paths)
    except DataError as error:
        return row, str(error)
    thumbnail = np.frombuffer(found.thumbnail, dtype=np.uint8)
    with atomic_path(file) as temporary:
        np.savez(
            temporary, measures=json.dumps(found.measures), vector=found.vector, thumbnail=thumbnail
        )
    return row, ""


def _measured(sites: pd.Series, subjects: pd.Series, kept: Mapping[int, Path]) -> pd.DataFrame:
    """Return the measures of every scan that was read, compared at sites of `N_SITE` people."""
    measures = {
        row: json.loads(str(read_arrays(file)["measures"])) for row, file in sorted(kept.items())
    }
    table = pd.DataFrame.from_dict(measures, orient="index").reindex(range(len(sites)))
    table[["site_correlation", "asymmetry"]] = np.nan
    for rows in sites[sorted(kept)].groupby(sites).groups.values():
        people = subjects[rows]
        if people.nunique() >= N_SITE:
            vectors = np.stack([read_arrays(kept[row])["vector"] for row in rows])
            with threadpool_limits(1):
                alike = compare_with_others(vectors, people.to_numpy())
            table.loc[rows, ["site_correlation", "asymmetry"]] = np.stack(alike, axis=1).round(4)
    return table


def _imported(cohort: Cohort) -> pd.DataFrame:
    """Return measures of other programs: columns of the table, and scales of ``quality.tsv``."""
    found = pd.DataFrame(index=cohort.table.index)
    problems = Problems(cohort.source.name)
    names = cohort.names()
    for column in [name for name in ("iqr", "euler") if name in cohort.table]:
        found[column] = pd.to_numeric(cohort.table[column], errors="coerce").astype(float)
        for row in np.flatnonzero(found[column].isna() & cohort.table[column].notna()):
            text = shown(cohort.table[column][row])
            problems.add(f"found {text}; a number or n/a", column=column, name=names[row])
    problems.raise_if_any()
    file = cohort.source.parent / "quality.tsv"
    if not file.is_file():
        return found
    quality = read_table(file, dtype=str).replace("n/a", "")
    keys = [key for key in ("participant_id", "session") if key in quality]
    if {"participant_id", "scales"} <= set(quality) and not quality.duplicated(keys).any():
        texts = (
            cohort.table[keys].merge(quality, on=keys, how="left")["scales"].fillna("").astype(str)
        )
        scales = texts.str.extractall(r"([0-9]+\.?[0-9]*)")[0].astype(float).groupby(level=0)
        found["scale_min"] = scales.min()
        found["scale_max"] = scales.max()
    return found
