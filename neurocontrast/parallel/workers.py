"""Work on many files at once, in several processes of one thread each."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from neurocontrast.exceptions import ConfigError, NeurocontrastError

N_SCANS_A_WORKER = 24
"""Scans for which another process pays: fewer take less time than importing MONAI."""

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
    """Call a function in worker processes, once for each tuple of arguments.

    A worker starts as a fresh interpreter, so that scripts need no ``__main__`` guard and no thread
    of this process is copied half-way.

    Parameters
    ----------
    function : function
        Must be importable by workers.
    arguments : sequence of tuple
        Arguments of each call.
    n_workers : int
        Number of processes, 0 for this process.
    option : str
        Name of the option `n_workers`, for messages.
    n_per_worker : int
        Fewest calls for which a worker is started.

    Yields
    ------
    object
        Results, in the order in which calls finish.
    """
    check_n_workers(n_workers)
    n_workers = min(n_workers, len(arguments) // n_per_worker)
    if n_workers <= 1:
        for of_call in arguments:
            yield function(*of_call)
        return
    # A worker whose memory has grown is replaced, which is no news to the user.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    with joblib.parallel_config(backend="loky", n_jobs=n_workers, inner_max_num_threads=1):
        pool = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        finished = False
        try:
            call = joblib.delayed(_unless_left)
            yield from pool(call(os.getpid(), function, *of_call) for of_call in arguments)
            finished = True
        except TerminatedWorkerError as error:
            raise WorkerError(
                "a worker process was ended from outside, perhaps for lack of memory; "
                f"try fewer than {n_workers} workers ({option}). Scans that were finished are kept."
            ) from error
        finally:
            # joblib would keep the idle workers, and their memory, for minutes.
            get_reusable_executor().shutdown(wait=finished, kill_workers=not finished)


def _unless_left(owner: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function, unless the process that waits for the result was killed."""
    if os.getppid() != owner:
        raise WorkerError("the process that this is done for has ended.")
    return function(*arguments)
