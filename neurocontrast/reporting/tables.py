"""Tables: rows of values to cells by one set of rules; absent values get a dash and a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from neurocontrast.reporting.page import Cell, Table
from neurocontrast.reporting.wording import DASH, interval_text, number_text


@dataclass(frozen=True)
class Column:
    """How one value of each row is shown.

    `kind` is ``number``, ``count``, ``share``, ``p``, ``text``, ``heading`` or ``interval``; an interval is that of
    `key`, in ``<key>_low`` and ``<key>_high``. With `interval`, the interval is printed under the number, with
    ``<key>_n`` where there is one. `reason` says why a value is absent, unless the row has ``<key>_reason``.
    """

    title: str
    key: str
    kind: str = "number"
    digits: int = 3
    signed: bool = False
    interval: bool = False
    reason: str = "not recorded"

    def show(self, row: Mapping[Any, Any]) -> Cell:
        """Return the cell of a row."""
        value: Any = row.get(self.key)
        detail = str(row.get(f"{self.key}_detail") or "")
        if self.kind == "heading":
            return Cell("not stated" if pd.isna(value) else str(value), heading=True, detail=detail)
        ends = (row.get(f"{self.key}_low"), row.get(f"{self.key}_high"))
        interval = interval_text(ends, digits=self.digits, signed=self.signed)
        if self.kind == "interval":
            text = interval
        elif value is None or pd.isna(value):
            text = DASH
        else:
            text = self._write(value)
        if text == DASH:
            return Cell(DASH, reason=str(row.get(f"{self.key}_reason") or self.reason))
        if self.interval:
            n = row.get(f"{self.key}_n")
            detail = "no interval" if interval == DASH else interval
            detail += f"; n = {n:,.0f}" if n and pd.notna(n) else ""
        return Cell(text, detail=detail)

    def _write(self, value: Any) -> str:
        if self.kind == "number":
            return number_text(value, digits=self.digits, signed=self.signed)
        if self.kind == "p":
            return f"{value:.3g}" if value >= 0.0001 else "< 0.0001"
        if self.kind == "text":
            return str(value)
        return f"{value:,.0f}" if self.kind == "count" else f"{value:.{self.digits}%}"


def make_table(
    caption: str, rows: pd.DataFrame | Iterable[Mapping[Any, Any]], columns: Sequence[Column | None], **look: Any
) -> Table:
    """Return a table of rows; a column that is None is left out, `look` is the note and how the table is laid out."""
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    shown = [column for column in columns if column is not None]
    text_columns = tuple(place for place, column in enumerate(shown) if column.kind in ("text", "heading"))
    cells = [tuple(column.show(row) for column in shown) for row in records]
    return Table(caption, [column.title for column in shown], cells, text_columns=text_columns, **look)


def ends(key: str, interval: Sequence[float | None] | None) -> dict[str, float | None]:
    """Return an interval as the two values of a row that a `Column` looks for."""
    low, high = interval or (None, None)
    return {f"{key}_low": low, f"{key}_high": high}
