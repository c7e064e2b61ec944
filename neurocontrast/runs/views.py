"""Warn of a resumed run whose random views another version of the package draws."""

from pathlib import Path

from neurocontrast.data.sources import Source
from neurocontrast.progress import Progress
from neurocontrast.runs.folder import read_provenance


def views_revision(source: Source) -> int:
    """Return the revision of the random numbers by which views of a source's samples are drawn."""
    revision = 0
    for half in source.halves:
        revision = max(revision, half.views_revision)
    return revision


def warn_of_other_views(source: Source, folder: Path, progress: Progress) -> None:
    """Warn that a run goes on with other random numbers of views than before."""
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
