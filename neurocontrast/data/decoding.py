"""Decode columns of tables of people, by units and codes in JSON files and in columns' names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from neurocontrast.cells import WORDS_FOR_MISSING, Refusal, is_missing, number_of, text_of
from neurocontrast.data.codes import base_name, codes_in_name, sexes_in_words
from neurocontrast.data.columns import as_age
from neurocontrast.data.descriptions import NOTHING, Description
from neurocontrast.data.problems import shown
from neurocontrast.data.sexes import OTHERS, as_sex, plain_word, read_sexes, sex_in
from neurocontrast.data.unmarked import REMEDY, unmarked_missing
from neurocontrast.exceptions import one_of

_PER_YEAR = {"year": 1.0, "month": 12.0, "week": 365.25 / 7, "day": 365.25}
"""Unit of age → number of units in a year."""
_UNITS = {
    "y": "year",
    "yr": "year",
    "a": "year",
    "m": "month",
    "mo": "month",
    "mth": "month",
    "w": "week",
    "wk": "week",
    "d": "day",
}
"""Abbreviation → unit of age."""
_NAMES_OF_UNITS = ("unit", "units", "Unit", "Units", "in")
"""Words before a unit in a column's name, as in ``age (unit=days)``."""
_ML_PER_UNIT = {
    **dict.fromkeys(("ml", "cm3", "cm^3", "cm³", "cc", "milliliter", "millilitre"), 1.0),
    **dict.fromkeys(("mm3", "mm^3", "mm³", "ul", "µl"), 1e-3),
    **dict.fromkeys(("l", "liter", "litre", "dm3", "dm^3", "dm³"), 1e3),
}
"""Unit of volume → number of mL in one unit."""
_SMALLEST_ML = 100.0
"""Smallest head volume in mL."""
_LARGEST_ML = 10_000.0
"""Largest head volume in mL; a larger number is taken as mm³, the unit of FreeSurfer's eTIV."""
_WORDS_FOR_MISSING_AGES = WORDS_FOR_MISSING | {"unknown"}
_UNITS_BY_WORD = {
    **dict.fromkeys(("jahren", "jahr", "años", "ans", "anni", "jaren"), "year"),
    **dict.fromkeys(("monaten", "monat", "mois", "meses", "mesi", "maanden"), "month"),
    **dict.fromkeys(("wochen", "woche", "semaines", "semanas", "weken"), "week"),
    **dict.fromkeys(("tagen", "tag", "jours", "días", "giorni", "dagen"), "day"),
}
"""Word of another language → unit of age."""
_UNIT = rf"(year|month|week|day|{'|'.join(_UNITS_BY_WORD)})s?"
_IN_UNIT = re.compile(rf"\b(?:in|en) {_UNIT}\b")
_BRACKETED = re.compile(rf"[(\[] *{_UNIT} *[)\]]")
_UNITS_NAMED = re.compile(r"\b(year|month|week|day)s\b")


@dataclass
class Decoded:
    """Result of `decode_column`: `values` of a column's cells, one for each cell, in order.

    A value is decoded text (an age in years is text, too), "" for a missing cell, or a `Refusal`
    with the reason why the cell cannot be decoded.
    """

    values: list[str | Refusal]
    others: Mapping[str, str] = field(default_factory=dict)
    """Cell → word for a sex other than F and M; empty for other columns than sexes."""
    notes: tuple[str, ...] = ()
    """Sentences on how a column of sexes was read."""


def decode_column(
    kind: str, column: str, cells: Sequence[str], description: Description = NOTHING
) -> Decoded:
    """Decode the cells of a column of people, and return a `Decoded` with a value for each cell.

    Cells are decoded by the description in the JSON file beside the table, and by codes in the
    column's name, as ``sex (1=m, 2=f)``.

    Parameters
    ----------
    kind : str
        ``age`` (decoded to years), ``sex`` (to F and M), ``tiv`` (to mL), or any other kind, whose
        codes become their meanings.
    column : str
        Name of the column, which may explain codes.
    cells : sequence of str
        Cells of the column.
    description : Description
        Description of the column; codes of sexes are read from its free text if it has no levels.
    """
    if kind == "age":
        return _ages(column, cells, description)
    if kind == "tiv":
        return Decoded([_head_size(cell, description.units) for cell in cells])
    if kind == "sex":
        return _sexes(column, cells, description)
    codes = codes_in_name(column)
    return Decoded([_meaning(cell, codes, description.levels) for cell in cells])


