"""Inspect scans and their table: scans that cannot be used, and warnings for the rest."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import pandas as pd
from monai.data import MetaTensor

from neurocontrast.data.cohort import Cohort
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import ScanFiles, as_scan, digest_of_file, files_of
from neurocontrast.parallel.workers import N_SCANS_A_WORKER, map_files
from neurocontrast.progress import SILENT, Progress
from neurocontrast.transforms.images import affine_of, apply
from neurocontrast.transforms.loading import LoadScand, ScanHeader, is_scan, read_scan_header
from neurocontrast.transforms.preprocessing import Preprocessing
from neurocontrast.transforms.template import (
    BRAIN_LITRES_MAX,
    OVERLAP_MIN,
    Extent,
    extent_of,
)

_N_SMALL_SITE = 5
"""Number of people below which a site gets a warning as small."""
_N_SHOWN = 10
"""Largest number of subjects or groups that warnings name."""
_PREPARE = (
    "The recipes are for skull-stripped brains in MNI152; "
    "neurocontrast prepare makes them of raw scans."
)


class Finding(NamedTuple):
    """Result of `inspect_scan` for one scan: a problem, or warnings, header and extent."""

    scan: ScanFiles
    problem: str = ""
    """Reason why the scan cannot be used; "" for a usable scan."""
    warnings: tuple[str, ...] = ()
    header: ScanHeader | None = None
    digest: str = ""
    """Digest of the scan's files, by which copies of a scan are found."""
    extent: Extent | None = None
    """Extent of the head or brain, for a scan of one file with a header; None for other scans."""


def inspect_scan(
    scan: ScanFiles | os.PathLike[str],
    preprocessing: Preprocessing | None = None,
    deep: bool = True,
) -> Finding:
    """Inspect a scan's headers and, with `deep`, all voxels and the preprocessing.

    Return a `Finding`; a scan that cannot be read or preprocessed has a `problem` there.
    """
    name = as_scan(scan)
    files = files_of(scan)
    try:
        headers = list(map(read_scan_header, files))
        problem = problem_of_headers(files, headers)
        of_headers: dict[str, None] = {}
        for header in headers:
            of_headers |= dict.fromkeys(header.other_warnings)
        warnings = tuple(of_headers)
        if not deep:
            return Finding(name, problem, warnings=warnings, header=headers[0])
        image = _load(name, preprocessing)
        warnings += tuple(_doubts_about_masks(image))
        digest = "-".join(map(digest_of_file, files))
        extent = None
        if len(files) == 1 and headers[0].affine is not None:
            extent = extent_of(image.numpy()[0], affine_of(image))
        return Finding(name, problem, warnings, headers[0], digest, extent)
    except DataError as error:
        return Finding(name, problem=str(error))


def _load(scan: ScanFiles, preprocessing: Preprocessing | None) -> MetaTensor:
    """Return a scan's image as loaded; refuse a scan whose preprocessing fails.

    The result of the preprocessing is thrown away; None skips the preprocessing.
    """
    spacing_mm = 1.0
    if preprocessing is not None and preprocessing.spacing_mm is not None:
        spacing_mm = preprocessing.spacing_mm
    image: MetaTensor = LoadScand("image", spacing_mm=spacing_mm)({"image": scan})["image"]
    if preprocessing is not None:
        apply(preprocessing.compose(), {"image": image}, start=1)
    return image


def _doubts_about_masks(image: MetaTensor) -> Iterator[str]:
    """Yield a message for each channel of a scan that has only two intensities, as a mask has."""
    for voxels in image.numpy():
        low = voxels.min()
        high = voxels.max()
        if bool(((voxels == low) | (voxels == high)).all()):
            yield f"it has only two intensities ({low:g} and {high:g}); is it a mask?"


def problem_of_headers(files: Sequence[str], headers: Sequence[ScanHeader]) -> str:
    """Return one message on the files of a scan whose sform and qform disagree; "" if none do.

    `headers` has the header of each of `files`.
    """
    apart = []
    for file, header in zip(files, headers, strict=True):
        if header.disagreement:
            apart.append(f"{file}: sform and qform disagree: {header.disagreement}")
    if not apart:
        return ""
    return f"{'; '.join(apart)}. Find out which is right, and write it as both"


