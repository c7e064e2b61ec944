"""The command line: thin commands over ``neurocontrast.stages``, and the only place that prints."""

from neurocontrast.cli.app import main, run

__all__ = ["main", "run"]
