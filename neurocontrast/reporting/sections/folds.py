"""Section of the result fold by fold."""

from neurocontrast.reporting.baselines import list_baselines
from neurocontrast.reporting.blocks import Column, Section, Table, make_table
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.wording import leading_metrics


def show_folds(files: EvaluationFolder) -> Section | None:
    """Return the section with the table of folds; None for one test set, or without folds."""
    table = None if files.fixed or files.folds.empty else table_folds(files)
    return Section("folds", "Fold by fold", [table]) if table else None


def table_folds(files: EvaluationFolder) -> Table:
    """Return the table of folds: scans in training and test, metrics of embedding and baselines."""
    folds = files.folds
    penalty = next(
        (name for name in ("C", "alpha") if name in folds and folds[name].notna().any()), ""
    )
    if penalty:
        folds = folds.assign(penalty=folds[penalty].map("{:.3g}".format, na_action="ignore"))
    left_out = "held_out_site" in folds and folds["held_out_site"].notna().any()
    positive = "n_positive_test" in folds and files.kind == "binary"
    metrics = leading_metrics(files.kind, [key for key in files.metrics if key in folds])
    models = {"": "", "baseline_": "Cov. only"}
    for baseline in list_baselines(files.summary):
        models[f"{baseline.key}_"] = baseline.name.capitalize()
    columns = (
        Column("Repeat", "repeat", "count") if folds["repeat"].nunique() > 1 else None,
        Column("Fold", "fold", "count"),
        Column("Site left out", "held_out_site", "heading") if left_out else None,
        Column("Train", "n_train", "count"),
        Column("Test", "n_test", "count"),
        Column("Positive in test", "n_positive_test", "count") if positive else None,
        *(
            Column(
                title or files.describe(key).short,
                name + key,
                digits=2,
                reason="not defined in this fold",
            )
            for key in metrics
            for name, title in models.items()
        ),
        Column(penalty, "penalty", "text") if penalty else None,
    )
    return make_table(
        "Each test fold. All metrics are in folds.tsv.", folds, columns, folded=len(folds) > 25
    )


FOLDS = Finding("folds", show_folds)
