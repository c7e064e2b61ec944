"""Where in the brain a frozen encoder and the probe of an evaluation look."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd
from nibabel.affines import apply_affine

from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.listing import read_table
from neurocontrast.data.sources import Brains, BrainVolumes, RegionalMeasures, brains_of_run
from neurocontrast.display import as_progress
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.evaluation import FittedProbe, load_probe, read_evaluation
from neurocontrast.evaluation.designs import is_joined
from neurocontrast.evaluation.record import EmbeddingsOrigin
from neurocontrast.evaluation.rows import site_names
from neurocontrast.evaluation.uncertainty import choose_units, resample_counts
from neurocontrast.exceptions import (
    CheckpointError,
    ConfigError,
    DataError,
    NeurocontrastError,
    one_of,
    suggestion,
)
from neurocontrast.explanation import ExplanationSettings, LinearScore, explain_scans
from neurocontrast.explanation.maps import (
    SUBJECTS_A_LATTICE,
    Map,
    explain_measures,
    find_peaks,
    name_of_place,
)
from neurocontrast.explanation.surface import draw_regions, find_annotations
from neurocontrast.files import (
    atomic_folder,
    check_output_folder,
    digest_of_file,
    files_near,
    write_json,
    write_table,
)
from neurocontrast.findings.brain import inside_brain
from neurocontrast.parallel.devices import usable_accelerator
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment, subject_digest
from neurocontrast.reading import read_json
from neurocontrast.seeds import derive_generator
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.transforms.grids import Grid

_MAP = "saliency.nii.gz"
_RANKING = "regions.tsv"
_SURFACE = "surface.png"
_DESCRIPTION = "explain.json"
_N_RESAMPLES = 1000
_N_TOP = 10
_PEAKS_APART_MM = 20.0
_EVALUATED = ["participant_id", "subject_id", "session", "y_true"]


_Explained: TypeAlias = tuple[list[float], dict[str, Any], Callable[[Path], None]]
"""The scores of the subjects, what ``explain.json`` says of the method, and what writes the map into a folder."""


@in_default_torch_state
def explain(
    evaluation: str | os.PathLike[str],
    *,
    run: str | os.PathLike[str] | None = None,
    participants: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    atlas: str | os.PathLike[str] | None = None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Path:
    """Map where in the brain the differences in the probe's score come from, and return the folder of the map.

    For a run of regional measures, rank the measures by their share of the differences, with 95 %
    intervals.

    Parameters
    ----------
    evaluation : path
        Evaluation directory with a linear probe.
    run : path, optional
        Run directory whose embeddings were evaluated, or the folder of its encoder; by default the
        one with the recorded digest in the folders around the evaluation or in the working
        directory.
    participants : path, optional
        Table of the evaluated scans; by default the one of the recorded name and content in the
        same folders.
    out : path, optional
        Folder to write, with ``saliency.nii.gz`` (share of the differences in score between
        subjects), or ``regions.tsv`` of measures, ``saliency.tsv`` and ``explain.json``; by default
        ``explanation`` in the evaluation, where `report` looks. Of an encoder with components
        beside its network each block has a map, ``saliency_network.nii.gz`` and
        ``saliency_components.nii.gz``, or a column.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    atlas : path, optional
        For measures of cortical regions: folder with the parcellation of fsaverage5,
        ``lh.aparc.annot`` and ``rh.aparc.annot`` (or those of the measures' atlas), on which
        ``surface.png`` is drawn; by default those of FreeSurfer in ``$FREESURFER_HOME``. Without
        them there is no picture.
    config : Config, mapping or path of a YAML file, optional
        Section `explanation`; and section `data`, for the places of images and cache.
    overwrite : bool
        Whether an earlier explanation in `out` is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
    """
    progress = as_progress(progress)
    evaluation = Path(evaluation)
    folder = evaluation / "explanation" if out is None else Path(out)
    check_output_folder(folder, overwrite=overwrite, marker=_DESCRIPTION, what="an explanation")
    whole = as_config({} if config is None else config)
    settings = whole.explanation
    usable_accelerator(settings.accelerator, section="explanation")
    probe = load_probe(evaluation)
    weights, intercept, meaning = _readout(probe, settings.positive)
    run = _find_run(evaluation, probe) if run is None else Path(run)
    encoder, contract = load_encoder(run)
    source = brains_of_run(
        run, contract, whole.data, what="explain maps where in a brain an encoder looks"
    )
    if atlas is not None and not isinstance(source, RegionalMeasures):
        raise ConfigError(
            "atlas: is of regional measures, and this run was trained on scans. Leave it out."
        )
    _check_encoder(probe, contract, run, progress)
    path = evaluation / "predictions.tsv"
    remedy = "Copy the evaluation again."
    evaluated = read_table(
        path, needed=_EVALUATED, error=CheckpointError, remedy=remedy, dtype=str
    )[_EVALUATED]
    evaluated = evaluated.drop_duplicates(["participant_id", "session"]).reset_index(drop=True)
    if participants is None:
        given = _find_cohort(evaluation, evaluated, source, images_root)
    else:
        given = source.read_cohort(participants, images_root=images_root)
    if isinstance(source, RegionalMeasures):
        settings = _for_measures(settings, len(evaluated))
    cohort, truths = _choose(given, evaluated, probe, settings)
    source.make_ready(cohort, progress)
    score = LinearScore(encoder, weights, intercept)
    if isinstance(source, RegionalMeasures):
        explained = _explain_measures(
            score, source, cohort, probe.target, settings, atlas, progress
        )
    else:
        explained = _explain_scans(score, source, cohort, settings, progress)
    meaning |= {"simulated": cohort.simulated or bool(contract.get("simulated"))}
    _write(
        folder,
        probe,
        meaning | {"encoder": contract["weights"]["sha256"]},
        cohort,
        truths,
        explained,
    )
    return folder


def _find_run(evaluation: Path, probe: FittedProbe) -> Path:
    """Return the run near an evaluation whose encoder made its embeddings."""
    digest = (probe.encoder or "").partition(",")[0]
    for path in files_near(evaluation, "encoder.json"):
        if digest and (read_json(path).get("weights") or {}).get("sha256") == digest:
            return path.parent
    what = (
        f"the encoder '{digest[:12]}…'"
        if digest
        else "an encoder that the evaluation does not name"
    )
    raise ConfigError(
        f"run: {what} made the embeddings, and no run near {evaluation} has it. Give the run: run=RUN."
    )


def _find_cohort(
    evaluation: Path, evaluated: pd.DataFrame, source: Brains, images_root: Any
) -> Cohort:
    """Return the scans of the table near an evaluation with the recorded name and digest."""
    origin = read_evaluation(evaluation).embeddings
    name = origin.cohort_source or "participants.tsv"
    scans = _scans_in(evaluated)
    selections = [scans]
    embedded = _find_embedded(evaluation, origin)
    if embedded is not None:
        selections.append(embedded)
    for path in files_near(evaluation, name):
        with suppress(NeurocontrastError):  # another file of that name
            cohort = source.read_cohort(path, images_root=images_root, check_images=False)
            if not scans <= _scans_in(cohort.table):
                continue
            # Scans that `embed` left out are in the table, and not in the digest.
            digests = {None, cohort.digest()}
            for selection in selections:
                digests.add(_only(cohort, selection).digest())
            if origin.cohort_digest in digests:
                return cohort
    raise ConfigError(
        f"participants: no '{name}' near {evaluation} holds the evaluated scans as they were "
        "embedded. Give the table that was embedded: participants=TABLE."
    )


def _find_embedded(evaluation: Path, origin: EmbeddingsOrigin) -> set[tuple[str, str]] | None:
    """Return the scans of the evaluated embeddings, of which an evaluation may select some; None if none are near."""
    if origin.file is None:
        return None
    for path in files_near(evaluation, origin.file):
        if digest_of_file(path) == origin.digest:
            return _scans_in(read_embeddings(path).table)
    return None


def _scans_in(table: pd.DataFrame) -> set[tuple[str, str]]:
    """Return the participant and session of each row."""
    participants = table["participant_id"].astype(str)
    return set(zip(participants, table["session"].astype(str), strict=True))


def _only(cohort: Cohort, scans: set[tuple[str, str]]) -> Cohort:
    """Return the rows of a cohort that are of some scans."""
    names = zip(cohort.table["participant_id"], cohort.table["session"], strict=True)
    return cohort.subset([row for row, name in enumerate(names) if name in scans])


def _for_measures(settings: ExplanationSettings, n: int) -> ExplanationSettings:
    """Return the settings with all subjects, unless their number is given; refuse those of scans."""
    of_scans = sorted(settings.model_fields_set & {"patch_mm", "fill", "smooth_mm"})
    if of_scans:
        raise ConfigError(
            f"explanation.{of_scans[0]}: is of scans, and this run was trained on regional measures, each of which is "
            "replaced by its mean. Leave it out."
        )
    return (
        settings
        if "n_subjects" in settings.model_fields_set
        else settings.model_copy(update={"n_subjects": n})
    )


def _explain_measures(
    score: LinearScore,
    source: RegionalMeasures,
    cohort: Cohort,
    target: str,
    settings: ExplanationSettings,
    atlas: str | os.PathLike[str] | None,
    progress: Progress,
) -> _Explained:
    """Rank measures by their share, with intervals from resamples of sites, or of subjects where sites are few."""
    labels = find_annotations(atlas, source.known.atlas)
    table = cohort.table
    if labels is None:
        progress.message("No picture of the cortex: give --atlas FOLDER, or set FREESURFER_HOME.")
    sites = site_names(table.get("site", [None] * len(table)))
    people = table["subject_id"].to_numpy(dtype=object)
    units = choose_units("auto", sites, people, target=target)
    draws = resample_counts(units.labels, n_bootstraps=_N_RESAMPLES, seed=settings.seed)
    images = source.images(cohort)
    explained = explain_measures(score, images.values, draws, settings=settings, progress=progress)
    low, high = explained.interval
    ranking = pd.DataFrame(
        {"region": source.known.columns, "value": explained.share, "low": low, "high": high}
    )
    ranking = ranking.assign(**explained.by_block)
    order = np.argsort(-ranking["value"].abs().to_numpy(), kind="stable")
    ranking = ranking.iloc[order].reset_index(drop=True)
    about = {
        "method": "replacement by the mean",
        **{
            "atlas": source.known.atlas,
            "software": source.known.software,
            "n_measures": len(ranking),
        },
        **{
            "resampled": units.name,
            "n_units": units.n,
            "n_resamples": _N_RESAMPLES,
            "seed": settings.seed,
        },
        "map": _RANKING,
        "top_regions": ranking.head(_N_TOP).to_dict("records"),
        "warnings": list(cohort.warnings),
    }
    blocks: list[dict[str, object]] = []
    for block, share in explained.block_shares.items():
        blocks.append({"name": block, "share": share})
    about["blocks"] = blocks

    def save(folder: Path) -> None:
        write_table(folder / _RANKING, ranking)
        values = dict(zip(ranking["region"], ranking["value"], strict=True))
        if labels is not None and not draw_regions(values, labels, folder / _SURFACE):
            progress.message(
                "No picture of the cortex: none of the measures is of a region of the atlas."
            )

    return explained.scores, about, save


def _explain_scans(
    score: LinearScore,
    source: BrainVolumes,
    cohort: Cohort,
    settings: ExplanationSettings,
    progress: Progress,
) -> _Explained:
    """Map where differences come from, on the grid of the scans."""
    grid, notes = _common_grid([source.grid(scan) for scan in cohort.scans], source.shape(cohort))
    for note in notes:
        progress.warning(note)
    images = source.images(cohort)
    rows = range(len(cohort))
    explained = explain_scans(
        score, images, rows, settings=settings, spacing_mm=grid.spacing_mm, progress=progress
    )
    share = explained.share
    in_brain = share * inside_brain(nib.Nifti1Image(share, grid.affine)) if grid.is_mni else share
    peaks: list[dict[str, Any]] = []
    for voxel in find_peaks(
        in_brain, distance=[round(_PEAKS_APART_MM / step) for step in grid.spacing_mm]
    ):
        at = {
            axis: round(float(mm), 1)
            for axis, mm in zip("xyz", apply_affine(grid.affine, voxel), strict=True)
        }
        peaks.append(
            {
                **at,
                "region": name_of_place(**at) if grid.is_mni else None,
                "value": float(share[voxel]),
            }
        )
    about = {
        "method": "occlusion",
        **settings.model_dump(include={"patch_mm", "fill", "smooth_mm", "seed"}),
        "spacing_mm": grid.spacing_mm[0]
        if len(set(grid.spacing_mm)) == 1
        else list(grid.spacing_mm),
        "shape": list(share.shape),
        "affine": grid.affine.tolist(),
        "template": "MNI152" if grid.is_mni else None,
        "map": _MAP,
        "top_regions": peaks,
        "warnings": notes,
    }
    maps = {_MAP: share}
    blocks: list[dict[str, object]] = []
    for block, of_block in explained.by_block.items():
        name = f"saliency_{block}.nii.gz"
        maps[name] = of_block
        blocks.append({"name": block, "share": explained.block_shares[block], "map": name})
    about["blocks"] = blocks

    def save(folder: Path) -> None:
        for name, values in maps.items():
            _save_map(folder / name, values, grid)

    return explained.scores, about, save


def _save_map(path: Path, share: Map, grid: Grid) -> None:
    """Write a map with a header of its own: the headers of scans can name people."""
    image = nib.Nifti1Image(share, grid.affine)
    code = "mni" if grid.is_mni else "aligned"
    image.set_sform(grid.affine, code=code)
    image.set_qform(grid.affine, code=code)
    image.header.set_xyzt_units("mm")
    nib.save(image, path)


def _readout(
    probe: FittedProbe, positive: str | None
) -> tuple[npt.NDArray[np.float64], float, dict[str, Any]]:
    """Return weights and intercept of a number of the probe by the features as they are, and what the number means."""
    if probe.members:
        raise ConfigError(
            f"explanation: the probe averages {len(probe.members)} members of a run, and one "
            "encoder is explained. Embed with one of them, RUN/members/0, evaluate that, and explain it."
        )
    if is_joined(probe.blocks):
        raise ConfigError(
            f"explanation: the probe was fitted on joined features ({one_of(each.name for each in probe.blocks)}), and "
            "a map is of one encoder. Explain an evaluation of one of them."
        )
    weights = probe.coefficients / probe.scale[:, None]
    intercepts = probe.intercept - (probe.mean / probe.scale) @ probe.coefficients
    if probe.kind != "multiclass":
        own = probe.classes[1] if probe.kind == "binary" else None
        if positive not in (None, own):
            allowed = (
                f"'{own}', which the evaluation had" if own else "left out: the target is a number"
            )
            raise ConfigError(f"explanation.positive: must be {allowed}, got '{positive}'.")
        meaning = "predicted value" if own is None else "decision value (log-odds)"
        return weights[:, 0], float(intercepts[0]), {"positive": own, "score": meaning}
    if positive not in probe.classes:
        found = "missing" if positive is None else f"there is no class '{positive}'"
        near = "" if positive is None else suggestion(positive, probe.classes)
        raise ConfigError(
            f"explanation.positive: {found}; of several classes one must be named: positive=NAME.{near} "
            f"It can be: {one_of(probe.classes)}."
        )
    # The class itself, less the mean of the others.
    contrast = np.full(len(probe.classes), -1 / (len(probe.classes) - 1))
    contrast[probe.classes.index(positive)] = 1
    meaning = "decision value of the class, less the mean of the others'"
    return (
        weights @ contrast,
        float(intercepts @ contrast),
        {"positive": positive, "score": meaning},
    )


def _check_encoder(
    probe: FittedProbe, contract: Mapping[str, Any], run: Path, progress: Progress
) -> None:
    found, (expected, _, how) = contract["weights"]["sha256"], (probe.encoder or "").partition(", ")
    if how.startswith("head") or "read out" in how:
        made = (
            "after the projection head (embedding.layer: head)" if how.startswith("head") else how
        )
        raise DataError(
            f"{run}: the probe was fitted on embeddings {made}, and a map is that of the encoder's features. Embed "
            "with embedding.layer: encoder and without embedding.read_out, and evaluate that table."
        )
    if contract["n_features"] != probe.n_features or (expected and expected != found):
        known = f"'{expected[:12]}…'" if expected else "one that is not recorded"
        raise DataError(
            f"{run}: the probe was fitted on {probe.n_features} features of the encoder {known}, and this is the "
            f"encoder '{found[:12]}…' with {contract['n_features']}. Give the run whose embeddings were evaluated."
        )
    if not expected:
        progress.warning(
            f"{run}: the evaluation does not say which encoder made its embeddings; this one is taken."
        )
    if how:
        progress.warning(f"the embeddings were made in {how}; the map is computed in float32.")


def _choose(
    cohort: Cohort, evaluated: pd.DataFrame, probe: FittedProbe, settings: ExplanationSettings
) -> tuple[Cohort, list[str]]:
    """Return scans to explain, one a subject, classes balanced, and their truths; the seed alone decides which."""
    names = zip(cohort.table["participant_id"], cohort.table["session"], strict=True)
    row_of = {
        (str(participant), str(session)): row for row, (participant, session) in enumerate(names)
    }
    keys = list(zip(evaluated["participant_id"], evaluated["session"], strict=True))
    lacking = [" session ".join(filter(None, key)) for key in keys if key not in row_of]
    if lacking:
        more = f" and {len(lacking) - 10} more" if len(lacking) > 10 else ""
        raise DataError(
            f"{cohort.source.name}: {len(lacking)} of {len(keys)} evaluated scans are not in it: "
            f"{', '.join(lacking[:10])}{more}. Give the table that was embedded."
        )
    first = ~evaluated["subject_id"].duplicated().to_numpy()
    candidates = np.flatnonzero(first)
    truths = evaluated["y_true"].to_numpy(dtype=object)
    shuffled = candidates[
        derive_generator("explained-subjects", settings.seed).permutation(len(candidates))
    ]
    if probe.kind == "continuous":
        ordered = shuffled[np.argsort([float(truths[row]) for row in shuffled], kind="stable")]
        n_wanted = min(settings.n_subjects, len(ordered))
        even = ordered[np.linspace(0, len(ordered) - 1, n_wanted).round().astype(int)].tolist()
        n_groups = max(1, n_wanted // SUBJECTS_A_LATTICE)
        picked = [
            row for first in range(n_groups) for row in even[first::n_groups]
        ]  # neighbours differ
    else:
        of_class = [
            [row for row in shuffled.tolist() if truths[row] == name] for name in probe.classes
        ]
        turns = [row for turn in zip_longest(*of_class) for row in turn if row is not None]
        n_each = min(map(len, of_class))
        picked = turns[: min(settings.n_subjects, n_each * len(of_class)) or settings.n_subjects]
    return cohort.subset([row_of[keys[row]] for row in picked]), [
        str(truths[row]) for row in picked
    ]


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
    return Grid(
        grids[0].affine, grids[0].spacing_mm, is_mni and apart <= max(grids[0].spacing_mm)
    ), notes


def _write(
    folder: Path,
    probe: FittedProbe,
    meaning: Mapping[str, Any],
    cohort: Cohort,
    truths: list[str],
    explained: _Explained,
) -> None:
    """Write the map or the ranking, one row a subject, and where these came from."""
    scores, of_method, save = explained
    about = {
        "format": 1,
        "n_subjects": len(truths),
        "n_of_class": {name: truths.count(name) for name in probe.classes}
        if probe.classes
        else None,
        "target": probe.target,
        **meaning,
        "probe": {"name": probe.name, "strength": probe.strength, "n_scans": probe.n_scans},
        "quantity": "share of the differences in score between subjects",
        "environment": describe_environment(),
        **of_method,
    }
    names = [subject_digest(str(subject))[:12] for subject in cohort.table["subject_id"]]
    with atomic_folder(folder) as new:
        save(new)
        write_table(
            new / "saliency.tsv",
            pd.DataFrame({"subject": names, "y_true": truths, "score": scores}),
        )
        write_json(new / _DESCRIPTION, about)
