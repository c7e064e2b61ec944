"""Run the command line as a module, by ``python -m`` or ``torchrun -m``."""

from neurocontrast.cli import main

if __name__ == "__main__":
    main()
