"""Rank regional measures, or map the brain, by the share in a score's differences between subjects.

The score is the output of an evaluation's linear probe.
"""

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

from neurocontrast.data.sources import BrainVolumes, RegionalMeasures
from neurocontrast.documents.explanation import BlockShare, ExplanationMethod, TopRegion
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.measure.uncertainty import resample_counts
from neurocontrast.evaluation.plan.units import choose_units
from neurocontrast.evaluation.rows import site_names
from neurocontrast.exceptions import ConfigError
from neurocontrast.explanation import ExplanationSettings
from neurocontrast.explanation.maps import (
    Map,
    ScoredScans,
    explain_mean_of_scans,
    find_peaks,
    name_of_place,
)
from neurocontrast.explanation.measures import ScoredMeasures, explain_measures
from neurocontrast.explanation.surface import draw_regions, find_annotations
from neurocontrast.files import write_table
from neurocontrast.progress import Progress
from neurocontrast.reporting.sections.brain import inside_brain
from neurocontrast.runs.explaining import Look
from neurocontrast.runs.networks import first_alike
from neurocontrast.transforms.grids import Grid

_MAP = "saliency.nii.gz"
_RANKING = "regions.tsv"
_SURFACE = "surface.png"
_N_RESAMPLES = 1000
_N_TOP = 10
_PEAKS_APART_MM = 20.0


@dataclass(frozen=True)
class Explained:
    """Scores of the explained subjects, and the brain map or the ranking of measures.

    A score is the output of the explained probe for a subject; map and ranking explain the
    differences between scores. `explain_score` returns an `Explained`.
    """

    scores: list[float]
    method: ExplanationMethod
    save: Callable[[Path], None]
    """Function that writes the map or the ranking into a folder."""


def explain_score(
    probe: FittedProbe,
    looks: Sequence[Look],
    settings: ExplanationSettings,
    atlas: str | os.PathLike[str] | None,
    progress: Progress,
) -> Explained:
    """Rank regional measures, or map the brain, by their share in a score's differences.

    The score is the output of `probe` for a subject, and the differences are between subjects. A
    measure or place has a large share if subjects with higher scores owe more of their score to the
    measure or place. Each of `looks` is a network of the run with the probe on its features
    (`LinearScore`), and the scans or measures to explain. Of several networks the mean score is
    explained.

    Return an `Explained`, whose function `save` writes the ranking of measures (``regions.tsv``) or
    the brain map (``saliency.nii.gz``) into a folder. A ranking is drawn on the cortex, too, by the
    labels of cortical regions in the folder `atlas`; with None, in the folder of FreeSurfer, if
    installed.
    """
    if isinstance(looks[0].source, RegionalMeasures):
        explained = _explain_measures(looks, probe.target, settings, atlas, progress)
    else:
        explained = _explain_scans(looks, settings, progress)
    if probe.members:
        explained = replace(explained, method=_say_mean(probe, explained.method))
    return explained


def _say_mean(probe: FittedProbe, method: ExplanationMethod) -> ExplanationMethod:
    """Return the description `method` with the number of encoders, and a warning for classes.

    The run has several encoders (members), whose mean score is explained. For a target of classes,
    a sentence is added to ``warnings`` of the description: the score is the mean of decision
    values, while the evaluation averages probabilities.
    """
    warnings = list(method.warnings)
    if probe.kind != "continuous":
        warnings.append(
            f"The evaluation predicts by the mean of {len(probe.members)} members' probabilities. "
            "This is a map of the mean of their decision values (log-odds), to which places and "
            "blocks add up."
        )
    return method.with_keys(n_members=len(probe.members), warnings=warnings)


def settings_for_measures(settings: ExplanationSettings, n_subjects: int) -> ExplanationSettings:
    """Return `settings` with the table's number of people as the default of the key `n_subjects`.

    The explained run reads regional measures. A copy is returned, or `settings` themselves if the
    user has set the key. Keys that apply to scans alone, such as the size of patches, are refused
    if the user has set one.
    """
    of_scans = sorted(settings.model_fields_set & {"patch_mm", "fill", "smooth_mm"})
    if of_scans:
        raise ConfigError(
            f"explanation.{of_scans[0]}: is of scans, and this run was trained on regional "
            "measures, each of which is replaced by its mean. Leave it out."
        )
    if "n_subjects" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"n_subjects": n_subjects})


