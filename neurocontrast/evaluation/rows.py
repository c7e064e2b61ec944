"""Tidy and check the rows of an embeddings table: identifiers, metadata, features, encoder."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import is_missing, level_of, number_of
from neurocontrast.data.columns import levels_of, matching_columns, number_in
from neurocontrast.data.connected import number_connected
from neurocontrast.data.identifiers import problem_of_identifier
from neurocontrast.data.levels import check_sexes, level_column
from neurocontrast.data.measures.units import People, check_head_sizes
from neurocontrast.data.sexes import read_sexes
from neurocontrast.data.subjects import notes_on_two_sexes
from neurocontrast.data.unmarked import REMEDY, unmarked_missing
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import trimmed
from neurocontrast.progress import warn_caller
from neurocontrast.provenance import CONTENT, unify_subjects
from neurocontrast.seeds import derive_generator

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.generic]
"""Values of a target: codes of classes, or numbers."""
Rows = npt.NDArray[np.intp]
"""Positions in a table."""
Texts = npt.NDArray[np.object_]
"""Subjects or sites, one a scan."""

_FIXED = ("age", "sex", "site", "diagnosis")
"""Columns that are always read as numbers, or always as categories, however their cells are
written."""
NO_SITE = "(no site)"
"""Name of the group of scans without a site where sites are compared; empty in tables."""

IDENTIFIERS = ("participant_id", "subject_id", "session", "path", CONTENT)
"""Columns that name a scan, which are never a target, a covariate or a feature."""


def tidy_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return an embeddings table with identifiers, ``age``, ``sex`` and ``site`` in one form.

    Identifiers are text, "" where missing; a sex or site has one spelling; ages are numbers. A
    column of head sizes, however its name is written, becomes the column ``tiv`` of numbers.
    """
    if "participant_id" not in table:
        raise DataError(
            f"embeddings: column 'participant_id' is needed. Columns: {one_of(table.columns)}."
        )
    _check_case(table.columns)
    tidy = table.reset_index(drop=True).copy()
    for name in IDENTIFIERS:
        fallback = pd.Series([""] * len(tidy), dtype=object)
        if name == "subject_id":
            fallback = tidy["participant_id"]
        tidy[name] = [cell or "" for cell in cell_texts(tidy.get(name, fallback))]
    unnamed = np.flatnonzero(tidy["participant_id"] == "")
    if len(unnamed):
        raise DataError(
            f"embeddings: participant_id is empty in {len(unnamed)} rows (first: "
            f"{unnamed[:5].tolist()}). Every scan "
            "needs a participant: without it the sessions of one person could be on both sides of "
            "a fold."
        )
    check_identifiers(tidy)
    subjects = _subjects_of(tidy)
    tidy["subject_id"] = pd.Series(unify_subjects(subjects), dtype=object)
    for name in ("sex", "site"):
        cells = tidy.get(name, pd.Series(None, tidy.index, dtype=object))
        check_sexes(name, cells, names=tidy["participant_id"].tolist())
        tidy[name] = level_column(name, cells)
    _look_at_sexes(table.get("sex"))
    for note in notes_on_two_sexes(tidy["subject_id"], tidy["sex"]):
        warn_caller(f"embeddings: {note}")
    check_unmarked(tidy, tidy.columns.intersection(["age", "site"]), place="embeddings")
    tidy["age"] = _numbers(tidy, "age") if "age" in tidy else np.nan
    spelled = [name for name in tidy.columns if str(name).lower() == "tiv"]
    if len(spelled) == 1:  # with two, which one is meant is for the user to say
        volumes = _numbers(tidy, spelled[0])
        tidy = tidy.drop(columns=spelled).assign(tiv=volumes)
    check_units_of_table(tidy)
    return tidy


def _subjects_of(table: pd.DataFrame) -> pd.Series:
    """Return each row's subject: ``subject_id``, or the participant where no row has a subject.

    A column that only some rows fill is refused: scans of one person would count as of two.
    """
    unnamed = np.flatnonzero(table["subject_id"] == "")
    if len(unnamed) == len(table):
        return table["participant_id"]
    if len(unnamed):
        raise DataError(
            f"embeddings: subject_id is missing in {len(unnamed)} of {len(table)} rows "
            f"({listed(row_names(table, unnamed))}). Every row needs one, or leave the column out."
        )
    return table["subject_id"]


