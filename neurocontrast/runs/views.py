"""Warn if a resumed run draws its random views in another way than at its beginning."""

from pathlib import Path

from neurocontrast.data.sources import Source
from neurocontrast.progress import Progress
from neurocontrast.runs.folder import read_provenance


def views_revision(source: Source) -> int:
    """Return the revision number of the code that draws a run's random views.

    Package versions with unlike revisions draw unlike views from the same seed.
    """
    revision = 0
    for half in source.halves:
        revision = max(revision, half.views_revision)
    return revision


def warn_of_other_views(source: Source, folder: Path, progress: Progress) -> None:
    """Warn if a resumed run would draw other random views, due to a new package version."""
    provenance = read_provenance(folder)
    before = provenance.views_revision
    now = views_revision(source)
    if before != now:
        version = provenance.environment.neurocontrast
        progress.warning(
            f"{folder}: begun by neurocontrast {version} with views of revision {before}, "
            f"continued with revision {now}: other random numbers of the same distributions. Its "
            "weights are not those of a run that was never stopped; train anew where that matters."
        )
