"""Check a table of people and their tables of regional measures, and list all problems of both."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.data.measures.doubts import warnings_about
from neurocontrast.data.measures.finding import holds_measures
from neurocontrast.data.measures.inspecting import (
    InspectedMeasures,
    inspect_measures,
    is_of_measures,
)
from neurocontrast.data.measures.joining import find_measures
from neurocontrast.data.quality import doubts_about
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.exceptions import ConfigError


@dataclass(frozen=True)
class MeasuresFacts:
    """Number, atlas, program and files of the regional measures that were checked."""

    n_measures: int
    atlas: str
    software: str
    sources: tuple[Path, ...]
    """Files that the measures were read from."""

    @classmethod
    def of(cls, inspected: InspectedMeasures) -> "MeasuresFacts":
        """Return number, atlas, program and files of the regional measures in `inspected`."""
        table = inspected.table
        return cls(inspected.values.shape[1], table.atlas, table.software, table.sources)

    def __str__(self) -> str:
        origin = ", ".join(filter(None, (self.atlas, self.software)))
        return f"{self.n_measures} measures ({origin})".removesuffix(" ()")


def settings_of_measures(
    participants: Path, settings: MeasureDataSettings | None, kind: str | None
) -> MeasureDataSettings | None:
    """Return settings to read `participants` as regional measures; None for a table of images.

    Given `settings` are returned unchanged. Without them the defaults are returned if `kind` is
    ``measures``; or if no kind is given, and `participants` has measures itself, or a file
    ``measures.tsv`` beside the table and no column ``path``.
    """
    if settings is not None:
        return settings
    if kind == "measures" or (kind is None and is_of_measures(participants.expanduser())):
        return MeasureDataSettings()
    return None


def check_measures(
    participants: Path, settings: MeasureDataSettings, *, write_good: Path | None
) -> tuple[InspectedMeasures, tuple[str, ...]]:
    """Read people and their regional measures; return an `InspectedMeasures`, and warnings.

    A problem does not stop the reading: the `InspectedMeasures` lists all problems. The path
    `write_good` is where the caller will write the people without a problem; if `participants` has
    measures and no table of people, a `write_good` is refused.
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
    """Return `summary`, the counts by site, with columns ``missing`` and ``zero`` for the measures.

    ``missing`` has the number of missing values at each site, and ``zero`` the number of zeros; the
    last row has the numbers of all sites together.
    """
    counts = pd.DataFrame(
        {"missing": inspected.values.isna().sum(axis=1), "zero": inspected.zeros.sum(axis=1)}
    )
    by_site = counts.groupby(inspected.sites).sum().rename({"": "site n/a"})
    names = summary.index[:-1]
    rows = pd.concat([by_site.reindex(names), counts.sum().to_frame().T]).astype(int)
    return summary.assign(missing=rows["missing"].to_numpy(), zero=rows["zero"].to_numpy())


def measures_to_name(
    participants: Path, settings: MeasureDataSettings, good: Path | None
) -> tuple[Path, ...]:
    """Return the tables of measures whose paths the user must pass to `pretrain`.

    A table that lies beside the table of people, under its usual name, needs no path.
    """
    if settings.measures is not None:
        return settings.measures
    if good is None or holds_measures(participants):
        return ()
    measures = find_measures(participants)
    if find_measures(good).resolve() == measures.resolve():
        return ()
    return (measures,)