def _same_code(cell: str) -> str:
    """Return a code in one form for comparison with other codes: 1, 1.0 and 01 become the same."""
    number = number_of(cell)
    if number is None:
        return cell
    return text_of(number)


def _lookup(cell: str, meanings: Mapping[str, str]) -> str | None:
    """Return the meaning of the code in `cell`; None if no code of `meanings` matches.

    `meanings` is code → meaning. Codes match as equal numbers, such as 1 and 1.0, or in upper and
    lower case if codes that differ in case alone have one meaning.
    """
    if cell in meanings:
        return meanings[cell]
    alike = set()
    for code, meaning in meanings.items():
        if _same_code(code) == _same_code(cell):
            return meaning
        if code.lower() == cell.lower():
            alike.add(meaning)
    if len(alike) != 1:
        return None
    return alike.pop()


def _meaning(cell: str, codes: Mapping[str, str], levels: Mapping[str, str]) -> str | Refusal:
    """Return the meaning of the code in a cell, or the cell itself if nothing explains the code.

    Codes are explained by `levels` (code → meaning), from the JSON file beside the table, and by
    `codes`, from the column's name. If there are `levels`, a cell that is not among them gives a
    `Refusal`. For a missing cell, and for a code that means a missing value, "" is returned.
    """
    level = cell
    if levels and not is_missing(cell):
        by_name: Mapping[str, str] = {}
        if number_of(cell) is None:
            by_name = _by_meaning(levels)
        level = _lookup(cell, levels) or _lookup(cell, by_name) or ""
        if not level:
            return Refusal(f"Levels of the JSON file has {one_of(levels)}")
    meaning = _lookup(level, codes) or level
    if is_missing(meaning):
        return ""
    return meaning


def _by_meaning(levels: Mapping[str, str]) -> dict[str, str]:
    """Return meaning → meaning for the meanings of `levels`, to look up cells without a code.

    `levels` is code → meaning; in some tables a cell holds a meaning in place of a code.
    """
    return dict(zip(levels.values(), levels.values(), strict=True))


def _sexes(column: str, cells: Sequence[str], description: Description) -> Decoded:
    """Decode a column of sexes to F, M, "" or a `Refusal` for each cell, as a `Decoded`.

    Codes are explained by the name `column`, and by the levels of `description` (of the JSON file
    beside the table) or, if it has none, by its free text. Words such as ``male`` need no levels.
    """
    codes = codes_in_name(column)
    levels = description.levels or sexes_in_words(description.words)
    words = []
    refusals = {}
    for row, cell in enumerate(cells):
        word = _explained_sex(cell, codes, levels)
        if isinstance(word, Refusal):
            refusals[row] = word
            word = ""
        words.append(word)
    sexes = read_sexes(words)
    values = list(sexes.values)
    others = {}
    for row, cell in enumerate(cells):
        values[row] = refusals.get(row, values[row])
        if words[row] in sexes.others:
            others[cell] = words[row]
    return Decoded(values, others, sexes.notes)


