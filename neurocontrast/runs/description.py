"""What features say of the run and the cohort that they came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neurocontrast.data.cohort import Cohort
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.runs.folder import read_metrics, read_provenance, read_simulation

__all__ = ["describe_embedded", "warn_of_imitations"]


def warn_of_imitations(cohort: Cohort, key: str, progress: Progress) -> None:
    """Warn of scans that are no real acquisitions; `key` of the configuration selects others."""
    if "acquisition" in cohort.table and cohort.table["acquisition"].astype(str).str.startswith("imitated").any():
        progress.warning(
            f"{cohort.source.name}: holds imitated acquisitions, from which to learn. Evaluate the real scans: "
            f"participants.tsv next to it, or {key}={{acquisition: [real]}}."
        )


def describe_embedded(run: Path, contract: Mapping[str, Any], cohort: Cohort, progress: Progress) -> dict[str, Any]:
    """Return the description stored with the features, such as the subjects of pretraining."""
    if run.resolve().parent.name == "checkpoints":  # weights of a run that is not finished: the run above knows
        run = run.resolve().parent.parent
    provenance = read_provenance(run) if (run / "provenance.json").is_file() else None
    if provenance is None:
        progress.warning(
            f"{run}: there is no provenance.json, so nobody can tell whether these participants were in pretraining."
        )
    elif not (provenance.get("init") or {}).get("subjects_known", True):
        progress.warning(
            f"{run}: started from weights that do not say who was in their pretraining, so nobody can tell whether "
            "these participants were."
        )
    return {
        "run": {"name": run.resolve().name, **contract},
        "pretraining_subjects": None if provenance is None else provenance["pretraining_subjects"],
        "simulated": cohort.simulated or bool(contract.get("simulated")),
        "objective": contract.get("objective"),
        "training_metrics": read_metrics(run),
        "environment": describe_environment(),
        "cohort_source": cohort.source.name,
        "cohort_digest": cohort.digest(),
        "simulation": read_simulation(cohort),
    }
