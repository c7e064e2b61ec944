"""Where in the brain a frozen encoder and the probe of an evaluation look."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd
from nibabel.affines import apply_affine

from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.encoders import load_encoder
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError, one_of, suggestion
from neurocontrast.explanation import ExplanationSettings, LinearScore, explain_scans
from neurocontrast.explanation.maps import SUBJECTS_A_LATTICE, find_peaks
from neurocontrast.files import atomic_folder, check_output_folder, write_json, write_table
from neurocontrast.machine import usable_accelerator
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment, subject_digest
from neurocontrast.seeds import derive_generator
from neurocontrast.stages.sources import BrainVolumes, brains_of_run
from neurocontrast.tables import read_table
from neurocontrast.transforms.grids import Grid

__all__ = ["explain"]

_MAP, _DESCRIPTION = "saliency.nii.gz", "explain.json"
_PEAKS_APART_MM = 20.0
_MNI_CODE, _ALIGNED_CODE = 4, 2


class _Readout(NamedTuple):
    """The probe's number that is explained: weights of the encoder's features, and its name."""

    weights: npt.NDArray[np.float64]
    intercept: float
    positive: str | None
    meaning: str


class _Chosen(NamedTuple):
    """What is explained: the probe's number, and the scans on one grid."""

    probe: FittedProbe
    readout: _Readout
    cohort: Cohort
    truths: list[str]
    grid: Grid
    notes: list[str]


