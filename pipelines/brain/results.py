"""Results of figure 3: the AUC of every fold and seed, means with intervals, figures, and a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import yaml

from neurocontrast.exceptions import DataError
from neurocontrast.files import write_table, write_text
from pipelines.brain.experiment import BrainExperiment
from pipelines.natural.experiment import MEASURES, Ordering, Variant
from pipelines.natural.figures import draw_experiment
from pipelines.natural.intervals import format_estimate
from pipelines.natural.published import appearance_of, paired_difference
from pipelines.natural.results import summarise_seeds
from pipelines.workflow import markdown_table

__all__ = ["summarise_brain"]

_AUC = MEASURES["auc"]


def summarise_brain(folder: str | Path, *, experiment: BrainExperiment) -> pd.DataFrame:
    """Write ``results.tsv``, ``results.md``, ``values.tsv``, ``figures/`` and ``experiment.yaml``.

    Parameters
    ----------
    folder : path
        Holds ``<variant>/seed-<seed>/subjects-<size>`` of every variant, seed and size:
        evaluations.
    experiment : BrainExperiment
        The experiment that was run.

    Returns
    -------
    DataFrame
        ``results.tsv``: columns of `summarise_seeds` and ``subjects``; a pair is a fold of a seed,
        in which variants are tested on the same subjects.
    """
    root = Path(folder)
    values = _read_values(root, experiment)
    parts = []
    for size, part in values.groupby("subjects", sort=False):
        parts.append(summarise_seeds(part, reference=experiment.reference).assign(subjects=size))
    summary = pd.concat(parts, ignore_index=True)
    write_table(root / "values.tsv", values)
    write_table(root / "results.tsv", summary)
    _draw(root, experiment, values, summary)
    content = experiment.model_dump(mode="json", exclude_defaults=True)
    write_text(
        root / "experiment.yaml", yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    )
    write_text(root / "results.md", _page(experiment, values, summary))
    return summary


def _read_values(root: Path, experiment: BrainExperiment) -> pd.DataFrame:
    """Return one row a variant, size, seed and fold, the AUC on its test subjects."""
    rows = []
    for variant in experiment.variants:
        for size in experiment.sizes:
            for seed in experiment.seeds:
                path = root / variant / f"seed-{seed}" / f"subjects-{size}" / "folds.tsv"
                try:
                    folds = pd.read_csv(path, sep="\t")[["repeat", "fold", "auc"]]
                except OSError as error:
                    raise DataError(
                        f"{path}: not readable ({error}). Run the workflow again."
                    ) from error
                except KeyError as error:
                    raise DataError(
                        f"{path}: has no AUC: '{experiment.target}' is not of two classes. Set another target, or keep "
                        "two classes with settings='{evaluation.where: {…}}'."
                    ) from error
                rows += [
                    (variant, size, "encoder", "auc", f"{seed}/{row.repeat}/{row.fold}", row.auc)
                    for row in folds.itertuples(index=False)
                ]
    return pd.DataFrame(rows, columns=["variant", "subjects", "layer", "measure", "seed", "value"])


def _draw(
    root: Path, experiment: BrainExperiment, values: pd.DataFrame, summary: pd.DataFrame
) -> None:
    """Draw the figures; over numbers of subjects, each variant is a series with a place for each."""
    if experiment.subjects:
        places = {
            f"{name}-{size}": Variant(label=f"{each.label}, {size}", series=each.label, at=size)
            for name, each in experiment.variants.items()
            for size in experiment.subjects
        }
        shown = experiment.model_copy(update={"variants": places})
        values, summary = (
            t.assign(variant=t["variant"] + "-" + t["subjects"]) for t in (values, summary)
        )
    else:
        shown = experiment
    draw_experiment(root, shown, values, summary, curves=pd.DataFrame())


def _page(experiment: BrainExperiment, values: pd.DataFrame, summary: pd.DataFrame) -> str:
    """Return a table of means, what was published, and whether the published orderings appear."""
    rows = {(row["variant"], row["subjects"]): row for row in summary.to_dict("records")}
    head = [f"AUC, {size} subjects" for size in experiment.sizes]
    names = ("mean", "low", "high")
    body = [
        [
            label,
            *(
                format_estimate(*(rows[name, size][key] for key in names), _AUC)
                for size in experiment.sizes
            ),
        ]
        for name, label in experiment.labels.items()
    ]
    lines = [
        f"# {experiment.title}", "", experiment.question, "", *markdown_table(["", *head], body), "",
        f"AUC of '{experiment.target}', means over folds and seeds ({', '.join(map(str, experiment.seeds))}) and 95 % "
        "intervals of Student's t over these; folds of one seed share training subjects, so the intervals are "
        "somewhat narrow.", "",
    ]  # fmt: skip
    lines += [f"- Published: {text}" for text in experiment.published]
    if experiment.orderings:
        found = [
            cells for each in experiment.orderings for cells in _describe(each, experiment, values)
        ]
        columns = ["Published ordering", "Source", "Subjects", "Difference here", "It"]
        lines += [
            "",
            *markdown_table(columns, found),
            "",
            _sentence([cells[-1] for cells in found]),
        ]
    return "\n".join(lines).rstrip() + "\n"


def _describe(
    ordering: Ordering, experiment: BrainExperiment, values: pd.DataFrame
) -> Iterator[list[str]]:
    """Yield, for each size, cells that say what is above what and whether it is here, paired by fold."""
    names = [experiment.labels[name] for name in (ordering.higher, ordering.lower)]
    for size in experiment.sizes:
        here = values[values["subjects"] == size]
        found = paired_difference(
            here, ordering.higher, ordering.lower, measure="auc", layer="encoder"
        )[:3]
        yield [
            " > ".join(names), ordering.source, size, format_estimate(*found, _AUC, signed=True),
            appearance_of(*found),
        ]  # fmt: skip


def _sentence(verdicts: Sequence[str]) -> str:
    n, appear, opposite = (
        len(verdicts),
        verdicts.count("appears"),
        verdicts.count("the opposite appears"),
    )
    unsettled = n - appear - opposite
    return f"Of {n} published orderings {appear} appear, {opposite} the other way round; {unsettled} are not settled."
