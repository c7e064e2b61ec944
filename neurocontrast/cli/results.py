"""What each command found, read from the files that it wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from neurocontrast.cli.output import Result, show_table

if TYPE_CHECKING:
    from neurocontrast.evaluation import External, Study
    from neurocontrast.evaluation.schema import Estimate, Evaluation, NewSite

__all__ = [
    "cohort_result",
    "comparison_result",
    "embeddings_result",
    "evaluation_result",
    "explanation_result",
    "new_site_lines",
    "prediction_result",
    "run_result",
    "show_plan",
]

_CLOSE = {"auc": "log_loss", "balanced_accuracy": "log_loss"}
"""The error that stands for a metric of which more is better, where a ratio is shown."""


def cohort_result(participants: Path) -> Result:
    """Return how many scans, or images, a written table has of each site or split."""
    from neurocontrast.data.cohort import read_cohort
    from neurocontrast.stages.check import summarise

    counts = summarise(read_cohort(participants, check_images=False))
    table = counts.rename_axis("").reset_index()
    return Result({"counts": counts.to_dict("index")}, f"{participants.name}", table, path=participants)


def run_result(folder: Path) -> Result:
    """Return the figures of a run's last epoch."""
    from neurocontrast.stages.run_folder import read_metrics

    rows = read_metrics(folder)
    last = {name: value for name, value in (rows[-1] if rows else {}).items() if value is not None}
    shown = {
        name.replace("_", " "): [value]
        for name, value in last.items()
        if name.startswith(("epoch", "train_loss", "val_loss", "probe_")) or name.endswith("_effective_rank")
    }
    return Result({"last_epoch": last}, "The last epoch", pd.DataFrame(shown) if last else None, path=folder)


def embeddings_result(path: Path) -> Result:
    """Return how many scans were embedded, and the number of features."""
    import pyarrow.parquet

    found = pyarrow.parquet.read_metadata(path)
    n_features = sum(name.startswith("feature_") for name in found.schema.names)
    facts = {"n_scans": found.num_rows, "n_features": n_features}
    return Result(facts, f"{found.num_rows:,} embedded, {n_features:,} features each", path=path)


def evaluation_result(folder: Path) -> Result:
    """Return an evaluation's first metric, beside those of the covariates and of the voxels, and the warnings."""
    from neurocontrast.evaluation.schema import read_evaluation

    read = read_evaluation(folder)
    metric = next(iter(read.metrics), "")
    sources = {"embedding": read.metrics, "covariates only": read.baseline, "voxels": read.voxels}
    found: dict[str, dict[str, Any]] = {
        name: {"value": each.mean if each.pooled is None else each.pooled, "interval": each.interval}
        for name, section in sources.items()
        if (each := section.get(metric)) is not None
    }
    level = read.bootstrap.level or 0.95
    rows = [{"": name, f"{metric} [{level:.0%} interval]": _figure(**each)} for name, each in found.items()]
    n = len(read.warnings)
    warnings = [f"{n} warning{'' if n == 1 else 's'}: read them in the report."] if n else []
    facts = {"target": read.target, "metric": metric, "models": found, "n_warnings": n}
    notes = [*new_site_lines(read), *warnings, f"Next: neurocontrast report {folder}"]
    return Result(facts, f"{read.target}, {read.splits}", pd.DataFrame(rows), notes, folder)


def prediction_result(path: Path) -> Result:
    """Return how many scans were predicted, and how many of them lie outside."""
    about = _read(path.with_suffix(".json"))
    outside = about["outlyingness"]
    facts = {"n_scans": about["n"]["scans"], "n_trained_on": about["n"]["of_trained_subjects"]}
    title = f"{about['target']} predicted for {facts['n_scans']:,} scans"
    if outside is not None:
        facts["n_outside"] = outside["n_outside"]
        title += f", {outside['n_outside']:,} of them outside the training distribution"
    return Result(facts, title, path=path)


def explanation_result(folder: Path) -> Result:
    """Return the places that matter most, in mm."""
    about = _read(folder / "explain.json")
    facts = {key: about[key] for key in ("target", "n_subjects", "quantity", "top_regions")}
    table = pd.DataFrame(about["top_regions"])[:5] if about["top_regions"] else None
    title = f"{about['target']}: {about['quantity']}, {about['n_subjects']} subjects"
    return Result(facts, title, table, path=folder / about["map"])


