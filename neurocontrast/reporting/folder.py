"""Reading an evaluation folder: every file is checked, and a wrong cell is named."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.documents.encoder import ObjectiveRecord
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.origin import Finetuning
from neurocontrast.documents.result import FILE, FixedSplit, Result, read_evaluation
from neurocontrast.evaluation.rows import NO_SITE, site_names
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.files import digest_of_file
from neurocontrast.reporting.explanation import Explanation, read_explanation
from neurocontrast.reporting.result_tables import REMEDY, ResultTables, read_result_table
from neurocontrast.reporting.voices import VOICES, Voice

KINDS = ("binary", "multiclass", "continuous")
_PREDICTED = ("repeat", "fold", "y_true", "y_score")
_REQUIRED = {
    "predictions": _PREDICTED,
    "folds": ("repeat", "fold", "n_train", "n_test"),
    "sites": ("site", "n"),
}
"""Table of every evaluation → columns that the report cannot do without."""


@dataclass(frozen=True, kw_only=True)
class EvaluationFolder(ResultTables):
    """Content of an evaluation folder; tables of single sections are read when first needed.

    Parameters
    ----------
    folds : DataFrame
        Sizes and metrics of each fold.
    explanation : Explanation, optional
        Content of the folder ``explanation``, which `neurocontrast explain` writes.
    config_text : str, optional
        Text of ``config.yaml``, the configuration in the folder; None without the file.
    findings : tuple of Finding
        Analyses of which the report is made; each can have its own table and report section.
    """

    folds: pd.DataFrame
    explanation: Explanation | None = None
    config_text: str | None = None
    findings: tuple[Any, ...] = ()

    @property
    def voice(self) -> Voice | None:
        """Nouns and templates of reports on samples such as images; None for scans."""
        return VOICES.find(self.run.preprocessing.kind)

    @cached_property
    def names_of_voice(self) -> Mapping[str, object]:
        """Variables of report templates for samples such as images: name → value; empty for scans.

        The function `names` of the `Voice` (the nouns and templates for the kind of samples)
        returns the variables.
        """
        if self.voice is None:
            return {}
        return self.voice.names(self.folder, self._paths())

    def _paths(self) -> list[str]:
        """List the first path in the column ``path`` of ``scans.tsv``, and of ``predictions.tsv``.

        The list is shorter if a table is absent or has no paths. The function `names` of a `Voice`,
        which returns template variables for samples other than scans, is called with the list.
        """
        paths = []
        for table in (self.table("scans", "path"), self.predictions):
            if table is not None and "path" in table:
                paths += table["path"].dropna().head(1).tolist()
        return paths

    @property
    def objective(self) -> ObjectiveRecord:
        """Loss of the pretraining run, with the loss's own settings such as a temperature.

        The `ObjectiveRecord` is empty if no loss is recorded.
        """
        return self.summary.objective or ObjectiveRecord()

    @property
    def finetuning(self) -> Finetuning:
        """Settings by which a network was trained in every fold; empty for a probe."""
        return self.summary.finetuning or Finetuning()

    @property
    def software(self) -> Environment:
        """Versions of Python and packages that ran the evaluation; empty if none are recorded."""
        return self.summary.environment or Environment()

    @property
    def split(self) -> FixedSplit:
        """Record of the fixed split into parts such as test; empty with cross-validation."""
        return self.summary.split or FixedSplit()

    @property
    def sites_tested(self) -> str:
        """Word that says whether tested scans are of sites in the training folds.

        ``unseen``: no tested scan is; ``known``: every tested scan is; ``mixed``: some are, or the
        tables do not tell, as with one fixed test set, or with scans whose site is not stated.
        """
        if self.summary.splits == "leave-site-out":
            return "unseen"
        if self.fixed or "site" not in self.predictions:
            return "mixed"
        if (site_names(self.predictions["site"]) == NO_SITE).any():
            return "mixed"
        n_folds = self.predictions.groupby(["repeat", "site"])["fold"].nunique()
        if n_folds.empty:
            return "mixed"
        if (n_folds > 1).all():
            return "known"
        # Scans that are never tested are trained on, whatever their site.
        n_tested = (self.summary.n.scans or 0) * self.summary.n_repeats
        if (n_folds == 1).all() and len(self.predictions) == n_tested:
            return "unseen"
        return "mixed"

    @property
    def parts(self) -> dict[str, int]:
        """Part of a fixed split, such as ``train`` → number of scans; empty if cross-validated."""
        return self.split.n

    @property
    def key(self) -> str:
        """Secret key of pseudonyms: the digest of ``predictions.tsv`` in the evaluation folder.

        The table is no part of a report, so that readers of a report cannot compute the key.
        """
        return digest_of_file(self.folder / "predictions.tsv")


def read_folder(
    folder: str | os.PathLike[str], *, show_ids: bool = False, findings: Sequence[Any] = ()
) -> EvaluationFolder:
    """Read and check the folder of an evaluation, and return its content for a report.

    Returned is an `EvaluationFolder`. `findings` are the analyses whose sections the report has;
    the key of each in ``evaluation.json`` is checked, too. With `show_ids`, identifiers of
    participants may appear in the report. A path that is no evaluation raises ConfigError; a file
    that is missing, damaged or of another format raises DataError.
    """
    root = Path(folder)
    _check_is_evaluation(root)
    summary = read_evaluation(root)
    _check_is_complete(root)
    predictions = _read_predictions(root, summary)
    folds = _read_required(root, "folds", summary)
    sites = _read_required(root, "sites", summary)
    config = root / "config.yaml"
    config_text = None
    if config.is_file():
        config_text = config.read_text(encoding="utf-8", errors="replace")
    files = EvaluationFolder(
        folder=root,
        summary=summary,
        predictions=predictions,
        folds=pd.DataFrame() if folds is None else folds,
        sites=pd.DataFrame() if sites is None else sites,
        explanation=read_explanation(root / "explanation"),
        config_text=config_text,
        show_ids=show_ids,
        findings=tuple(findings),
    )
    for finding in findings:
        if finding.record is not None:
            summary.part(finding.record)
    return files


def _check_is_complete(root: Path) -> None:
    """Raise DataError if the folder `root` lacks a table that every evaluation has."""
    missing = []
    for name in _REQUIRED:
        if not (root / f"{name}.tsv").is_file():
            missing.append(f"{name}.tsv")
    if missing:
        raise DataError(
            f"{root}: incomplete evaluation folder; missing: {one_of(missing)}. "
            "Run 'neurocontrast evaluate' again; its files belong together."
        )


def _read_required(root: Path, name: str, summary: Result, *further: str) -> pd.DataFrame | None:
    """Read ``<name>.tsv``, a table that each evaluation folder has, from the folder `root`.

    None is returned for an absent table or a table without rows. DataError names a missing column,
    of those that `_REQUIRED` lists for the table and the columns `further`.
    """
    columns = (*_REQUIRED[name], *further)
    return read_result_table(root / f"{name}.tsv", columns, kind=summary.kind)


def _read_predictions(root: Path, summary: Result) -> pd.DataFrame:
    """Read ``predictions.tsv`` from the folder `root`; without rows, raise DataError.

    A true or predicted class that is not among the classes of `summary` raises DataError, too.
    """
    path = root / "predictions.tsv"
    of_classes: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    if summary.kind != "continuous":
        of_classes = ("y_true", "y_pred")
        further = ("y_pred",)
    predictions = _read_required(root, "predictions", summary, *further)
    if predictions is None:
        raise DataError(f"{path}: no predictions in it. {REMEDY}")
    for column in of_classes:
        wrong = sorted(set(predictions[column].dropna()) - set(summary.classes))
        if wrong:
            raise DataError(
                f"{path}, column '{column}': '{wrong[0]}' is not a class of {FILE}: "
                f"{one_of(summary.classes)}. {REMEDY}"
            )
    return predictions


def _check_is_evaluation(root: Path) -> None:
    if (root / FILE).is_file():
        return
    if root.is_file():
        reason = f"got the file '{root}'"
        hint = f" Give the folder that holds it: {root.parent}."
    elif not root.is_dir():
        reason = f"and there is no folder '{root}'"
        hint = ""
    else:
        reason = f"and '{root}' has no {FILE}"
        hint = ""
        if (root / "encoder.json").is_file() or (root / "provenance.json").is_file():
            hint = (
                " It looks like a run of 'neurocontrast pretrain': run 'embed' and 'evaluate' "
                "first."
            )
        elif (root / "comparison.json").is_file():
            hint = " It is a comparison, which has its page already: comparison.html."
    raise ConfigError(
        f"evaluation: must be the folder that 'neurocontrast evaluate' wrote, {reason}.{hint}"
    )
