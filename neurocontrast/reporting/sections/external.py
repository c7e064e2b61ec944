"""The result on people from elsewhere."""

from __future__ import annotations

from dataclasses import replace

from neurocontrast.evaluation.schema import External
from neurocontrast.reporting.blocks import Block, Facts, Items, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.matrices import draw_confusion
from neurocontrast.reporting.figures.points import draw_predicted
from neurocontrast.reporting.folder import EvaluationFiles, external_part
from neurocontrast.reporting.new_sites import recentred
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import Input, SectionBuilder, missing_note
from neurocontrast.reporting.sections.outlyingness import outlyingness_blocks
from neurocontrast.reporting.sections.performance import list_curves
from neurocontrast.reporting.sections.sites import strata_blocks
from neurocontrast.reporting.strata import site_strata
from neurocontrast.reporting.style import Picture
from neurocontrast.reporting.tables import table_external

__all__ = ["EXTERNAL"]

_HOW = "Made with `neurocontrast evaluate … --test OTHER.parquet`."
_PREDICTIONS = Input("external_predictions.tsv", "the external test set", "external_predictions", _HOW, needed=True)
_OUTSIDE = Input(
    "external_outlyingness.tsv", "which external scans lie outside that distribution", "external_outlyingness", _HOW
)
_METHODS = """
## External test set.
{% if s.external %}
{% set n = s.external.n or {} %}
A probe of the same form, fitted on all evaluated scans, was applied once to an external test set of
{{ n.scans or "unrecorded" }} scans of {{ n.subjects or "unrecorded" }} subjects at {{ n.sites or "unrecorded" }} sites,
none of which had a part in any choice.
{% if "delong" in (s.external.metrics or {}).values()|map(attribute="interval_method")|list %}
The interval of its AUC is DeLong's {{ cite(DELONG) }}.
{% endif %}
{% endif %}
"""


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the metrics, curves and sites of the external test set."""
    title = "External test set"
    part = external_part(files)
    if part is None:
        return Section("external", title, [Paragraph(missing_note(_PREDICTIONS), role="note")])
    about = files.summary.external
    assert about is not None, "of which `part` is made"
    blocks: list[Block] = [Facts(_facts(about)), table_external(files, about)]
    if recentred(files):
        text = (
            "Each site's own mean was taken out of the features, that of a site which was not trained on from these "
            "very scans, unlabelled. A scan that comes alone does not get it."
        )
        blocks.insert(0, Items([("Transductive: recentred by site.", text)], role="warnings"))
    if files.external_predictions is None:
        blocks.append(Paragraph("external_predictions.tsv is absent: no curve can be drawn.", role="note"))
    else:
        drawn = [draw_predicted(part)] if part.kind == "continuous" else [*list_curves(part), draw_confusion(part)]
        sites = Paragraph("external_sites.tsv is absent: no site can be shown.", role="note")
        strata = [sites] if part.sites.empty else strata_blocks(part, site_strata(part, file="external_sites.tsv"))
        blocks += [Pictures(drawn), *strata]
    outside = outlyingness_blocks(part, options, title="External scans unlike those it learned from")
    blocks += outside or [Paragraph(missing_note(_OUTSIDE), role="note")]
    lead = "People who had no part in any choice: one probe, fitted on all scans above, applied to them once."
    return Section("external", title, [_renamed(block) for block in blocks], lead=lead)


def _facts(about: External) -> list[tuple[str, str]]:
    counts = {"scans": about.n.scans, "subjects": about.n.subjects, "sites": about.n.sites}
    sizes = ", ".join(f"{count:,} {key}" for key, count in counts.items() if count is not None)
    facts = [("Embeddings", about.file or "not recorded"), ("Size", sizes or "not recorded")]
    if about.threshold:
        facts.append(("Called positive from", f"{about.threshold:.3f}"))
    if about.digest:
        facts.append(("Digest", about.digest[:16] + "…"))
    facts.append(("Subjects seen before (pretraining, cross-validation)", f"{about.n_overlap:,}"))
    return facts


def _renamed(block: Block) -> Block:
    """Say in the names, captions and texts of figures that they are of the external test set."""
    return replace(block, pictures=[_rename(each) for each in block.pictures]) if isinstance(block, Pictures) else block


def _rename(picture: Picture) -> Picture:
    alt, caption = (
        text.replace("Out-of-fold prediction", "Prediction").replace("out-of-fold ", "")
        for text in (picture.alt, picture.caption)
    )
    name, start = f"external_{picture.name}", "External test set. "
    return replace(picture, name=name, alt=start + alt, caption=start + caption)


EXTERNAL = SectionBuilder(
    "external",
    "External test set",
    order=120,
    build=_build,
    inputs=(_PREDICTIONS, _OUTSIDE),
    methods=_METHODS,
    covers="external test set",
    of=("scans",),
    explains_absence=True,
)
