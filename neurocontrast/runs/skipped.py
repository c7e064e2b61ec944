"""Scans of a table that a run cannot use and, where `--skip` is set, leaves out.

They are named on the screen and in ``skipped.tsv``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from neurocontrast.config import Config
from neurocontrast.data.cohort import Cohort
from neurocontrast.data.listing import read_table
from neurocontrast.data.sources import BrainVolumes, Source
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.files import write_table
from neurocontrast.progress import Progress

SKIPPED = "skipped.tsv"
"""File with the table of scans that a run left out, with columns ``scan`` and ``reason``."""
NONE = pd.DataFrame({"scan": [], "reason": []}, dtype=object)
"""Empty table, for runs that leave no scan out."""
_N_SHOWN = 10


def without(cohort: Cohort, names: Collection[str]) -> Cohort:
    """Return a cohort without the scans in `names`."""
    return cohort.subset([row for row, name in enumerate(cohort.names()) if name not in names])


def make_ready(source: Source, cohort: Cohort, progress: Progress) -> None:
    """Preprocess the scans of a cohort into the cache of `source`; return nothing.

    `source` reads and preprocesses the scans; regional measures have no cache and need no
    preprocessing here. A scan that cannot be used raises a DataError, which names the option
    ``--skip`` if there are several scans: with the option, such scans are left out.
    """
    try:
        source.make_ready(cohort, progress)
    except DataError as error:
        if not isinstance(source, BrainVolumes) or type(error) is not DataError or len(cohort) == 1:
            raise
        raise DataError(
            f"{error}\nTo leave such scans out, set data.skip_unreadable=true (--skip)."
        ) from error


def leave_out(source: Source, cohort: Cohort, progress: Progress) -> tuple[Cohort, pd.DataFrame]:
    """Preprocess the scans of a cohort; return the usable scans, and a table of the other scans.

    `source` reads and preprocesses the scans. Unusable scans are left out if
    ``data.skip_unreadable`` is set, and listed in the table with the reasons. Without the setting,
    a DataError names all of them, and the table is empty.
    """
    if not source.skips:
        make_ready(source, cohort, progress)
        return cohort, NONE
    return _without_failures(cohort, source.failures(cohort, progress), progress)


def leave_out_unlearnable(
    settings: Config,
    source: Source,
    cohort: Cohort,
    progress: Progress,
    *,
    is_new: bool = True,
) -> tuple[Cohort, pd.DataFrame]:
    """Leave out people whose measures cannot be used in training, with ``data.skip_unreadable``.

    Return the remaining people, and a table of the people who were left out, with reasons. Without
    the setting nobody is left out. A continued run (`is_new` False) gets all people of `cohort`,
    from which the people left out at its beginning are absent already.
    """
    if not (source.skips and is_new):
        return cohort, NONE
    return _without_failures(cohort, source.unlearnable(cohort, settings.seed), progress)


def _without_failures(
    cohort: Cohort, failures: Mapping[int, str], progress: Progress
) -> tuple[Cohort, pd.DataFrame]:
    """Return a cohort without unusable rows, and a table of such rows with reasons; warn of them.

    `failures` maps a row of the cohort to the reason. If all rows are unusable, `DataError` is
    raised.
    """
    names = cohort.names()
    rows = [(names[row], " ".join(reason.split())) for row, reason in failures.items()]
    skipped = pd.DataFrame(rows, columns=["scan", "reason"], dtype=object)
    if len(skipped) == len(cohort):
        raise DataError(
            f"{cohort.source.name}: none of {len(cohort)} scans can be used, for instance: "
            f"{skipped['reason'].iloc[0]}"
        )
    if len(skipped):
        n_people = cohort.table["subject_id"].iloc[list(failures)].nunique()
        people = f", of {n_people} people," if n_people < len(rows) else ""
        lines = [f"{len(rows)} of {len(cohort)} scans{people} cannot be used and are left out:"]
        for scan, reason in rows[:_N_SHOWN]:
            lines.append(f"  {scan}: {reason}")
        if len(rows) > _N_SHOWN:
            lines.append(f"  … and {len(rows) - _N_SHOWN} more")
        progress.warning("\n".join(lines))
    return without(cohort, set(skipped["scan"])), skipped


def write_skipped(path: Path, skipped: pd.DataFrame) -> None:
    """Write the table of scans that were left out to `path`; if empty, remove an earlier file."""
    if len(skipped):
        write_table(path, skipped)
    else:
        path.unlink(missing_ok=True)


def read_skipped(folder: Path) -> list[str]:
    """Return the names of the scans that a run has left out, from ``skipped.tsv`` in its `folder`.

    The list is empty if there is no such file.
    """
    path = folder / SKIPPED
    if not path.is_file():
        return []
    skipped = read_table(
        path, needed=["scan"], error=CheckpointError, remedy="Copy the run again.", dtype=str
    )
    return skipped["scan"].tolist()
