"""The result on people from elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from neurocontrast.evaluation.record import Metric
from neurocontrast.findings.calibration import draw_curve
from neurocontrast.findings.errors import draw_confusion, draw_predicted
from neurocontrast.findings.external.measure import ExternalTest
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.groups import site_blocks
from neurocontrast.findings.outside import outlyingness_blocks
from neurocontrast.findings.prose import count_texts
from neurocontrast.findings.result import table_metrics
from neurocontrast.page.blocks import Block, Facts, Pictures, Section, note, pictures
from neurocontrast.page.style import Picture


def show_external(files: EvaluationFolder) -> Section | None:
    """Return the metrics, curves and sites of the external test set; None without one."""
    part, about = external_part(files), files.summary.part(ExternalTest)
    if part is None or about is None:
        return None
    blocks: list[Block] = [Facts(_facts(about)), table_metrics(part, caption="Metrics of the external test set.")]
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
    blocks += outside
    lead = "People who had no part in any choice: one probe, fitted on all scans above, applied to them once."
    renamed = [
        replace(block, pictures=[_rename(each) for each in block.pictures]) if isinstance(block, Pictures) else block
        for block in blocks
    ]
    return Section("external", "External test set", renamed, lead=lead)


def _facts(about: ExternalTest) -> list[tuple[str, str]]:
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


def external_part(files: EvaluationFolder) -> EvaluationFolder | None:
    """Return the external test set as an evaluation of its own, for the same figures; None without one."""
    external = files.summary.part(ExternalTest)
    if external is None:
        return None
    metrics, baseline = (
        {name: Metric(pooled=found.value, interval=found.interval, reason=found.reason) for name, found in part.items()}
        for part in (external.metrics, external.baseline)
    )
    threshold = files.summary.threshold.model_copy(update={"rule": external.threshold, "values": []})
    changes = {"n": external.n, "metrics": metrics, "baseline": baseline, "increment": external.increment, "voxels": {},
               "voxels_increment": {}, "regional": {}, "regional_increment": {}, "threshold": threshold,
               "outlyingness": external.outlyingness, "permutation": None}  # fmt: skip
    tested = files.predictions.iloc[:0] if files.external_predictions is None else files.external_predictions
    return replace(
        files,
        summary=files.summary.model_copy(update=changes),
        predictions=tested.assign(**{name: 0.0 for name in ("repeat", "fold") if name not in tested}),
        sites=pd.DataFrame() if files.external_sites is None else files.external_sites,
        cohort=None,
        outlyingness=files.external_outlyingness,
    )
