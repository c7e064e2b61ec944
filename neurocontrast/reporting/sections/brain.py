"""Section of the brain map, or the ranking of measures, that ``neurocontrast explain`` made."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import matplotlib.image
import nibabel
import numpy as np
import numpy.typing as npt
from nibabel.filebasedimages import ImageFileError

from neurocontrast.data.listing import read_table
from neurocontrast.documents.explanation import ExplanationRecord, TopRegion
from neurocontrast.reporting.blocks import (
    Block,
    Column,
    Facts,
    Items,
    Section,
    Table,
    make_table,
    note,
    pictures,
)
from neurocontrast.reporting.explanation import ExplainedBlock, Explanation
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.naming import quoted
from neurocontrast.reporting.prose import say_outside_brain
from neurocontrast.reporting.style import (
    WIDTH,
    Picture,
    Series,
    blank_figure,
    draw_intervals,
    styled,
)
from neurocontrast.reporting.texts import section, write_paragraphs
from neurocontrast.reporting.wording import value_text

# nilearn is imported inside functions: it takes seconds, and only a report with volumes needs it.

_N_REGIONS = 20
_NAMES_OF_REGIONS = (
    "Near: the region whose centre, of Dosenbach et al. (2010) or Seitzman et al. (2020), is the "
    "nearest. PFC, FC: prefrontal, frontal cortex (a: anterior, d: dorsal, l: lateral, m: medial, "
    "v: ventral); ACC: anterior cingulate; IPL, IPS: inferior parietal lobule, intraparietal "
    "sulcus; SMA: supplementary motor area; TPJ: temporoparietal junction. A peak is no more "
    "precise than the cube that was replaced."
)
_UNREADABLE = (OSError, ValueError, EOFError, ImageFileError)


def show_brain(files: EvaluationFolder) -> Section | None:
    """Return the section of the explanation: slices of the brain map, or the ranking of measures.

    None for an evaluation that was not explained.
    """
    explanation = files.explanation
    if explanation is None:
        return None
    blocks: list[Block] = [Facts(write_paragraphs("brain_facts.j2", files))]
    doubts = [("Note.", warning) for warning in explanation.record.warnings]
    blocks += [Items(doubts, role="warnings")] if doubts else []
    if explanation.map_path.suffix == ".tsv":
        return section("regions", [*blocks, *_ranking(explanation)], name="brain")
    regions = explanation.record.top_regions[:10]
    colours = say_colours(explanation)
    try:
        image = read_map(explanation.map_path)
        blocks += pictures(*_draw_whole(image, colours), wide=True)
        blocks.append(note(say_outside_brain(share_outside(image))))
    except _UNREADABLE as error:
        blocks.append(_not_shown(explanation.map_path, error))
    blocks += [_region_table(regions)] if regions else []
    for block in explanation.blocks:
        blocks += _block_map(block, colours)
    return section("brain", blocks)


def say_colours(explanation: Explanation) -> str:
    """Return a sentence on the prediction that the orange and purple places of a map speak for.

    The map is the `explanation`'s.
    """
    positive = explanation.record.positive
    towards = quoted(positive) if positive else "a higher predicted value"
    orange = f"what is there speaks for {towards}"
    purple = "against it"
    if explanation.is_share:
        orange = (
            f"scans with a higher score towards {towards} owe it to what is there, by this share "
            "of the difference"
        )
        purple = "what is there works against it"
    return (
        f"Orange (solid outline at half the maximum): {orange}; purple (dashed outline): {purple}. "
        "Only the brain of the template is drawn. L and R are the person's left and right."
    )


def say_block(block: ExplainedBlock) -> str:
    """Return a sentence on the share of score differences that a group of features carries.

    The differences are between subjects, and the score is the output of the explained linear probe.
    """
    carries = "carries" if block.name == "network" else "carry"
    return (
        f"The map of the {block.name}, which {carries} {value_text(block.share)} of the "
        "differences in score; the maps of all blocks add up to the whole map."
    )


def say_ranking(record: ExplanationRecord, n_shown: int) -> str:
    """Return a text on how many of all regional measures a ranking shows, and on the intervals."""
    return (
        f"The {n_shown} of {record.n_measures or n_shown} measures with the largest share. "
        f"Intervals are of 95% over {record.n_resamples} resamples of {record.n_units} "
        f"{record.resampled}s. Measures that go together share what they carry: one that is not "
        "listed can matter as much as its neighbour."
    )


def _block_map(block: ExplainedBlock, colours: str) -> list[Block]:
    """List figures of slices of the brain map of one group of features, `block`.

    The group is the features of the encoder's network, or of its linear components. `colours` ends
    the captions. A map that cannot be read is replaced by a remark.
    """
    assert block.map_path is not None
    try:
        image = read_map(block.map_path)
    except _UNREADABLE as error:
        return [_not_shown(block.map_path, error)]
    title = say_block(block)
    return pictures(*_draw(image, f"brain_{block.name}", title, colours, [_SLICES]), wide=True)


def _not_shown(path: Path, error: Exception) -> Block:
    """Return a remark that the brain map at `path` cannot be drawn, with the `error`."""
    return note(f"Not shown: the map {path.name} ({error}). Run “neurocontrast explain” again.")


def _ranking(explanation: Explanation) -> list[Block]:
    """Return figures, a table and a remark on the regional measures with the largest shares.

    A share of 0.1 says that, on average, the measure accounts for a tenth of a difference between
    subjects in the score of the linear probe. Shares are read from the table that ranks the
    measures, at `map_path` of the explanation.
    """
    needed = ["region", "value", "low", "high"]
    columns = [
        Column("Measure", "region", "heading"),
        Column("Share", "value", digits=3, signed=True, interval=True),
    ]
    for block in explanation.blocks:
        needed.append(block.name)
        columns.append(Column(f"By the {block.name}", block.name, digits=3, signed=True))
    ranking = read_table(explanation.map_path, needed=needed).head(_N_REGIONS)
    caption = (
        "Share of the differences in score between subjects that each measure carries, the largest "
        "first."
    )
    picture = draw_intervals(
        "regions",
        [Series(ranking)],
        ranking["region"].astype(str).tolist(),
        caption,
        reference=(0.0, None),
        numbers=ranking,
        xlabel="Share of the differences in score",
    )
    rows = ranking.rename(columns={"low": "value_low", "high": "value_high"})
    return [
        *pictures(picture),
        *pictures(_surface(explanation), wide=True),
        make_table("The same as numbers.", rows, columns),
        note(say_ranking(explanation.record, len(rows))),
    ]


@styled
def _surface(explanation: Explanation) -> Picture | None:
    """Return the picture of cortical surfaces that `explain` wrote; None if there is none.

    The file ``surface.png`` in the explanation's folder is read, and returned as a `Picture` with a
    caption.
    """
    path = explanation.map_path.with_name("surface.png")
    if not path.is_file():
        return None
    pixels = matplotlib.image.imread(path)
    figure = blank_figure(
        height=2 * WIDTH * pixels.shape[0] / pixels.shape[1], width=2 * WIDTH, layout="none"
    )
    axis = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axis.imshow(pixels)
    axis.set_axis_off()
    caption = "The shares of cortical regions on the inflated surface of fsaverage5."
    return Picture(
        "surface", figure, f"{caption} Left and right hemisphere, each from both sides.", caption
    )


def _region_table(regions: Sequence[TopRegion]) -> Table:
    columns = (
        Column("Peak", "number", "heading"),
        Column("Near", "region", "text", reason="no region within 20 mm, or scans not in MNI152"),
        *(Column(axis, axis, digits=0) for axis in "xyz"),
        Column("Value", "value", digits=4, signed=True),
    )
    rows = []
    for number, region in enumerate(regions, start=1):
        rows.append({"number": number, **region.content()})
    caption = "Largest values of the map, at MNI coordinates in mm (x: right, y: front, z: up)."
    return make_table(caption, rows, columns, note=_NAMES_OF_REGIONS)


@dataclass(frozen=True)
class _View:
    """Slices of a brain map in one figure: nilearn's display mode, cuts in mm, height in inches."""

    name: str
    mode: Literal["ortho", "z"]
    cuts: Sequence[float]
    height: float
    caption: str


