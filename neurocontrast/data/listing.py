"""Read tables from text files (``.tsv``, ``.csv``), Excel workbooks and Parquet files."""

import csv
import io
import os
import re
import warnings
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.cells import text_of
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, NeurocontrastError, one_of, said, suggestion
from neurocontrast.files import composed, relative_path, trimmed, write_table
from neurocontrast.reading import DAMAGE, check_place, read_bytes, refuse

_N_WORKBOOK_BYTES = 2**28
"""Largest unpacked content of an Excel workbook, in bytes."""

_NOT_TEXT = {
    b"PK\x03\x04": "an Excel workbook or zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "compressed with gzip",
    b"%PDF": "a PDF document",
}
"""First bytes of files that are no text → name of the format, for messages."""

_Row = tuple[int, list[str]]
"""Row of a table: line in the file, and cells."""


AnyTable = str | os.PathLike[str] | pd.DataFrame
"""Table as a path, or as a DataFrame in memory."""


def place_of(table: AnyTable) -> Path:
    """Return the path of a table, to begin messages; ``DataFrame`` for a table in memory."""
    if isinstance(table, pd.DataFrame):
        return Path("DataFrame")
    return Path(table).expanduser()


def read_text_table(path: AnyTable) -> pd.DataFrame:
    """Read a ``.tsv`` (tabs) or ``.csv`` (commas or semicolons) file, or a DataFrame, as text.

    Every cell of the result is text, "" where the cell is empty, and the index is the line of each
    row in the file. A byte order mark, Windows line ends, blank lines and spaces around a cell are
    removed. Rows of a DataFrame count from line 2, as below a header.
    """
    if isinstance(path, pd.DataFrame):
        if not len(path):
            raise DataError("DataFrame: needs at least one row.")
        return _as_text(path, "DataFrame")
    source = place_of(path)
    rows = [row for row in _split(source, _decode(source)) if any(row[1])]
    if not rows:
        raise DataError(
            f"{source.name}: the table is empty; it needs a header line and one row for each scan."
        )
    (header_line, header), *body = rows
    _check_separator(source, header)
    if not body:
        raise DataError(
            f"{source.name}: the table has a header and no rows; it needs one row for each scan."
        )
    # Spreadsheet programs leave trailing separators; a column without name and content is no
    # column.
    width = max((position for position, name in enumerate(header, start=1) if name), default=1)
    header = header[:width]
    body = [_trimmed_row(row, width) for row in body]
    problems = Problems(source.name)
    _check_header(header, header_line, problems)
    for line, cells in body:
        if len(cells) != len(header):
            problems.add(
                f"the row has {len(cells)} cells and the header {len(header)}",
                line=line,
                name=cells[0],
            )
    problems.raise_if_any()
    lines = [line for line, _ in body]
    return pd.DataFrame([cells for _, cells in body], lines, header, dtype=object)


def _trimmed_row(row: _Row, width: int) -> _Row:
    """Return `row` with its first `width` cells, or unchanged if any later cell is filled."""
    line, cells = row
    if any(cells[width:]):
        return row
    return line, cells[:width]


def _check_header(header: list[str], line: int, problems: Problems) -> None:
    """Add a problem for each column of a table without a name, and for each repeated name.

    `header` has the names of the columns, and `line` is the header's line in the file.
    """
    for position, name in enumerate(header, start=1):
        n_times = header.count(name)
        if not name:
            problems.add(f"column {position} has no name", line=line)
        elif header.index(name) == position - 1 and n_times > 1:
            problems.add(f"the header names the column '{name}' {n_times} times", line=line)


def read_sheet(path: Path) -> pd.DataFrame:
    """Read a text table, an Excel workbook (``.xlsx``) or a ``.parquet`` file as text.

    All cells of the result are text, indexed by line, as in the result of `read_text_table`.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        table = read_parquet(path)
        if not isinstance(table.index, pd.RangeIndex):
            table = table.reset_index()
        return _as_text(table, path.name)
    if ending in (".xlsx", ".xls"):
        return _as_text(read_workbook(path), path.name)
    return read_text_table(path)


def _as_text(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return a table with all cells as text, indexed by line from 2, as below a header."""
    check_names(table, source)
    texts = {}
    for name in table:
        cells = map(text_of, table[name])
        texts[trimmed(composed(str(name)))] = [trimmed(composed(cell)) for cell in cells]
    return pd.DataFrame(texts, range(2, len(table) + 2), dtype=object)


