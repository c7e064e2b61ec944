"""How far each scan lies from those that a probe was fitted on: tables, summaries and what to say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from neurocontrast.evaluation.confounds import draw_subjects
from neurocontrast.evaluation.designs import FeatureDesign
from neurocontrast.evaluation.distribution import (
    MAX_AXES,
    N_NEIGHBOURS,
    TrainingDistribution,
    fit_distribution,
    neighbour_percentiles,
)
from neurocontrast.evaluation.fitting import features_design
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.table import NO_SITE, cell_texts
from neurocontrast.progress import Progress
from neurocontrast.seeds import derive_seed

__all__ = [
    "Outlyingness",
    "measure_external",
    "measure_outlyingness",
    "outside_by_site",
    "outside_message",
    "training_distribution",
]

Rows = npt.NDArray[np.intp]

MAX_REFERENCE = 1000
"""Of more training scans, so many are drawn (whole subjects): enough to know where they lie."""
RARE = 0.001
"""More scans outside than chance gives with this probability are warned about."""


@dataclass(frozen=True)
class Outlyingness:
    """``outlyingness`` of evaluation.json, a row a scan, and warnings; None where it cannot be had."""

    summary: dict[str, Any] | None
    table: pd.DataFrame | None = None
    notices: list[Notice] = field(default_factory=list)


def measure_outlyingness(study: Study, left_out: Sequence[Split], progress: Progress) -> Outlyingness:
    """Say how far each scan lies from its training folds, and from the other sites where its own is left out.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it. Of repeated folds the first repeat is used.
    left_out : sequence of Split
        Folds that leave sites out besides; none where the main folds do, or nothing can be left out.
    progress : Progress
        Told how far the work is.
    """
    if not study.settings.outlyingness:
        return Outlyingness(None)
    main = [split for split in study.splits if split.repeat == 0]
    design = features_design(study)
    with progress.task("Looking for scans that lie outside", len(main) + len(left_out), "fold") as task:
        parts, why_not = _score_splits(study, design, main, task.advance)
        unseen, _ = _score_splits(study, design, left_out, task.advance)
    rows = np.sort(np.concatenate([split.test for split in main]))
    table = _frame(study, rows, parts, "training folds")
    if left_out:
        table["unseen_percentile"] = unseen["mahalanobis_percentile"][rows]
        table["unseen_outside"] = _flags(unseen["mahalanobis_percentile"][rows], study)
    summary = _summary(table, study, "training folds", sorted(set(why_not)))
    return Outlyingness(summary, table, _look_at(summary, "outside_distribution"))


def measure_external(study: Study, split: Split, distribution: TrainingDistribution | str | None) -> Outlyingness:
    """Say how far external scans lie from those that the probe was fitted on.

    Parameters
    ----------
    study : Study
        Training and external scans together.
    split : Split
        Which are which.
    distribution : TrainingDistribution, str or None
        Of the training scans; or why there is none; None where it was not asked for.
    """
    if distribution is None:
        return Outlyingness(None)
    scores = _empty(len(study.table))
    if not isinstance(distribution, str):
        x_train, x_test = _matrices(study, features_design(study), split)
        _fill(scores, study, split, distribution, x_train, x_test)
    table = _frame(study, split.test, scores, "probe")
    summary = _summary(table, study, "probe", [distribution] if isinstance(distribution, str) else [])
    return Outlyingness(summary, table, _look_at(summary, "external_outside_distribution", "test: "))


def training_distribution(study: Study) -> TrainingDistribution | str | None:
    """Return where the scans of a study lie, as its probe gets them; or why that is not known; None if not asked."""
    if not study.settings.outlyingness:
        return None
    rows = study.fitted_rows
    split = Split(0, -1, rows, rows[:1])
    return _fit(study, split, _matrices(study, features_design(study), split)[0])


def outside_by_site(
    sites: pd.Series, subjects: pd.Series, percentiles: npt.ArrayLike, *, threshold: float
) -> list[dict[str, Any]]:
    """Return, for each site, how many scans lie outside, the median percentile, and whether it is further out at all.

    ``p_value``: of a sign test that more than half of its subjects lie further out than half of the training scans.
    """
    named = [NO_SITE if text is None else text for text in cell_texts(sites)]
    values = np.asarray(percentiles, dtype=float)
    frame = pd.DataFrame({"site": named, "subject": subjects.to_numpy(dtype=object), "percentile": values})
    found = []
    for site, part in frame.dropna(subset=["percentile"]).groupby("site", sort=True):
        people = part.groupby("subject")["percentile"].mean().to_numpy()
        test = stats.binomtest(int((people > 50).sum()), len(people), 0.5, alternative="greater")
        found.append(
            {
                "site": site,
                "n": len(part),
                "n_outside": int((part["percentile"] > threshold).sum()),
                "median_percentile": float(part["percentile"].median()),
                "p_value": float(test.pvalue),
            }
        )
    return found


def outside_message(n_outside: int, n: int, threshold: float, by_site: Sequence[dict[str, Any]]) -> str | None:
    """Return what to tell of scans that lie outside; None where there are no more than training scans have."""
    share = 1 - threshold / 100
    if not n or stats.binomtest(n_outside, n, share, alternative="greater").pvalue > RARE:
        return None
    where = [f"{each['site']} {each['n_outside']} of {each['n']}" for each in by_site if each["n_outside"]]
    return (
        f"{n_outside} of {n} scans lie outside the distribution that the probe was fitted on ({', '.join(where[:8])}; "
        f"beyond the {threshold:g}th percentile, where {share * n:.0f} would be expected): do not trust what it says "
        "of them without people of their site to check it on."
    )


def _score_splits(
    study: Study, design: FeatureDesign, splits: Sequence[Split], advance: Any
) -> tuple[dict[str, npt.NDArray[np.float64]], list[str]]:
    scores, why_not = _empty(len(study.table)), []
    for split in splits:
        x_train, x_test = _matrices(study, design, split)
        distribution = _fit(study, split, x_train)
        if isinstance(distribution, str):
            why_not.append(distribution)
        else:
            _fill(scores, study, split, distribution, x_train, x_test)
        advance()
    return scores, why_not


def _matrices(
    study: Study, design: FeatureDesign, split: Split
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the features of the training scans that are drawn to say where all lie, and of the test scans."""
    kept, _ = _reference(study, split)
    if not design.steps:  # it estimates nothing, so the other training scans need not be copied
        return design(split.train[kept], split.test)
    x_train, x_test = design(split.train, split.test)
    return x_train[kept], x_test