def check_unmarked(table: pd.DataFrame, names: Iterable[str], *, place: str) -> None:
    """Refuse columns in which codes such as -9 or 999, or a question mark, seem to mean "missing".

    `unmarked_missing` finds such codes by the other values of the column. The columns are `names`
    of `table`, and `place` begins the message.
    """
    wrong = []
    for name in names:
        codes = unmarked_missing(name, map(level_of, table[name]))
        if codes:
            n_scans = int(table[name].map(level_of).isin(codes).sum())
            wrong.append(f"column '{name}', {n_scans} scans: {one_of(sorted(codes))}")
    if wrong:
        raise DataError(
            f"{place}: {'; '.join(wrong)} seem to mean that the value is not known. {REMEDY}"
        )


def check_numbers(table: pd.DataFrame, names: Iterable[str], *, place: str) -> None:
    """Refuse text columns most of whose cells are numbers: each number would be a category.

    The columns are `names` of `table`. A column in which all values are whole numbers is accepted,
    since they may be codes; numbers with a point or a comma are no codes. `place` begins the
    message.
    """
    for name in names:
        if is_number(table[name]) or name in _FIXED:
            continue
        counts = table[name].map(level_of).value_counts()
        is_numeric = counts.index.map(_is_written_number).to_numpy(dtype=bool)
        are_codes = counts.index.map(str.isdecimal).to_numpy(dtype=bool)
        if counts[is_numeric].sum() <= counts.sum() / 2 or are_codes.all():
            continue
        odd = str(counts.index[~is_numeric | ~are_codes][0])
        raise DataError(
            f"{place}: column '{name}' holds numbers as text, such as '{odd}', and would be one of "
            f"{len(counts)} categories. Write numbers with a point, and n/a where one is not known."
        )


def _is_written_number(cell: str) -> bool:
    """Tell whether a cell is a number, also with a comma for the point or between thousands."""
    return number_of(cell.replace(",", "")) is not None


def check_identifiers(tidy: pd.DataFrame) -> None:
    """Refuse identifiers that a spreadsheet has rounded, and rows of totals."""
    wrong = []
    for name in ("participant_id", "subject_id"):
        for cell in dict.fromkeys(tidy[name]):
            problem = problem_of_identifier(cell)
            if problem and cell:
                wrong.append(f"{name}: {problem}")
    if wrong:
        raise DataError(f"embeddings: {listed(wrong, 3)}.")


def _check_case(columns: Iterable[object]) -> None:
    """Refuse columns such as ``Age``, which rules for the column ``age`` would miss."""
    names = list(map(str, columns))
    wrong = []
    for name in names:
        if name.lower() in _FIXED and name.lower() not in names:
            wrong.append(f"'{name}' to '{name.lower()}'")
    if wrong:
        raise DataError(f"embeddings: rename the column {', '.join(wrong)}, by which it is known.")


def _look_at_sexes(written: pd.Series | None) -> None:
    """Issue a Python warning that 1 is read as male and 2 as female, if ``sex`` has such codes.

    `written` has the cells of the column ``sex``; None without the column.
    """
    if written is None:
        return
    levels = filter(None, map(level_of, written.unique()))
    if read_sexes(list(levels)).notes:
        warn_caller(
            "embeddings: column 'sex' holds codes that nothing explains: 1 is read as male and 2 "
            "as female; write F and M if they mean otherwise."
        )


def check_units_of_table(tidy: pd.DataFrame) -> None:
    """Refuse a table whose head sizes are partly in mL and partly in mm³.

    `tidy` is a table that `tidy_table` returned.
    """
    if "tiv" in tidy:
        people = People("embeddings", row_names(tidy, range(len(tidy))), sites_of_rows(tidy))
        check_head_sizes(tidy["tiv"], people)


