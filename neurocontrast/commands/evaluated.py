"""What `evaluate` returns: the folder that it wrote, with its figures at hand."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.commands.report import report
from neurocontrast.evaluation.record import Metric, read_evaluation
from neurocontrast.exceptions import one_of

__all__ = ["EvaluationResult"]


class EvaluationResult(os.PathLike[str]):
    """The folder of an evaluation: a path, whose figures are attributes.

    ``result / "folds.tsv"`` and every attribute of a `Path` work, and so does every function that takes the folder. A
    metric of the embedding is an attribute too, such as ``result.auc``: of all predictions out of their folds at once,
    or the mean over folds where a metric has no such value.

    Parameters
    ----------
    folder : path
        Folder written by `evaluate`.

    Attributes
    ----------
    folder : Path
        The folder.
    record : Evaluation
        Content of ``evaluation.json``.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder, self.record = Path(folder), read_evaluation(folder)

    def __fspath__(self) -> str:
        return str(self.folder)

    __str__ = __fspath__

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, os.PathLike) and self.folder == Path(os.fspath(other))

    def __hash__(self) -> int:
        return hash(self.folder)

    def __getattr__(self, name: str) -> Any:
        """Return a metric of the embedding, or an attribute of the path."""
        if name.startswith("_") or name in ("folder", "record"):
            raise AttributeError(name)
        if name in self.record.metrics:
            return self.record.metrics[name].value
        if hasattr(self.folder, name):
            return getattr(self.folder, name)
        raise AttributeError(f"an evaluation has no attribute '{name}'; its metrics: {one_of(self.record.metrics)}.")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.record.metrics})

    @property
    def models(self) -> dict[str, dict[str, Metric]]:
        """Metrics of each model that was evaluated, by its name: the embedding, and those it is compared with."""
        record = self.record
        trained = record.probe.name if record.finetuning else None
        found = {trained or "embedding": record.metrics, "covariates only": record.baseline, "voxels": record.voxels,
                 "regional measures": record.regional}  # fmt: skip
        return {name: metrics for name, metrics in found.items() if metrics}

    @property
    def table(self) -> pd.DataFrame:
        """Every metric of every model: its value with its interval, and mean and deviation over folds."""
        rows = []
        for model, metrics in self.models.items():
            for name, metric in metrics.items():
                low, high = metric.interval or (None, None)
                row = {"model": model, "metric": name, "value": metric.value, "low": low, "high": high}
                rows.append({**row, "mean": metric.mean, "sd": metric.sd})
        return pd.DataFrame(rows)

    def report(self, **options: Any) -> Path:
        """Write the report of the evaluation, and return its path; the options are those of `neurocontrast.report`."""
        return report(self, **options)

    def __repr__(self) -> str:
        first = next(iter(self.record.metrics), None)
        figure = "" if first is None else f", {first} {getattr(self, first):.3g}"
        return f"EvaluationResult('{self.folder}': {self.record.target}, {self.record.splits}{figure})"

    def _repr_html_(self) -> str:
        n = len(self.record.warnings)
        notes = f"<p>{n} warning{'' if n == 1 else 's'}: read them in the report.</p>" if n else ""
        title = escape(f"{self.record.target}, {self.record.splits}")
        return (
            f"<p><b>{title}</b></p>{self.table.to_html(index=False, float_format='{:.3f}'.format, na_rep='–')}{notes}"
        )