def check_names(table: pd.DataFrame, source: str) -> None:
    """Refuse a table with two columns of the same name, spaces around names ignored."""
    names = pd.Index([trimmed(str(name)) for name in table])
    twice = names[names.duplicated()].unique().tolist()
    if twice:
        raise DataError(
            f"{source}: has {one_of(twice)} more than once; give each column a name of its own."
        )


def write_rows(target: Path, table: pd.DataFrame, *, root: Path) -> None:
    """Write a table of text as ``.tsv``, with relative paths rewritten to start at the new file.

    `root` is the folder that relative paths of `table` start from.
    """

    def seen_from_target(cell: str) -> str:
        path, number, image = cell.partition("#")
        if "." not in path or Path(path).is_absolute() or not (root / path).is_file():
            return cell
        return f"{relative_path((root / path).absolute(), target.absolute().parent)}{number}{image}"

    write_table(target, table.map(seen_from_target))


def _decode(source: Path) -> str:
    """Return the text of a table's file; refuse folders, other formats, and unknown encodings."""
    if source.is_dir():
        raise DataError(
            f"{source}: this is a folder; give the table, for instance "
            f"{source / 'participants.tsv'}"
        )
    near = ""
    if not source.exists() and source.parent.is_dir():
        near = suggestion(source.name, [entry.name for entry in source.parent.iterdir()])
    content = read_bytes(source, remedy=near.strip())
    for start, kind in _NOT_TEXT.items():
        if content.startswith(start):
            raise DataError(
                f"{source.name}: this is {kind}, not a text table; save it as tab-separated text "
                "(.tsv)."
            )
    encoding = "utf-8-sig"
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    try:
        table = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{source.name}: line {line} holds a byte that is not UTF-8 "
            f"(0x{content[error.start]:02x}); save the table as UTF-8."
        ) from None
    if "\x00" in table:
        raise DataError(f"{source.name}: this is not a text table (it holds zero bytes).")
    return composed(table)


def _split(source: Path, text: str) -> list[_Row]:
    """Split the `text` of a table's file into rows of cells with line numbers, blank rows included.

    In a file `source` that ends in ``.csv``, commas or semicolons separate cells, by the header
    (`_delimiter`). In any other file tabs separate cells.
    """
    if source.suffix.lower() == ".csv":
        return _rows_of_csv(source, text, _delimiter(source, text))
    # A BIDS cell cannot hold tabs, so a quotation mark never joins cells or lines; spreadsheet
    # programs still wrap some cells in quotes, which are taken off.
    rows = []
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        rows.append((number, [_unquoted(trimmed(cell)) for cell in line.split("\t")]))
    return rows


def _delimiter(source: Path, text: str) -> str:
    """Return the separator of a ``.csv``: the comma or semicolon in the header.

    If the header has both, all rows decide: only the separator that divides each row into as many
    cells is right.
    """
    header = next(iter(text.lstrip().splitlines()), "")
    bare = re.sub(r'"[^"]*"', "", header)
    if ";" not in bare:
        return ","
    if "," not in bare:
        return ";"
    alike = []
    for delimiter in (",", ";"):
        try:
            rows = _rows_of_csv(source, text, delimiter)
        except DataError:
            continue
        widths = {len(cells) for _, cells in rows if any(cells)}
        if len(widths) == 1:
            alike.append(delimiter)
    if len(alike) != 1:
        how = "neither separates"
        if alike:
            how = "both separate"
        raise DataError(
            f"{source.name}: the header {shown(header)} has semicolons and commas, and {how} all "
            "rows into as many cells. Separate by one, and put cells that hold it in double quotes."
        )
    return alike[0]


def _rows_of_csv(source: Path, text: str, delimiter: str) -> list[_Row]:
    """Return the rows in the `text` of a ``.csv``, each with the number of its first line.

    `source` is the file, for messages; cells are separated by `delimiter`.
    """
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    rows: list[_Row] = []
    begins = 1
    try:
        for cells in reader:
            rows.append((begins, list(map(trimmed, cells))))
            begins = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{source.name}: line {begins}: {error}; is a quotation mark left open?"
        ) from None
    return rows


def _unquoted(cell: str) -> str:
    """Return a cell without the double quotes of a spreadsheet program around the cell."""
    if len(cell) >= 2 and cell[0] == cell[-1] == '"':
        return trimmed(cell[1:-1].replace('""', '"'))
    return cell


