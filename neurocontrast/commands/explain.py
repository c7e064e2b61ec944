"""Where in the brain a frozen encoder and the probe of an evaluation look."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, starmap
from operator import attrgetter
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
from nibabel.affines import apply_affine

from neurocontrast.config import AnyConfig, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.listing import read_table
from neurocontrast.data.sources import BrainVolumes, RegionalMeasures
from neurocontrast.display import as_progress
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.explanation import (
    EXPLANATION_FILE,
    BlockShare,
    ExplainedProbe,
    ExplanationMethod,
    ExplanationRecord,
    TopRegion,
)
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.measure.uncertainty import resample_counts
from neurocontrast.evaluation.plan.units import choose_units
from neurocontrast.evaluation.rows import site_names
from neurocontrast.exceptions import CheckpointError, ConfigError
from neurocontrast.explanation import ExplanationSettings, LinearScore
from neurocontrast.explanation.maps import (
    Map,
    ScoredScans,
    explain_mean_of_scans,
    find_peaks,
    name_of_place,
)
from neurocontrast.explanation.measures import ScoredMeasures, explain_measures
from neurocontrast.explanation.surface import draw_regions, find_annotations
from neurocontrast.files import atomic_folder, check_output_folder, write_json, write_table
from neurocontrast.parallel.devices import usable_accelerator
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment, subject_digest
from neurocontrast.reporting.sections.brain import inside_brain
from neurocontrast.runs.explaining import (
    Look,
    ScoreMeaning,
    check_encoder,
    choose_for_each,
    find_cohort,
    find_run,
    leave_out_evaluated,
    readout_of,
    settings_as_embedded,
)
from neurocontrast.runs.networks import (
    describe_networks,
    first_alike,
    load_networks,
    sources_of,
)
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.transforms.grids import Grid
from neurocontrast.weights import folder_of

_MAP = "saliency.nii.gz"
_RANKING = "regions.tsv"
_SURFACE = "surface.png"
_N_RESAMPLES = 1000
_N_TOP = 10
_PEAKS_APART_MM = 20.0
_EVALUATED = ["participant_id", "subject_id", "session", "y_true"]


@dataclass(frozen=True)
class _Explained:
    """Hold the scores of subjects and the method, with the function that writes the map."""

    scores: list[float]
    method: ExplanationMethod
    save: Callable[[Path], None]
    """Writes the map or the ranking into a folder."""


@dataclass(frozen=True)
class _Subjects:
    """Hold the explained scans, one a subject, their true labels, and the encoder's digest."""

    cohort: Cohort
    truths: list[str]
    encoder: str | None
    simulated: bool


