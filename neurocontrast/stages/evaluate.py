"""Evaluate an embeddings table, beside a baseline of the scans' own voxels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml
from sklearn.base import BaseEstimator

from neurocontrast.data.cohort import columns_of, read_cohort
from neurocontrast.data.parallel import map_files
from neurocontrast.data.problems import shown
from neurocontrast.embedding.table import Embeddings, read_embeddings
from neurocontrast.evaluation import (
    EvaluationSettings,
    External,
    Study,
    StudyResult,
    plan_external,
    plan_study,
    read_split_file,
    run_study,
    save_probe,
)
from neurocontrast.evaluation.designs import Voxels, voxel_products
from neurocontrast.evaluation.estimators import import_estimator
from neurocontrast.evaluation.probes import probe_names
from neurocontrast.evaluation.rows import encoder_digest, row_names
from neurocontrast.evaluation.schema import FILE, EmbeddingsOrigin, Notice
from neurocontrast.evaluation.stored_probe import FOLDER as PROBE_FOLDER
from neurocontrast.exceptions import DataError
from neurocontrast.files import (
    atomic_folder,
    check_output_folder,
    digest_of_file,
    files_of,
    write_json,
    write_table,
    write_text,
)
from neurocontrast.lazy import load
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.settings import settings_from

__all__ = ["evaluate"]

SPACING_MM = 4
"""Voxel size of the grid on which scans are compared."""
BOX_MM = (192.0, 228.0, 192.0)
"""Around the centre of scans that are not in MNI space; every usual template fits."""
MAX_BYTES = 4 * 1024**3
"""With more than this in memory, voxels (float32) and products of scans (float64), there is no such baseline."""
_MNI = 4
"""The code by which a NIfTI header says that its coordinates are those of the MNI152 template."""


def evaluate(
    embeddings: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    target: str | None = None,
    settings: EvaluationSettings | None = None,
    estimator: BaseEstimator | None = None,
    cv: Any = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
    **options: Any,
) -> Path:
    """Predict a column from frozen embeddings by cross-validation, and return the folder of the evaluation.

    Parameters
    ----------
    embeddings : path
        Table written by `embed`.
    out : path
        Folder to write: ``evaluation.json``, ``predictions.tsv``, ``folds.tsv``, ``sites.tsv`` and more.
    target : str, optional
        Column to predict; that of the settings (``diagnosis``) by default.
    settings : EvaluationSettings, optional
        All choices together; `target` and `options` go before them.
    estimator : estimator, optional
        Any scikit-learn classifier, regressor or pipeline, to be fitted instead of the built-in one; an instance, a
        class, or a function of no argument. ``probe="package.module:Object"`` imports one.
    cv : splitter, or iterable of index pairs, optional
        Splitter in place of ``splits``; called as scikit-learn calls it, with subjects as `groups`.
    overwrite : bool, default=False
        Whether an evaluation already at `out` is replaced.
    progress : Progress
        Receives progress messages.
    **options
        Fields of `EvaluationSettings`: ``splits``, ``n_folds``, ``where`` and so on.
    """
    given = options if target is None else {**options, "target": target}
    given = given if settings is None else {**settings.model_dump(), **given}
    chosen = settings_from(EvaluationSettings, given, source="evaluation")
    folder = Path(out)
    check_output_folder(folder, overwrite=overwrite, marker=FILE, what="an evaluation")
    read = read_embeddings(embeddings)
    if estimator is None and chosen.probe not in ("auto", *probe_names()):
        estimator = import_estimator(chosen.probe)
    study, external = _plan(read, chosen, estimator, cv)
    progress.message(_plan_line(study))
    study = _with_voxels(study, read.info, progress)
    for notice in [*study.notices, *(external.notices if external else ())]:
        progress.warning(notice.message)
    result = run_study(study, external=external, encoder=encoder_digest(read.info), progress=progress)
    _write(folder, result, chosen, Path(embeddings), read.info)
    return folder


def _plan(
    read: Embeddings, settings: EvaluationSettings, estimator: BaseEstimator | None, cv: Any
) -> tuple[Study, External | None]:
    rows = None if settings.split_file is None else read_split_file(settings.split_file)
    study = plan_study(
        read.table, read.features, settings=settings, info=read.info, split_rows=rows, estimator=estimator, cv=cv
    )
    if settings.test is None:
        return study, None
    other = read_embeddings(settings.test)
    return study, plan_external(study, other.table, other.features, info=other.info, training_info=read.info)


def _plan_line(study: Study) -> str:
    """Return who is evaluated, and in which folds."""
    n, n_subjects = len(study.table), study.table["subject_id"].nunique()
    how = f"parts as column '{study.settings.split_column}' says"
    if not study.fixed:
        n_folds, n_repeats = (1 + max(getattr(each, name) for each in study.splits) for name in ("fold", "repeat"))
        how = f"{n_folds} {'folds' if study.splits[0].held_out_site is None else 'sites held out'}"
        how += f", {n_repeats} times" if n_repeats > 1 else ""
    return f"{study.target.name}: {n} scans of {n_subjects} subjects, {how}, {study.probe} probe"


def _write(folder: Path, result: StudyResult, settings: EvaluationSettings, source: Path, info: dict[str, Any]) -> None:
    with atomic_folder(folder) as new:
        for name, table in result.tables.items():
            write_table(new / f"{name}.tsv", table)
        if info.get("training_metrics"):
            write_table(new / "training.tsv", pd.DataFrame(info["training_metrics"]))
        if result.probe is not None:
            save_probe(new / PROBE_FOLDER, result.probe)
        choices = settings.model_dump(mode="json")
        for key in ("split_file", "test", "scans"):
            if choices[key] is not None:
                choices[key] = Path(choices[key]).name  # results travel, and folders can name people
        resolved = {"embeddings": source.name, "evaluation": choices}
        write_text(new / "config.yaml", yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True))
        found = result.evaluation
        added = _origin(source, info)
        added["software"] = ["scikit-learn", *(["nilearn"] if found.voxels else [])]
        if settings.test is not None and found.external is not None:
            test = Path(settings.test)
            added["external"] = found.external.model_copy(update={"file": test.name, "digest": digest_of_file(test)})
        write_json(new / FILE, found.model_copy(update=added).content())


def _origin(source: Path, info: dict[str, Any]) -> dict[str, Any]:
    return {
        "simulated": bool(info.get("simulated", False)),
        "simulation": info.get("simulation"),
        "run": info.get("run"),
        "objective": info.get("objective"),
        "environment": describe_environment(),
        "embeddings": EmbeddingsOrigin(
            file=source.name,
            digest=digest_of_file(source),
            cohort_source=info.get("cohort_source"),
            cohort_digest=info.get("cohort_digest"),
            environment=info.get("environment"),
            # Said only where it is not the encoder itself, as it always was.
            **({"layer": info["layer"]} if info.get("layer", "encoder") != "encoder" else {}),
        ),
    }


def _with_voxels(study: Study, info: Mapping[str, Any], progress: Progress) -> Study:
    """Return the study with the voxels of its scans, where these are at hand and not switched off.

    Scans that are asked for (``voxels=on``, or `scans`) and cannot be read are a `DataError`, else a warning.
    """
    settings = study.settings
    asked = settings.voxels in ("on", "input") or settings.scans is not None
    preprocessing = (info.get("run") or {}).get("preprocessing") or {}
    trained_on = preprocessing.get("kind", "volumes")
    if settings.voxels == "off" or (not asked and (study.fixed or trained_on == "images")):
        return study
    try:
        if study.fixed or trained_on == "images":
            raise DataError("voxels: this baseline is for scans of brains in cross-validation. Leave voxels out.")
        scans = _find_scans(study, columns_of((info.get("run") or {}).get("channels")), asked=asked)
        if not scans:
            return study
        if settings.voxels == "input":
            return replace(study, voxels=_read_input(scans, study, info.get("run") or {}, progress))
        return replace(study, voxels=_read(scans, study, _how(scans, preprocessing), progress))
    except DataError as error:
        if asked:
            raise
        explanation = "Whether a linear model of the scans themselves does as well was not asked."
        notice = Notice("voxels_left_out", f"There is no baseline of voxels. {error}", explanation)
        return replace(study, notices=[*study.notices, notice])


def _read_input(scans: list[tuple[str, ...]], study: Study, run: Mapping[str, Any], progress: Progress) -> Voxels:
    if "preprocessing" not in run:
        raise DataError("voxels=input: the embeddings do not say how their run preprocessed its scans. Use voxels=on.")
    # By its path: what preprocesses scans needs torch, and every other evaluation does without.
    read = load("neurocontrast.stages.encoder_input:read_encoder_input")
    values, about = read(scans, run, max_bytes=MAX_BYTES, n_workers=study.settings.n_jobs, progress=progress)
    return Voxels(voxel_products(values), about)


class _How(NamedTuple):
    """How scans are read: the mask, and what follows from the preprocessing of the encoder."""

    in_mni: bool
    spacing_mm: tuple[float, ...] | None  # of .npy arrays, which the run took as they are
    smooth_mm: float | None
    standardised: bool  # maps of tissue, which the run takes as they are, are so here

    def masker(self) -> Any:
        return _masker(self.in_mni, self.smooth_mm)


def _how(scans: list[tuple[str, ...]], preprocessing: Mapping[str, Any]) -> _How:
    in_mni = all(_read_header(path) == _MNI for files in scans for path in files)
    spacing = preprocessing.get("spacing_mm")
    spacing = None if spacing is None else tuple(np.broadcast_to(np.asarray(spacing, dtype=float), 3).tolist())
    return _How(in_mni, spacing, preprocessing.get("smooth_mm"), preprocessing.get("normalise") != "none")


def _find_scans(study: Study, channels: tuple[str, ...], *, asked: bool) -> list[tuple[str, ...]]:
    """Return the files of each scan; an empty list where the table's scans are absent and were not asked for."""
    table = study.table
    if study.settings.scans is not None:
        listed = read_cohort(study.settings.scans, channels=channels)
        keys = zip(listed.table["participant_id"], listed.table["session"], strict=True)
        files_by_key = dict(zip(keys, map(files_of, listed.scans), strict=True))
        scans = [files_by_key.get(key, ()) for key in zip(table["participant_id"], table["session"], strict=True)]
        where, remedy = f"in scans '{Path(study.settings.scans).name}'", "Add them, or leave them out with where."
    else:
        # A relative path would be taken from wherever the command happens to run.
        columns = [table[column] if column in table else [""] * len(table) for column in channels]
        scans = [files if all(map(_is_there, files)) else () for files in zip(*columns, strict=True)]
        where, remedy = "where the embeddings table says", "Name a table of the same scans (--scans)."
        if not any(scans) and not asked:
            return []
    absent = [row for row, files in enumerate(scans) if not files]
    if absent:
        raise DataError(
            f"voxels: {len(absent)} of {len(scans)} scans are not {where} ({', '.join(row_names(table, absent[:5]))}). "
            + remedy
        )
    return scans


