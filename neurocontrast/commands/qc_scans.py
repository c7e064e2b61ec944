"""Measures of scans for `qc`: each scan is measured once, into a file that is kept."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from threadpoolctl import threadpool_limits

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.listing import read_table
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path, digest_of
from neurocontrast.parallel.workers import N_SCANS_A_WORKER, map_files
from neurocontrast.prepare.flags import N_SITE
from neurocontrast.prepare.measures import compare_with_others, measure_scan
from neurocontrast.progress import Progress
from neurocontrast.reading import parse_json, read_arrays

_RECIPE = 1
"""Version of the measuring code, raised when the same scan would get other measures."""


def read_thumbnail(file: Path | None, shape: tuple[int, ...]) -> bytes:
    """Return the bytes of a scan's JPEG thumbnail, stored in `file`, which `measure_scans` wrote.

    If `file` is None, for a scan that cannot be read, a black picture of `shape` is returned.
    """
    if file is not None:
        return read_arrays(file)["thumbnail"].tobytes()
    buffer = io.BytesIO()
    Image.fromarray(np.zeros(shape, dtype=np.uint8)).save(buffer, format="JPEG")
    return buffer.getvalue()


@dataclass(frozen=True)
class MeasuredScans:
    """Paths of files with quality measures: row number of each scan in the table → its file."""

    files: dict[int, Path]
    unreadable: dict[int, str]
    """Row number of each scan that cannot be read → the reason."""


def measure_scans(
    cohort: Cohort, folder: Path, n_workers: int, progress: Progress
) -> MeasuredScans:
    """Measure the scans of a table that were not measured before, each into a file of `folder`.

    Return the paths of the files of all scans that can be read, and the reasons why others cannot,
    by number of the row in the table.
    """
    sources = list(
        zip(
            cohort.table["path"].astype(str),
            cohort.paths_in("mask_path"),
            cohort.paths_in("gm", "gm_path"),
            cohort.paths_in("wm", "wm_path"),
            strict=True,
        )
    )
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
    return MeasuredScans(kept, unreadable)


def _is_kept(file: Path) -> bool:
    """Tell whether `file` holds the measures of a scan, whole and readable.

    A damaged file is removed, so that its scan is measured again.
    """
    try:
        arrays = read_arrays(file, shapes={"measures": (), "vector": (None,), "thumbnail": (None,)})
        parse_json(str(arrays["measures"]), place=file)
    except DataError:
        file.unlink(missing_ok=True)
        return False
    return True


def _measure_one(row: int, paths: Sequence[str], file: Path) -> tuple[int, str]:
    """Write the measures of the scan `paths` into `file`; return `row` and the scan's problem.

    The problem says why the scan cannot be measured; "" if the file was written.
    """
    try:
        with threadpool_limits(1):
            measures = measure_scan(*paths)
    except DataError as error:
        return row, str(error)
    with atomic_path(file) as temporary:
        np.savez(
            temporary,
            measures=json.dumps(measures.measures),
            vector=measures.vector,
            thumbnail=np.frombuffer(measures.thumbnail, dtype=np.uint8),
        )
    return row, ""


def compare_at_sites(
    sites: pd.Series, subjects: pd.Series, files: Mapping[int, Path]
) -> pd.DataFrame:
    """Return the measures of each scan, and the scan's likeness to other people of the site.

    `sites` and `subjects` have an entry for each scan, as has the returned table; measures are read
    from `files`, row number → path. Sites of fewer than `N_SITE` people are too small for a
    comparison, and have no likeness.
    """
    measures = {
        row: json.loads(str(read_arrays(file)["measures"])) for row, file in sorted(files.items())
    }
    table = pd.DataFrame.from_dict(measures, orient="index").reindex(range(len(sites)))
    table[["site_correlation", "asymmetry"]] = np.nan
    for rows in sites[sorted(files)].groupby(sites).groups.values():
        people = subjects[rows]
        if people.nunique() >= N_SITE:
            vectors = np.stack([read_arrays(files[row])["vector"] for row in rows])
            with threadpool_limits(1):
                alike = compare_with_others(vectors, people.to_numpy())
            table.loc[rows, ["site_correlation", "asymmetry"]] = np.stack(alike, axis=1).round(4)
    return table


def read_imported(cohort: Cohort) -> pd.DataFrame:
    """Return measures by other programs, one row a scan: CAT12's, FreeSurfer's, and affine scales.

    The first two are the columns ``iqr`` and ``euler`` of the table of scans; the scales are from
    the file ``quality.tsv`` that `prepare` wrote beside the table.
    """
    imported = pd.DataFrame(index=cohort.table.index)
    problems = Problems(cohort.source.name)
    names = cohort.names()
    for column in [name for name in ("iqr", "euler") if name in cohort.table]:
        imported[column] = pd.to_numeric(cohort.table[column], errors="coerce").astype(float)
        for row in np.flatnonzero(imported[column].isna() & cohort.table[column].notna()):
            cell = shown(cohort.table[column][row])
            problems.add(f"found {cell}; a number or n/a", column=column, name=names[row])
    problems.raise_if_any()
    file = cohort.source.parent / "quality.tsv"
    if not file.is_file():
        return imported
    quality = read_table(file, dtype=str).replace("n/a", "")
    keys = [key for key in ("participant_id", "session") if key in quality]
    if {"participant_id", "scales"} <= set(quality) and not quality.duplicated(keys).any():
        of_scans = cohort.table[keys].merge(quality, on=keys, how="left")
        numbers = of_scans["scales"].fillna("").astype(str).str.extractall(r"([0-9]+\.?[0-9]*)")[0]
        scales = numbers.astype(float).groupby(level=0)
        imported["scale_min"] = scales.min()
        imported["scale_max"] = scales.max()
    return imported