def _explained_sex(cell: str, codes: Mapping[str, str], levels: Mapping[str, str]) -> str | Refusal:
    """Return the sex that the code in a cell means by `codes` and `levels`, each code → meaning.

    `codes` are read from the column's name, `levels` from the JSON file beside the table. The
    result is a word for `read_sexes`: F, M or another sex, "" if missing, or the cell itself if
    neither `codes` nor `levels` apply.

    In place of a sex, a `Refusal` is returned in three cases: `codes` and `levels` contradict each
    other; the meaning is no sex, or contradicts a cell that is itself a clear word or letter; or
    the cell is a code that is not explained, while other codes are.
    """
    if is_missing(cell):
        return ""
    meanings = list(filter(None, (_lookup(cell, codes), _lookup(cell, levels))))
    explained = [*codes.values(), *levels.values()]
    sexes = {_sex_of_meaning(meaning, explained) for meaning in meanings}
    if len(sexes) > 1:
        return Refusal(f"the column's name says {shown(meanings[0])}, Levels {shown(meanings[1])}")
    if meanings:
        sex = sexes.pop()
        clear = _clear_sex(cell, [*codes, *levels])
        if sex is None or clear not in (None, sex):
            return Refusal(
                f"it is explained as {shown(meanings[0])}, which contradicts or is not F or M"
            )
        return sex
    allowed = {_sex_of_meaning(meaning, levels.values()) for meaning in levels.values()}
    is_code = number_of(cell) is not None or _is_unclear_beside(cell, explained)
    if (codes and is_code) or (levels and (is_code or as_sex(cell) not in allowed)):
        if levels:
            return Refusal(f"Levels of the JSON file has {one_of(levels)}")
        return Refusal(f"the column's name has {one_of(codes)}")
    return cell


def _is_unclear_beside(letter: str, meanings: Iterable[str]) -> bool:
    """Tell whether a letter for a sex is unclear in a column of `meanings`: m beside hombre."""
    return not isinstance(as_sex(letter), Refusal) and _clear_sex(letter, meanings) is None


def _clear_sex(code: str, codes: Iterable[str]) -> str | None:
    """Return the sex of a code that is itself a word or letter for a sex, such as ``f``.

    None for a number, and for a letter that is unclear among the column's `codes`.
    """
    if number_of(code) is not None:
        return None
    sex = read_sexes([code, *codes]).values[0]
    if isinstance(sex, Refusal):
        return None
    return sex


def _sex_of_meaning(meaning: str, meanings: Iterable[str]) -> str | None:
    """Return the sex in a code's meaning: F, M or a word of `OTHERS`; "" missing, None unclear.

    `meanings` are the meanings of all codes of the column, which can make a letter unclear: ``h``
    is M with ``f`` among them, and unclear with ``m``.
    """
    word = plain_word(meaning)
    if is_missing(meaning):
        return ""
    if word in OTHERS:
        return word
    if number_of(meaning) is not None:
        return None
    sex = read_sexes([meaning, *meanings]).values[0]
    if isinstance(sex, Refusal):
        return sex_in(meaning, meanings)
    return sex


def _ages(column: str, cells: Sequence[str], description: Description) -> Decoded:
    """Decode the cells of a column of ages to years, as a `Decoded`.

    Codes are explained by the name `column`, and by `description`, which is read from the JSON file
    beside the table. The unit is in `description` or in the name, or a default (`_unit_of_age`). If
    the unit is not understood, each age is a `Refusal`; a missing age is "".
    """
    codes = codes_in_name(column)
    description = _with_units_of(codes, description)
    unit = _unit_of_age(column, description)
    unexplained: frozenset[str] = frozenset()
    if unit != "year":  # 999 months would be an age of 83 years
        unexplained = unmarked_missing("", cells)
    values: list[str | Refusal] = []
    for cell in cells:
        meaning = _lookup(cell, codes) or _lookup(cell, description.levels)
        explained = cell
        if meaning is not None and not _is_top_coded(cell):
            explained = meaning
        if is_missing(explained) or plain_word(meaning or "") in _WORDS_FOR_MISSING_AGES:
            values.append("")
        elif isinstance(unit, Refusal):
            values.append(unit)
        elif explained in unexplained:
            values.append(Refusal(f"it seems to mean that the age is not known. {REMEDY}"))
        else:
            values.append(_years(explained, unit))
    return Decoded(values)


def _with_units_of(codes: Mapping[str, str], description: Description) -> Description:
    """Return a copy of `description`, of a column of ages, with the unit in the column's name.

    `description` is read from the JSON file beside the table. `codes` are the equations in the
    name: ``unit`` → ``days`` for a column ``age (unit=days)``. In the copy the unit is added to
    ``words``, the free text, so that other ``Units`` of the JSON file are noticed. If the JSON file
    has no ``Units``, the unit becomes ``units``. A name may state no unit.
    """
    unit = next(filter(None, map(codes.get, _NAMES_OF_UNITS)), "")
    # Other Units of a JSON file contradict these words.
    described = f"{description.words}, in {unit}"
    return replace(description, units=description.units or unit, words=described)


