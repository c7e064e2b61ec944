"""How a stage shares its work among processes, and how only one of them says what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from neurocontrast.collectives import Processes
from neurocontrast.exceptions import NeurocontrastError, OtherProcessEnded, TrainingError
from neurocontrast.machine import usable_accelerator
from neurocontrast.progress import Progress
from neurocontrast.stages.processes import run_in_processes
from neurocontrast.training.launched import launched

__all__ = ["after_first", "is_run_elsewhere", "sharing", "speaking_once"]

Made = TypeVar("Made")

_LOST = (
    "another process of this run has ended, and this one cannot go on alone. If it has not said why, it was killed, "
    "perhaps for lack of memory. The last checkpoint, if there is one, stands: continue with --resume."
)


def is_run_elsewhere(stage: str, arguments: Mapping[str, Any], *, n_processes: int, progress: Progress) -> bool:
    """Run a stage in processes of their own where that is asked for and not done yet; say whether it was run."""
    if n_processes == 1 or launched().by is not None:
        return False
    run_in_processes(stage, arguments, n_processes=n_processes, progress=progress)
    return True


@contextmanager
def sharing(accelerator: str, *, section: str) -> Iterator[tuple[torch.device, Processes]]:
    """Join the other processes of this stage, if there are any, and take leave of them at the end.

    Yields
    ------
    device : torch.device
        What this process computes on.
    processes : Processes
        All of them.
    """
    if launched().n_processes == 1:
        yield torch.device(usable_accelerator(accelerator, section=section)), Processes()
        return
    from neurocontrast.training.distributed import launch_sharing, leave

    device, processes = launch_sharing(accelerator, section=section)
    with speaking_once(processes):
        yield device, processes
        leave(processes)


@contextmanager
def speaking_once(processes: Processes) -> Iterator[None]:
    """Tell what all processes agree on by the first of them, and a connection that another has closed by its end."""
    from neurocontrast.training.distributed import is_lost_connection

    try:
        yield
    except RuntimeError as error:
        if processes.size == 1 or not is_lost_connection(error):
            raise
        raise OtherProcessEnded(_LOST) from error
    except TrainingError as error:
        if processes.is_first:
            raise
        raise OtherProcessEnded(str(error), error.exit_code) from error


def after_first(
    processes: Processes, first: Callable[[], tuple[Made, Any]], follow: Callable[[Any], Made] | None = None
) -> Made:
    """Make something in the first process, which checks and caches, and when that has gone well in the others.

    Parameters
    ----------
    processes : Processes
        All of them; each must ask.
    first : callable
        Called in the first process: returns what is made, and what the others must know, JSON-ready.
    follow : callable, optional
        Given that, makes the same in the others; by default as the first did.
    """
    if not processes.is_first:
        told = processes.from_first(None)
        if "exit_code" in told:
            raise OtherProcessEnded("the first process of this run has ended, and says why.", told["exit_code"])
        return first()[0] if follow is None else follow(told["known"])
    try:
        made, known = first()
    except NeurocontrastError as error:
        processes.from_first({"exit_code": error.exit_code})
        raise
    processes.from_first({"known": known})
    return made