def warn_of_headers(scans: Sequence[ScanFiles], progress: Progress) -> None:
    """Warn of scans whose sform and qform disagree or are both absent, with the first as example.

    Unreadable files are passed over; a command that reads voxels refuses such files.
    """
    apart = []
    guessed = []
    for scan in dict.fromkeys(scans):
        with suppress(DataError):
            files = list(filter(is_scan, files_of(scan)))
            headers = list(map(read_scan_header, files))
            apart.append(problem_of_headers(files, headers))
            if any(header.is_guessed for header in headers):
                guessed.append(files[0])
    if guessed:
        progress.warning(
            f"{len(guessed)} of {len(scans)} scans have no orientation in their headers (sform and "
            f"qform codes are 0), so that left and right are a guess. The first: {guessed[0]}."
        )
    problems = list(filter(None, apart))
    if problems:
        progress.warning(
            f"{len(problems)} of {len(scans)} scans have an sform and a qform that disagree; "
            f"`check` names all. The first: {problems[0]}."
        )


def inspect_scans(
    scans: Sequence[ScanFiles],
    *,
    deep: bool,
    preprocessing: Preprocessing | None = None,
    n_workers: int = 0,
    progress: Progress = SILENT,
) -> list[Finding]:
    """Inspect every scan in `n_workers` processes; return a `Finding` for each, in order."""
    findings: dict[ScanFiles, Finding] = {}
    arguments = [(scan, preprocessing, deep) for scan in dict.fromkeys(scans)]
    title = "Reading headers"
    if deep:
        title = "Reading images"
    with progress.task(title, len(arguments), "scan") as task:
        for finding in map_files(
            inspect_scan, arguments, n_workers=n_workers, n_per_worker=N_SCANS_A_WORKER
        ):
            findings[finding.scan] = finding
            task.advance()
    return [findings[scan] for scan in scans]


def doubts_about(cohort: Cohort) -> list[str]:
    """Return warnings about a cohort's table: missing cells, alike subjects, and small sites.

    The warnings that ``cohort.warnings`` already holds come first. Subjects with two sexes or alike
    names are named, and so are small sites, and sites with a single diagnosis.
    """
    table = cohort.table
    doubts = list(cohort.warnings)
    for column in ("age", "sex", "site", "diagnosis"):
        n_missing = 0
        if column in table:
            n_missing = int(table[column].isna().sum())
        if n_missing:
            doubts.append(f"column '{column}' is missing in {n_missing} of {len(table)} scans")
    if "sex" in table:
        n_sexes = table.groupby("subject_id")["sex"].nunique()
        both = sorted(n_sexes.index[n_sexes > 1])
        if both:
            doubts.append(f"subjects with two sexes: {one_of(both[:_N_SHOWN])}")
    if "stage" in table and "path" in cohort.channels:
        doubts += _doubts_about_stages(table["stage"])
    doubts += _doubts_about_names(table["subject_id"])[:_N_SHOWN]
    if "site" in table:
        doubts += _doubts_about_sites(table)
    return doubts


def _doubts_about_stages(stages: pd.Series) -> list[str]:
    """Return a list of one warning if maps of tissue are among heads or brains; else no warning."""
    n_maps = int(stages.eq("tissue").sum())
    n_others = int(stages.notna().sum()) - n_maps
    if not (n_maps and n_others):
        return []
    return [
        f"column 'stage' has {n_maps} maps of tissue among {n_others} heads or brains in column "
        "'path'; data.channels=[gm] reads everybody's map"
    ]


