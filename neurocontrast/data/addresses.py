"""Addresses of samples in a file of many, such as ``images.npy#17`` in a table's ``path``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neurocontrast.registry import Registry


@dataclass(frozen=True)
class Address:
    """Form of the addresses of one kind of samples, such as ``images.npy#17``, with a check.

    The check tells whether the sample at an address can be used. A kind whose samples lie many in a
    file registers one form in `ADDRESSES`.
    """

    kind: str
    """Kind of the samples, as the setting ``data.kind`` names the kind."""
    sample: str
    """One sample in words, for messages: "an image of a store"."""
    samples: str
    """Samples in words, with the command that writes the samples, for messages."""
    matches: Callable[[str], bool]
    """Function that tells whether a path is an address of this form."""
    new_finder: Callable[[], Callable[[str], str]]
    """Function that returns a checker: address → reason why a sample cannot be used, or ""."""


ADDRESSES: Registry[Address] = Registry()
"""Forms of addresses by kind of sample; a path that fits no form is the file of a scan."""


def address_of(path: str) -> Address | None:
    """Return the form of sample addresses that `path` has; None for the path of a scan's own file.

    `path` is a cell of a table's column ``path``. An address such as ``images.npy#17`` names one
    sample in a file of many. The registry `ADDRESSES` has one form (`Address`) for each kind of
    samples, and the first form whose `matches` accepts `path` is returned.
    """
    for address in ADDRESSES.entries():
        if address.matches(path):
            return address
    return None


class SampleFinder:
    """Checker of samples that lie many in one file, each named by an address as ``images.npy#17``.

    `problem_of` tells why a sample cannot be used. A finder opens each file of samples once, so
    that one finder serves all rows of a table.
    """

    def __init__(self) -> None:
        self._finders: dict[str, Callable[[str], str]] = {}

    def problem_of(self, path: str, address: Address) -> str:
        """Return why the sample at the address `path` cannot be used; "" for a usable sample.

        `path` is one address as text, such as ``images.npy#17``. `address` is the form common to
        all addresses of this kind of samples, as `address_of` returns for `path`.
        """
        if address.kind not in self._finders:
            self._finders[address.kind] = address.new_finder()
        return self._finders[address.kind](path)
