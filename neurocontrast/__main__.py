"""The command line as a module: ``python -m neurocontrast``, and so ``torchrun … -m neurocontrast``."""

from neurocontrast.cli import main

if __name__ == "__main__":
    main()
