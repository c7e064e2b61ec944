"""Compare columns of one meaning row by row, such as ``sex`` and ``gender``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pandas as pd

from neurocontrast.cells import is_missing, number_of, spelling_of
from neurocontrast.data.codes import base_name, codes_in_name
from neurocontrast.data.decoding import decode_column
from neurocontrast.data.descriptions import Description, description_of
from neurocontrast.data.problems import shown
from neurocontrast.exceptions import DataError

MAX_AGE_DIFFERENCE = 1.0
"""Largest difference in years between two ages of one person, since ages are rounded."""
_YEARS = frozenset({"age", "age_years", "alter", "edad", "leeftijd", "eta", "idade"})
"""Names of columns that hold the same age; ``age_at_scan`` may rightly differ from ``age``."""
_MOST = 0.5
"""Share of rows with contradictory values above which two columns of one meaning are refused."""
_N_SHOWN = 3
"""Largest number of rows that a message shows."""


@dataclass(frozen=True)
class _Pair:
    """Values of two columns of one meaning, in the rows that have a value in each column.

    `kind` is the meaning, such as ``sex``, `taken` the name of the column that is used, and
    `second` the name of an unused one. `values` has the columns "taken" and "second", indexed by
    line of the table's file.
    """

    kind: str
    taken: str
    second: str
    values: pd.DataFrame
    is_coded: tuple[bool, bool]
    """For each of the two columns, whether all cells are numbers, explained nowhere as codes."""

    def differing(self) -> pd.DataFrame:
        """Return the rows of `values`, a DataFrame, in which the columns contradict each other.

        Two ages contradict if more than `MAX_AGE_DIFFERENCE` years apart, and two sexes, sites or
        diagnoses if they differ. But columns of sites or diagnoses without any value in common are
        taken to hold other names of the same things (one names, the other codes), and no row is
        returned.
        """
        first = self.values["taken"]
        second = self.values["second"]
        if self.kind == "age":
            distance = (first.astype(float) - second.astype(float)).abs()
            return self.values[distance > MAX_AGE_DIFFERENCE]
        if self.kind != "sex" and not set(first) & set(second):
            return self.values.head(0)  # names of other things, such as codes of sites
        return self.values[first != second]

    def is_refused(self, n_differing: int) -> bool:
        """Tell whether the columns must agree, and contradict each other in most of the rows.

        Columns of sex must agree unless the second has unexplained codes, and so must ages in
        years.
        """
        is_one_meaning = self.kind == "sex" and not self.is_coded[1]
        if self.kind == "age":
            is_one_meaning = {base_name(self.taken), base_name(self.second)} <= _YEARS
        return is_one_meaning and n_differing > max(1, _MOST * len(self.values))


@dataclass
class Contradictions:
    """Refusals and warnings, as messages, about columns of one table that contradict each other."""

    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, pair: _Pair) -> None:
        """Compare the two columns of `pair`; if they contradict each other, add one message.

        The message is added to `refusals` if the columns must agree and differ in most rows
        (`_Pair.is_refused`), and to `warnings` if not.
        """
        differing = pair.differing()
        n_rows = len(pair.values)
        is_swapped = pair.kind == "sex" and len(differing) > max(1, _MOST * n_rows)
        if is_swapped and pair.is_coded == (False, True):
            differing = pair.values.drop(index=differing.index)  # 1 is female in the second column
        if differing.empty:
            return
        rows = []
        for line, row in differing.head(_N_SHOWN).iterrows():
            rows.append(f"line {line}: {shown(row['taken'])} and {shown(row['second'])}")
        if len(differing) > _N_SHOWN:
            rows.append("…")
        message = (
            f"columns '{pair.taken}' and '{pair.second}' contradict each other in "
            f"{len(differing)} of {n_rows} rows ({'; '.join(rows)})"
        )
        if pair.is_refused(len(differing)):
            self.refusals.append(message)
        else:
            self.warnings.append(f"{message}; '{pair.taken}' is taken")

    def raise_if_refused(self, source: str) -> None:
        """Raise one `DataError` with all refusals, if there are any; `source` names the table."""
        if self.refusals:
            raise DataError(
                f"{source}: {'; '.join(self.refusals)}: one of them is coded otherwise than it is "
                "read. Say how in the JSON file beside the table (Levels, Units), or remove the "
                "column that is not meant."
            )


def warnings_of_contradictions(
    source: str,
    cells: pd.DataFrame,
    taken: Mapping[str, str],
    names: Mapping[str, tuple[str, ...]],
    descriptions: Mapping[str, Description],
) -> list[str]:
    """Return warnings on unused columns that contradict the used column of age, sex and the like.

    For age, sex, site and diagnosis, the used column is compared row by row with each unused column
    that has one of the usual `names`. A `DataError` is raised if two columns of sex, or of age in
    years, contradict each other in most rows, since one of the columns must be wrongly coded.

    Parameters
    ----------
    source : str
        Name of the table in messages.
    cells : DataFrame
        Table as text, indexed by line.
    taken : dict of str to str
        Meaning → column that the cohort uses, such as ``sex`` → ``Gender``.
    names : dict of str to tuple of str
        Meaning → usual names of columns with the meaning.
    descriptions : dict
        Descriptions of columns by the JSON file of the table.
    """
    contradictions = Contradictions()
    for kind in ("age", "sex", "site", "diagnosis"):
        if kind not in taken:
            continue
        column = taken[kind]
        others = list(_others(column, names[kind], cells))
        if not others:
            continue
        first = _values_of(kind, column, cells, descriptions)
        first_is_coded = _is_coded(column, cells, descriptions)
        for second in others:
            values = _values_of(kind, second, cells, descriptions)
            pair = pd.DataFrame({"taken": first, "second": values}).dropna()
            is_coded = (first_is_coded, _is_coded(second, cells, descriptions))
            contradictions.add(_Pair(kind, column, second, pair, is_coded))
    contradictions.raise_if_refused(source)
    return contradictions.warnings


def _others(column: str, names: tuple[str, ...], cells: pd.DataFrame) -> Iterator[str]:
    """Yield the columns of `cells`, by name, that may hold the same as the column `column`.

    The name of such a column, in lower case and without codes, is one of `names`, the usual names
    for the content of `column`, as ``sex`` and ``gender``.
    """
    for second in map(str, cells.columns):
        name = base_name(second)
        if second != column and name in names:
            yield second


def _values_of(
    kind: str, column: str, cells: pd.DataFrame, descriptions: Mapping[str, Description]
) -> pd.Series:
    """Return a Series by line: cells of a column as ages, sexes, or names of sites or diagnoses.

    `kind` tells which, as ``sex``. Codes become the meanings that the JSON file (`descriptions`)
    gives, or the column's name, as in ``sex (1=m, 2=f)``; names get one spelling. The value is None
    for a missing cell, and for a cell that cannot be decoded.
    """
    spellings = cells[column].unique().tolist()
    reading = decode_column(kind, column, spellings, description_of(column, descriptions))
    as_value: Callable[[str], object] = str
    if kind == "age":
        as_value = number_of
    elif kind != "sex":
        as_value = _plain_level
    values: dict[str, object] = {}
    for spelling, value in zip(spellings, reading.values, strict=True):
        values[spelling] = None
        if isinstance(value, str) and value and not is_missing(spelling):
            values[spelling] = as_value(value)
    return cells[column].map(values).astype(object)


def _plain_level(value: str) -> str:
    """Return a site or class in lower case and one spelling, to compare two columns."""
    return spelling_of(value).casefold()


def _is_coded(column: str, cells: pd.DataFrame, descriptions: Mapping[str, Description]) -> bool:
    """Tell whether a column of `cells` has only numbers that nothing explains.

    Numbers are explained by `descriptions` of a JSON file, or by codes in the column's name.
    """
    description = description_of(column, descriptions)
    if description.levels or description.words or codes_in_name(column):
        return False
    spellings = [cell for cell in cells[column].unique() if not is_missing(cell)]
    return all(number_of(cell) is not None for cell in spellings)
