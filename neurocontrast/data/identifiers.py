"""Check identifiers of participants: visits of one person, and cells that name no participant."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from neurocontrast.cells import is_missing
from neurocontrast.data.problems import first_names, shown
from neurocontrast.provenance import subject_label

_NUMBERED = (
    "session sess ses visit vis timepoint time tp wave scan run mr_d mr followup fu t v "
    "exam year yr month week wk day"
)
_NAMED = "baseline followup retest test post pre bl fu"
_MONTH = r"m(?:onth)?[-_. ]?[0-9]{2,3}"
_VISIT = re.compile(
    rf"(?P<person>.+?)[-_. ](?:(?:{'|'.join(_NUMBERED.split())})[-_. ]?[0-9]{{1,4}}[a-z]?"
    rf"|{'|'.join(_NAMED.split())}|{_MONTH})",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"(?P<person>.*[0-9])(?:(?:session|ses|visit|tp|v)[0-9]{1,2}|fu[0-9]{0,2}|bl)", re.IGNORECASE
)
"""Pattern of names in which a visit follows a number without a separator, as in ``S01v2``."""
_PLACE = r"(?:site|cent(?:er|re)|scanner|group|cohort)[-_. ]?[0-9]+"
_WITH_NUMBER = rf"(?P<person>(?:(?!{_PLACE})|{_PLACE}(?![0-9])).*?[0-9].*?)"
"""Start of a name that has a number beside the one of a site, and so can be a person."""
_TIMED = re.compile(
    rf"{_WITH_NUMBER}[-_. ](?:(?:y|mo|mri)[-_. ]?[0-9]{{1,2}}"
    r"|(?:[0-9]{1,2}|[1-9][0-9]{2})"
    r"(?:[mwyf]|mo|months?|wks?|weeks?|yrs?|years?|days?))",
    re.IGNORECASE,
)
"""Pattern of names that end in a time since the first visit, as in ``S01_12m``.

The letter f is no unit of time, and marks names by number and sex for `_WITH_SEX`.
"""
_DATED = re.compile(
    rf"{_WITH_NUMBER}[-_. ]"
    r"(?:19|20)[0-9]{2}(?P<mark>[-_. ]?)(?:0[1-9]|1[0-2])(?P=mark)(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[-_. T]?(?:0[1-9]|1[0-9]|2[0-3])(?:[0-5][0-9]){2}|T[0-9]{4})?"
    r"(?P<rest>(?:[-_. ](?!ses-).+)?)",
    re.IGNORECASE,
)
"""Pattern of names with a date after a number, as in ``S01_20190312`` and ``S01_2019-03-12_v1``.

