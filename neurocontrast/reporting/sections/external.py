"""The result on people from elsewhere."""

from __future__ import annotations

from dataclasses import replace

from neurocontrast.evaluation.schema import External
from neurocontrast.reporting.page import (
    Block,
    Facts,
    Input,
    Items,
    Pictures,
    Section,
    SectionBuilder,
    note,
    pictures,
)
from neurocontrast.reporting.prose import count_texts
from neurocontrast.reporting.read import EvaluationFiles, external_part
from neurocontrast.reporting.sections.curves import draw_curve
from neurocontrast.reporting.sections.errors import draw_confusion, draw_predicted
from neurocontrast.reporting.sections.new_site import recentred
from neurocontrast.reporting.sections.outlyingness import outlyingness_blocks
from neurocontrast.reporting.sections.parts import site_blocks
from neurocontrast.reporting.sections.result import table_metrics
from neurocontrast.reporting.style import Picture

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


def _build(files: EvaluationFiles) -> Section | None:
    """Build the metrics, curves and sites of the external test set."""
    part, about = external_part(files), files.summary.external
    if part is None or about is None:
        return None
    blocks: list[Block] = [Facts(_facts(about)), table_metrics(part, caption="Metrics of the external test set.")]
    if recentred(files):
        text = (
            "Each site's own mean was taken out of the features, that of a site which was not trained on from these "
            "very scans, unlabelled. A scan that comes alone does not get it."
        )
        blocks.insert(0, Items([("Transductive: recentred by site.", text)], role="warnings"))
    if files.external_predictions is None:
        blocks.append(note("external_predictions.tsv is absent: no curve can be drawn."))
    elif part.kind == "continuous":
        blocks += pictures(draw_predicted(part))
    else:
        curves = ("roc", "precision_recall") if part.kind == "binary" else ()
        blocks += pictures(*(draw_curve(part, curve) for curve in curves), draw_confusion(part))
    if files.external_predictions is not None:
        blocks += site_blocks(part, file="external_sites.tsv")
    outside = outlyingness_blocks(part, title="External scans unlike those it learned from")
    blocks += outside or [_OUTSIDE.missing()]
    lead = "People who had no part in any choice: one probe, fitted on all scans above, applied to them once."
    renamed = [
        replace(block, pictures=[_rename(each) for each in block.pictures]) if isinstance(block, Pictures) else block
        for block in blocks
    ]
    return Section("external", "External test set", renamed, lead=lead)


def _facts(about: External) -> list[tuple[str, str]]:
    facts = [("Embeddings", about.file or "not recorded"), ("Size", ", ".join(count_texts(about.n)) or "not recorded")]
    if about.threshold:
        facts.append(("Called positive from", f"{about.threshold:.3f}"))
    if about.digest:
        facts.append(("Digest", about.digest[:16] + "…"))
    facts.append(("Subjects seen before (pretraining, cross-validation)", f"{about.n_overlap:,}"))
    return facts


def _rename(picture: Picture) -> Picture:
    """Say in name, text and caption of a figure that it is of the external test set."""
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
    of=("scans",),
    explains_absence=True,
)