def _is_there(path: Any) -> bool:
    return isinstance(path, str) and Path(path).is_absolute() and Path(path).is_file()


def _read(scans: list[tuple[str, ...]], study: Study, how: _How, progress: Progress) -> Voxels:
    n_voxels = len(scans[0]) * int(np.asarray(how.masker().mask_img_.dataobj).astype(bool).sum())
    n_bytes = 4 * n_voxels * len(scans) + 8 * len(scans) ** 2
    if n_bytes > MAX_BYTES:
        raise DataError(
            f"voxels: {len(scans)} scans of {n_voxels} voxels at {SPACING_MM:g} mm take {n_bytes / 1024**3:.1f} GiB of "
            f"memory, more than {MAX_BYTES / 1024**3:g}. Evaluate fewer scans (where), or set voxels=off."
        )
    values = np.empty((len(scans), n_voxels), dtype=np.float32)
    problems: dict[int, str] = {}
    tasks = [(row, files, how) for row, files in enumerate(scans)]
    with progress.task("Reading voxels", len(scans), "scans") as task:
        for row, found in map_files(_read_row, tasks, n_workers=study.settings.n_jobs, option="evaluation.n_jobs"):
            if isinstance(found, str):
                problems[row] = found
            else:
                values[row] = found
            task.advance()
    if problems:
        names = row_names(study.table, sorted(problems))
        listed = [f"{name}: {problems[row]}" for name, row in zip(names, sorted(problems), strict=True)]
        more = f"\n  … and {len(listed) - 20} more" if len(listed) > 20 else ""
        raise DataError(f"voxels: {len(listed)} scans cannot be used:\n  " + "\n  ".join(listed[:20]) + more)
    about = {
        "spacing_mm": SPACING_MM,
        "mask": "MNI152 brain" if how.in_mni else "box of {:g} × {:g} × {:g} mm around the centre".format(*BOX_MM),
        "n_voxels": n_voxels,
        "smooth_mm": how.smooth_mm,
        "standardised": "each scan over its voxels" if how.standardised else None,
    }
    return Voxels(voxel_products(values), about)


