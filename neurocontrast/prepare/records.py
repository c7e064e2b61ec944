"""Records next to the images of prepared scans: input files, recipe, measures and digests.

The recipe is the options of preparation and the versions of the code, by which outdated images are
noticed (`recipe_of`).
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

from neurocontrast.documents.prepared import PreparedScan, ScanInput, ScanMeasures, ScanRecipe
from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of, digest_of_file, write_json
from neurocontrast.provenance import version, versions_of
from neurocontrast.reading import check_place, read_json

RECIPE = 3
"""Version of the preparation: raised when the same options give other images or measures."""
MOST_IMITATIONS = 20
IMAGES = ("brain", "gm", "wm", "csf")
TABLES = ("participants.tsv", "imitations.tsv", "quality.tsv")
"""Tables of prepared scans, which are written once all scans are prepared."""


@dataclass(frozen=True)
class PrepareOptions:
    """Options of the preparation of scans: steps to take, voxel size, and imitated acquisitions.

    An imitated acquisition is a randomly changed copy of the prepared brain, as if another scanner
    had acquired the scan.
    """

    spacing_mm: float = 1.5
    """Voxel size of the prepared images, in mm."""
    bias: bool = True
    """Whether to correct the bias field by N4."""
    tissue: bool = True
    """Whether to make tissue maps."""
    registration: bool = True
    """Whether to register scans to MNI152; False if headers place the scans in MNI152 already."""
    imitations: int = 0
    """Number of imitated acquisitions for each brain, which get brain images and tissue maps
    too.
    """


@dataclass(frozen=True)
class ScanOutcome:
    """Measures of a prepared scan, or the problem for which the scan was not prepared."""

    measures: ScanMeasures = field(default_factory=ScanMeasures)
    problem: str = ""


def recipe_of(options: PrepareOptions) -> ScanRecipe:
    """Return `options` and code versions as a recipe, by which outdated images are noticed.

    The number of imitated acquisitions (changed copies of a brain, as if of another scanner) is no
    part of the recipe: asking for more does not prepare scans again.
    """
    # Imitations have records of their own: adding some does not prepare the scans again.
    chosen = asdict(options)
    del chosen["imitations"]
    code = {"neurocontrast": version()}
    for package, installed in versions_of("SimpleITK", "nilearn", "deepbet").items():
        code[package] = installed or "none"
    return ScanRecipe(recipe=RECIPE, options=chosen, code=code)


def imitated_stem(stem: str, number: int) -> str:
    """Return the start of the file names of the imitated acquisition `number`, from 1, of a scan.

    An imitated acquisition is a randomly changed copy of the prepared brain, as if another scanner
    had acquired the scan. `stem` is the start of the scan's own file names.
    """
    return f"{stem}_acq-imitated{number}"


def stems_of(stem: str, n_imitations: int) -> list[str]:
    """Return the starts of the file names of a scan and of its imitated acquisitions, in order.

    `stem` is the scan's own start, which comes first. The `n_imitations` acquisitions, numbered
    from 1, are randomly changed copies of the prepared brain, as if other scanners had acquired the
    scan.
    """
    stems = [stem]
    for number in range(1, n_imitations + 1):
        stems.append(imitated_stem(stem, number))
    return stems


def files_of_scan(stem: str, options: PrepareOptions | None = None) -> list[str]:
    """Return the names of the image files of a prepared scan: brain, and tissue maps by `options`.

    Tissue maps are left out if ``options.tissue`` is off, and not if `options` is None.
    """
    images: Sequence[str] = IMAGES
    if options is not None and not options.tissue:
        images = IMAGES[:1]
    return list(map(f"{stem}_{{}}.nii.gz".format, images))


def describe_input(path: str, mask_path: str, root: str) -> ScanInput:
    """Describe a scan's files: path below folder `root`, digest of the full path, and SHA-256.

    The SHA-256 are of the image and, if `mask_path` is not "", of the brain mask. A `DataError` is
    raised for a file that cannot be read.
    """
    check_place(path)
    if mask_path:
        check_place(mask_path, remedy="The column 'mask_path' names it.")
    below_root = Path(os.path.relpath(path, root)).as_posix()
    if below_root.startswith(".."):
        below_root = Path(path).name
    files = filter(None, (path, mask_path))
    try:
        digests = list(map(digest_of_file, files))
    except OSError as error:
        raise DataError(str(error)) from error
    return ScanInput(path=below_root, place=_place_of(path), sha256=digests)


def _place_of(path: str) -> str:
    return digest_of("place", Path(path).absolute())


def _record_of(folder: Path, stem: str) -> PreparedScan | None:
    """Read ``{stem}.json`` on the preparation of a scan; None if the file is absent or damaged."""
    path = folder / f"{stem}.json"
    try:
        return PreparedScan.of(read_json(path), path)
    except DataError:
        return None


def problem_of_images(
    folder: Path, stem: str, path: str, mask_path: str, root: str, options: PrepareOptions
) -> str:
    """Return why the images of `stem` in `folder` must not be replaced; "" if they may be.

    The images must not be replaced by new ones of the scan `path` if the record ``{stem}.json``
    names another scan, probably of another cohort. The scan is read only if `path` differs from the
    path in the record.
    """
    record = _record_of(folder, stem)
    if record is None or record.input.place == _place_of(path):
        return ""
    try:
        described = describe_input(path, mask_path, root)
    except DataError:  # reported when the scan is prepared
        return ""
    try:
        read_record(folder, stem, described, options)
    except DataError as error:
        return str(error)
    return ""


def read_record(
    folder: Path, stem: str, described: ScanInput, options: PrepareOptions
) -> PreparedScan | None:
    """Read ``{stem}.json`` on a prepared scan; None if images are incomplete or outdated.

    The file records from which input files, with which options and by which code the images of the
    scan were made. `described` has the digests of the scan's input files as they are now. Images
    are outdated if the recorded digests differ, or options or code have changed. Images prepared
    from a file with another path and another content, so probably of another cohort, are a
    `DataError`.
    """
    record = _record_of(folder, stem)
    if record is None:
        return None
    before = record.input
    if before.sha256 != described.sha256:
        if before.sha256[:1] != described.sha256[:1] and before.place != described.place:
            raise DataError(
                f"images/{stem}_brain.nii.gz was made of another file ('{before.path}'), from "
                "another place. Give another out; or remove the image, if it is no longer needed."
            )
        return None
    is_whole = record.files == _digests_of(folder, files_of_scan(stem, options))
    if record.facts is None or not is_whole or not record.is_made_by(recipe_of(options)):
        return None
    return record


def _digests_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return name of a file → SHA-256, for files `names` in `folder`; "" for an absent file."""
    digests = dict.fromkeys(names, "")
    for name in digests:
        path = folder / name
        if path.is_file():
            digests[name] = digest_of_file(path)
    return digests


