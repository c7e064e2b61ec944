"""How far each scan lies from those that a probe was fitted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from neurocontrast.evaluation.distances import TrainingDistribution
from neurocontrast.evaluation.distribution import MAX_AXES, fit_distribution
from neurocontrast.evaluation.panels import Findings, Panel, PanelInputs
from neurocontrast.evaluation.panels.confounds import draw_subjects
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.rows import NO_SITE, cell_texts
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.splits import Split
from neurocontrast.seeds import derive_seed

__all__ = ["PANEL", "count_outside", "measure_external", "outside_message", "training_distribution"]

Floats = npt.NDArray[np.float64]

MAX_REFERENCE = 1000
"""Of more training scans this many are drawn, by subject."""
RARE = 0.001
"""More scans outside than chance gives with this probability are warned about."""
_EXPLANATION = (
    "Do not trust the number for these scans: the model gives one wherever they lie, but it learned from nothing like "
    "them. They count in the figures below. See “Scans unlike those it learned from”."
)


def measure_outlyingness(inputs: PanelInputs) -> Findings:
    """Measure each scan from its training folds; with ``splits=leave-site-out`` these are the other sites."""
    study = inputs.study
    if not study.settings.outlyingness:
        return Findings({"outlyingness": None})
    main = [split for split in study.splits if split.repeat == 0]
    with inputs.progress.task("Looking for scans that lie outside", len(main), "fold") as task:
        scores, why_not = _score_splits(study, main, task.advance)
    rows = np.sort(np.concatenate([split.test for split in main]))
    return _findings(study, _table(study, rows, scores, "training folds"), "training folds", why_not)


def measure_external(study: Study, split: Split, distribution: TrainingDistribution | str | None) -> Findings:
    """Measure the test scans of a split from a distribution: None where not asked for, text where it has none."""
    if distribution is None:
        return Findings({"outlyingness": None})
    scores, why_not = np.full((len(study.table), 2), np.nan), set[str]()
    if isinstance(distribution, str):
        why_not.add(distribution)
    else:
        x_test = study.design()(split.train, split.test)[1]
        scores[split.test] = np.column_stack(distribution.percentiles(x_test))
    found = _findings(study, _table(study, split.test, scores, "probe"), "probe", why_not)
    notices = [Notice(f"external_{each.code}", f"test: {each.message}", each.explanation) for each in found.notices]
    return Findings(found.summary, {"external_outlyingness": found.tables["outlyingness"]}, notices)


def training_distribution(study: Study) -> TrainingDistribution | str | None:
    """Return the distribution of the scans of a study, or why it has none; None where outlyingness is off."""
    rows = study.fitted_rows
    return _fit(study, Split(0, -1, rows, rows[:1]))[0] if study.settings.outlyingness else None


def count_outside(
    scans: pd.DataFrame, percentiles: npt.ArrayLike, *, reference: str, threshold: float
) -> dict[str, Any]:
    """Return the number of scans outside, of all and by site; scans without a percentile are not counted."""
    by_site = _by_site(scans, percentiles, threshold)
    n_outside, n = (sum(site[key] for site in by_site) for key in ("n_outside", "n"))
    about = {"reference": reference, "threshold_percentile": threshold}
    return about | {"n_outside": n_outside, "n": n, "by_site": by_site}


def outside_message(counts: Mapping[str, Any]) -> str | None:
    """Return the warning about scans that lie outside; None where there are no more than training scans have."""
    n_outside, n, threshold = counts["n_outside"], counts["n"], counts["threshold_percentile"]
    share = 1 - threshold / 100
    if not n or stats.binomtest(n_outside, n, share, alternative="greater").pvalue > RARE:
        return None
    where = [f"{each['site']} {each['n_outside']} of {each['n']}" for each in counts["by_site"] if each["n_outside"]]
    return (
        f"{n_outside} of {n} scans lie outside the distribution that the probe was fitted on ({', '.join(where[:8])}; "
        f"beyond the {threshold:g}th percentile, where {share * n:.0f} would be expected): do not trust what it says "
        "of them without people of their site to check it on."
    )


def _by_site(scans: pd.DataFrame, percentiles: npt.ArrayLike, threshold: float) -> list[dict[str, Any]]:
    """Return the number of scans, of those outside, and the median percentile of each site."""
    named = [NO_SITE if text is None else text for text in cell_texts(scans["site"])]
    frame = pd.DataFrame({"site": named, "percentile": np.asarray(percentiles, dtype=float)}).dropna()
    sites = frame.groupby("site", sort=True)["percentile"]
    return [
        {"site": site, "n": len(part), "n_outside": int((part > threshold).sum()), "median_percentile": part.median()}
        for site, part in sites
    ]


def _score_splits(study: Study, splits: Sequence[Split], advance: Callable[[], None]) -> tuple[Floats, set[str]]:
    """Return distance and percentile of all scans (n, 2), NaN where they have none, and why."""
    scores, why_not = np.full((len(study.table), 2), np.nan), set[str]()
    for split in splits:
        distribution, x_test = _fit(study, split)
        if isinstance(distribution, str):
            why_not.add(distribution)
        else:
            scores[split.test] = np.column_stack(distribution.percentiles(x_test))
        advance()
    return scores, why_not


def _fit(study: Study, split: Split) -> tuple[TrainingDistribution | str, Floats]:
    """Return the distribution of the training scans of a split, or why it has none, and features of its test scans."""
    seed = derive_seed("outlyingness", study.settings.seed, split.fold, split.held_out_site or "")
    kept = draw_subjects(study.subjects[split.train], seed=seed, n_scans=MAX_REFERENCE)[0]
    rows = split.train[kept]
    design = study.design()
    if design.steps:  # these are estimated on all training scans
        x_train, x_test = design(split.train, split.test)
        x_train = x_train[kept]
    else:
        x_train, x_test = design(rows, split.test)
    return fit_distribution(x_train, list(study.sites[rows]), study.subjects[rows], seed=seed), x_test


def _table(study: Study, rows: npt.NDArray[np.intp], scores: Floats, reference: str) -> pd.DataFrame:
    table = study.table.loc[rows, ["participant_id", "subject_id", "session", "site"]].reset_index(drop=True)
    table = table.assign(reference=reference, mahalanobis=scores[rows, 0], mahalanobis_percentile=scores[rows, 1])
    percentiles, mark = table["mahalanobis_percentile"], study.settings.outside_percentile
    table["outside"] = [None if np.isnan(value) else bool(value > mark) for value in percentiles]
    return table


def _findings(study: Study, table: pd.DataFrame, reference: str, why_not: set[str]) -> Findings:
    threshold = study.settings.outside_percentile
    counts = count_outside(table, table["mahalanobis_percentile"], reference=reference, threshold=threshold)
    n_without = int(table["mahalanobis_percentile"].isna().sum())
    summary = counts | {
        "note": f"{n_without} scans have no score: {'; '.join(sorted(why_not))}" if why_not else None,
        "covariance": f"within sites, Ledoit-Wolf, {MAX_AXES} principal axes",
    }
    message = outside_message(counts)
    notices = [] if message is None else [Notice("outside_distribution", message, _EXPLANATION)]
    return Findings({"outlyingness": summary}, {"outlyingness": table}, notices)


PANEL = Panel(order=40, run=measure_outlyingness)
