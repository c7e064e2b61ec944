"""Missing values that no mark tells: -9 or 999 among numbers, a question mark among words."""

from collections.abc import Iterable

from neurocontrast.data.cells import is_missing, number_of

_BELOW_0 = frozenset(
    float(f"-{digit * n_digits}") for digit in ("7", "8", "9") for n_digits in range(1, 6)
)
_HIGH = frozenset(float("9" * n_digits) for n_digits in range(3, 8)) | {777.0, 888.0}
_HIGH_OF_SEVERAL = frozenset((77.0, 88.0, 99.0))
"""Codes that are true values too often to be taken for codes in one person, or in numbers of sites."""
_FACTOR = 3.0
"""A high code is beyond this times any other value."""
_AGES = ((99.0, 89.0), (0.0, 5.0))
"""Age that can mean "not known", and the other ages that leave no doubt: up to 89, and from 5 on."""
_N_PEOPLE = 2
_WORDS = frozenset(("?", "??", "-", "--", "---", "*", "(blank)", "#div/0!", "#value!", "#ref!"))
_ERRORS = frozenset(("#name?", "#num!", "not available", "not recorded", "no data", "missing"))
REMEDY = "Write n/a where a value is not known: codes and words for it are not guessed."


def unmarked_missing(column: str, cells: Iterable[str | None]) -> frozenset[str]:
    """Return the cells of a column that seem to mean "not known" and are not marked as missing.

    Of numbers that is -9, 99, 999 and their like where all others are not below 0, or far below;
    of ages 99 and 0 where two people have it and nobody is near. Of words it is a question mark,
    a dash, an error of a spreadsheet.

    Examples
    --------
    >>> sorted(unmarked_missing("mmse", ["29", "17", "-9", "999"]))
    ['-9', '999']
    >>> sorted(unmarked_missing("diagnosis", ["control", "patient", "?"]))
    ['?']
    """
    counts: dict[str, int] = {}
    for cell in cells:
        if cell is not None and not is_missing(cell):
            counts[cell] = counts.get(cell, 0) + 1
    words = {cell for cell in counts if cell.lower() in _WORDS | _ERRORS}
    numbers = {}
    for cell in counts.keys() - words:
        number = number_of(cell)
        if number is None:
            return frozenset(words)
        numbers[cell] = number
    name = column.strip().lower()
    if name == "age":
        return frozenset(words | _codes_of_age(numbers, counts))
    if name == "site":
        counts = {}
    return frozenset(words | _codes(numbers, counts))


def _codes(numbers: dict[str, float], counts: dict[str, int]) -> set[str]:
    """Return the cells of a column of numbers that are codes."""
    candidates = _BELOW_0 | _HIGH | _HIGH_OF_SEVERAL
    others = [number for number in numbers.values() if number not in candidates]
    if not others or min(others) < 0:
        return set()
    codes = set()
    for cell, number in numbers.items():
        is_frequent = number in _HIGH_OF_SEVERAL and counts.get(cell, 0) >= _N_PEOPLE
        is_high = (number in _HIGH or is_frequent) and number >= _FACTOR * max(others)
        if number in _BELOW_0 or is_high:
            codes.add(cell)
    return codes


def _codes_of_age(numbers: dict[str, float], counts: dict[str, int]) -> set[str]:
    """Return the ages that are codes: several people have one, and nobody an age that is near."""
    codes = set()
    for code, limit in _AGES:
        others = [number for number in numbers.values() if number not in (0.0, 99.0)]
        is_apart = bool(others) and (max(others) <= limit if code else min(others) >= limit)
        for cell, number in numbers.items():
            if number == code and is_apart and counts[cell] >= _N_PEOPLE:
                codes.add(cell)
    return codes
