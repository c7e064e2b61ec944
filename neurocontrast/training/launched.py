"""Which of a run's processes this one is, read from what launched it; needs no PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["Launched", "launched"]


@dataclass(frozen=True)
class Launched:
    """A process among others.

    Parameters
    ----------
    by : {'torchrun', 'srun'} or None
        What started it; None for a process that stands alone.
    rank, local_rank : int
        Its number among all processes, and among those of its machine.
    n_processes : int
        All processes.
    """

    by: Literal["torchrun", "srun"] | None = None
    rank: int = 0
    local_rank: int = 0
    n_processes: int = 1


def launched(environment: Mapping[str, str] | None = None) -> Launched:
    """Return this process's place.

    ``srun`` is known by its step: in a batch script itself, where SLURM sets ``SLURM_NTASKS`` too, there is one
    process only.

    Examples
    --------
    >>> launched({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "1"})
    Launched(by='srun', rank=3, local_rank=1, n_processes=4)
    """
    given = os.environ if environment is None else environment
    if "TORCHELASTIC_RUN_ID" in given:
        return Launched("torchrun", int(given["RANK"]), int(given["LOCAL_RANK"]), int(given["WORLD_SIZE"]))
    n_tasks = int(given.get("SLURM_STEP_NUM_TASKS") or 1)
    if n_tasks > 1:
        return Launched("srun", int(given["SLURM_PROCID"]), int(given["SLURM_LOCALID"]), n_tasks)
    return Launched()