def check_rows(table: pd.DataFrame, features: npt.NDArray[np.floating]) -> None:
    """Refuse infinite or missing features, features equal in all scans, and scans listed twice."""
    if features.ndim != 2 or len(features) != len(table):
        raise DataError(
            "embeddings: features must be (n scans, n features) with a row for each of the "
            f"{len(table)} rows of the "
            f"table, found shape {features.shape}."
        )
    if not len(features) or not features.shape[1]:
        raise DataError(
            f"embeddings: nothing to evaluate: {features.shape[0]} scans × {features.shape[1]} "
            "features."
        )
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        raise DataError(
            f"embeddings: features must be finite, but {int((~finite).sum())} scans have NaN or "
            "infinity: "
            f"{listed(row_names(table, np.flatnonzero(~finite)))}. Embed these scans again, or "
            "leave them out."
        )
    if len(features) > 1 and not np.ptp(features, axis=0).any():
        raise DataError(
            "embeddings: all scans have the same features: the encoder has collapsed or the images "
            "are all alike. "
            "Look at alignment and uniformity in the run's metrics.csv."
        )
    twice = table.duplicated(["participant_id", "session"], keep=False).to_numpy()
    if twice.any():
        raise DataError(
            f"embeddings: {int(twice.sum())} rows share participant_id and session with another "
            "row: "
            f"{listed(row_names(table, np.flatnonzero(twice)))}. Keep one row a scan, or give the "
            "column 'session'."
        )


def cell_texts(values: Iterable[object]) -> list[str | None]:
    """Return cells as text: None where missing, and whole numbers without a decimal point."""
    return list(map(_text, values))


def site_names(sites: Iterable[object]) -> Texts:
    """Return the site of each scan as text, and `NO_SITE` for a scan without one."""
    levels = levels_of("site", sites)
    return np.array([level or NO_SITE for level in levels], dtype=object)


def sites_of_rows(table: pd.DataFrame) -> list[str]:
    """Return the site of each scan of a tidy table as text, "" where none is known."""
    return pd.Series(cell_texts(table["site"]), dtype=object).fillna("").tolist()


def row_names(table: pd.DataFrame, rows: Sequence[int] | npt.NDArray[np.intp]) -> list[str]:
    """Return names of scans for messages: the participant, and the session where there is one.

    `rows` are positions of the scans in `table`.
    """
    chosen = table.iloc[np.asarray(rows, dtype=int)]
    return [
        f"{participant} session {session}" if session else str(participant)
        for participant, session in zip(chosen["participant_id"], chosen["session"], strict=True)
    ]


def listed(names: Sequence[object], n_shown: int = 5) -> str:
    """Join the first `n_shown` names as text for a message, and count the others."""
    joined = ", ".join(map(str, names[:n_shown]))
    if len(names) > n_shown:
        return f"{joined} … and {len(names) - n_shown} more"
    return joined


def is_number(values: pd.Series) -> bool:
    """Tell whether a column holds numbers; true and false do not count as numbers."""
    return bool(pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values))


def check_same_encoder(
    expected: str | None,
    found: str | None,
    *,
    n_expected: int,
    n_found: int,
    parameter: str,
    what: str,
) -> str | None:
    """Refuse features of an encoder other than `expected`, or of another number of columns.

    `expected` is the digest of the encoder that the probe was fitted on, and `found` that of the
    features' encoder, each None where not known. If both are None, a warning is returned as text.
    If one of the two is None, features are refused. None is returned if the digests are equal.
    `parameter` begins the message, and `what` names the probe in it.
    """
    if n_expected != n_found:
        raise DataError(
            f"{parameter}: {what} was fitted on {n_expected} features, and this table has "
            f"{n_found}. Embed the scans with the same run."
        )
    if expected is None and found is None:
        return (
            f"{parameter}: neither table says which encoder made it, so it could not be checked "
            "that it is the same."
        )
    if expected == found:
        return None
    shown = [
        f"'{digest[:12]}…{digest[64:]}'" if digest else "one that is not recorded"
        for digest in (expected, found)
    ]
    raise DataError(
        f"{parameter}: {what} was fitted on features of the encoder {shown[0]}, and these are of "
        f"{shown[1]}. Features "
        "of two encoders have nothing in common, even where there are as many. Embed the scans "
        "with the same run."
    )