def _explain_measures(
    looks: Sequence[Look],
    target: str,
    settings: ExplanationSettings,
    atlas: str | os.PathLike[str] | None,
    progress: Progress,
) -> Explained:
    """Rank regional measures by their share in the differences of a score between subjects.

    Each of `looks` is a network of the run with the probe on its features (`LinearScore`), whose
    output is the score, and the people to explain; `target` is the predicted column. Each share has
    a 95 % interval, from resamples of sites or of subjects. Return an `Explained`, whose function
    `save` writes ``regions.tsv``, and a picture of the cortex if the labels of its regions are in
    `atlas` or in FreeSurfer's folder.
    """
    cohort = looks[0].cohort
    members = list(map(_scored_measures, looks))
    columns = list(dict.fromkeys(chain.from_iterable(map(attrgetter("columns"), members))))
    source = looks[0].source
    assert isinstance(source, RegionalMeasures)
    contract = source.known
    labels = find_annotations(atlas, contract.atlas)
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
        atlas=contract.atlas,
        software=contract.software,
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

    return Explained(explained.scores, method, save)


def _share_of_block(name: str, share: float) -> BlockShare:
    """Return a record of one group of features (block): its share in the differences of a score.

    Features of an encoder can have several groups, such as the principal components of the scans.
    The score is the output of the explained linear probe for a subject; differences are between
    subjects.
    """
    return BlockShare(name=name, share=share)


def _scored_measures(look: Look) -> ScoredMeasures:
    """Return a network with its probe, and people's measures as the network reads them.

    `look` has the network with its probe (`score`), the object that reads measures (`source`) and
    the people (`cohort`). The measures are standardised, one row a person. No score is computed
    here.
    """
    assert isinstance(look.source, RegionalMeasures)
    values = look.source.images(look.cohort).values
    return ScoredMeasures(look.score, values, look.source.known.columns)


def _explain_scans(
    looks: Sequence[Look],
    settings: ExplanationSettings,
    progress: Progress,
) -> Explained:
    """Map the places of the brain from which differences of a score between subjects come.

    Each of `looks` is a network of the run with the probe on its features (`LinearScore`), whose
    output is the score, and the scans to explain. Return an `Explained`, whose function `save`
    writes the map. If features have several groups (blocks), such as principal components of the
    scans beside the network's features, a file ``saliency_BLOCK.nii.gz`` is written for each.
    """
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

    return Explained(explained.scores, method, save)


def _spacing_of(grid: Grid) -> float | list[float]:
    """Return the voxel size of a grid in mm: one number for cubes, else a list of three."""
    if len(set(grid.spacing_mm)) == 1:
        return grid.spacing_mm[0]
    return list(grid.spacing_mm)


def _peaks_of(share: Map, grid: Grid) -> list[TopRegion]:
    """Return the largest values of a brain map: place in mm, value, and region if in MNI space.

    `share` has a value for each voxel of `grid`: the share of that place in the differences of the
    explained probe's score between subjects. In MNI space only the brain is searched.
    """
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
    """Return the shape of preprocessed scans, and the grid (affine and voxel size) of each scan.

    Each of `looks` is a network with its scans; several networks are the encoders (members) of one
    run. The grids are a list in the order of the scans; scans that several networks read alike are
    listed once. If the networks' preprocessed scans differ in shape or voxel size, no common map
    exists, and the run is refused.
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
    """Write a brain map to `path` as NIfTI with a new header: headers of scans can name people.

    `share` has a value for each voxel of `grid`: the share of that place in the differences of the
    explained probe's score between subjects.
    """
    image = nib.Nifti1Image(share, grid.affine)
    code = "mni" if grid.is_mni else "aligned"
    image.set_sform(grid.affine, code=code)
    image.set_qform(grid.affine, code=code)
    image.header.set_xyzt_units("mm")
    nib.save(image, path)


def _common_grid(grids: list[Grid], shape: Sequence[int]) -> tuple[Grid, list[str]]:
    """Return the grid of the map averaged over scans, and warnings about scans in another space.

    `grids` has the grid of each scan, and `shape` is the number of voxels of every scan along each
    axis. The affine and voxel size of the first scan are taken.
    """
    corners = np.array([[*corner, 1] for corner in np.ndindex(2, 2, 2)]) * [*np.array(shape) - 1, 1]
    places = np.array([(corners @ grid.affine.T)[:, :3] for grid in grids])
    apart = float(np.linalg.norm(places - places[0], axis=-1).max())
    is_mni = all(grid.is_mni for grid in grids)
    notes = []
    if apart > max(grids[0].spacing_mm):
        notes.append(
            "the scans do not lie in one space: their voxels are up to "
            f"{apart:.0f} mm apart by their headers. The map averages voxel by voxel all the same, "
            "and places in it are rough; register the scans to MNI152 first."
        )
    if not is_mni:
        notes.append(
            "the headers do not say that the scans are in the space of MNI152 (sform code 4), so "
            "the coordinates of the map may not be those of the template."
        )
    is_one_space = apart <= max(grids[0].spacing_mm)
    return Grid(grids[0].affine, grids[0].spacing_mm, is_mni and is_one_space), notes
