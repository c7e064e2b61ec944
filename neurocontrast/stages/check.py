"""Check a table and its images before anything is computed from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from neurocontrast.data.cohort import Cohort, Inspection, inspect_cohort
from neurocontrast.data.fitting import fit_preprocessing
from neurocontrast.data.natural.checking import inspect_images
from neurocontrast.data.natural.splitting import SPLITS
from neurocontrast.data.problems import Problems
from neurocontrast.data.quality import doubts_about, doubts_about_images, inspect_scans
from neurocontrast.data.store import is_image_path
from neurocontrast.exceptions import DataError
from neurocontrast.progress import SILENT, Progress
from neurocontrast.stages.kinds.kind import check_kind
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["CheckReport", "check"]


@dataclass(frozen=True, eq=False)
class CheckReport:
    """What `check` found.

    Parameters
    ----------
    source : Path
        The table.
    kind : {'volumes', 'images'}
        Scans, or natural images of a store.
    n_scans, n_subjects : int
        Rows, and people.
    problems : Problems
        What must be mended before the table can be used.
    warnings : tuple of str
        What should be known, though it does not stop the work.
    summary : DataFrame
        One row a site and a last row for all: counts, ages, sexes and diagnoses. Of natural images one row a split:
        counts of images and classes.
    simulated : bool
        Whether scans are marked as simulated.
    deep : bool
        Whether every voxel was read, or headers alone.
    """

    source: Path
    kind: Literal["volumes", "images"]
    n_scans: int
    n_subjects: int
    problems: Problems
    warnings: tuple[str, ...]
    summary: pd.DataFrame
    simulated: bool
    deep: bool

    @property
    def passed(self) -> bool:
        """Whether there is no problem."""
        return not self.problems.found

    def to_text(self, *, n_shown: int = 20) -> str:
        """Return the report as lines of text, at most `n_shown` problems in full."""
        marked = " (simulated)" if self.simulated else ""
        if self.kind == "images":
            what = f"{self.n_scans:,} images"
            read = "table, stores and pixels" if self.deep else "table and stores, not the pixels"
        else:
            what = f"{self.n_scans} scans of {self.n_subjects} subjects"
            read = "table, headers and voxels" if self.deep else "table and headers, not the voxels"
        parts = [
            f"{self.source.name}: {what}{marked}; checked {read}.",
            self.summary.to_string(na_rep="", float_format="{:.1f}".format),
        ]
        if self.warnings:
            n = len(self.warnings)
            listed = [f"  {warning}" for warning in self.warnings[:n_shown]]
            more = [f"  … and {n - n_shown} more"] if n > n_shown else []
            parts.append("\n".join([f"{n} warning{'s' if n > 1 else ''}", *listed, *more]))
        parts.append("No problems." if self.passed else self.problems.to_text(n_shown))
        return "\n\n".join(parts)


def check(
    participants: str | Path,
    *,
    images_root: str | Path | None = None,
    images_pattern: str | None = None,
    preprocessing: Preprocessing | None = None,
    kind: Literal["volumes", "images"] | None = None,
    deep: bool = True,
    n_workers: int = 2,
    progress: Progress = SILENT,
) -> CheckReport:
    """Check a table of scans, or of natural images, and the images themselves, and write nothing.

    Parameters
    ----------
    participants, images_root, images_pattern
        As for `neurocontrast.data.read_cohort`.
    preprocessing : Preprocessing, optional
        With it, `deep` also tells which scans would not fit; what it lacks is fitted on none of them.
    kind : {'volumes', 'images'}, optional
        What the table must hold; None for what it does.
    deep : bool
        Read every voxel; otherwise headers alone.
    n_workers : int
        Processes that read images.

    Raises
    ------
    DataError
        Where the table cannot be read as one at all, or holds another kind of images.
    """
    inspection = inspect_cohort(participants, images_root=images_root, images_pattern=images_pattern)
    if kind is not None:
        check_kind(inspection.cohort, kind)
    if any(is_image_path(str(path)) for path in inspection.cohort.table["path"]):
        return _check_images(inspection, deep=deep, progress=progress)
    return _check_scans(inspection, preprocessing, deep=deep, n_workers=n_workers, progress=progress)


def _check_scans(
    inspection: Inspection, preprocessing: Preprocessing | None, *, deep: bool, n_workers: int, progress: Progress
) -> CheckReport:
    cohort, problems = inspection.cohort, inspection.problems
    rows = _rows_with_image(inspection)
    paths = [str(cohort.table["path"][row]) for row in rows]
    if deep and preprocessing is not None:
        preprocessing = _with_template(preprocessing, paths, problems)
    findings = inspect_scans(paths, deep=deep, preprocessing=preprocessing, n_workers=n_workers, progress=progress)
    names = cohort.names()
    for row, finding in zip(rows, findings, strict=True):
        if finding.problem:
            problems.add(finding.problem, line=inspection.lines[row], name=names[row])
    return CheckReport(
        source=cohort.source,
        kind="volumes",
        n_scans=len(cohort),
        n_subjects=int(cohort.table["subject_id"].nunique()),
        problems=problems,
        warnings=(*doubts_about(cohort), *doubts_about_images(findings)),
        summary=summarise(cohort),
        simulated=cohort.simulated,
        deep=deep,
    )


def _check_images(inspection: Inspection, *, deep: bool, progress: Progress) -> CheckReport:
    cohort, problems = inspection.cohort, inspection.problems
    usable = cohort.subset(_rows_with_image(inspection))
    warnings = inspect_images(usable, problems, deep=deep, progress=progress) if len(usable) else cohort.warnings
    return CheckReport(
        source=cohort.source,
        kind="images",
        n_scans=len(cohort),
        n_subjects=int(cohort.table["subject_id"].nunique()),
        problems=problems,
        warnings=warnings,
        summary=summarise_images(cohort),
        simulated=cohort.simulated,
        deep=deep,
    )


def summarise_images(cohort: Cohort) -> pd.DataFrame:
    """Return the numbers of images and classes of each split, and of all in the last row."""
    table = cohort.table
    found = {str(split): part for split, part in table.groupby("split")} if "split" in table else {}
    parts = {split: found[split] for split in [*SPLITS, *found] if split in found}
    rows = []
    for part in (*parts.values(), table):
        row = {"images": len(part)}
        if "label" in table:
            counts = part["label"].value_counts()
            row |= {"classes": len(counts), "smallest class": counts.min(), "largest class": counts.max()}
        rows.append(row)
    return pd.DataFrame(rows, index=[*parts, "all"])


def _with_template(preprocessing: Preprocessing, paths: list[str], problems: Problems) -> Preprocessing:
    """Return a preprocessing with the template's view, which headers alone give, or note why there is none."""
    if preprocessing.common_view != "template" or "view" not in preprocessing.unfitted or not paths:
        return preprocessing
    try:
        return fit_preprocessing(preprocessing.model_copy(update={"normalise": "none"}), paths).model_copy(
            update={"normalise": preprocessing.normalise}
        )
    except DataError as error:
        problems.add(str(error))
        return preprocessing


