"""Apply a function to many files in several worker processes, each with one thread."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from neurocontrast.exceptions import ConfigError, NeurocontrastError

N_SCANS_A_WORKER = 24
"""Number of scans for which a further process saves time; fewer scans take less time than importing
MONAI."""

Result = TypeVar("Result")


class WorkerError(NeurocontrastError):
    """Error raised if a worker process was ended from outside."""

    exit_code = 1


def check_n_workers(n_workers: int) -> None:
    """Refuse a negative number of worker processes."""
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
    """Call a function for each tuple of arguments, in several worker processes.

    A worker starts as a new Python interpreter, so that scripts need no ``__main__`` guard, and
    threads of this process are not forked.

    Parameters
    ----------
    function : function
        Function to call, which workers must be able to import.
    arguments : sequence of tuple
        Arguments of each call.
    n_workers : int
        Number of worker processes; 0 to call the function in this process.
    option : str
        Name of the user's option for the number of workers, for messages.
    n_per_worker : int
        Smallest number of calls for which a worker is started.

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
    """Call a function in a worker process, unless the process that waits for the result has ended.

    `owner` is the ID of the waiting process. If it has ended, the function is not called, and a
    `WorkerError` is raised.
    """
    if os.getppid() != owner:
        raise WorkerError("the process that this is done for has ended.")
    return function(*arguments)
