"""Which of a run's processes this one is, read from what launched it; needs no PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, NamedTuple

__all__ = ["Launched", "launched"]


class Launched(NamedTuple):
    """A process among others: what started it (None: it stands alone), its number among all and on its machine."""

    by: Literal["torchrun", "srun"] | None = None
    rank: int = 0
    local_rank: int = 0
    n_processes: int = 1


def launched(environment: Mapping[str, str] | None = None) -> Launched:
    """Return this process's place; `srun` is known by its step, since a batch script itself is one process only."""
    given = os.environ if environment is None else environment
    if "TORCHELASTIC_RUN_ID" in given:
        return Launched("torchrun", int(given["RANK"]), int(given["LOCAL_RANK"]), int(given["WORLD_SIZE"]))
    n_tasks = int(given.get("SLURM_STEP_NUM_TASKS") or 1)
    if n_tasks > 1:
        return Launched("srun", int(given["SLURM_PROCID"]), int(given["SLURM_LOCALID"]), n_tasks)
    return Launched()
