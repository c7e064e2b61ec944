"""Checks that no evaluated subject was in pretraining, and that no image stands under two names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.schema import Notice
from neurocontrast.exceptions import LeakageError
from neurocontrast.provenance import subject_digest

__all__ = ["check_duplicates", "check_overlap", "feature_codes"]


def check_overlap(
    table: pd.DataFrame, info: Mapping[str, Any], *, allow_overlap: bool = False
) -> tuple[int, list[Notice]]:
    """Return how many subjects were in the pretraining cohort, and a warning; refuse them unless they are allowed."""
    digests = info.get("pretraining_subjects")
    if digests is None:
        text = "The embeddings do not say who was in pretraining: whether a subject was in both could not be checked."
        explanation = "If some of them were in pretraining, the figures below may be too good."
        return 0, [Notice("overlap_unknown", text, explanation)]
    seen, subjects = set(digests), sorted(set(table["subject_id"]))
    both = [subject for subject in subjects if subject_digest(subject) in seen]
    if not both:
        return 0, []
    if not allow_overlap:
        shown = ", ".join(both[:5]) + (" …" if len(both) > 5 else "")
        raise LeakageError(
            f"{len(both)} of {len(subjects)} subjects were in the pretraining cohort ({shown}): the encoder has seen "
            "them, and their scores would flatter it. Embed people that were not in pretraining, or keep only those "
            "with where; to evaluate them all the same, and have the report say so, set allow_overlap=true "
            "(--allow-overlap)."
        )
    text = (
        f"{len(both)} of {len(subjects)} subjects were also in the pretraining cohort (allowed on request): the "
        "encoder has seen them, and the figures may flatter it."
    )
    explanation = (
        "The encoder has already seen these people. Its features can fit them better than anybody new, so the "
        "figures below may be too good."
    )
    return len(both), [Notice("pretraining_overlap", text, explanation)]


def check_duplicates(
    table: pd.DataFrame, features: npt.NDArray[np.floating], *, allow_overlap: bool = False
) -> list[Notice]:
    """Refuse one image under the names of two subjects, or warn of it where it is allowed."""
    codes = feature_codes(features)
    subjects = table["subject_id"].to_numpy()
    n_subjects = pd.Series(subjects).groupby(codes).nunique()
    shared = n_subjects.index[n_subjects > 1]
    if not len(shared):
        return []
    pairs = [" = ".join(sorted(set(subjects[codes == code]))[:3]) for code in shared[:5]]
    text = (
        f"{len(shared)} images stand under the names of several subjects (features equal to the last bit): "
        f"{', '.join(pairs)}{' …' if len(shared) > 5 else ''}"
    )
    if not allow_overlap:
        raise LeakageError(
            f"{text}. They could stand on both sides of a fold. Give them one subject_id or leave one out; to evaluate "
            "all the same, set allow_overlap=true (--allow-overlap)."
        )
    explanation = (
        "The same image on both sides of a fold is learned by heart, not understood: the figures below may be too good."
    )
    text = f"{text}. They can stand on both sides of a fold (allowed on request)."
    return [Notice("duplicate_overlap", text, explanation)]


def feature_codes(features: npt.NDArray[np.floating]) -> npt.NDArray[np.intp]:
    """Return a code for each row, the same for rows whose features are equal.

    Rows are compared by a digest of 16 bytes: to sort 60,000 rows of 2,048 features would take half a minute and two
    more copies of them.
    """
    rows = (np.ascontiguousarray(row) + 0.0 for row in features)  # -0.0 is 0.0
    digests = [hashlib.blake2b(row.data, digest_size=16).digest() for row in rows]
    return pd.factorize(np.array(digests, dtype=object))[0].astype(np.intp)
