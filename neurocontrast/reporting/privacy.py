"""Privacy of people on a page: pseudonyms, rough ages, and messages without identifiers."""

import hmac
import re

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.wording import shorten_paths

OLDEST_SHOWN = 89
"""Age from which ages are shown as "89+": with a site, an older age can identify a person."""


def rough_ages(ages: pd.Series) -> pd.Series:
    """Return ages as texts that identify nobody: whole years up to "89+"; None if missing."""
    texts = ages.map(lambda age: f"{OLDEST_SHOWN}+" if age >= OLDEST_SHOWN else f"{age:.0f}")
    return texts.astype(object).where(ages.notna(), None)


def name_scans(files: EvaluationFolder, rows: pd.DataFrame) -> list[str]:
    """Return the identifier of each scan in `rows`; a pseudonym if `show_ids` of `files` is off.

    A pseudonym is keyed by the digest of the predictions: without the evaluation's folder nobody
    can compute which identifier has which pseudonym.
    """
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
"""Tables with identifiers of people, besides the predictions."""


_LISTING = re.compile(r"duplicate|shared_subjects|voxels_left_out")
"""Pattern of the codes of warnings whose messages list people."""


def hide_ids(message: str, files: EvaluationFolder, code: str) -> str:
    """Replace participants' identifiers in a warning's message by "[id]" if `show_ids` is off.

    Folders in paths are always removed. Identifiers made of digits alone look like counts: they are
    replaced only if the warning's `code` is one of the codes of warnings that list people.
    """
    message = shorten_paths(message)
    if files.show_ids:
        return message
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
        return message
    longest_first = sorted(names, key=len, reverse=True)
    pattern = (
        r"(?<![\w-])(?<!of )(?:"
        + "|".join(re.escape(name) for name in longest_first)
        + r")(?![^\W_]|-| of )"
    )
    return re.sub(pattern, "[id]", message)
