"""What else the embedding holds: site, age, sex."""

from functools import partial

import pandas as pd

from neurocontrast.evaluation.measure.confounds import Confounds, measure_confounds
from neurocontrast.reporting.blocks import Block, Column, Facts, Section, Table, make_table, note
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.prose import naming, section, write, write_paragraphs
from neurocontrast.reporting.wording import describe_metric

_ABSENT = "Not shown: how well site, age and sex can be read off the embedding. confounds.tsv is absent or empty."


def show_confounds(files: EvaluationFolder) -> Section:
    """Return how well site, age and sex are predicted from the embedding, and the OpenBHB score."""
    about = files.summary.part(Confounds) or Confounds()
    table = column_readings(files)
    adjustment = Facts(write_paragraphs("confounds.j2", files, what="adjustment", about=about))
    blocks: list[Block] = [adjustment, note(_ABSENT) if table is None else _table(table)]
    if about.openbhb is not None:
        parts = write_paragraphs("confounds.j2", files, what="openbhb", about=about)
        blocks.append(Facts(parts, title="OpenBHB score"))
    blocks.append(note(write("confounds.j2", files, about=about)))
    within = "“Within” rows ask the same among scans of one class, where the target cannot help."
    classes = table is not None and "within" in table and (table["within"] != "all").any()
    return section("confounds", blocks, within=within if classes else "")


def column_readings(files: EvaluationFolder) -> pd.DataFrame | None:
    """Return ``confounds.tsv`` of an evaluation; None without it."""
    return files.table("confounds", "column", "metric", "value")


def _table(confounds: pd.DataFrame) -> Table:
    rows = confounds.reindex(
        columns=[*confounds, *({"within", "note", "n", "n_levels"} - set(confounds))]
    )
    within = rows["within"].fillna("all")
    remark = rows["note"].fillna("")
    rows = rows.rename(columns={"low": "value_low", "high": "value_high"}).assign(
        column=rows["column"].map(partial(naming, "column")),
        within=("within " + within).where(within != "all", "all scans"),
        metric=[describe_metric(str(key)).label for key in rows["metric"]],
        note=remark,
        value_reason=remark.where(remark != "", "not defined"),
    )
    columns = (
        Column("Column", "column", "heading"),
        Column("Among", "within", "text"),
        Column("Metric", "metric", "text"),
        Column("Value", "value", digits=2, interval=True),
        Column("Chance", "chance", digits=2, reason="not defined"),
        Column("n", "n", "count"),
        Column("Levels", "n_levels", "count", reason="not a column of classes"),
        Column("Note", "note", "text") if remark.any() else None,
    )
    return make_table("Columns predicted from the embedding.", rows, columns)


CONFOUNDS = Finding(
    "confounds",
    show_confounds,
    measure_confounds,
    record=Confounds,
    methods="methods_confounds.j2",
    of=("scans",),
)