def explain(
    evaluation: str | os.PathLike[str],
    *,
    run: str | os.PathLike[str],
    participants: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Map where in the brain the differences in the probe's score come from, and return the folder of the map.

    Parameters
    ----------
    evaluation : path
        Evaluation directory with a linear probe.
    run : path
        Run directory whose embeddings were evaluated, or the folder of its encoder.
    participants : path
        Table of the evaluated scans.
    out : path, optional
        Folder to write, with ``saliency.nii.gz`` (share of the differences in score between subjects),
        ``saliency.tsv`` and ``explain.json``; by default ``explanation`` in the evaluation, where `report` looks.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    config : Config, mapping or path of a YAML file, optional
        Section `explanation`; and section `data`, for the places of images and cache.
    overwrite : bool
        Whether an earlier explanation in `out` is replaced.
    progress : Progress
        Receives progress messages.
    """
    evaluation, run = Path(evaluation), Path(run)
    folder = evaluation / "explanation" if out is None else Path(out)
    check_output_folder(folder, overwrite=overwrite, marker=_DESCRIPTION, what="an explanation")
    settings = as_config({} if config is None else config)
    usable_accelerator(settings.explanation.accelerator, section="explanation")
    encoder, contract = load_encoder(run)
    source = brains_of_run(run, contract, settings.data, what="explain maps where in a brain an encoder looks")
    if not isinstance(source, BrainVolumes):
        raise ConfigError("explain maps scans, and this run was trained on regional measures.")
    probe = load_probe(evaluation)
    readout = _readout(probe, settings.explanation.positive)
    _check_encoder(probe, contract, run, progress)
    given = source.read_cohort(participants, images_root=images_root)
    cohort, truths = _choose(given, _read_evaluated(evaluation), probe, settings.explanation)
    source.make_ready(cohort, progress)
    grid, notes = _common_grid([source.grid(scan) for scan in cohort.scans], source.shape(cohort))
    for note in notes:
        progress.warning(note)
    share, scores = explain_scans(
        LinearScore(encoder, readout.weights, readout.intercept),
        source.images(cohort),
        range(len(cohort)),
        settings=settings.explanation,
        spacing_mm=grid.spacing_mm,
        progress=progress,
    )
    chosen = _Chosen(probe, readout, cohort, truths, grid, notes)
    _write(folder, chosen, share, scores, settings.explanation, contract)
    return folder


def _readout(probe: FittedProbe, positive: str | None) -> _Readout:
    """Return the linear function of features as they are: a log-odds, a margin, or the predicted number."""
    if probe.recentring is not None:
        raise ConfigError(
            "explanation: the probe was fitted on recentred features, which one scan alone does not have. Explain an "
            "evaluation with recentre=none."
        )
    if probe.blocks:
        raise ConfigError(
            f"explanation: the probe was fitted on joined features ({one_of(each.name for each in probe.blocks)}), and "
            "a map is of one encoder. Explain an evaluation of one of them."
        )
    weights = probe.coefficients / probe.scale[:, None]
    intercepts = probe.intercept - (probe.mean / probe.scale) @ probe.coefficients
    if probe.kind != "multiclass":
        own = probe.classes[1] if probe.kind == "binary" else None
        if positive not in (None, own):
            allowed = f"'{own}', which the evaluation had" if own else "left out: the target is a number"
            raise ConfigError(f"explanation.positive: must be {allowed}, got '{positive}'.")
        meaning = "predicted value" if own is None else "decision value (log-odds)"
        meaning = "decision value (margin of the SVM)" if probe.name == "svm" else meaning
        return _Readout(weights[:, 0], float(intercepts[0]), own, meaning)
    if positive not in probe.classes:
        found = "missing" if positive is None else f"there is no class '{positive}'"
        near = "" if positive is None else suggestion(positive, probe.classes)
        raise ConfigError(
            f"explanation.positive: {found}; of several classes one must be named (--positive).{near} "
            f"It can be: {one_of(probe.classes)}."
        )
    # The class itself, less the mean of the others.
    contrast = np.full(len(probe.classes), -1 / (len(probe.classes) - 1))
    contrast[probe.classes.index(positive)] = 1
    meaning = "decision value of the class, less the mean of the others'"
    return _Readout(weights @ contrast, float(intercepts @ contrast), positive, meaning)


def _check_encoder(probe: FittedProbe, contract: Mapping[str, Any], run: Path, progress: Progress) -> None:
    found, (expected, *beside) = contract["weights"]["sha256"], (probe.encoder or "").split(", ")
    if "head" in beside:
        raise DataError(
            f"{run}: the probe was fitted on embeddings after the projection head (embedding.layer: head), and a map "
            "is that of the encoder's features. Embed with embedding.layer: encoder, and evaluate that table."
        )
    if contract["n_features"] != probe.n_features or (expected and expected != found):
        known = f"'{expected[:12]}…'" if expected else "one that is not recorded"
        raise DataError(
            f"{run}: the probe was fitted on {probe.n_features} features of the encoder {known}, and this is the "
            f"encoder '{found[:12]}…' with {contract['n_features']}. Give the run whose embeddings were evaluated."
        )
    if not expected:
        progress.warning(f"{run}: the evaluation does not say which encoder made its embeddings; this one is taken.")
    if beside:
        progress.warning(f"the embeddings were made in {beside[0]}; the map is computed in float32.")


def _read_evaluated(evaluation: Path) -> pd.DataFrame:
    """Return who was evaluated, and the truth: one row a scan."""
    path, needed = evaluation / "predictions.tsv", ["participant_id", "subject_id", "session", "y_true"]
    remedy = "Copy the evaluation again."
    table = read_table(path, needed=needed, error=CheckpointError, remedy=remedy, dtype=str)[needed]
    return table.drop_duplicates(["participant_id", "session"]).reset_index(drop=True)


def _choose(
    cohort: Cohort, evaluated: pd.DataFrame, probe: FittedProbe, settings: ExplanationSettings
) -> tuple[Cohort, list[str]]:
    """Return scans to explain, one a subject, classes balanced, and their truths; the seed alone decides which."""
    names = zip(cohort.table["participant_id"], cohort.table["session"], strict=True)
    row_of = {(str(participant), str(session)): row for row, (participant, session) in enumerate(names)}
    keys = list(zip(evaluated["participant_id"], evaluated["session"], strict=True))
    lacking = [" session ".join(filter(None, key)) for key in keys if key not in row_of]
    if lacking:
        more = f" and {len(lacking) - 10} more" if len(lacking) > 10 else ""
        raise DataError(
            f"{cohort.source.name}: {len(lacking)} of {len(keys)} evaluated scans are not in it: "
            f"{', '.join(lacking[:10])}{more}. Give the table that was embedded."
        )
    first = ~evaluated["subject_id"].duplicated().to_numpy()
    candidates, truths = np.flatnonzero(first), evaluated["y_true"].to_numpy(dtype=object)
    shuffled = candidates[derive_generator("explained-subjects", settings.seed).permutation(len(candidates))]
    if probe.kind == "continuous":
        ordered = shuffled[np.argsort([float(truths[row]) for row in shuffled], kind="stable")]
        n_wanted = min(settings.n_subjects, len(ordered))
        even = ordered[np.linspace(0, len(ordered) - 1, n_wanted).round().astype(int)].tolist()
        n_groups = max(1, n_wanted // SUBJECTS_A_LATTICE)
        picked = [row for first in range(n_groups) for row in even[first::n_groups]]  # neighbours differ
    else:
        of_class = [[row for row in shuffled.tolist() if truths[row] == name] for name in probe.classes]
        turns = [row for turn in zip_longest(*of_class) for row in turn if row is not None]
        n_each = min(map(len, of_class))
        picked = turns[: min(settings.n_subjects, n_each * len(of_class)) or settings.n_subjects]
    return cohort.subset([row_of[keys[row]] for row in picked]), [str(truths[row]) for row in picked]


def _common_grid(grids: list[Grid], shape: Sequence[int]) -> tuple[Grid, list[str]]:
    """Return the grid of the average, and warnings about scans that lie elsewhere."""
    corners = np.array([[*corner, 1] for corner in np.ndindex(2, 2, 2)]) * [*np.array(shape) - 1, 1]
    places = np.array([(corners @ grid.affine.T)[:, :3] for grid in grids])
    apart = float(np.linalg.norm(places - places[0], axis=-1).max())
    is_mni = all(grid.is_mni for grid in grids)
    notes = []
    if apart > max(grids[0].spacing_mm):
        notes.append(
            f"the scans do not lie in one space: their voxels are up to {apart:.0f} mm apart by their headers. The map "
            "averages voxel by voxel all the same, and places in it are rough; register the scans to MNI152 first."
        )
    if not is_mni:
        notes.append(
            "the headers do not say that the scans are in the space of MNI152 (sform code 4), so the coordinates of "
            "the map may not be those of the template."
        )
    return Grid(grids[0].affine, grids[0].spacing_mm, is_mni and apart <= max(grids[0].spacing_mm)), notes


def _write(
    folder: Path,
    chosen: _Chosen,
    share: npt.NDArray[np.float32],
    scores: list[float],
    settings: ExplanationSettings,
    contract: Mapping[str, Any],
) -> None:
    """Write the map, one row a subject, and where these came from."""
    grid, subjects = chosen.grid, chosen.cohort.table["subject_id"]
    names = [subject_digest(str(subject))[:12] for subject in subjects]
    with atomic_folder(folder) as new:
        # A header of its own: those of scans can name people.
        image, code = nib.Nifti1Image(share, grid.affine), _MNI_CODE if grid.is_mni else _ALIGNED_CODE
        image.set_sform(grid.affine, code=code)
        image.set_qform(grid.affine, code=code)
        image.header.set_xyzt_units("mm")
        nib.save(image, new / _MAP)
        write_table(new / "saliency.tsv", pd.DataFrame({"subject": names, "y_true": chosen.truths, "score": scores}))
        write_json(new / _DESCRIPTION, _describe(chosen, settings, share, contract))


def _describe(
    chosen: _Chosen, settings: ExplanationSettings, share: npt.NDArray[np.float32], contract: Mapping[str, Any]
) -> dict[str, Any]:
    probe, grid, truths = chosen.probe, chosen.grid, chosen.truths
    apart = [round(_PEAKS_APART_MM / step) for step in grid.spacing_mm]
    return {
        "format": 1,
        "method": "occlusion",
        "n_subjects": len(truths),
        "n_of_class": {name: truths.count(name) for name in probe.classes} if probe.classes else None,
        "target": probe.target,
        "positive": chosen.readout.positive,
        "score": chosen.readout.meaning,
        "probe": {"name": probe.name, "strength": probe.strength, "n_scans": probe.n_scans},
        **settings.model_dump(include={"patch_mm", "fill", "smooth_mm", "seed"}),
        "spacing_mm": grid.spacing_mm[0] if len(set(grid.spacing_mm)) == 1 else list(grid.spacing_mm),
        "shape": list(share.shape),
        "affine": grid.affine.tolist(),
        "template": "MNI152" if grid.is_mni else None,
        "map": _MAP,
        "quantity": "share of the differences in score between subjects",
        "top_regions": [
            {**_place(grid, place), "value": float(share[place])} for place in find_peaks(share, distance=apart)
        ],
        "simulated": chosen.cohort.simulated or bool(contract.get("simulated")),
        "encoder": contract["weights"]["sha256"],
        "warnings": chosen.notes,
        "environment": describe_environment(),
    }


def _place(grid: Grid, voxel: Any) -> dict[str, float]:
    return {axis: round(float(at), 1) for axis, at in zip("xyz", apply_affine(grid.affine, voxel), strict=True)}