def _fit(study: Study, split: Split, x_train: npt.NDArray[np.float64]) -> TrainingDistribution | str:
    kept, seed = _reference(study, split)
    rows = split.train[kept]
    return fit_distribution(x_train, list(study.sites[rows]), study.subjects[rows], seed=seed)


def _fill(
    scores: dict[str, npt.NDArray[np.float64]],
    study: Study,
    split: Split,
    distribution: TrainingDistribution,
    x_train: npt.NDArray[np.float64],
    x_test: npt.NDArray[np.float64],
) -> None:
    kept, seed = _reference(study, split)
    found = distribution.percentiles(x_test)
    near = neighbour_percentiles(distribution, x_train, study.subjects[split.train[kept]], x_test, seed=seed)
    for name, values in zip(_SCORES, (*found, *near), strict=True):
        scores[name][split.test] = values


def _reference(study: Study, split: Split) -> tuple[Rows, int]:
    seed = derive_seed("outlyingness", study.settings.seed, split.fold, split.held_out_site or "")
    return draw_subjects(study.subjects[split.train], seed=seed, n_scans=MAX_REFERENCE)[0], seed


_SCORES = ("mahalanobis", "mahalanobis_percentile", "knn_distance", "knn_percentile")


def _empty(n: int) -> dict[str, npt.NDArray[np.float64]]:
    return {name: np.full(n, np.nan) for name in _SCORES}


def _frame(study: Study, rows: Rows, scores: dict[str, npt.NDArray[np.float64]], reference: str) -> pd.DataFrame:
    table = study.table.loc[rows, ["participant_id", "subject_id", "session", "site"]].reset_index(drop=True)
    table["reference"] = reference
    for name in _SCORES:
        table[name] = scores[name][rows]
    table["outside"] = _flags(scores["mahalanobis_percentile"][rows], study)
    return table


def _flags(percentiles: npt.NDArray[np.float64], study: Study) -> list[bool | None]:
    threshold = study.settings.outside_percentile
    return [None if np.isnan(value) else bool(value > threshold) for value in percentiles]


def _summary(table: pd.DataFrame, study: Study, reference: str, why_not: list[str]) -> dict[str, Any]:
    threshold = study.settings.outside_percentile
    columns = table["site"], table["subject_id"]
    by_site = outside_by_site(*columns, table["mahalanobis_percentile"], threshold=threshold)
    unseen = []
    if "unseen_percentile" in table:
        unseen = outside_by_site(*columns, table["unseen_percentile"], threshold=threshold)
    scored = table["mahalanobis_percentile"].notna()
    return {
        "reference": reference,
        "threshold_percentile": threshold,
        "n_outside": sum(each["n_outside"] for each in by_site),
        "n": int(scored.sum()),
        "by_site": by_site,
        "unseen_by_site": unseen,
        "note": f"{int((~scored).sum())} scans have no score: {'; '.join(why_not)}" if why_not else None,
        "covariance": f"within sites, Ledoit-Wolf, {MAX_AXES} principal axes",
        "k": N_NEIGHBOURS,
    }


def _look_at(summary: dict[str, Any], code: str, prefix: str = "") -> list[Notice]:
    found = outside_message(summary["n_outside"], summary["n"], summary["threshold_percentile"], summary["by_site"])
    explanation = (
        "Do not trust the number for these scans: the model gives one wherever they lie, but it learned from nothing "
        "like them. They count in the figures below. See “Scans unlike those it learned from”."
    )
    return [] if found is None else [Notice(code, prefix + found, explanation)]
