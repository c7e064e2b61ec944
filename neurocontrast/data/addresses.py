"""Addresses of samples in files of many, such as ``images.npy#17`` in a column ``path``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neurocontrast.registry import Registry


@dataclass(frozen=True)
class Address:
    """Address of the samples of one kind."""

    kind: str
    """Kind of the samples, as ``data.kind`` names the kind."""
    sample: str
    """One sample in words: "an image of a store"."""
    samples: str
    """Samples in words, with the command that writes them."""
    matches: Callable[[str], bool]
    """Tells whether a path is such an address."""
    new_finder: Callable[[], Callable[[str], str]]
    """Returns a function that opens the file of an address once, and says why the sample cannot be
    used; "" for a sample that can."""


ADDRESSES: Registry[Address] = Registry()
"""Addresses by the kind of their samples; a path that none matches is the file of a scan."""


def address_of(path: str) -> Address | None:
    """Return the address that a path is; None for the path of a scan."""
    for address in ADDRESSES.entries():
        if address.matches(path):
            return address
    return None


class SampleFinder:
    """Finder of samples by their addresses, which opens each file once."""

    def __init__(self) -> None:
        self._finders: dict[str, Callable[[str], str]] = {}

    def problem_of(self, path: str, address: Address) -> str:
        """Return why the sample at an address cannot be used; "" for a usable sample."""
        if address.kind not in self._finders:
            self._finders[address.kind] = address.new_finder()
        return self._finders[address.kind](path)
