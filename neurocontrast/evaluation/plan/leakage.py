"""Check for leaks: evaluated people whom the encoder was pretrained on, a person with two names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.identifiers import text_of_visits, visits_of_people
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.rows import listed, scan_codes
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.given import look_at_twins
from neurocontrast.exceptions import LeakageError, one_of
from neurocontrast.provenance import CONTENT, Recognised

_OF_OVERLAP = ("overlap_unknown", "contents_unknown", "pretraining_copies", "pretraining_overlap")
"""Codes of the warnings that `check_overlap` gives."""
ALLOWED_COPIES = 0.01
"""Largest share of an official test set that may be copies of images of pretraining."""


@dataclass(frozen=True)
class Overlap:
    """Evaluated people whom the encoder was pretrained on, and how such people were looked for."""

    subjects: frozenset[str]
    compared: tuple[str, ...]
    """How people of pretraining were looked for: by ``identifiers``, by ``contents`` of scans;
    empty if the embeddings do not name any."""
    notices: tuple[Notice, ...]

    def notices_among(self, others: Iterable[Notice]) -> list[Notice]:
        """Return this overlap's warnings, then `others` without warnings about pretraining."""
        notices = list(self.notices)
        for notice in others:
            if notice.code not in _OF_OVERLAP:
                notices.append(notice)
        return notices


@dataclass(frozen=True)
class Leaks:
    """Leaks that were found and allowed: tested people who were in pretraining, and copied scans.

    Copied scans are in the table under the names of two subjects. `notices` are the warnings about
    people and copies.
    """

    overlap: Overlap
    notices: tuple[Notice, ...]
    n_twins: int = 0
    """Number of test rows that are copies of training rows, where a column names the test rows."""


def check_leaks(
    table: pd.DataFrame,
    features: npt.NDArray[np.floating],
    splits: Sequence[Split],
    settings: EvaluationSettings,
    info: EmbeddingsInfo,
) -> Leaks:
    """Refuse tested people whom the encoder was pretrained on, and one scan under two names.

    With the setting ``allow_overlap`` both give warnings. If a column of `table` names the test
    rows, test rows that are copies of training rows are not refused, since official image sets hold
    some: `Leaks.n_twins` counts them. The returned `Leaks` holds people, count and warnings.
    """
    allowed = settings.allow_overlap
    if settings.split_column is None:
        overlap = check_overlap(table, info, allow_overlap=allowed)
        duplicates = check_duplicates(table, features, allow_overlap=allowed)
        return Leaks(overlap, (*overlap.notices, *duplicates))
    tested = table.iloc[splits[0].test]
    overlap = check_overlap(tested, info, allow_overlap=allowed, allowed_copies=ALLOWED_COPIES)
    n_twins, twins = look_at_twins(features, table[CONTENT], splits[0])
    return Leaks(overlap, (*overlap.notices, *twins), n_twins)


def check_overlap(
    table: pd.DataFrame,
    info: EmbeddingsInfo,
    *,
    allow_overlap: bool = False,
    allowed_copies: float = 0.0,
) -> Overlap:
    """Return an `Overlap`: evaluated subjects who were in pretraining; refuse them unless allowed.

    Subjects are found by their identifiers, and by the content of their scans under another name.
    The returned `Overlap` holds the names of such subjects, an empty set if there are none; how
    subjects were looked for; and warnings, one of them about allowed subjects. Subjects who are not
    allowed raise a `LeakageError`.

    Parameters
    ----------
    table : DataFrame
        Rows that are evaluated, as `tidy_table` returns them.
    info : EmbeddingsInfo
        Description of the embeddings, with the digests of pretraining.
    allow_overlap : bool
        Whether people of pretraining give a warning in place of an error.
    allowed_copies : float
        Largest share of subjects whose scans are in pretraining under another name that gives a
        warning in place of an error: official sets hold some images twice.
    """
    people = _find_pretrained(table, info)
    n_all = table["subject_id"].nunique()
    compared, notices = _look_at_comparison(info, people, n_subjects=n_all)
    if not people.subjects:
        return Overlap(frozenset(), compared, tuple(notices))
    sentence = f"{len(people.subjects)} of {n_all} subjects were in the pretraining cohort"
    sentence += people.renamed_text
    if allow_overlap:
        notices.append(Notice.of("pretraining_overlap", text=sentence))
    elif not people.named and len(people.renamed) <= allowed_copies * n_all:
        notices.append(Notice.of("pretraining_copies", text=sentence))
    else:
        raise LeakageError(
            f"{sentence} ({listed(sorted(people.subjects))}): the encoder has seen them, and their "
            "scores would flatter it. Embed other people, keep only others with where, or set "
            "allow_overlap=True, which the report then says."
        )
    return Overlap(people.subjects, compared, tuple(notices))


