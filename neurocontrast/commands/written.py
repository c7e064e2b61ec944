"""Paths of written files and folders, which show a summary of the content when printed."""

import os
from pathlib import Path
from typing import Any


class Written(os.PathLike[str]):
    """A file or folder that was written: a path, which shows a summary of its content.

    ``result / "name"``, ``open(result)``, ``str(result)``, ``f"{result}"`` and every attribute of a
    `Path` work, and so does every function that takes a path. A notebook or Python's prompt shows
    the path and `summary`.

    Parameters
    ----------
    location : path
        The file or folder.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.location = Path(location)

    def __fspath__(self) -> str:
        return str(self.location)

    def __format__(self, how: str) -> str:
        """Return the path of the written file or folder as text, for names built in f-strings."""
        return format(str(self.location), how)

    def __truediv__(self, name: str | os.PathLike[str]) -> Path:
        return self.location / name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, os.PathLike) and self.location == Path(os.fspath(other))

    def __hash__(self) -> int:
        return hash(self.location)

    def __getattr__(self, name: str) -> Any:
        """Return the attribute `name` of `location`, the `Path` of the written file or folder."""
        if name.startswith("_") or name == "location":
            raise AttributeError(name)
        return getattr(self.location, name)

    def __str__(self) -> str:
        return str(self.location)

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.location}')\n{self.summary()}"

    def summary(self) -> str:
        """Describe the written file or folder in a few lines, for a notebook or Python's prompt.

        Here, its name is returned; subclasses tell more.
        """
        return self.location.name


class WrittenFigures(Written):
    """A written folder of results, of which ``print`` shows the summary, then the path.

    Functions that take a path accept the object itself; ``f"{result}"`` and ``os.fspath(result)``
    are the path alone.
    """

    def __str__(self) -> str:
        return f"{self.summary()}\n{self.location}"
