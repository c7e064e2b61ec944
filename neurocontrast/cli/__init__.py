"""The command line: a command calls one function of ``neurocontrast``, and prints the result."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.cli.app import run

__all__ = ["main", "run"]

__getattr__ = lazy_exports(__name__, {"app": ["run"]})


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    # Ended as by Ctrl-C, so that temporary files are removed; pretraining has its own handler.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("NEUROCONTRAST_COMMAND", str(os.getpid()))
    from neurocontrast.cli.app import run
    from neurocontrast.parallel.devices import launched

    code = run()
    if code and launched().by == "fabric":
        # Fabric kills the command where one of its processes fails: leave it the time to say why.
        time.sleep(5)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        # At the interpreter's end collectives of processes that are gone would be waited for.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
