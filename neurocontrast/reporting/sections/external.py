"""Section of the external test: the result on people of another study or hospital."""

from neurocontrast.documents.findings import ExternalTest
from neurocontrast.evaluation.measure.external import measure_external_test
from neurocontrast.reporting.baselines import say_baselines
from neurocontrast.reporting.blocks import (
    Block,
    Facts,
    Paragraph,
    Section,
    note,
    pictures,
)
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.result_tables import ResultTables
from neurocontrast.reporting.sections.curves import draw_curve
from neurocontrast.reporting.sections.errors import draw_confusion, draw_predicted
from neurocontrast.reporting.sections.outside import outlyingness_blocks
from neurocontrast.reporting.sections.result import table_metrics
from neurocontrast.reporting.sections.sites import site_blocks
from neurocontrast.reporting.texts import count_texts, section


def show_external(files: EvaluationFolder) -> Section | None:
    """Return the section of the external test set: metrics, curves and sites; None without one."""
    tested = external_tables(files)
    record = files.summary.part(ExternalTest)
    if tested is None or record is None:
        return None
    blocks: list[Block] = [Facts(list_tested(files, record))]
    blocks.append(table_metrics(tested, caption="Metrics of the external test set."))
    comparison = say_baselines(tested.summary, tested.leading[0])
    if comparison:
        blocks.append(Paragraph(comparison))
    if tested.predictions.empty:
        blocks.append(note("external_predictions.tsv is absent: no curve can be drawn."))
    else:
        blocks += _draw_predictions(tested)
        blocks += site_blocks(tested)
    blocks += outlyingness_blocks(tested, title="External scans unlike those it learned from")
    who = "People who had no part in any choice"
    if record.n_overlap:
        who = "People some of whom had been seen before"
    fitted = "all scans above"
    if files.fixed:
        fitted = "the scans of training"
    return section("external", blocks, who=who, fitted=fitted)


def _draw_predictions(tested: ResultTables) -> list[Block]:
    """Return a block with the figures of the predictions in an external test, in a list.

    Two classes have an ROC curve, a precision-recall curve and a confusion matrix, more classes a
    confusion matrix, and a continuous target has a plot of predicted against true values.
    """
    if tested.kind == "continuous":
        return pictures(draw_predicted(tested))
    if tested.kind != "binary":
        return pictures(draw_confusion(tested))
    roc = draw_curve(tested, "roc")
    precision_recall = draw_curve(tested, "precision_recall")
    return pictures(roc, precision_recall, draw_confusion(tested))


def list_tested(files: EvaluationFolder, external: ExternalTest) -> list[tuple[str, str]]:
    """List facts of the external test set: file, size, and the number of subjects seen before.

    Subjects count as seen before if they were in pretraining or cross-validation. Returned are
    pairs of a label and a text.
    """
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


def external_tables(files: EvaluationFolder) -> ResultTables | None:
    """Return metrics and tables of the external test as `ResultTables`; None without such a test.

    Functions that show the tables of an evaluation can so show the external test's.
    """
    record = files.summary.part(ExternalTest)
    if record is None:
        return None
    predictions = files.table("external_predictions", "y_true", "y_score")
    if predictions is None:
        predictions = files.predictions.iloc[:0]
    for column in ("repeat", "fold"):
        if column not in predictions:
            predictions = predictions.assign(**{column: 0.0})
    sites = files.table("external_sites", "site", "n")
    return ResultTables(
        folder=files.folder,
        summary=record.as_result(files.summary),
        predictions=predictions,
        sites=files.sites.iloc[:0] if sites is None else sites,
        show_ids=files.show_ids,
        prefix="external_",
        opening="External test set. ",
        tables=files.tables,
    )


EXTERNAL = Finding(
    "external",
    show_external,
    measure_external_test,
    record=ExternalTest,
    methods="methods_external.j2",
    of=("scans",),
)
