"""Find the subject (person) of each participant by column ``subject_id`` of a folder's tables.

One subject can be several participants, for instance one for each visit.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from neurocontrast.data.identifiers import REMEDY_OF_VISITS, visits_of_people
from neurocontrast.data.layouts.tree import FoundScan
from neurocontrast.data.people_tables import ScanFacts
from neurocontrast.data.problems import Problems, first_names, shown

_LACKING = (
    "found nothing; every participant needs one where tables have the column, or two visits of one "
    "person count as two subjects"
)


def subjects_of_participants(
    scans: Sequence[FoundScan], facts: Sequence[ScanFacts], problems: Problems, notes: list[str]
) -> dict[str, str]:
    """Return participant → subject (person); empty if no table has a column ``subject_id``.

    `facts` has the cells that tables give for each scan. A problem is added to `problems` for each
    scan of a participant with two subjects, or without a subject while other participants have one.
    A note is added to `notes` if several participants are one subject.
    """
    stated: dict[str, dict[str, None]] = defaultdict(dict)
    for scan, of_scan in zip(scans, facts, strict=True):
        for subject in (scan.facts.get("subject_id"), of_scan.cells.get("subject_id")):
            if subject:
                stated[scan.person][subject] = None
    if not stated:
        _check_people(scans, facts, {}, problems, notes)
        return {}
    subject_of: dict[str, str] = {}
    for scan in scans:
        subjects = stated.get(scan.person, {})
        if len(subjects) != 1:
            rule = _problem_of(subjects)
            problems.add(rule, column="subject_id", name=scan.name)
        subject_of[scan.person] = next(iter(subjects), "")
    _check_people(scans, facts, subject_of, problems, notes)
    n_subjects = len(set(subject_of.values()))
    if n_subjects < len(subject_of):
        notes.append(
            f"{len(subject_of)} participants are {n_subjects} subjects, by the column subject_id."
        )
    return subject_of


def notes_on_two_sexes(subjects: Iterable[str], sexes: Iterable[object]) -> list[str]:
    """Return a list of one warning if subjects are F in one row and M in another; empty if none.

    Two people may then be taken for one. `subjects` and `sexes` have one value a row.
    """
    sexes_of: dict[str, set[object]] = defaultdict(set)
    for subject, sex in zip(subjects, sexes, strict=True):
        sexes_of[subject].add(sex)
    several = sorted(filter(lambda subject: {"F", "M"} <= sexes_of[subject], sexes_of))
    if not several:
        return []
    return [
        f"{len(several)} subjects are F in one row and M in another ({first_names(several)}): "
        "are two people taken for one?"
    ]


def first_visits(subjects: Sequence[str], sexes: Sequence[object] | None) -> dict[int, str]:
    """Return row position → name of the person's first visit, for rows of later visits.

    S01_v2 is a later visit if S01_v1 is among `subjects`, the names of all rows. `sexes` has the
    sex of each row, by which `visits_of_people` judges whether such names are visits; None if not
    known.
    """
    first = {}
    for visits in visits_of_people(subjects, sexes):
        for name in visits[1:]:
            first[name] = visits[0]
    rows = {}
    for row, subject in enumerate(subjects):
        if subject in first:
            rows[row] = first[subject]
    return rows


def visit_of(first: str) -> str:
    """Return the text of a problem: a row's name looks like a later visit of another row's person.

    `first` is the name of that person's first row. The text is returned always; the caller has
    compared the names with `first_visits`.
    """
    return f"looks like a visit of the person of {shown(first)}, by its name"


def _check_people(
    scans: Sequence[FoundScan],
    facts: Sequence[ScanFacts],
    subject_of: Mapping[str, str],
    problems: Problems,
    notes: list[str],
) -> None:
    """Compare names and sexes of the scans' subjects, and add to `problems` and `notes`.

    A problem is added for each scan whose subject's name differs from another one only in a later
    visit, as S01_v2 from S01_v1, and one note names the subjects who are F in one scan and M in
    another. `subject_of` is participant → subject; a participant absent there is a subject.
    """
    subjects = []
    sexes = []
    for scan, of_scan in zip(scans, facts, strict=True):
        subjects.append(subject_of.get(scan.person) or scan.person)
        sexes.append(of_scan.cells.get("sex"))
    visits = first_visits(subjects, sexes)
    for row, first in visits.items():
        problems.add(visit_of(first), name=scans[row].name)
    if visits:
        problems.hint(REMEDY_OF_VISITS)
    notes += notes_on_two_sexes(subjects, sexes)


def _problem_of(subjects: Collection[str]) -> str:
    """Return the message for a participant for whom tables name no subject (person), or several.

    `subjects` are these subjects, from the columns ``subject_id`` of the tables.
    """
    if not subjects:
        return _LACKING
    return f"found {' and '.join(map(shown, subjects))}; a participant is one subject"