A time of day may follow the date: ``S01_20190312_101500``.
"""
_WITH_SEX = re.compile(r".+[-_. ][0-9]+f", re.IGNORECASE)
"""Pattern of names by number and sex, as in ``A1_02F``; ``A1_03M`` beside it is no third month."""
_LONGEST = 200
"""Longest name, in characters, whose visit is looked for: the time grows with the square."""
_CERTAIN = re.compile(r".+_ses-[0-9a-z]+", re.IGNORECASE)
REMEDY_OF_VISITS = (
    "Visits of one person would count as different people, in training and in test: name the "
    "person of each row in a column subject_id (people who do differ, by names without a visit)."
)
_N_SHOWN = 3
"""Largest number of people that a message names."""
_MOST_VISITS = 12
"""Largest number of names that count as visits of one person, if they differ only in a visit."""
_SHARE_OF_CONTRADICTIONS = 0.1
"""Largest share of groups with both sexes for which alike names count as visits of one person."""
_ROUNDED = re.compile(r"[0-9](?:[.,][0-9]+)?[eE]\+[0-9]+")
_OF_SUMMARY = frozenset(
    (
        *("total", "totals", "grand total", "sum", "mean", "means", "average", "avg", "median"),
        *("sd", "std", "stdev", "std dev", "std. dev.", "standard deviation", "mean ± sd"),
        *("gesamt", "summe", "mittelwert", "durchschnitt", "moyenne", "somme", "media", "promedio"),
    )
)


def problem_of_identifier(identifier: str) -> str:
    """Return why an identifier names no participant; "" for a good identifier.

    Examples
    --------
    >>> problem_of_identifier("sub-01")
    ''
    >>> problem_of_identifier("1.2E+05").partition(";")[0]
    "'1.2E+05' was rounded by a spreadsheet"
    """
    label = subject_label(identifier)
    if is_missing(label):
        return "found no identifier"
    if _ROUNDED.fullmatch(label):
        return (
            f"{shown(identifier)} was rounded by a spreadsheet; format its column as text and "
            "export the table again, or people with near numbers become one"
        )
    if label.casefold().rstrip(":") in _OF_SUMMARY:
        return f"{shown(identifier)} is a row of totals or averages, no participant; leave it out"
    return ""


def visits_of_people(
    participants: Iterable[str], sexes: Iterable[object] | None = None
) -> list[list[str]]:
    """Return groups of participants whose names differ only in a visit, as S01_v1 and S01_v2.

    A visit is a number (``_v1``, ``_year2``), a time (``_12m``) or a date (``_20190312``). A time
    or date is no visit after a start without a number: ``HC_19850312`` may be a date of birth.
    Each group has the sorted names of one person. Names that end in ``_ses-…`` are always visits.
    Other names are no visits in a group of more than 12, or if many groups would be of a person
    with two sexes.

    Parameters
    ----------
    participants : iterable of str
        Name of each row.
    sexes : iterable, optional
        Sex of each row, F or M, or missing.

    Examples
    --------
    >>> visits_of_people(["S01_v1", "S01_v2", "S02_v1", "sub-3_ses-1"])
    [['S01_v1', 'S01_v2']]
    """
    rows = list(participants)
    names = _names_of_people(rows)
    sex_of: dict[str, object] = {}
    if sexes is not None:
        sex_of = dict(zip(rows, sexes, strict=True))
    certain = []
    likely = []
    n_contradictions = 0
    for visits in names.values():
        if all(map(_CERTAIN.fullmatch, visits)):
            certain.append(sorted(visits))
        elif len(visits) <= _MOST_VISITS:
            likely.append(sorted(visits))
            n_contradictions += {"F", "M"} <= set(map(sex_of.get, visits))
    if n_contradictions > _SHARE_OF_CONTRADICTIONS * len(likely):
        return certain
    return certain + likely


def _names_of_people(participants: Iterable[str]) -> dict[str, list[str]]:
    """Return person → names of the person's visits among `participants`: s01 → S01_v1, S01_v2.

    The person is the part of a name before the visit, in lower case. People of whom `participants`
    has a single name are left out.
    """
    names: dict[str, dict[str, str]] = defaultdict(dict)
    for name in participants:
        label = subject_label(name)
        person = _person_of(label)
        if person:
            names[person.casefold()][label] = name
    several = {}
    for person, visits in names.items():
        if len(visits) > 1 and not any(map(_WITH_SEX.fullmatch, visits)):
            several[person] = list(visits.values())
    return several


def _person_of(label: str) -> str:
    """Return the part of a name before its visit, time or date; "" for a name without them.

    A name of more than `_LONGEST` characters has none.
    """
    if len(label) > _LONGEST:
        return ""
    undated = label
    dated = _DATED.fullmatch(label)
    if dated is not None:
        undated = dated["person"] + dated["rest"]
    for pattern in (_VISIT, _JOINED, _TIMED):
        match = pattern.fullmatch(undated)
        if match is not None:
            return match["person"]
    if dated is not None and not dated["rest"]:
        return undated
    return ""


def text_of_visits(groups: Sequence[Sequence[str]]) -> str:
    """Return a sentence that the participants in `groups` look like visits of fewer people.

    Each group has the names of one person, as `visits_of_people` returns. The sentence has the
    number of names and of people, and shows all names of the first few groups as examples.
    """
    n_visits = sum(map(len, groups))
    names = first_names(list(map(" = ".join, groups)), _N_SHOWN)
    return (
        f"{n_visits} participants look like visits of {len(groups)} people by their names ({names})"
    )