def _check_separator(source: Path, header: list[str]) -> None:
    """Refuse a header of one column that seems to be separated by another character."""
    if len(header) > 1:
        return
    if "\t" in header[0]:
        raise DataError(f"{source.name}: the header looks separated by tabs; name the file .tsv")
    for character, name in ((",", "commas"), (";", "semicolons")):
        if character in header[0] and source.suffix.lower() != ".csv":
            raise DataError(
                f"{source.name}: the header {shown(header[0])} looks separated by {name}; "
                f"separate by tabs, or name the file .csv"
            )


def read_table(
    path: str | os.PathLike[str],
    *,
    needed: Collection[str] = (),
    error: type[NeurocontrastError] = DataError,
    remedy: str = "",
    **options: Any,
) -> pd.DataFrame:
    """Read a tab-separated table in UTF-8; refuse a table without the needed columns.

    Parameters
    ----------
    path : path
        File of the table.
    needed : collection of str
        Columns that the table must have.
    error, remedy : optional
        Class and last words of errors, as in `neurocontrast.reading.ErrorOptions`.
    **options
        Options of `pandas.read_csv`; no word is a missing value unless ``na_values`` says so.
    """
    check_place(path, error=error, remedy=remedy)
    options.setdefault("sep", "\t")
    options.setdefault("keep_default_na", False)
    options.setdefault("encoding", "utf-8-sig")
    options.setdefault("compression", None)
    try:
        with warnings.catch_warnings():
            # Rows with more cells than the header are a warning of pandas.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(path, index_col=False, **options)
    except (ValueError, OSError, OverflowError, pd.errors.ParserWarning) as problem:
        refuse(path, f"not readable as a table ({said(problem)})", error, remedy)
    lacking = [name for name in needed if name not in table]
    if lacking:
        near = suggestion(lacking[0], table.columns)
        refuse(
            path,
            f"missing columns: {one_of(lacking)}; found: {one_of(table.columns)}",
            error,
            f"{near} {remedy}".strip(),
        )
    return table


def read_workbook(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read the first sheet of an Excel workbook (``.xlsx``) as text.

    A further sheet with a column of the first one is refused: people or measures would be lost.
    """
    check_place(path)
    try:
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(entry.file_size for entry in archive.infolist())
            if n_bytes > _N_WORKBOOK_BYTES:
                raise ValueError(f"its tables would take more than {_N_WORKBOOK_BYTES:,} bytes")
        sheets = pd.read_excel(
            path,
            sheet_name=None,
            header=None,
            dtype=str,
            keep_default_na=False,
            engine="openpyxl",
        )
    except ImportError as error:
        raise DataError(
            f"{path}: Excel files need openpyxl: pip install 'neurocontrast[excel]'."
        ) from error
    except DAMAGE as error:  # openpyxl meets damaged parts with nearly any of them
        problem = f"not readable as an Excel workbook ({said(error)})"
        raise DataError(f"{path}: {problem}. Save it as .xlsx or .tsv.") from None
    _check_one_table(path, sheets)
    cells = next(iter(sheets.values()))
    # Not read as a header by pandas, which renames repeated names.
    header = cells.iloc[:1].to_numpy().ravel()
    names = [name or f"Unnamed: {position}" for position, name in enumerate(header)]
    return cells.iloc[1:].reset_index(drop=True).set_axis(names, axis="columns")


def _check_one_table(path: str | os.PathLike[str], sheets: dict[str, pd.DataFrame]) -> None:
    """Refuse a workbook whose later sheets share a column with the first: rows would be lost."""
    first, *others = sheets
    names = set(sheets[first].iloc[:1].to_numpy().ravel()) - {""}
    further = []
    for name in others:
        header = set(sheets[name].iloc[:1].to_numpy().ravel())
        if header & names and len(sheets[name]) > 1:
            further.append(name)
    if further:
        raise DataError(
            f"{path}: the sheets {one_of(further)} have columns of the first, '{first}', which "
            "alone is read. Save each sheet as a table of its own, or put them into one."
        )


def read_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a Parquet table; refuse a damaged file with a `DataError`."""
    import pyarrow

    check_place(path)
    try:
        return pd.read_parquet(path)
    except (pyarrow.ArrowException, *DAMAGE) as error:
        raise DataError(f"{path}: not readable as Parquet ({said(error)}).") from None
