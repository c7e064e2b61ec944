"""Write a cohort of simulated brains as files and a table."""

import os
from pathlib import Path
from typing import Any

from neurocontrast.data.simulation import SimulationSettings, write_cohort
from neurocontrast.display import as_progress
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import atomic_folder, check_output_folder
from neurocontrast.progress import Progress
from neurocontrast.settings import settings_from
from neurocontrast.torch_state import in_default_torch_state


@in_default_torch_state
def simulate(
    out: str | os.PathLike[str],
    settings: SimulationSettings | None = None,
    *,
    overwrite: bool = False,
    n_workers: int = 1,
    progress: Progress | bool | None = None,
    **changes: Any,
) -> Path:
    """Simulate a cohort of brain scans into a folder; return the path of ``participants.tsv``.

    Parameters
    ----------
    out : path
        Folder to make; ``simulation.json`` in it says what was planted.
    settings : SimulationSettings, optional
        Cohort to simulate.
    overwrite : bool
        Replace an earlier simulated cohort in `out`.
    n_workers : int
        Processes to simulate with; the files do not depend on it.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    **changes
        Any field of `SimulationSettings`, in place of that of `settings`.

    Examples
    --------
    >>> participants = simulate("cohort", n_subjects=20, n_sites=2)  # doctest: +SKIP
    """
    fields = {} if settings is None else settings.model_dump()
    progress = as_progress(progress)
    chosen = settings_from(SimulationSettings, fields | changes, source="simulation")
    if n_workers < 1:
        raise ConfigError(f"n_workers must be at least 1. Got {n_workers}.")
    target = Path(out).absolute()
    check_output_folder(
        target, overwrite=overwrite, marker="simulation.json", what="a simulated cohort"
    )
    with atomic_folder(target) as temporary:
        write_cohort(chosen, temporary, n_workers=n_workers, progress=progress)
    return target / "participants.tsv"
