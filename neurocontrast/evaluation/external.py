"""An external test set: the probe fitted on all scans, applied once to other people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.encoders import check_same_encoder, encoder_digest
from neurocontrast.evaluation.fixed import look_at_twins
from neurocontrast.evaluation.leakage import check_duplicates, check_overlap
from neurocontrast.evaluation.notices import NO_BASELINE
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.table import check_rows, is_number, row_names, select_rows, tidy_table
from neurocontrast.evaluation.target import Target, encode_target
from neurocontrast.evaluation.units import choose_units
from neurocontrast.exceptions import DataError, LeakageError, one_of

__all__ = ["External", "plan_external"]

_ENCODERS = "If the encoders differ, the figures of the external test set mean nothing."
_TWINS = "The same image on both sides is learned by heart: the figures of the external test set may be too good."


@dataclass(frozen=True)
class External:
    """Training scans and external scans together, as a study with one split.

    Attributes
    ----------
    study : Study
        Tests the external scans by a probe of all the others.
    excluded : dict of str to int
        External scans that do not take part, by reason.
    n_overlap : int
        External subjects that were trained on, or were in pretraining.
    notices : list of Notice
        What a reader must know of this test set.
    """

    study: Study
    excluded: dict[str, int]
    n_overlap: int
    notices: list[Notice]

    @property
    def split(self) -> Split:
        """The one split."""
        return self.study.splits[0]


def plan_external(
    study: Study,
    table: pd.DataFrame,
    features: npt.NDArray[np.floating],
    *,
    info: Mapping[str, Any] | None = None,
    training_info: Mapping[str, Any] | None = None,
) -> External:
    """Check an external test set against the study whose probe is to be applied to it.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it.
    table, features : DataFrame, array (n, p)
        Identifiers and metadata of the external scans, and their embeddings.
    info, training_info : mapping, optional
        What the external embeddings, and those of the study, say of themselves.

    Raises
    ------
    DataError
        For features of another encoder, a class that was not trained on, or nothing to test.
    LeakageError
        For a subject that was trained on, or was in pretraining, unless ``allow_overlap``.
    """
    notices = _check_encoder(study, features, info or {}, training_info or {})
    tidy = _tidy(table, features)
    kept = np.flatnonzero(_select(tidy, study))
    target, present = encode_target(tidy.iloc[kept].reset_index(drop=True), study.target, parameter="test")
    rows = kept[present]
    chosen = tidy.iloc[rows].reset_index(drop=True)
    shared, found = _check_shared(study, chosen)
    n_overlap, seen = _check_pretraining(chosen, info or {}, allow_overlap=study.settings.allow_overlap)
    notices += [*found, *seen]
    joined = _join(study, chosen, np.asarray(features[rows]), target)
    notices += _twins(joined, study)
    names, dropped = _covariates(study, chosen)
    notices += [
        Notice("external_baseline", f"test: the baseline goes without {text}.", NO_BASELINE) for text in dropped
    ]
    excluded = {"not selected by where": len(tidy) - len(kept), f"{target.name} missing": int((~present).sum())}
    return External(
        replace(joined, covariates=names), {why: n for why, n in excluded.items() if n}, shared + n_overlap, notices
    )


def _tidy(table: pd.DataFrame, features: npt.NDArray[np.floating]) -> pd.DataFrame:
    try:
        tidy = tidy_table(table)
        check_rows(tidy, features)
    except DataError as error:
        raise DataError(f"test: {error}") from None  # of two tables, which
    return tidy


def _check_encoder(
    study: Study, features: npt.NDArray[np.floating], info: Mapping[str, Any], training_info: Mapping[str, Any]
) -> list[Notice]:
    doubt = check_same_encoder(
        encoder_digest(training_info),
        encoder_digest(info),
        n_expected=study.features.shape[1],
        n_found=features.shape[1] if features.ndim == 2 else 0,
        parameter="test",
        what="the probe",
    )
    return [] if doubt is None else [Notice("encoder_unknown", doubt, _ENCODERS)]


def _select(tidy: pd.DataFrame, study: Study) -> npt.NDArray[np.bool_]:
    own = study.settings.test_where
    try:
        return select_rows(tidy, study.settings.where if own is None else own)
    except DataError as error:
        hint = " evaluation.test_where selects rows of the test table alone ({} for all)." if own is None else ""
        raise DataError(f"test: {error}{hint}") from None


def _check_pretraining(
    chosen: pd.DataFrame, info: Mapping[str, Any], *, allow_overlap: bool
) -> tuple[int, list[Notice]]:
    try:
        n, found = check_overlap(chosen, info, allow_overlap=allow_overlap)
    except LeakageError as error:
        raise LeakageError(f"test: {error}") from None
    return n, [Notice(f"external_{notice.code}", f"test: {notice.message}", notice.explanation) for notice in found]


def _check_shared(study: Study, chosen: pd.DataFrame) -> tuple[int, list[Notice]]:
    subjects = sorted(set(chosen["subject_id"]))
    both = sorted(set(study.subjects[study.fitted_rows]) & set(subjects))
    if not both:
        return 0, []
    shown = ", ".join(map(str, both[:5])) + (" …" if len(both) > 5 else "")
    text = f"test: {len(both)} of {len(subjects)} subjects are in the training table too ({shown})"
    if not study.settings.allow_overlap:
        raise LeakageError(
            f"{text}: the probe would be tested on people it was fitted on. Leave them out with evaluation.test_where "
            "or where; to test on them all the same, and have the report say so, set allow_overlap=true "
            "(--allow-overlap)."
        )
    return len(both), [
        Notice(
            "external_shared_subjects",
            f"{text} (allowed on request): the figures flatter.",
            "The model has already seen these people. Its features can fit them better than anybody new, so the "
            "figures of the external test set may be too good.",
        )
    ]


def _join(study: Study, chosen: pd.DataFrame, features: npt.NDArray[np.floating], target: Target) -> Study:
    n, n_test = len(study.table), len(chosen)
    both = pd.concat([study.table, chosen], ignore_index=True)
    values = np.concatenate([study.target.values, target.values])
    joined = replace(study.target, values=values)
    split = Split(0, 0, study.fitted_rows, np.arange(n, n + n_test), validation=study.splits[0].validation)
    units = choose_units("subject", list(both["site"]), both["subject_id"].to_numpy(dtype=object), target=target.name)
    together = np.concatenate([study.features, features])
    return replace(study, table=both, features=together, target=joined, splits=[split], units=units)


def _twins(joined: Study, study: Study) -> list[Notice]:
    if study.fixed:
        found = look_at_twins(joined.features, joined.splits[0])[1]
        return [Notice("external_duplicates", f"test: {each.message}", _TWINS) for each in found]
    try:
        found = check_duplicates(joined.table, joined.features, allow_overlap=study.settings.allow_overlap)
    except LeakageError as error:
        raise LeakageError(f"test: {error}") from None
    known = {notice.message for notice in study.notices}
    return [
        Notice("external_duplicates", f"test: {each.message}", _TWINS) for each in found if each.message not in known
    ]


def _covariates(study: Study, chosen: pd.DataFrame) -> tuple[tuple[str, ...], list[str]]:
    """Return the covariates of the baseline that external scans have too, and why the others are left out."""
    used, dropped = [], []
    for name in study.covariates:
        if name not in chosen or chosen[name].isna().all():
            dropped.append(f"{name}, which the test table lacks")
        elif name == "site" and not set(chosen["site"].dropna()) <= set(study.table["site"].dropna()):
            new = sorted(set(chosen["site"].dropna()) - set(study.table["site"].dropna()))
            dropped.append(f"site, since {one_of(new[:5])} was never seen")
        elif is_number(study.table[name]) != is_number(chosen[name]):
            rows = row_names(chosen, [0])
            raise DataError(
                f"test: column '{name}' holds numbers in one table and text in the other ({rows[0]} has "
                f"'{chosen[name].iloc[0]}'). Write it alike in both, or leave it out of covariates."
            )
        else:
            used.append(name)
    return tuple(used), dropped