def _rows_with_image(inspection: Inspection) -> list[int]:
    without = {problem.line for problem in inspection.problems.found if problem.column == "path"}
    return [row for row, line in enumerate(inspection.lines) if line not in without]


def summarise(cohort: Cohort) -> pd.DataFrame:
    """Return counts, ages, sexes and diagnoses for each site, and for all in the last row."""
    table = cohort.table
    parts = {"all": table}
    if "site" in table and table["site"].notna().any():
        by_site = {str(site): part for site, part in table.groupby("site")}
        if table["site"].isna().any():
            by_site["site n/a"] = table[table["site"].isna()]
        parts = by_site | parts
    return pd.DataFrame([_summary_row(part, table) for part in parts.values()], index=list(parts))


def _summary_row(part: pd.DataFrame, whole: pd.DataFrame) -> dict[str, float]:
    row: dict[str, float] = {"scans": len(part), "subjects": part["subject_id"].nunique()}
    if "age" in whole:
        ages = part["age"]
        row |= {"age mean": ages.mean(), "age min": ages.min(), "age max": ages.max()}
    for column in ("sex", "diagnosis"):
        if column in whole:
            row |= {
                f"{column} {value}": int((part[column] == value).sum())
                for value in sorted(whole[column].dropna().unique())
            }
            if whole[column].isna().any():
                row[f"{column} n/a"] = int(part[column].isna().sum())
    return row