def forget(folder: Path, stem: str) -> None:
    """Delete from `folder` the images of a scan and of its imitated acquisitions, records first.

    `stem` is the start of the names of the scan's files. Imitated acquisitions are randomly changed
    copies of the prepared brain, and the records are ``.json`` files of the scan and of each copy.
    """
    stems = stems_of(stem, MOST_IMITATIONS)
    for name in map("{}.json".format, stems):
        (folder / name).unlink(missing_ok=True)
    for name in chain.from_iterable(map(files_of_scan, stems)):
        (folder / name).unlink(missing_ok=True)


def write_record(
    folder: Path,
    stem: str,
    options: PrepareOptions,
    described: ScanInput,
    measures: ScanMeasures,
    files: Sequence[str],
) -> None:
    """Write ``{stem}.json`` on a scan's prepared images: input files, options, measures, digests.

    `described` are the input files, and `files` the names of the images in `folder`. With the
    `options` of preparation the versions of the code are written, by which outdated images are
    noticed.
    """
    recipe = recipe_of(options)
    record = PreparedScan(
        recipe=recipe.recipe,
        options=recipe.options,
        code=recipe.code,
        input=described,
        facts=measures,
        files=_digests_of(folder, files),
    )
    write_json(folder / f"{stem}.json", record.content())