@in_default_torch_state
def explain(
    evaluation: str | os.PathLike[str],
    *,
    run: str | os.PathLike[str] | None = None,
    participants: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    atlas: str | os.PathLike[str] | None = None,
    config: AnyConfig | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Path:
    """Map where in the brain the differences in the probe's score come from, and return the folder of the map.

    For a run of regional measures, rank the measures by their share of the differences, with 95 %
    intervals.
    Of a run of members the map, or the ranking, is that of the mean of the members' scores: the
    mean of their maps.

    Parameters
    ----------
    evaluation : path
        Evaluation directory with a linear probe.
    run : path, optional
        Run directory whose embeddings were evaluated, the folder of its encoder, or weights by
        name; by default the one with the recorded digest in the folders around the evaluation or in the working
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
        Section `explanation`; and section `data`, for the places of images and cache, and
        ``skip_unreadable``: evaluated scans that cannot be used are not explained then.
    overwrite : bool
        Whether an earlier explanation in `out` is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
    """
    progress = as_progress(progress)
    evaluation = Path(evaluation)
    folder = evaluation / "explanation" if out is None else Path(out)
    check_output_folder(folder, overwrite=overwrite, marker=EXPLANATION_FILE, what="an explanation")
    whole = as_config({} if config is None else config)
    settings = whole.explanation
    usable_accelerator(settings.accelerator, section="explanation")
    probe = load_probe(evaluation)
    readouts, meaning = readout_of(probe, settings.positive)
    run = find_run(evaluation, probe) if run is None else folder_of(run)
    networks = load_networks(run)
    contract = describe_networks(run, networks)
    data = settings_as_embedded(whole.data, evaluation, networks[0].contract)
    sources = sources_of(networks, data, what="explain maps where in a brain an encoder looks")
    if atlas is not None and not isinstance(sources[0], RegionalMeasures):
        raise ConfigError(
            "atlas: is of regional measures, and this run was trained on scans. Leave it out."
        )
    check_encoder(probe, contract, run, progress)
    evaluated = _read_evaluated(evaluation)
    if participants is None:
        listed = find_cohort(evaluation, evaluated, sources[0], images_root)
    else:
        listed = sources[0].read_cohort(participants, images_root=images_root)
    evaluated = leave_out_evaluated(sources, listed, evaluated, progress)
    if isinstance(sources[0], RegionalMeasures):
        settings = _for_measures(settings, len(evaluated))
    cohorts, truths = choose_for_each(sources, listed, images_root, evaluated, probe, settings)
    looks = []
    for number, network in enumerate(networks):
        score = LinearScore(network.encoder, *readouts[number])
        looks.append(Look(score, sources[number], cohorts[number]))
    for number in dict.fromkeys(first_alike(sources)):
        sources[number].make_ready(cohorts[number], progress)
    if isinstance(sources[0], RegionalMeasures):
        explained = _explain_measures(looks, probe.target, settings, atlas, progress)
    else:
        explained = _explain_scans(looks, settings, progress)
    if probe.members:
        explained = replace(explained, method=_say_mean(probe, explained.method))
    simulated = cohorts[0].simulated or contract.simulated
    subjects = _Subjects(cohorts[0], truths, contract.weights.sha256, simulated)
    _write(folder, probe, meaning, subjects, explained)
    return folder


def _read_evaluated(evaluation: Path) -> pd.DataFrame:
    """Read which scans an evaluation has predicted, and their true labels."""
    path = evaluation / "predictions.tsv"
    remedy = "Copy the evaluation again."
    evaluated = read_table(
        path, needed=_EVALUATED, error=CheckpointError, remedy=remedy, dtype=str
    )[_EVALUATED]
    return evaluated.drop_duplicates(["participant_id", "session"]).reset_index(drop=True)


def _say_mean(probe: FittedProbe, method: ExplanationMethod) -> ExplanationMethod:
    """Say of several members that the score is their mean."""
    warnings = list(method.warnings)
    if probe.kind != "continuous":
        warnings.append(
            f"The evaluation predicts by the mean of {len(probe.members)} members' probabilities. "
            "This is a map of the mean of their decision values (log-odds), to which places and "
            "blocks add up."
        )
    return method.with_keys(n_members=len(probe.members), warnings=warnings)


def _for_measures(settings: ExplanationSettings, n: int) -> ExplanationSettings:
    """Return settings with all subjects unless a number is set; refuse settings of scans."""
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
    looks: Sequence[Look],
    target: str,
    settings: ExplanationSettings,
    atlas: str | os.PathLike[str] | None,
    progress: Progress,
) -> _Explained:
    """Rank measures by their share, with intervals from resamples of sites, or of subjects."""
    cohort = looks[0].cohort
    members = list(map(_scored_measures, looks))
    columns = list(dict.fromkeys(chain.from_iterable(map(attrgetter("columns"), members))))
    source = looks[0].source
    assert isinstance(source, RegionalMeasures)
    known = source.known
    labels = find_annotations(atlas, known.atlas)
    table = cohort.table
    if labels is None:
        progress.message("No picture of the cortex: give --atlas FOLDER, or set FREESURFER_HOME.")
    sites = site_names(table.get("site", [None] * len(table)))
    people = table["subject_id"].to_numpy(dtype=object)
    units = choose_units("auto", sites, people, target=target)
    draws = resample_counts(units.labels, n_bootstraps=_N_RESAMPLES, seed=settings.seed)
    explained = explain_measures(members, columns, draws, settings=settings, progress=progress)
    low, high = explained.interval
    ranking = pd.DataFrame({"region": columns, "value": explained.share, "low": low, "high": high})
    ranking = ranking.assign(**explained.by_block)
    order = np.argsort(-ranking["value"].abs().to_numpy(), kind="stable")
    ranking = ranking.iloc[order].reset_index(drop=True)
    method = ExplanationMethod(
        method="replacement by the mean",
        atlas=known.atlas,
        software=known.software,
        n_measures=len(ranking),
        resampled=units.name,
        n_units=units.n,
        n_resamples=_N_RESAMPLES,
        seed=settings.seed,
        map=_RANKING,
        top_regions=list(map(TopRegion.model_validate, ranking.head(_N_TOP).to_dict("records"))),
        warnings=list(cohort.warnings),
        blocks=list(starmap(_share_of_block, explained.block_shares.items())),
    )

    def save(folder: Path) -> None:
        write_table(folder / _RANKING, ranking)
        values = dict(zip(ranking["region"], ranking["value"], strict=True))
        if labels is not None and not draw_regions(values, labels, folder / _SURFACE):
            progress.message(
                "No picture of the cortex: none of the measures is of a region of the atlas."
            )

    return _Explained(explained.scores, method, save)


def _share_of_block(name: str, share: float) -> BlockShare:
    return BlockShare(name=name, share=share)


def _scored_measures(look: Look) -> ScoredMeasures:
    """Return the measures of scans as a network reads them, with its score."""
    assert isinstance(look.source, RegionalMeasures)
    values = look.source.images(look.cohort).values
    return ScoredMeasures(look.score, values, look.source.known.columns)


