"""Where in the brain the prediction comes from."""

from __future__ import annotations

from nibabel.filebasedimages import ImageFileError

from neurocontrast.reporting.blocks import Block, Facts, Items, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.volumes import draw_brain, read_map, share_outside
from neurocontrast.reporting.folder import EvaluationFiles, Explanation
from neurocontrast.reporting.naming import value_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.tables import Column, make_table

__all__ = ["BRAIN"]

_MUCH_OUTSIDE = 0.3
_KINDS = {
    "occlusion": "occlusion: patches are replaced one after another, and the change of the score is mapped",
    "gradient": "gradient of the score with respect to each voxel",
}
_FACTS = {"target": "Target", "positive": "Towards", "score": "What is mapped", "n_of_class": "Of each class",
          "patch_mm": "Patch in mm", "n_noisy": "Noisy copies a scan", "smooth_mm": "Smoothed by, mm (FWHM)",
          "spacing_mm": "Spacing in mm", "shape": "Voxels", "seed": "Seed"}  # fmt: skip
_METHODS = """
## Where in the brain.
{% set about = files.explanation.about %}
{% if about %}
{% if about.method == "occlusion" %}
Patches{% if about.patch_mm %} of {{ about.patch_mm|value }} mm{% endif %} of each volume were replaced, one after
another, and the change of the predicted score was put where the patch was {{ cite("Zeiler MD, Fergus R. Visualizing "
"and understanding convolutional networks. ECCV 2014:818–833.") }}
{% else %}
The gradient of the predicted score with respect to each voxel was computed through the frozen encoder and the probe
{{ cite("Simonyan K, Vedaldi A, Zisserman A. Deep inside convolutional networks: visualising image classification "
"models and saliency maps. ICLR workshop 2014.") }}
{% if (about.n_noisy or 1) > 1 %}, averaged over {{ about.n_noisy }} copies with noise added {{ cite("Smilkov D, "
"Thorat N, Kim B, Viégas F, Wattenberg M. SmoothGrad: removing noise by adding noise. arXiv:1706.03825, 2017.") }}
{% endif %}
{% endif %}; maps
{% set who = about.n_subjects ~ " subjects" if about.n_subjects else "subjects" %}
{% if (about.quantity or "").startswith("share") %}of {{ who }} were regressed on their scores
{% else %}were averaged over {{ who }}{% endif %}
and are shown on the MNI152 template {{ cite("Fonov V, Evans AC, Botteron K, et al. Unbiased average age-appropriate "
"atlases for pediatric studies. NeuroImage 2011;54:313–327.") }} with nilearn {{ cite(NILEARN) }}. Such a
map shows what the model used, not what causes the condition.
{% endif %}
"""


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the map on the MNI152 template, and its largest values."""
    del options
    explanation = files.explanation
    assert explanation is not None, "needed"
    blocks: list[Block] = [Facts(_facts(explanation))]
    doubts = [("Note.", str(each)) for each in explanation.about.get("warnings") or []]
    blocks += [Items(doubts, role="warnings")] if doubts else []
    try:
        image = read_map(explanation)
        blocks.append(Pictures(draw_brain(explanation, image), wide=True))
        blocks.append(Paragraph(_say_outside(share_outside(image)), role="note"))
    except (OSError, ValueError, EOFError, ImageFileError) as error:
        text = f"Not shown: the map {explanation.map_path.name} ({error}). Run `neurocontrast explain` again."
        blocks.append(Paragraph(text, role="note"))
    table = _regions(explanation)
    lead = "Where a change of the scan changes the predicted score. It shows what the model used, not what is ill."
    return Section("brain", "Where in the brain", [*blocks, table] if table else blocks, lead=lead)


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    about = explanation.about
    method = str(about.get("method") or "not recorded")
    facts = [("Method", _KINDS.get(method, method)), ("Subjects", value_text(about.get("n_subjects")))]
    facts += [(label, value_text(about[key])) for key, label in _FACTS.items() if about.get(key) is not None]
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
    regions = [each for each in explanation.about.get("top_regions") or [] if isinstance(each, dict)][:10]
    if not regions:
        return None
    columns = [Column("Peak", "number", "heading"), *(Column(axis, axis, digits=0) for axis in "xyz")]
    columns.append(Column("Value", "value", digits=4, signed=True))
    columns += (
        [Column("Region", "label", "text", reason="not named")] if any("label" in each for each in regions) else []
    )
    rows = [{"number": number, **region} for number, region in enumerate(regions, start=1)]
    caption = "Largest values of the map, at MNI coordinates in mm (x: right, y: front, z: up)."
    return make_table(caption, rows, columns)


BRAIN = SectionBuilder(
    "brain",
    "Where in the brain",
    order=150,
    build=_build,
    inputs=(
        Input(
            "explanation/",
            "where in the brain",
            "explanation",
            "Made with `neurocontrast explain EVAL --run RUN --participants …`.",
            needed=True,
        ),
    ),
    methods=_METHODS,
    covers="brain map",
    of=("scans",),
)