def _read_header(path: str) -> int:
    """Return the code of a scan's space, 0 for an array; an unreadable scan is reported when its voxels are read."""
    if path.lower().endswith(".npy"):
        return 0
    try:
        header = nib.load(path).header
        return int(header["sform_code"] or header["qform_code"])
    except Exception:  # nibabel meets damaged bytes with almost any exception
        return _MNI


def _read_row(row: int, files: tuple[str, ...], how: _How) -> tuple[int, npt.NDArray[np.float32] | str]:
    """Return a scan's voxels in the mask, channel by channel; or why there are none, without naming folders."""
    channels = []
    for path in files:
        try:
            values = _voxels_of(path, how)
        except DataError as error:
            return row, str(error)
        except Exception as error:
            return row, f"not readable ({shown(str(error).replace(str(Path(path).parent), ''), 120)})"
        spread = float(values.std())
        if not np.isfinite(spread) or spread == 0:
            return row, "the voxels on the grid are all alike, or not all finite"
        channels.append((values - values.mean()) / spread if how.standardised else values)
    return row, np.concatenate(channels)


def _voxels_of(path: str, how: _How) -> npt.NDArray[np.float32]:
    from nilearn.image import resample_img

    data, affine = _load(path, how.spacing_mm)
    if not how.in_mni:
        affine[:3, 3] = -affine[:3, :3] @ ((np.array(data.shape) - 1) / 2)  # as the encoder's own preprocessing centres
    coarse, affine = _averaged(data, affine)
    masker = how.masker()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a scan is resampled is what is wanted
        grid = resample_img(
            nib.Nifti1Image(coarse, affine),
            target_affine=masker.mask_img_.affine,
            target_shape=masker.mask_img_.shape,
            interpolation="linear",
            copy_header=True,
            force_resample=True,
        )
        return np.asarray(masker.transform(grid), dtype=np.float32).ravel()


