"""Hide people on a page: pseudonyms, rough ages, and messages without identifiers."""

import hmac
import re

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.wording import (
    shorten_paths,
)

OLDEST_SHOWN = 89
"""Ages from this on are shown as "89+": with a site, an older age can name a person."""


def rough_ages(ages: pd.Series) -> pd.Series:
    """Return ages as texts that name nobody: whole years, and "89+"; None for a missing one."""
    texts = ages.map(lambda age: f"{OLDEST_SHOWN}+" if age >= OLDEST_SHOWN else f"{age:.0f}")
    return texts.astype(object).where(ages.notna(), None)


def name_scans(files: EvaluationFolder, rows: pd.DataFrame) -> list[str]:
    """Return identifiers of scans, or pseudonyms that only who has the evaluation's files can trace back."""
    names = rows.get("participant_id", pd.Series(rows.index.astype(str), index=rows.index)).fillna(
        ""
    )
    sessions = rows.get("session", pd.Series("", index=rows.index)).fillna("")
    if files.show_ids:
        return [f"{name} {session}".strip() for name, session in zip(names, sessions, strict=True)]
    key = files.key.encode()
    pairs = zip(names, sessions, strict=True)
    return [
        hmac.new(key, f"{name}\t{session}".encode(), "sha256").hexdigest()[:10]
        for name, session in pairs
    ]


_OF_PEOPLE = ("external_predictions", "outlyingness", "external_outlyingness", "splits")
"""Tables that name people besides the predictions."""


_LISTING = re.compile(r"duplicate|shared_subjects|voxels_left_out")
"""Codes of warnings that list people."""


def hide_ids(text: str, files: EvaluationFolder, code: str) -> str:
    """Replace identifiers of participants and folders in a message, unless they may appear.

    Identifiers made of digits alone look like counts, so they are looked for only in warnings that
    list people.
    """
    text = shorten_paths(text)
    if files.show_ids:
        return text
    names = {
        str(name)
        for table in (files.predictions, *map(files.table, _OF_PEOPLE))
        for column in ("participant_id", "subject_id")
        if table is not None and column in table
        for name in table[column].dropna()
    }
    if not _LISTING.search(code):
        names = {name for name in names if not name.isdigit() and len(name) > 2}
    if not names:
        return text
    longest_first = sorted(names, key=len, reverse=True)
    pattern = (
        r"(?<![\w-])(?<!of )(?:"
        + "|".join(re.escape(name) for name in longest_first)
        + r")(?![^\W_]|-| of )"
    )
    return re.sub(pattern, "[id]", text)