def _explain_scans(
    looks: Sequence[Look],
    settings: ExplanationSettings,
    progress: Progress,
) -> _Explained:
    """Map where differences come from, on the grid of the scans."""
    shape, grids = _grids_of(looks)
    grid, notes = _common_grid(grids, shape)
    for note in notes:
        progress.warning(note)
    members = []
    for look in looks:
        members.append(ScoredScans(look.score, look.source.images(look.cohort)))
    rows = range(len(looks[0].cohort))
    explained = explain_mean_of_scans(
        members, rows, settings=settings, spacing_mm=grid.spacing_mm, progress=progress
    )
    share = explained.share
    maps = {_MAP: share}
    blocks = []
    for block, of_block in explained.by_block.items():
        file = f"saliency_{block}.nii.gz"
        maps[file] = of_block
        blocks.append(BlockShare(name=block, share=explained.block_shares[block], map=file))
    method = ExplanationMethod(
        method="occlusion",
        patch_mm=settings.patch_mm,
        fill=settings.fill,
        smooth_mm=settings.smooth_mm,
        seed=settings.seed,
        spacing_mm=_spacing_of(grid),
        shape=list(share.shape),
        affine=grid.affine.tolist(),
        template="MNI152" if grid.is_mni else None,
        map=_MAP,
        top_regions=_peaks_of(share, grid),
        warnings=notes,
        blocks=blocks,
    )

    def save(folder: Path) -> None:
        for name, values in maps.items():
            _save_map(folder / name, values, grid)

    return _Explained(explained.scores, method, save)


def _spacing_of(grid: Grid) -> float | list[float]:
    """Return the voxel size of a grid, one number for cubes."""
    if len(set(grid.spacing_mm)) == 1:
        return grid.spacing_mm[0]
    return list(grid.spacing_mm)


def _peaks_of(share: Map, grid: Grid) -> list[TopRegion]:
    """Return the largest values of a map with their places, in the brain where the space is known."""
    in_brain = share
    if grid.is_mni:
        in_brain = share * inside_brain(nib.Nifti1Image(share, grid.affine))
    distance = [round(_PEAKS_APART_MM / step) for step in grid.spacing_mm]
    peaks = []
    for voxel in find_peaks(in_brain, distance=distance):
        position_mm = apply_affine(grid.affine, voxel).tolist()
        x = round(position_mm[0], 1)
        y = round(position_mm[1], 1)
        z = round(position_mm[2], 1)
        region = name_of_place(x=x, y=y, z=z) if grid.is_mni else None
        peaks.append(TopRegion(x=x, y=y, z=z, region=region, value=float(share[voxel])))
    return peaks


def _grids_of(looks: Sequence[Look]) -> tuple[tuple[int, ...], list[Grid]]:
    """Return the shape of the scans as all members read them, and the grid of each scan.

    Members that read scans on grids of unlike size have no map in common, and are refused.
    """
    shapes = dict[tuple[int, ...], None]()
    grids = []
    for number in dict.fromkeys(first_alike(list(map(attrgetter("source"), looks)))):
        look = looks[number]
        assert isinstance(look.source, BrainVolumes)
        shapes[tuple(look.source.shape(look.cohort))] = None
        grids += list(map(look.source.grid, look.cohort.scans))
    spacings = set(map(attrgetter("spacing_mm"), grids))
    if len(looks) > 1 and (len(shapes) > 1 or len(spacings) > 1):
        sizes = ", ".join("×".join(map(str, shape)) for shape in shapes)
        raise ConfigError(
            f"explain: the members of this run read scans on unlike grids ({sizes} voxels of "
            f"{len(spacings)} sizes), and a map is of one. Embed with one member, RUN/members/0, "
            "evaluate that, and explain it."
        )
    return next(iter(shapes)), grids


def _save_map(path: Path, share: Map, grid: Grid) -> None:
    """Write a map with a header of its own: the headers of scans can name people."""
    image = nib.Nifti1Image(share, grid.affine)
    code = "mni" if grid.is_mni else "aligned"
    image.set_sform(grid.affine, code=code)
    image.set_qform(grid.affine, code=code)
    image.header.set_xyzt_units("mm")
    nib.save(image, path)


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
    meaning: ScoreMeaning,
    subjects: _Subjects,
    explained: _Explained,
) -> None:
    """Write the map or the ranking, the score of each subject, and ``explain.json``."""
    n_of_class = None
    if probe.classes:
        n_of_class = dict(
            zip(probe.classes, map(subjects.truths.count, probe.classes), strict=True)
        )
    record = ExplanationRecord(
        format=1,
        n_subjects=len(subjects.truths),
        n_of_class=n_of_class,
        target=probe.target,
        positive=meaning.positive,
        score=meaning.score,
        simulated=subjects.simulated,
        encoder=subjects.encoder,
        probe=ExplainedProbe(name=probe.name, strength=probe.strength, n_scans=probe.n_scans),
        quantity="share of the differences in score between subjects",
        environment=Environment.model_validate(describe_environment()),
    )
    record = record.with_keys(**explained.method.content())
    digests = map(subject_digest, subjects.cohort.table["subject_id"].astype(str))
    names = [digest[:12] for digest in digests]
    scores = pd.DataFrame({"subject": names, "y_true": subjects.truths, "score": explained.scores})
    with atomic_folder(folder) as new:
        explained.save(new)
        write_table(new / "saliency.tsv", scores)
        write_json(new / EXPLANATION_FILE, record.content())
