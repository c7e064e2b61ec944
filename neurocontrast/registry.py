"""Register entries by name, each made by a function at the entry's first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries by name, in order of registration, each made at its first use.

    A lower layer of the package holds a registry, and a package above registers a function that
    imports and returns an entry. The lower layer thus uses the package above without importing it.

    Examples
    --------
    >>> from neurocontrast.registry import Registry
    >>> greetings = Registry[str]()
    >>> greetings.register("english", lambda: "hello")
    >>> greetings.find("english"), greetings.find("latin")
    ('hello', None)
    """

    def __init__(self) -> None:
        self._makers: dict[str, Callable[[], Entry]] = {}
        self._entries: dict[str, Entry] = {}

    def register(self, name: str, make: Callable[[], Entry]) -> None:
        """Register a function that makes the entry called `name` at the entry's first use."""
        self._makers[name] = make

    def names(self) -> tuple[str, ...]:
        """Return the names of all entries in order of registration.

        No registered function is called, so that no entry is made.
        """
        return tuple(self._makers)

    def find(self, name: str | None) -> Entry | None:
        """Return the entry called `name`; None for an unregistered name.

        The first call makes the entry by the registered function, and later calls return the same
        entry.
        """
        if name is None or name not in self._makers:
            return None
        if name not in self._entries:
            self._entries[name] = self._makers[name]()
        return self._entries[name]

    def entries(self) -> list[Entry]:
        """Return all entries in order of registration.

        For an entry that was not used before, the registered function is called now, which makes
        the entry.
        """
        entries = map(self.find, self._makers)
        return [entry for entry in entries if entry is not None]
