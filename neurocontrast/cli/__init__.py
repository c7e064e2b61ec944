"""The command line: thin commands over ``neurocontrast.commands``, and the only place that prints."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.cli.app import run

__all__ = ["main", "run"]

__getattr__ = lazy_exports(__name__, {"app": ["run"]})


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    # Ended like by Ctrl-C, so that temporary files are removed; pretraining has a handler of its own.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if sys.argv[1:2] == ["pretrain"]:  # before the imports, which take seconds
        signal.signal(signal.SIGUSR1, _suspend)
    is_one_of_several = "NEUROCONTRAST_LAUNCHER" in os.environ
    if is_one_of_several:
        threading.Thread(target=_end_with_launcher, daemon=True).start()
    from neurocontrast.cli.app import run

    code = run()
    if is_one_of_several:  # at the interpreter's end collectives of processes that are gone would be waited for
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _end_with_launcher() -> None:
    """End at once when the command that had this process started has ended, however it ended."""
    os.read(0, 1)
    os._exit(1)


def _suspend(number: int, frame: FrameType | None) -> None:
    """End at once with the exit code of `TrainingSuspended`: an exception could be caught by what is being imported."""
    del number, frame
    if all(os.environ.get(rank, "0") == "0" for rank in ("RANK", "SLURM_PROCID")):
        os.write(2, b"error: stopped by SIGUSR1 with nothing to save; the same command with --resume goes on.\n")
    os._exit(75)