def _numbers(tidy: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
    """Return column `name` of a table as floats, NaN where missing; an age of "90+" is 90.

    Any other cell is refused, with the names of the scans.
    """
    texts = pd.Series(list(map(level_of, tidy[name])), dtype=object)
    read = texts.map(lambda text: number_in(name, text), na_action="ignore")
    numbers = read.to_numpy(dtype="float64", na_value=np.nan)
    inside = np.isfinite(numbers)
    rule = "finite numbers of years from 0 to 120" if name == "age" else "finite numbers"
    wrong = np.flatnonzero(texts.notna().to_numpy() & ~inside)
    if len(wrong):
        examples = ", ".join(f"{row_names(tidy, [row])[0]}: '{texts[row]}'" for row in wrong[:5])
        raise DataError(
            f"embeddings: column '{name}' must hold {rule}, and n/a for unknown ones; {len(wrong)} "
            "scans "
            f"have something else ({examples}). Correct them."
        )
    return numbers


def _text(value: object) -> str | None:
    """Return a cell as text: None where missing, and whole numbers without a decimal point."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return None
        if float(value).is_integer():
            return str(int(value))
    cell = trimmed(str(value))
    if is_missing(cell):
        return None
    return cell


def choose_numbers(
    table: pd.DataFrame, names: Sequence[str], *, option: str, target: str
) -> tuple[str, ...]:
    """Return the columns of numbers that match names or patterns (``vol_*``), without the target.

    The patterns are `names`, given by the setting `option`. A column of text in which decimal
    numbers stand is refused.
    """
    with_values = []
    texts = {}
    for name in table.columns:
        if name in (*IDENTIFIERS, target):
            continue
        if is_number(table[name]):
            if not table[name].isna().all():
                with_values.append(str(name))
        elif names:
            texts[name] = [cell for cell in cell_texts(table[name]) if cell is not None]
    mixed = [name for name, cells in texts.items() if any(map(_is_decimal, cells))]
    chosen = matching_columns(
        names, [*with_values, *mixed], where=f"{option}: the table of numbers without '{target}'"
    )
    for name in chosen:
        if name in mixed:
            odd = min(texts[name], key=lambda cell: number_of(cell) is not None)
            raise DataError(
                f"{option}: column '{name}' is text, such as '{odd}'. Write numbers with a point."
            )
        _check_finite(table, name, option)
    return tuple(chosen)


def _check_finite(table: pd.DataFrame, name: str, option: str) -> None:
    """Refuse a column of numbers that is infinite in some rows."""
    wrong = np.flatnonzero(np.isinf(table[name].to_numpy(dtype=float, na_value=np.nan)))
    if len(wrong):
        scans = ", ".join(row_names(table, wrong[:5]))
        raise DataError(f"{option}: column '{name}' is infinite in {scans}.")


def _is_decimal(cell: str) -> bool:
    """Tell whether a cell is a number, with a point, with a comma in its place, or whole."""
    return number_of(cell.replace(",", ".")) is not None


def draw_subjects(
    subjects: npt.NDArray[np.object_], *, seed: int, n_scans: int
) -> tuple[npt.NDArray[np.intp], str | None]:
    """Draw subjects at random, for `n_scans` rows in all at most; return the rows, and a note.

    `subjects` has the subject of each row. Every row of a drawn subject is returned, and at least
    one subject is drawn, also one with more than `n_scans` rows. With no more than `n_scans` rows
    to draw from, all are returned, and the note is None; else the note gives the number of rows
    drawn.
    """
    if len(subjects) <= n_scans:
        return np.arange(len(subjects)), None
    owners, codes = np.unique(subjects.astype(str), return_inverse=True)
    order = derive_generator("confound-scans", seed).permutation(len(owners))
    sizes = np.bincount(codes)[order].cumsum()
    rows = np.flatnonzero(np.argsort(order)[codes] < max(1, int((sizes <= n_scans).sum())))
    return rows, f"{len(rows)} of {len(subjects)} scans, drawn by subject"


def scan_codes(
    features: Iterable[npt.NDArray[np.floating]], contents: Iterable[str]
) -> npt.NDArray[np.intp]:
    """Return a code for each row, equal for rows that hold the same scan.

    Two rows hold the same scan if their features are equal to the last bit, or if the rows share a
    digest of their content, as regional measures that were rounded differently do.

    Parameters
    ----------
    features : iterable of array
        Features of each row.
    contents : iterable of str
        Digests of the content of each row, separated by spaces; "" for none.
    """
    rows: list[int] = []
    digests: list[bytes | str] = []
    for number, (row, content) in enumerate(zip(features, contents, strict=True)):
        vector = np.ascontiguousarray(row) + 0.0  # -0.0 is 0.0
        # Digests: sorting takes far longer.
        digests.append(hashlib.blake2b(vector.data, digest_size=16).digest())
        digests += content.split()
        rows += [number] * (len(digests) - len(rows))
    shared = pd.factorize(np.array(digests, dtype=object))[0]
    return number_connected(np.array(rows, dtype=np.intp), shared)