def _is_top_coded(cell: str) -> bool:
    """Tell whether a cell is a top-coded age such as ``89+``."""
    return number_of(cell) is None and isinstance(as_age(cell), float)


def _unit_of_age(column: str, description: Description) -> str | Refusal:
    """Return the unit of a column of ages: year, month, week or day; a `Refusal` if unclear.

    `description` is read from the JSON file beside the table. If its ``Units`` is empty, the unit
    is a year, or a month for the column ``interview_age``. A `Refusal` is returned, and not raised,
    for ``Units`` that are not known, and if the words of `description`, or the column's name
    ``age_years``, name another unit.
    """
    usual = "year"
    if base_name(column) == "interview_age":
        usual = "month"
    written = re.sub(r"\bold\b", "", description.units.lower()).strip(" .()[]").rstrip("s")
    unit = _UNITS.get(written, written) or usual
    if unit not in _PER_YEAR:
        allowed = "'years', 'months', 'weeks', 'days'"
        return Refusal(f"Units {shown(description.units)} are not known; {allowed} are")
    described = _units_in(description.words, is_only_source=not written)
    if base_name(column) == "age_years":
        described.add("year")
    if described and unit not in described:
        units = "are not given"
        if written:
            units = f"are {unit}s"
        described_unit = min(described)
        return Refusal(
            f"Units of the JSON file {units}, and the column is described as in {described_unit}s; "
            "write the right Units"
        )
    return unit


def _units_in(words: str, *, is_only_source: bool) -> set[str]:
    """Return the units of age that the description of a column states: ``in months`` → month.

    If the description is the only source of the unit, a unit in brackets counts too, and without
    both any unit in the plural, as in "age at the scan, months".
    """
    text = words.lower()
    units = set()
    for word in _IN_UNIT.findall(text):
        units.add(_unit_of_word(word))
    if not is_only_source:
        return units
    for word in _BRACKETED.findall(text):
        units.add(_unit_of_word(word))
    return units or set(_UNITS_NAMED.findall(text))


def _unit_of_word(word: str) -> str:
    """Return the unit of age that a word in the singular means: year, month, week or day."""
    return _UNITS_BY_WORD.get(word, word)


def _years(cell: str, unit: str) -> str | Refusal:
    """Return the age in a cell, of `unit`, in years as text; a `Refusal` if the cell is no age."""
    number = number_of(cell)
    if number is None and unit != "year":
        return Refusal(f"an age in {unit}s is a number, or n/a")
    years = cell
    if unit != "year" and number is not None:
        years = f"{number / _PER_YEAR[unit]:.4g}"
    age = as_age(years)
    if isinstance(age, Refusal):
        return age
    return years


def _head_size(cell: str, units: str) -> str | Refusal:
    """Return the head volume in a cell in mL as text, "" if missing, or a `Refusal`.

    `units` is the unit in the JSON file beside the table, such as ``mm3``. If it is not known, a
    number above `_LARGEST_ML` is taken as mm³, and any other number as mL. A cell that is no
    number, and a volume that no head has, give a `Refusal`; nothing is raised.
    """
    if is_missing(cell):
        return ""
    number = number_of(cell)
    factor = _ML_PER_UNIT.get(units.strip().lower())
    if factor is None:
        factor = 1.0
        if number is not None and number > _LARGEST_ML:
            factor = 1e-3
    volume = (number or 0.0) * factor
    if volume < _SMALLEST_ML:
        return Refusal("the volume of a head is a number of mL or mm³ (litres times 1000), or n/a")
    if volume > _LARGEST_ML:
        return Refusal(f"this is no volume of a head in {units}, as Units of the JSON file say")
    if factor == 1.0:
        return cell
    return f"{volume:.1f}"
