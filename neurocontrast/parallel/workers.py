"""Work on many files at once, one process each, one thread a process."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from neurocontrast.exceptions import ConfigError, NeurocontrastError

N_SCANS_A_WORKER = 24
"""Fewer scans a process take less time than a process needs to import MONAI."""

Result = TypeVar("Result")


class WorkerError(NeurocontrastError):
    """A worker process was ended from outside."""

    exit_code = 1


def check_n_workers(n_workers: int) -> None:
    """Refuse a number of processes below 0."""
    if n_workers < 0:
        raise ConfigError(f"n_workers must be 0 or more (0: in this process), found {n_workers}.")


def map_files(
    function: Callable[..., Result],
    arguments: Sequence[tuple[Any, ...]],
    *,
    n_workers: int,
    option: str = "data.n_workers",
    n_per_worker: int = 4,
) -> Iterator[Result]:
    """Yield ``function(*arguments)`` for each of the arguments, in the order they finish.

    A worker starts as a fresh interpreter, so that scripts need no ``__main__`` guard and no thread
    of this process is copied half-way. Fewer than `n_per_worker` arguments a worker are done here.
    `option` is what an error calls `n_workers`.
    """
    check_n_workers(n_workers)
    n_workers = min(n_workers, len(arguments) // n_per_worker)
    if n_workers <= 1:
        for given in arguments:
            yield function(*given)
        return
    # A worker whose memory has grown is replaced, which is no news to the user.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    with joblib.parallel_config(backend="loky", n_jobs=n_workers, inner_max_num_threads=1):
        pool = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        finished = False
        try:
            yield from pool(
                joblib.delayed(_unless_left)(os.getpid(), function, *given) for given in arguments
            )
            finished = True
        except TerminatedWorkerError as error:
            raise WorkerError(
                f"a worker process was ended from outside, perhaps for lack of memory; try fewer than {n_workers} "
                f"workers ({option}). Scans that were finished are kept."
            ) from error
        finally:
            # joblib would keep the idle workers, and their memory, for minutes.
            get_reusable_executor().shutdown(wait=finished, kill_workers=not finished)


def _unless_left(owner: int, function: Callable[..., Result], *given: Any) -> Result:
    """Do a piece of work, unless the process that asked for it was killed: others may have taken its place."""
    if os.getppid() != owner:
        raise WorkerError("the process that this is done for has ended.")
    return function(*given)
