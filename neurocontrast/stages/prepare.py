"""Prepare heads as they were acquired: brains and tissue maps in MNI space."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pandas as pd

from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.parallel import map_files
from neurocontrast.exceptions import ConfigError, DataError, MissingDependencyError, one_of, suggestion
from neurocontrast.files import check_writable, write_json, write_table
from neurocontrast.lazy import is_installed
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

if TYPE_CHECKING:
    from neurocontrast.prepare.scan import PrepareOptions

__all__ = ["Extraction", "Protocol", "prepare"]

Protocol = Literal["standard", "quasiraw"]
Extraction = Literal["auto", "deepbet", "template"]

RECORD_NAME = "prepare.json"
SPACINGS_MM = (0.5, 8.0)


def prepare(
    participants: str | Path,
    out: str | os.PathLike[str],
    *,
    images_root: str | Path | None = None,
    protocol: Protocol = "standard",
    extraction: Extraction = "auto",
    spacing_mm: float | None = None,
    bias: bool = True,
    tissue: bool = True,
    skip: bool = False,
    n_workers: int = 2,
    progress: Progress = SILENT,
) -> Path:
    """Extract brains, correct their bias field, register them to MNI152, make tissue maps; return the new table's path.

    A scan that was prepared before with the same options is not prepared again, so an interrupted call is continued by
    the same call. Volumes with more than half of their voxels 0 are taken to be stripped already. FreeSurfer's
    ``talairach.xfm`` beside an ``.mgz`` image takes the place of the registration.

    Parameters
    ----------
    participants : path
        Table of scans; a column ``mask_path`` gives brain masks on the grid of the images.
    out : path
        Folder of the results: ``images/``; ``participants.tsv`` with the new paths and the columns ``gm``, ``wm``,
        ``csf``; ``quality.tsv`` with one row a scan; and ``prepare.json``.
    images_root : path, optional
        Folder that relative paths start from; by default the table's.
    protocol : {"standard", "quasiraw"}
        ``quasiraw`` is OpenBHB's: nine degrees of freedom, cubic splines, a grid of 182 × 218 × 182 voxels of 1 mm.
    extraction : {"auto", "deepbet", "template"}
        How brains are found in heads: by deepbet's networks, or by registration to a template of a head, which needs
        no further package and is less exact. ``auto`` is deepbet where it is installed.
    spacing_mm : float, optional
        Voxel size of the results, 0.5 to 8 mm; by default 1.5, or the 1 of ``quasiraw``.
    bias : bool, default=True
        Whether the bias field is corrected by N4.
    tissue : bool, default=True
        Whether maps of grey matter, white matter and fluid are made.
    skip : bool, default=False
        Whether scans that cannot be prepared are left out of the table, instead of being an error.
    n_workers : int, default=2
        Processes; the images do not depend on it.
    progress : Progress
        Receives progress messages.
    """
    options = _options(protocol, extraction, spacing_mm, bias=bias, tissue=tissue)
    cohort = read_cohort(participants, images_root=images_root)
    target = Path(out).absolute()
    check_writable(target / RECORD_NAME)
    folder = target / "images"
    folder.mkdir(parents=True, exist_ok=True)
    masks = _masks(cohort)
    stems = [name.replace(" session ", "_ses-").replace("/", "-").replace(" ", "-") for name in cohort.names()]
    paths = [str(path) for path in cohort.table["path"]]
    work = [(row, paths[row], masks[row], stems[row], str(folder), options) for row in range(len(cohort))]
    facts: list[dict[str, Any]] = [{}] * len(cohort)
    with progress.task("Preparing scans", total=len(work), unit="scan") as task:
        for row, prepared in map_files(_numbered, work, n_workers=n_workers, option="--n-workers", n_per_worker=1):
            facts[row] = prepared.facts
            task.advance(1)
    _refuse_or_tell(cohort, facts, skip, progress)
    made = ("brain", "gm", "wm", "csf") if tissue else ("brain",)
    done = [row for row, each in enumerate(facts) if "problem" not in each]
    table = cohort.table.iloc[done].drop(columns=["mask_path"], errors="ignore").copy()
    for name in made:
        table["path" if name == "brain" else name] = [f"images/{stems[row]}_{name}.nii.gz" for row in done]
    table["space"], table["stage"] = "MNI152", "stripped"
    keys = cohort.table[["participant_id", "session"]]
    quality = pd.DataFrame([{**keys.loc[row], **facts[row]} for row in done]).replace("", "n/a")
    write_table(target / "quality.tsv", quality.fillna("n/a"))
    write_json(target / RECORD_NAME, {"options": vars(options), "n": len(done), "environment": describe_environment()})
    write_table(target / "participants.tsv", table.astype(object).where(table.notna() & (table != ""), "n/a"))
    return target / "participants.tsv"


def _options(protocol: str, extraction: str, spacing_mm: float | None, *, bias: bool, tissue: bool) -> PrepareOptions:
    """Return what is done to each scan; wrong or missing parts are an error."""
    for name, found, allowed in (
        ("protocol", protocol, get_args(Protocol)),
        ("extraction", extraction, get_args(Extraction)),
    ):
        if found not in allowed:
            raise ConfigError(f"{name}: found '{found}'.{suggestion(found, allowed)} Allowed: {one_of(allowed)}.")
    quasiraw, (low, high) = protocol == "quasiraw", SPACINGS_MM
    spacing = (1.0 if quasiraw else 1.5) if spacing_mm is None else spacing_mm
    if not low <= spacing <= high:
        raise ConfigError(f"spacing_mm must be between {low:g} and {high:g}, got {spacing!r}.")
    if quasiraw and (spacing != 1 or not bias):
        what = "spacing_mm" if spacing != 1 else "bias"
        raise ConfigError(
            f"{what}: the protocol 'quasiraw' has voxels of 1 mm and a corrected bias field. Leave it out."
        )
    try:
        from neurocontrast.prepare.scan import PrepareOptions
    except ImportError as error:
        raise MissingDependencyError("prepare needs SimpleITK: pip install 'neurocontrast[prepare]'.") from error
    if extraction == "auto":
        extraction = "deepbet" if is_installed("deepbet") else "template"
    return PrepareOptions(spacing, bias, tissue, extraction, quasiraw)


def _numbered(row: int, *given: Any) -> tuple[int, Any]:
    from neurocontrast.prepare.scan import prepare_scan

    return row, prepare_scan(*given)


def _masks(cohort: Cohort) -> list[str]:
    if "mask_path" not in cohort.table:
        return [""] * len(cohort)
    given = cohort.table["mask_path"].fillna("").astype(str)
    return [os.path.join(cohort.root, path) if path else "" for path in given]  # noqa: PTH118  may be absolute


def _refuse_or_tell(cohort: Cohort, facts: Sequence[dict[str, Any]], skip: bool, progress: Progress) -> None:
    names = cohort.names()
    bad = [f"{names[row]}: {each['problem']}" for row, each in enumerate(facts) if "problem" in each]
    if not bad:
        return
    text = f"{len(bad)} of {len(facts)} scans could not be prepared:\n  " + "\n  ".join(bad[:20])
    if not skip or len(bad) == len(facts):
        raise DataError(f"{cohort.source.name}: {text}\nThe others are kept. --skip leaves these out.")
    progress.warning(text)
