"""How far each scan lies from those that a probe was fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from neurocontrast.evaluation.distribution import (
    MAX_AXES,
    N_NEIGHBOURS,
    TrainingDistribution,
    fit_distribution,
    neighbour_percentiles,
)
from neurocontrast.evaluation.panels import Findings, Panel, PanelInputs
from neurocontrast.evaluation.panels.draws import draw_subjects
from neurocontrast.evaluation.panels.new_site import plan_sites_left_out
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.rows import NO_SITE, cell_texts
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.splits import Split
from neurocontrast.seeds import derive_seed

__all__ = ["PANEL", "measure_external", "outside_by_site", "outside_message", "training_distribution"]

Floats = npt.NDArray[np.float64]

MAX_REFERENCE = 1000
"""Of more training scans, so many are drawn (whole subjects): enough to know where they lie."""
RARE = 0.001
"""More scans outside than chance gives with this probability are warned about."""
_SCORES = ("mahalanobis", "mahalanobis_percentile", "knn_distance", "knn_percentile")
_EXPLANATION = (
    "Do not trust the number for these scans: the model gives one wherever they lie, but it learned from nothing like "
    "them. They count in the figures below. See “Scans unlike those it learned from”."
)


def measure_outlyingness(inputs: PanelInputs) -> Findings:
    """Say how far each scan lies from its training folds, and from the other sites where its own is left out."""
    study = inputs.study
    if not study.settings.outlyingness:
        return Findings({"outlyingness": None})
    main = [split for split in study.splits if split.repeat == 0]
    left_out = plan_sites_left_out(study).splits
    with inputs.progress.task("Looking for scans that lie outside", len(main) + len(left_out), "fold") as task:
        scores, why_not = _score_splits(study, main, task.advance)
        unseen = _score_splits(study, left_out, task.advance)[0]["mahalanobis_percentile"]
    rows = np.sort(np.concatenate([split.test for split in main]))
    table = _table(study, scores.iloc[rows], "training folds")
    if left_out:
        table["unseen_percentile"] = unseen.to_numpy()[rows]
        table["unseen_outside"] = _flags(table["unseen_percentile"], study)
    summary = _summary(table, study, "training folds", sorted(why_not))
    found = _outside(summary)
    notices = [] if found is None else [Notice("outside_distribution", found, _EXPLANATION)]
    return Findings({"outlyingness": summary}, {"outlyingness": table}, notices)


def measure_external(study: Study, split: Split, distribution: TrainingDistribution | str | None) -> Findings:
    """Say how far the scans that a split tests lie from those that the probe was fitted on.

    `distribution`, of the latter, is a reason where there is none, and None where it was not asked for.
    """
    if distribution is None:
        return Findings({"outlyingness": None})
    scores = pd.DataFrame(np.nan, index=study.table.index, columns=list(_SCORES))
    if not isinstance(distribution, str):
        scores.iloc[split.test] = _reference(study, split).score(distribution)
    table = _table(study, scores.iloc[split.test], "probe")
    summary = _summary(table, study, "probe", [distribution] if isinstance(distribution, str) else [])
    found = _outside(summary)
    notices = [] if found is None else [Notice("external_outside_distribution", f"test: {found}", _EXPLANATION)]
    return Findings({"outlyingness": summary}, {"external_outlyingness": table}, notices)


def training_distribution(study: Study) -> TrainingDistribution | str | None:
    """Return where the scans of a study lie, as its probe gets them; or why that is not known; None if not asked."""
    if not study.settings.outlyingness:
        return None
    rows = study.fitted_rows
    return _reference(study, Split(0, -1, rows, rows[:1])).fit()


def outside_by_site(
    sites: pd.Series, subjects: pd.Series, percentiles: npt.ArrayLike, *, threshold: float
) -> list[dict[str, Any]]:
    """Return for each site the number of scans outside, the median percentile, and a p-value.

    The sign test asks whether more than half of the site's subjects lie further out than half of the training scans.
    """
    named = [NO_SITE if text is None else text for text in cell_texts(sites)]
    values = np.asarray(percentiles, dtype=float)
    frame = pd.DataFrame({"site": named, "subject": subjects.to_numpy(dtype=object), "percentile": values})
    found = []
    for site, part in frame.dropna(subset=["percentile"]).groupby("site", sort=True):
        people = part.groupby("subject")["percentile"].mean()
        test = stats.binomtest(int((people > 50).sum()), len(people), 0.5, alternative="greater")
        n_outside, median = int((part["percentile"] > threshold).sum()), float(part["percentile"].median())
        row = {"site": site, "n": len(part), "n_outside": n_outside, "median_percentile": median}
        found.append(row | {"p_value": float(test.pvalue)})
    return found


def outside_message(n_outside: int, n: int, threshold: float, by_site: Sequence[dict[str, Any]]) -> str | None:
    """Return what to say of scans that lie outside; None where there are no more than training scans have."""
    share = 1 - threshold / 100
    if not n or stats.binomtest(n_outside, n, share, alternative="greater").pvalue > RARE:
        return None
    where = [f"{each['site']} {each['n_outside']} of {each['n']}" for each in by_site if each["n_outside"]]
    return (
        f"{n_outside} of {n} scans lie outside the distribution that the probe was fitted on ({', '.join(where[:8])}; "
        f"beyond the {threshold:g}th percentile, where {share * n:.0f} would be expected): do not trust what it says "
        "of them without people of their site to check it on."
    )


def _score_splits(study: Study, splits: Sequence[Split], advance: Callable[[], None]) -> tuple[pd.DataFrame, set[str]]:
    """Return the scores of all scans, NaN where they have none, and why."""
    scores, why_not = pd.DataFrame(np.nan, index=study.table.index, columns=list(_SCORES)), set[str]()
    for split in splits:
        reference = _reference(study, split)
        distribution = reference.fit()
        if isinstance(distribution, str):
            why_not.add(distribution)
        else:
            scores.iloc[split.test] = reference.score(distribution)
        advance()
    return scores, why_not


@dataclass(frozen=True)
class _Reference:
    """Features of the training scans that are drawn to say where all lie, their sites and people, and test scans."""

    x: Floats
    sites: list[str | None]
    subjects: npt.NDArray[np.object_]
    x_test: Floats
    seed: int

    def fit(self) -> TrainingDistribution | str:
        return fit_distribution(self.x, self.sites, self.subjects, seed=self.seed)

    def score(self, distribution: TrainingDistribution) -> Floats:
        """Return the `_SCORES` of the test scans, one column each."""
        near = neighbour_percentiles(distribution, self.x, self.subjects, self.x_test, seed=self.seed)
        return np.column_stack([*distribution.percentiles(self.x_test), *near])


def _reference(study: Study, split: Split) -> _Reference:
    seed = derive_seed("outlyingness", study.settings.seed, split.fold, split.held_out_site or "")
    kept = draw_subjects(study.subjects[split.train], seed=seed, n_scans=MAX_REFERENCE)[0]
    rows, design = split.train[kept], study.design()
    if design.steps:
        x_train, x_test = design(split.train, split.test)
        x_train = x_train[kept]
    else:  # nothing is estimated, so the other training scans need not be copied
        x_train, x_test = design(rows, split.test)
    return _Reference(x_train, list(study.sites[rows]), study.subjects[rows], x_test, seed)


def _table(study: Study, scores: pd.DataFrame, reference: str) -> pd.DataFrame:
    table = study.table.loc[scores.index, ["participant_id", "subject_id", "session", "site"]]
    table = table.assign(reference=reference).join(scores).reset_index(drop=True)
    table["outside"] = _flags(table["mahalanobis_percentile"], study)
    return table


def _flags(percentiles: pd.Series, study: Study) -> list[bool | None]:
    return [None if np.isnan(value) else bool(value > study.settings.outside_percentile) for value in percentiles]


def _summary(table: pd.DataFrame, study: Study, reference: str, why_not: list[str]) -> dict[str, Any]:
    threshold, unseen = study.settings.outside_percentile, []
    columns = table["site"], table["subject_id"]
    by_site = outside_by_site(*columns, table["mahalanobis_percentile"], threshold=threshold)
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


def _outside(summary: dict[str, Any]) -> str | None:
    return outside_message(summary["n_outside"], summary["n"], summary["threshold_percentile"], summary["by_site"])


PANEL = Panel(order=40, run=measure_outlyingness)