_SLICES = _View(
    "slices",
    "z",
    np.linspace(-44, 60, 7).round().tolist(),
    2.3,
    "Axial slices from z = −44 to 60 mm",
)


def read_map(path: Path) -> nibabel.Nifti1Image:
    """Return the three-dimensional brain map at `path` as a NIfTI image with its affine.

    Values that are not finite become zero. A map of zeros alone, or not in three dimensions, raises
    ValueError. A damaged file raises ValueError, OSError or ImageFileError.
    """
    image = nibabel.funcs.squeeze_image(nibabel.load(path))
    if len(image.shape) != 3:
        raise ValueError(f"{len(image.shape)} dimensions")
    data = np.nan_to_num(np.asanyarray(image.dataobj, dtype=np.float32), posinf=0.0, neginf=0.0)
    if not np.any(data):
        raise ValueError("the map is zero everywhere")
    return nibabel.Nifti1Image(data, image.affine)


def inside_brain(image: nibabel.Nifti1Image) -> npt.NDArray[np.bool_]:
    """Return a mask on the grid of a brain map: voxels in the brain of the MNI152 template."""
    from nilearn import datasets
    from nilearn import image as images

    mask = datasets.load_mni152_brain_mask(resolution=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inside = images.resample_to_img(
            mask, image, interpolation="nearest", force_resample=True, copy_header=True
        )
    return np.asarray(inside.dataobj) > 0


def share_outside(image: nibabel.Nifti1Image) -> float:
    """Return the share of a brain map that lies outside the brain of the MNI152 template.

    `image` is the map of an explanation. The share, from 0 to 1, is of the sum of the absolute
    values of all voxels.
    """
    sizes = np.abs(np.asarray(image.dataobj, dtype=float))
    return float(1.0 - sizes[inside_brain(image)].sum() / sizes.sum())


def _inside(image: nibabel.Nifti1Image) -> nibabel.Nifti1Image:
    """Return a brain map with zeros outside the brain of the MNI152 template.

    A map that is zero in all of this brain is returned unchanged.
    """
    values = image.get_fdata(dtype=np.float32)
    inside = inside_brain(image)
    if not np.any(values[inside]):
        return image
    return nibabel.Nifti1Image(np.where(inside, values, 0.0), image.affine)


def _draw_whole(image: nibabel.Nifti1Image, colours: str) -> list[Picture]:
    """Return two figures of a brain map: crossing slices at the peak, and axial slices.

    The map is drawn over the MNI152 template.
    """
    sizes = np.abs(_inside(image).get_fdata(dtype=np.float32))
    highest = np.unravel_index(int(sizes.argmax()), image.shape)
    x, y, z = peak = tuple(nibabel.affines.apply_affine(image.affine, highest).tolist())
    crossing = (
        f"Sagittal, coronal and axial slices through x = {x:.0f}, y = {y:.0f}, z = {z:.0f} mm"
    )
    views = [_View("peak", "ortho", peak, 3.6, crossing), _SLICES]
    return _draw(image, "brain", "The map on the MNI152 template.", colours, views)


@styled
def _draw(
    image: nibabel.Nifti1Image, name: str, title: str, colours: str, views: Sequence[_View]
) -> list[Picture]:
    """List a figure of slices of a brain map for each of `views`, over the MNI152 template.

    A view has the positions of its slices in mm. The map is drawn inside the template's brain
    alone.
    """
    from nilearn import datasets, plotting

    image = _inside(image)
    values = image.get_fdata(dtype=np.float32)
    sizes = np.abs(values)
    # A few extreme voxels must not make all others pale; small values fade into the template.
    limit = max(float(np.percentile(sizes[sizes > 0], 99.9)), 0.5 * float(sizes.max()))
    fading = nibabel.Nifti1Image(np.clip(sizes / (0.5 * limit), 0.0, 1.0), image.affine)
    template = datasets.load_mni152_template(resolution=2)
    drawn = []
    for view in views:
        figure = blank_figure(height=view.height, width=2 * WIDTH, layout="none")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shown = plotting.plot_stat_map(
                image,
                bg_img=template,
                figure=figure,
                display_mode=view.mode,
                cut_coords=view.cuts,
                cmap="PuOr_r",
                vmin=-limit,
                vmax=limit,
                threshold=None,
                transparency=fading,
                draw_cross=view.mode == "ortho",
                black_bg=False,
            )
            # Half the largest values: solid where they speak for, dashed where against, to be told
            # without colour.
            for sign, line in ((1.0, "solid"), (-1.0, "dashed")):
                if (sign * values > limit / 2).any():
                    signed = nibabel.Nifti1Image(sign * values, image.affine)
                    shown.add_contours(
                        signed, levels=[limit / 2], colors="k", linewidths=0.9, linestyles=line
                    )
        drawn.append(
            Picture(
                f"{name}_{view.name}",
                figure,
                alt=f"{title} {view.caption}.",
                caption=f"{view.caption}. {colours}",
            )
        )
    return drawn


BRAIN = Finding("brain", show_brain, methods="methods_brain.j2", of=("scans",))