def _doubts_about_sites(table: pd.DataFrame) -> list[str]:
    """Return a list of warnings: one on all small sites, one on all sites with one diagnosis."""
    doubts = []
    counts = table.groupby("site")["subject_id"].nunique()
    small = [f"{site} ({n})" for site, n in counts.items() if n < _N_SMALL_SITE]
    if small:
        doubts.append(f"sites with fewer than {_N_SMALL_SITE} people: {', '.join(sorted(small))}")
    if "diagnosis" in table:
        n_classes = table.groupby("site")["diagnosis"].nunique()
        single = sorted(n_classes.index[n_classes == 1])
        if single and table["diagnosis"].nunique() > 1:
            doubts.append(
                f"sites with a single diagnosis: {one_of(single)}; site and diagnosis cannot be "
                "separated there"
            )
    return doubts


def _doubts_about_names(subjects: pd.Series) -> list[str]:
    """Return a warning for each group of subjects whose names differ only in case or ``sub-``."""
    names = pd.Series(subjects.astype(str).unique())
    doubts = []
    for _, group in names.groupby(names.str.lower().str.removeprefix("sub-"), sort=False):
        if len(group) > 1:
            doubts.append(f"{one_of(sorted(group))} count as different subjects")
    return doubts


def doubts_about_extents(extents: Mapping[ScanFiles, Extent]) -> list[str]:
    """Return a list of warnings: one on all whole heads, one on all brains not in MNI space.

    `extents` is scan → extent of the head or brain. A warning has the number of such scans and the
    file of the first; without such scans there is no warning.
    """
    heads: list[ScanFiles] = []
    elsewhere: list[ScanFiles] = []
    for scan, extent in extents.items():
        if extent.is_head:
            heads.append(scan)
        elif extent.is_unregistered:
            elsewhere.append(scan)
    doubts = []
    if heads:
        scan = heads[0]
        doubts.append(
            f"{len(heads)} of {len(extents)} scans are whole heads (the first, "
            f"{files_of(scan)[0]}: {extents[scan].litres:.1f} litres are not background, and a "
            f"brain in MNI space has less than {BRAIN_LITRES_MAX:g}). {_PREPARE}"
        )
    if elsewhere:
        scan = elsewhere[0]
        doubts.append(
            f"{len(elsewhere)} of {len(extents)} scans are not in MNI space (the first, "
            f"{files_of(scan)[0]}: its brain and the template's overlap by "
            f"{extents[scan].overlap:.2f}, and by {OVERLAP_MIN:g} or more once registered). "
            f"{_PREPARE}"
        )
    return doubts


def doubts_about_images(findings: Sequence[Finding]) -> list[str]:
    """Return warnings about scans as texts, a single text for all scans with the same warning.

    `findings` are the results of `inspect_scan`, one for each scan. A warning of several scans has
    the number of scans and the path of the first. The last warnings are on files that are copies of
    one another, and on ``.npy`` arrays among NIfTI images.
    """
    by_doubt: dict[str, list[str]] = defaultdict(list)
    by_digest: dict[str, list[str]] = defaultdict(list)
    for finding in findings:
        for doubt in finding.warnings:
            by_doubt[doubt].append(files_of(finding.scan)[0])
        if finding.digest:
            by_digest[finding.digest].append(files_of(finding.scan)[0])
    doubts = []
    for doubt, paths in by_doubt.items():
        images = paths[0]
        if len(paths) > 1:
            images = f"{len(paths)} images, the first {paths[0]}"
        doubts.append(f"{images}: {doubt}")
    for paths in by_digest.values():
        if len(paths) > 1:
            doubts.append(f"the same file under {len(paths)} names: {one_of(paths[:5])}")
    return doubts + _doubts_about_arrays(findings)


def _doubts_about_arrays(findings: Sequence[Finding]) -> list[str]:
    """Return a list of one warning if some scans are ``.npy`` arrays and others are NIfTI images.

    Arrays have no orientation. The list is empty without a warning. `findings` are the results of
    `inspect_scan`, one for each scan.
    """
    headers = [finding.header for finding in findings if finding.header]
    n_arrays = sum(header.spacing_mm is None for header in headers)
    n_nifti = len(headers) - n_arrays
    if not n_arrays or not n_nifti:
        return []
    return [
        f"{n_arrays} .npy arrays, which have no orientation, are among {n_nifti} NIfTI images; "
        "arrays are taken to be in RAS order"
    ]
