"""The command line as a module: ``python -m neurocontrast``, and so ``torchrun … -m neurocontrast``."""

from __future__ import annotations

from neurocontrast.cli import main

if __name__ == "__main__":
    main()