def _look_at_comparison(
    info: EmbeddingsInfo, people: Recognised, *, n_subjects: int
) -> tuple[tuple[str, ...], list[Notice]]:
    """Return a tuple of the ways in which people of pretraining were looked for, and warnings.

    The first returned value, the tuple, is empty if the description of the embeddings, `info`, does
    not list the people of pretraining; it is ``("identifiers",)``, or, if the contents of all scans
    were compared too, ``("identifiers", "contents")``. The second is a list of one warning if the
    people are not listed, or if scans of some of the `n_subjects` evaluated subjects could not be
    compared by content. `people` is the result of the comparison.
    """
    if info.pretraining_unknown:
        who = f"Of the joined embeddings, {one_of(info.pretraining_unknown)} does"
        return (), [Notice.of("overlap_unknown", who=who)]
    if info.pretraining_subjects is None:
        return (), [Notice.of("overlap_unknown", who="The embeddings do")]
    if people.n_not_compared:
        notice = Notice.of("contents_unknown", n=people.n_not_compared, n_all=n_subjects)
        return ("identifiers",), [notice]
    return ("identifiers", "contents"), []


def pretrained(table: pd.DataFrame, info: EmbeddingsInfo) -> npt.NDArray[np.bool_]:
    """Tell which rows are of subjects that the encoder was pretrained on: a mask (n rows,).

    `info`, the description stored with the embeddings, lists digests of the subjects of pretraining
    and of their scans' contents. A row's subject is looked for by identifier and content; without a
    list the whole mask is False.
    """
    people = _find_pretrained(table, info)
    return table["subject_id"].isin(people.subjects).to_numpy()


def _find_pretrained(table: pd.DataFrame, info: EmbeddingsInfo) -> Recognised:
    """Return the subjects of a table who were in pretraining, as a `Recognised`.

    Identifiers of subjects and contents of scans are compared with the digests in `info`, the
    description stored with the embeddings.
    """
    return info.known_people().find(table["subject_id"], table[CONTENT])


def check_duplicates(
    table: pd.DataFrame,
    features: Iterable[npt.NDArray[np.floating]],
    *,
    allow_overlap: bool = False,
) -> list[Notice]:
    """Refuse one person under the names of two subjects; with `allow_overlap` return warnings.

    Such people are found by equal features or contents of scans. Names of subjects that differ only
    in a visit at the end (``01_m12``) are refused too, whatever the scans.
    """
    notices = _look_at_visits(table, allow_overlap=allow_overlap)
    codes = scan_codes(features, table.get(CONTENT, [""] * len(table)))
    subjects = pd.Series(table["subject_id"].to_numpy())
    several = (subjects.groupby(codes).transform("nunique") > 1).to_numpy()
    if not several.any():
        return notices
    owners = []
    for names in subjects[several].groupby(codes[several]).unique():
        owners.append(" = ".join(sorted(names)[:3]))
    sentence = (
        f"{len(owners)} images have the names of several subjects (equal features, or the same "
        f"content but for rounding): {listed(owners)}"
    )
    if not allow_overlap:
        raise LeakageError(
            f"{sentence}. They could be on both sides of a fold. Give them one subject_id or leave "
            "one out; to evaluate all the same, set allow_overlap=True."
        )
    return [*notices, Notice.of("duplicate_overlap", text=sentence)]


def _look_at_visits(table: pd.DataFrame, *, allow_overlap: bool) -> list[Notice]:
    """Refuse subject names that end in a visit (``01_m12``), as one person would be two subjects.

    With `allow_overlap` return a warning.
    """
    subjects = table.drop_duplicates("subject_id")
    groups = visits_of_people(subjects["subject_id"], subjects.get("sex"))
    if not groups:
        return []
    sentence = text_of_visits(groups)
    if not allow_overlap:
        raise LeakageError(
            f"{sentence}. They could be on both sides of a fold. Give visits of one person one "
            "subject_id; to evaluate all the same, set allow_overlap=True."
        )
    return [Notice.of("visits_overlap", text=sentence)]
