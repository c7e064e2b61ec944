"""Check people with regional measures: both tables are read to the end, and all problems are listed."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.data.measures.finding import holds_measures
from neurocontrast.data.measures.inspecting import (
    InspectedMeasures,
    inspect_measures,
    is_of_measures,
    warnings_about,
)
from neurocontrast.data.measures.joining import find_measures
from neurocontrast.data.quality import doubts_about
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.exceptions import ConfigError


@dataclass(frozen=True)
class MeasuresFacts:
    """Say which measures were checked."""

    n_measures: int
    atlas: str
    software: str
    sources: tuple[Path, ...]

    @classmethod
    def of(cls, inspected: InspectedMeasures) -> "MeasuresFacts":
        """Return the facts of tables that were read."""
        table = inspected.table
        return cls(inspected.values.shape[1], table.atlas, table.software, table.sources)

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.atlas, self.software)))
        words = f"{self.n_measures} measures"
        return f"{words} ({about})" if about else words


def settings_of_measures(
    participants: Path, settings: MeasureDataSettings | None, kind: str | None
) -> MeasureDataSettings | None:
    """Return the settings by which a table is one of measures, or None for a table of images."""
    if settings is not None:
        return settings
    if kind == "measures" or (kind is None and is_of_measures(participants.expanduser())):
        return MeasureDataSettings()
    return None


def check_measures(
    participants: Path, settings: MeasureDataSettings, *, write_good: Path | None
) -> tuple[InspectedMeasures, tuple[str, ...]]:
    """Read people and measures; return them with their problems, and warnings.

    A table of people without a problem can be written where there is a table of people.
    """
    inspected = inspect_measures(participants, settings)
    if write_good is not None and not len(inspected.lines):
        raise ConfigError(
            f"write_good: is of a table of people, and {participants} is of measures alone. "
            "`index` makes a table of people of it, and its --skip leaves out bad scans."
        )
    doubts = doubts_about(inspected.people)
    return inspected, tuple(dict.fromkeys([*doubts, *warnings_about(inspected)]))


def add_counts(summary: pd.DataFrame, inspected: InspectedMeasures) -> pd.DataFrame:
    """Return the counts of sites with those of values that are missing, and that are 0."""
    missing = inspected.values.isna().sum(axis=1).to_numpy()
    zeros = inspected.zeros.sum(axis=1).to_numpy()
    sites = inspected.people.table.get("site", pd.Series(index=inspected.values.index, dtype=object))
    rows = []
    for name in summary.index[:-1]:
        rows.append((sites == name).to_numpy() if name != "site n/a" else sites.isna().to_numpy())
    rows.append(pd.Series(True, index=sites.index).to_numpy())
    return summary.assign(
        missing=[int(missing[of_site].sum()) for of_site in rows],
        zero=[int(zeros[of_site].sum()) for of_site in rows],
    )


def measures_to_name(
    participants: Path, settings: MeasureDataSettings, good: Path | None
) -> tuple[Path, ...]:
    """Return the tables of measures that `pretrain` must be told, since it would not find them."""
    if settings.measures is not None:
        return settings.measures
    if good is None or holds_measures(participants):
        return ()
    measures = find_measures(participants)
    return () if find_measures(good).resolve() == measures.resolve() else (measures,)