def comparison_result(folder: Path) -> Result:
    """Return every model's difference from the first one, with its interval and p-value."""
    differences = pd.read_csv(folder / "differences.tsv", sep="\t")
    about = _read(folder / "comparison.json")
    table = differences[["metric", "model"]].copy()
    table[f"difference [{about['confidence_level']:.0%} interval]"] = [
        _figure(row["difference"], [row["low"], row["high"]]) for row in differences.to_dict("records")
    ]
    table["p (Holm)"] = differences["p_adjusted"]
    records = json.loads(differences.to_json(orient="records"))
    facts = {"target": about["target"], "reference": about["reference"], "differences": records}
    title = f"{about['target']}: differences from {about['reference']}"
    return Result(facts, title, table, path=folder / "comparison.html")


def show_plan(study: Study, external: External | None) -> None:
    """Print who is evaluated, in which folds, and how many scans each site has of each class."""
    from neurocontrast.evaluation.tables import cohort_table, part_table

    split, target, n = study.splits[0], study.target, study.table["subject_id"].nunique()
    if study.fixed:
        n_validation = 0 if split.validation is None else len(split.validation)
        chosen = f"{n_validation} of them to choose its strength" if n_validation else "no validation rows"
        title = (
            f"{target.name}: {study.probe} probe fitted on {len(split.train)} rows ({chosen}), tested on "
            f"{len(split.test)}, as column '{study.settings.split_column}' says"
        )
        show_table(part_table(target, split), title=title, more="classes (classes.tsv)")
    else:
        n_folds, n_repeats = (1 + max(getattr(each, name) for each in study.splits) for name in ("fold", "repeat"))
        how = "sites held out" if split.held_out_site is not None else "folds"
        repeated = f", {n_repeats} times" if n_repeats > 1 else ""
        title = f"{len(study.table)} scans of {n} subjects, {n_folds} {how}{repeated}, {study.probe} probe"
        table = cohort_table(study.table, target)
        show_table(table, title=f"{target.name}: {title}", more="sites (cohort.tsv)")
    if external is not None:
        rows = external.split.test
        tested = external.study.table.iloc[rows].reset_index(drop=True)
        title = f"External test set: {len(rows)} scans of {tested['subject_id'].nunique()} subjects"
        show_table(cohort_table(tested, external.study.target.subset(rows)), title=title, more="sites")


def new_site_lines(evaluation: Evaluation) -> Iterator[str]:
    """Yield lines about unseen sites and scans outside; none about what was not asked for."""
    block = evaluation.new_site
    if block is not None:
        yield from (_error_line(block, model) for model in block.models if model != "baseline")
    elif evaluation.new_site_note and evaluation.splits != "fixed":
        yield f"New site: not measured: {evaluation.new_site_note}."
    external = None if evaluation.external is None else evaluation.external.outlyingness
    for name, found in (("Scans", evaluation.outlyingness), ("External scans", external)):
        if found is not None:
            yield f"{name} outside the training distribution: {found.n_outside} of {found.n}."


def _error_line(block: NewSite, model: str) -> str:
    metric = block.metric or ""
    home, unseen = block.home[model][metric], block.unseen[model][metric]
    named = metric if model == "embedding" else f"{metric} {model}"
    line = f"New site: {named} {_ends(home)} at known sites, {_ends(unseen)} at unseen ones"
    error = _CLOSE.get(metric, metric)
    ratio = block.ratio[model].get(error)
    if ratio is not None and ratio.value is not None:
        line += f"; {'' if error == metric else f'{error} '}{_ends(ratio)} times as large"
    return f"{line} ({block.n_sites} sites left out)."


def _ends(figure: Estimate) -> str:
    return _figure(figure.value, [figure.low, figure.high])


def _figure(value: float | None, interval: Sequence[float | None] | None) -> str:
    if value is None or value != value:
        return "not defined"
    low, high = interval or (None, None)
    return f"{value:.3g}" if low is None or high is None or low != low else f"{value:.3g} [{low:.3g}, {high:.3g}]"


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
