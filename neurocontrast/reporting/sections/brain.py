"""Where in the brain the prediction comes from."""

from __future__ import annotations

from nibabel.filebasedimages import ImageFileError

from neurocontrast.reporting.blocks import Block, Cell, Facts, Items, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.volumes import draw_brain, read_map, share_outside
from neurocontrast.reporting.folder import EvaluationFiles, Explanation
from neurocontrast.reporting.inputs import missing_note
from neurocontrast.reporting.naming import value_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.tables import cell, count_cell

__all__ = ["build_brain"]

_MUCH_OUTSIDE = 0.3
_METHODS = {
    "occlusion": "occlusion: patches are replaced one after another, and the change of the score is mapped",
    "gradient": "gradient of the score with respect to each voxel",
}


def build_brain(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the map on the MNI152 template, and its largest values."""
    del options
    title = "Where in the brain"
    explanation = files.explanation
    if explanation is None:
        return Section("brain", title, [Paragraph(missing_note("explanation"), role="note")])
    blocks: list[Block] = [Facts(_facts(explanation))]
    doubts = [("Note.", str(each)) for each in explanation.about.get("warnings") or []]
    if doubts:
        blocks.append(Items(doubts, role="warnings"))
    try:
        image = read_map(explanation)
        blocks.append(Pictures(draw_brain(explanation, image), wide=True))
        blocks.append(Paragraph(_say_outside(share_outside(image)), role="note"))
    except (OSError, ValueError, EOFError, ImageFileError) as error:
        text = f"Not shown: the map {explanation.map_path.name} ({error}). Run `neurocontrast explain` again."
        blocks.append(Paragraph(text, role="note"))
    table = _regions(explanation)
    if table is not None:
        blocks.append(table)
    lead = "Where a change of the scan changes the predicted score. It shows what the model used, not what is ill."
    return Section("brain", title, blocks, lead=lead)


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    about = explanation.about
    method = str(about.get("method") or "not recorded")
    facts = [("Method", _METHODS.get(method, method)), ("Subjects", value_text(about.get("n_subjects")))]
    names = {"target": "Target", "positive": "Towards", "score": "What is mapped", "n_of_class": "Of each class",
             "patch_mm": "Patch in mm", "n_noisy": "Noisy copies a scan", "smooth_mm": "Smoothed by, mm (FWHM)",
             "spacing_mm": "Spacing in mm", "shape": "Voxels", "seed": "Seed"}  # fmt: skip
    facts += [(label, value_text(about[key])) for key, label in names.items() if about.get(key) is not None]
    template = about.get("template") or "not known to be MNI152: the coordinates may not be those of the template"
    facts.append(("Space", str(template)))
    if about.get("simulated"):
        facts.append(("Simulated", "yes: the brains were computed, and the map says nothing about people"))
    return facts


def _say_outside(share: float) -> str:
    text = f"{share:.0%} of the map, by absolute value, lies outside the brain of the template."
    if share < _MUCH_OUTSIDE:
        return text
    return (
        f"{text} A model that looks there may use the skull, the edge of the image or how it was registered; or the "
        "map is noise, as it is where the model predicts nothing."
    )


def _regions(explanation: Explanation) -> Table | None:
    regions = [each for each in explanation.about.get("top_regions") or [] if isinstance(each, dict)]
    if not regions:
        return None
    rows = [
        (
            Cell(str(number), heading=True),
            *(_millimetres(region.get(axis)) for axis in "xyz"),
            cell(region.get("value"), digits=4, signed=True),
            Cell(str(region.get("label") or "")),
        )
        for number, region in enumerate(regions[:10], start=1)
    ]
    named = any(row[-1].text for row in rows)
    header = ["Peak", "x", "y", "z", "Value", *(["Region"] if named else [])]
    return Table(
        "Largest values of the map, at MNI coordinates in mm (x: right, y: front, z: up).",
        header,
        rows if named else [row[:-1] for row in rows],
        text_columns=(0, 5) if named else (0,),
    )


def _millimetres(value: object) -> Cell:
    if isinstance(value, int | float):
        return Cell(f"{value:.0f}".replace("-", "−"))
    return count_cell(None)
