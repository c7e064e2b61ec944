"""Scans that cannot be used and are left out: named on the screen and in ``skipped.tsv``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.sources import AnySource, BrainVolumes
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.files import write_table
from neurocontrast.progress import Progress
from neurocontrast.tables import read_table

__all__ = ["NONE", "SKIPPED", "check_same", "leave_out", "make_ready", "read_skipped", "without", "write_skipped"]

SKIPPED = "skipped.tsv"
"""Table of a run with the scans that were left out, where there are any: ``scan`` and ``reason``."""
NONE = pd.DataFrame({"scan": [], "reason": []}, dtype=object)
"""The table where no scan is left out."""
_N_SHOWN = 10


def without(cohort: Cohort, names: Collection[str]) -> Cohort:
    """Return the cohort without the scans that have one of these names."""
    return cohort.subset([row for row, name in enumerate(cohort.names()) if name not in names])


def make_ready(source: AnySource, cohort: Cohort, progress: Progress) -> None:
    """Prepare the scans of a cohort; where some cannot be used, the error says how to leave them out."""
    try:
        source.make_ready(cohort, progress)
    except DataError as error:
        if not isinstance(source, BrainVolumes) or type(error) is not DataError or len(cohort) == 1:
            raise
        raise DataError(f"{error}\nTo leave such scans out, set data.skip_unreadable=true (--skip).") from error


def leave_out(source: AnySource, cohort: Cohort, progress: Progress) -> tuple[Cohort, pd.DataFrame]:
    """Prepare the scans of a cohort; return those that can be used, and a table of the others, to be written.

    Without ``data.skip_unreadable`` scans that cannot be used are one `DataError`, and the table is empty.
    """
    if not source.skips:
        make_ready(source, cohort, progress)
        return cohort, NONE
    failures, names = source.failures(cohort, progress), cohort.names()
    rows = [(names[row], " ".join(reason.split())) for row, reason in failures.items()]
    skipped = pd.DataFrame(rows, columns=["scan", "reason"])
    if len(skipped) == len(cohort):
        raise DataError(f"{cohort.source.name}: none of {len(cohort)} scans can be used, for instance: "
                        f"{skipped['reason'].iloc[0]}")  # fmt: skip
    if len(skipped):
        lines = [f"  {scan}: {reason}" for scan, reason in skipped[:_N_SHOWN].itertuples(index=False)]
        lines += [f"  … and {len(skipped) - _N_SHOWN} more"] if len(skipped) > _N_SHOWN else []
        listed = "\n".join(lines)
        progress.warning(f"{len(skipped)} of {len(cohort)} scans cannot be used and are left out:\n{listed}")
    return without(cohort, set(skipped["scan"])), skipped


def write_skipped(path: Path, skipped: pd.DataFrame) -> None:
    """Write the table of scans that were left out; where there are none, an earlier one is removed."""
    write_table(path, skipped) if len(skipped) else path.unlink(missing_ok=True)


def read_skipped(folder: Path) -> list[str]:
    """Return the names of the scans that a run has left out."""
    path = folder / SKIPPED
    if not path.is_file():
        return []
    known = read_table(path, needed=["scan"], error=CheckpointError, remedy="Copy the run again.", dtype=str)
    return known["scan"].tolist()


def check_same(folder: Path, now: Collection[str]) -> None:
    """Refuse to continue a run that would leave out other scans than it began without."""
    before = read_skipped(folder)
    found = [f"{name} was left out, and can be used now" for name in before if name not in now]
    found += [f"{name} was used, and cannot be used now" for name in now if name not in before]
    if found:
        listed = "\n".join(f"  {line}" for line in found)
        raise CheckpointError(
            f"{folder}: the run cannot continue, because other scans would be left out than when it began:\n"
            f"{listed}\nPut these files back as they were, or start another run in a new directory."
        )
