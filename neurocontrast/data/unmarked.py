"""Find codes for missing values: -9 or 999 among numbers, a question mark among words."""

from collections.abc import Iterable

from neurocontrast.cells import WORDS_FOR_MISSING, is_missing, number_of

_BELOW_0 = frozenset(map(float, "-7 -8 -9 -77 -88 -99 -777 -888 -999 -9999 -99999".split()))
_HIGH = frozenset(map(float, "777 888 999 9999 99999 999999 9999999".split()))
_HIGH_OF_SEVERAL = frozenset((77.0, 88.0, 99.0))
"""Numbers that count as codes for missing only in several people, never in column ``site``."""
_FACTOR = 3.0
"""Factor by which a code such as 999 must exceed every other number of the column."""
_HIGHEST = 99.0
_AGES = (0.0, _HIGHEST)
_OLDEST = 89.0
_YOUNGEST = 5.0
"""Smallest age in years of all other people for which an age of 0 counts as a code; an age of 99
counts as a code if all other people are at most `_OLDEST`."""
_N_PEOPLE = 2
"""Smallest number of rows with the same number, for a code that could also be an age."""
_WORDS = frozenset(("?", "??", "-", "--", "---", "*", "(blank)", "#div/0!", "#value!", "#ref!"))
_ERRORS = frozenset(("#name?", "#num!"))
REMEDY = "Write n/a where a value is not known: codes and words for it are not guessed."


def unmarked_missing(column: str, cells: Iterable[str | None]) -> frozenset[str]:
    """Return cells of a column that seem to be codes or words for missing values.

    Among numbers, -9 is such a cell if no other number is below 0, and 99 or 999 if all other
    numbers are far below; among ages, 99 and 0 if two rows or more have the code and none an age
    near the code; among words, a question mark, a dash, an error of a spreadsheet, -9 or 999.

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
    words = {cell for cell in counts if cell.lower() in _WORDS | _ERRORS | WORDS_FOR_MISSING}
    numbers = {}
    for cell in counts.keys() - words:
        number = number_of(cell)
        if number is not None:
            numbers[cell] = number
    if len(numbers) + len(words) < len(counts):  # other words
        return frozenset(words.union(filter(_is_code_among_words, numbers)))
    name = column.strip().lower()
    if name == "age":
        return frozenset(words | _codes_of_age(numbers, counts))
    if name == "site":
        counts = {}
    return frozenset(words | _codes(numbers, counts))


def _is_code_among_words(cell: str) -> bool:
    """Tell whether a number in a column of words is a code for a missing value, as -9 or 999.

    A `cell` that is no number is no code.
    """
    return number_of(cell) in _BELOW_0 | _HIGH


def _codes(numbers: dict[str, float], counts: dict[str, int]) -> set[str]:
    """Return the cells of a column of numbers that seem to be codes for missing values.

    `numbers` is cell → number, and `counts` is cell → number of rows. A negative code such as -9
    counts if no other number is below 0, and a high one such as 999 if at least 3 times as large as
    every number that is no code; 77, 88 and 99 count only in two rows or more.
    """
    candidates = _BELOW_0 | _HIGH | _HIGH_OF_SEVERAL
    others = set(numbers.values()) - candidates
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
    """Return the cells of ages 0 and 99 that seem to be codes for a missing age.

    Only these two ages are looked at, and only if two rows or more have the cell. 99 is a code if
    no other age is above 89, and 0 if no other age is below 5. `numbers` is cell → age, and
    `counts` is cell → number of rows.
    """
    others = sorted(set(numbers.values()) - set(_AGES))
    if not others:
        return set()
    codes = set()
    for cell, number in numbers.items():
        is_high = number == _HIGHEST and others[-1] <= _OLDEST
        is_low = number == 0 and others[0] >= _YOUNGEST
        if (is_high or is_low) and counts[cell] >= _N_PEOPLE:
            codes.add(cell)
    return codes
