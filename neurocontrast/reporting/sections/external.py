"""The result on people from elsewhere."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from neurocontrast.documents.figures import Metric, ModelFigures
from neurocontrast.evaluation.measure.external import (
    ExternalMetric,
    ExternalTest,
    measure_external_test,
)
from neurocontrast.reporting.blocks import (
    Block,
    Facts,
    Paragraph,
    Pictures,
    Section,
    note,
    pictures,
)
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.rivals import say_rivals
from neurocontrast.reporting.sections.curves import draw_curve
from neurocontrast.reporting.sections.errors import draw_confusion, draw_predicted
from neurocontrast.reporting.sections.outside import outlyingness_blocks
from neurocontrast.reporting.sections.result import table_metrics
from neurocontrast.reporting.sections.sites import site_blocks
from neurocontrast.reporting.texts import count_texts, section


def show_external(files: EvaluationFolder) -> Section | None:
    """Return the metrics, curves and sites of the external test set; None without one."""
    part = external_part(files)
    about = files.summary.part(ExternalTest)
    if part is None or about is None:
        return None
    blocks: list[Block] = [Facts(list_tested(files, about))]
    blocks.append(table_metrics(part, caption="Metrics of the external test set."))
    beside = say_rivals(part.summary, part.leading[0])
    if beside:
        blocks.append(Paragraph(beside))
    tested = _tested(files)
    if tested is None:
        blocks.append(note("external_predictions.tsv is absent: no curve can be drawn."))
    elif part.kind == "continuous":
        blocks += pictures(draw_predicted(part))
    else:
        curves = ("roc", "precision_recall") if part.kind == "binary" else ()
        blocks += pictures(*(draw_curve(part, curve) for curve in curves), draw_confusion(part))
    if tested is not None:
        blocks += site_blocks(part, file="external_sites.tsv")
    blocks += outlyingness_blocks(part, title="External scans unlike those it learned from")
    start = "External test set. "
    blocks = [
        replace(
            block,
            pictures=[
                replace(
                    each,
                    name=f"external_{each.name}",
                    alt=start + each.alt,
                    caption=start + each.caption,
                )
                for each in block.pictures
            ],
        )
        if isinstance(block, Pictures)
        else block
        for block in blocks
    ]
    who = (
        "People some of whom had been seen before"
        if about.n_overlap
        else "People who had no part in any choice"
    )
    return section(
        "external",
        blocks,
        who=who,
        fitted="the scans of training" if files.fixed else "all scans above",
    )


def list_tested(files: EvaluationFolder, external: ExternalTest) -> list[tuple[str, str]]:
    """List the table and the size of the external test set, and who had been seen before."""
    facts = [
        ("Embeddings", external.file or "not recorded"),
        ("Size", ", ".join(count_texts(external.n)) or "not recorded"),
    ]
    if external.threshold:
        facts.append(("Called positive from", f"{external.threshold:.3f}"))
    if external.digest:
        facts.append(("Digest", f"{external.digest[:16]}…"))
    seen = f"{external.n_overlap:,}"
    if "external_overlap_unknown" in [warning.code for warning in files.summary.warnings]:
        seen += " (who was in pretraining could not be checked)"
    facts.append(("Subjects seen before (pretraining, cross-validation)", seen))
    return facts


def _tested(files: EvaluationFolder) -> pd.DataFrame | None:
    return files.table("external_predictions", "y_true", "y_score")


def external_part(files: EvaluationFolder) -> EvaluationFolder | None:
    """Return the external test set as an evaluation of its own, for the same figures; None without one."""
    external = files.summary.part(ExternalTest)
    if external is None:
        return None
    threshold = files.summary.threshold.model_copy(
        update={"rule": external.threshold, "values": []}
    )
    models = {}
    for key, rival in external.rivals.items():
        metrics = _as_metrics(rival.metrics)
        models[key] = ModelFigures(metrics=metrics, increment=rival.increment)
    changes = {
        "n": external.n,
        "metrics": _as_metrics(external.metrics),
        "baseline": _as_metrics(external.baseline),
        "increment": external.increment,
        "baseline_covariates": external.baseline_covariates,
        "threshold": threshold,
        "outlyingness": external.outlyingness,
        "permutation": None,
        "splits": "fixed",
        "models": models,
    }
    tested = _tested(files)
    sites = files.table("external_sites", "site", "n")
    tested = files.predictions.iloc[:0] if tested is None else tested
    outside = files.table("external_outlyingness")
    return replace(
        files,
        summary=files.summary.model_copy(update=changes),
        predictions=tested.assign(
            **{name: 0.0 for name in ("repeat", "fold") if name not in tested}
        ),
        sites=pd.DataFrame() if sites is None else sites,
        tables={"cohort": None, "outlyingness": outside},
    )


def _as_metrics(figures: Mapping[str, ExternalMetric]) -> dict[str, Metric]:
    """Return figures of the external test set as metrics of an evaluation."""
    metrics = {}
    for name, figure in figures.items():
        metrics[name] = Metric(pooled=figure.value, interval=figure.interval, reason=figure.reason)
    return metrics


EXTERNAL = Finding(
    "external",
    show_external,
    measure_external_test,
    record=ExternalTest,
    methods="methods_external.j2",
    of=("scans",),
)