def _load(path: str, spacing: tuple[float, ...] | None) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    if path.lower().endswith(".npy"):
        if spacing is None:
            raise DataError("an array has no voxel size, and the embeddings do not say that of their run")
        data, affine = np.load(path, allow_pickle=False), np.diag([*spacing, 1.0])
    else:
        image = nib.load(path)
        data, affine = np.asarray(image.dataobj), np.array(image.affine, dtype=float)
    volume = np.squeeze(data)
    if volume.ndim != 3:
        raise DataError(f"the image is {volume.ndim}D; give one 3D volume")
    return volume.astype(np.float32), affine


def _averaged(
    data: npt.NDArray[np.float32], affine: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Return means over blocks of voxels that fit into one voxel of the grid, against aliasing."""
    factors = np.maximum(1, np.floor(SPACING_MM / nib.affines.voxel_sizes(affine) + 1e-6).astype(int))
    if (factors == 1).all():
        return data, affine
    sizes = [length // factor for length, factor in zip(data.shape, factors, strict=True)]
    kept = data[tuple(slice(size * factor) for size, factor in zip(sizes, factors, strict=True))]
    blocks = kept.reshape(sizes[0], factors[0], sizes[1], factors[1], sizes[2], factors[2])
    scaled = affine @ np.diag([*factors.astype(float), 1.0])
    scaled[:3, 3] = nib.affines.apply_affine(affine, (factors - 1) / 2)
    return blocks.mean(axis=(1, 3, 5)), scaled


@cache
def _masker(in_mni: bool, smooth_mm: float | None) -> Any:
    """Return nilearn's masker of the template's brain, or of a whole box; neither depends on the scans."""
    from nilearn.datasets import load_mni152_brain_mask
    from nilearn.maskers import NiftiMasker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if in_mni:
            mask = load_mni152_brain_mask(resolution=SPACING_MM)
        else:
            shape = np.array(BOX_MM) / SPACING_MM
            affine = np.diag([SPACING_MM] * 3 + [1.0])
            affine[:3, 3] = -SPACING_MM * (shape - 1) / 2
            mask = nib.Nifti1Image(np.ones(shape.astype(int), dtype=np.uint8), affine)
        return NiftiMasker(mask_img=mask, smoothing_fwhm=smooth_mm, standardize=None, dtype="float32").fit()
