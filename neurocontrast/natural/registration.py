"""Register natural images as a kind of samples, for data and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.data.addresses import ADDRESSES
from neurocontrast.data.kinds import KINDS
from neurocontrast.reporting.voices import VOICES

if TYPE_CHECKING:
    from neurocontrast.data.addresses import Address
    from neurocontrast.data.kinds import SampleKind
    from neurocontrast.reporting.voices import Voice


def register_natural_images() -> None:
    """Register functions that import natural images at the first use of the kind.

    The functions return the form of an image's address, the kind of samples, and the words of
    reports.
    """
    ADDRESSES.register("images", _address)
    KINDS.register("images", _kind)
    VOICES.register("images", _voice)


def _address() -> Address:
    from neurocontrast.natural.store import ADDRESS

    return ADDRESS


def _kind() -> SampleKind:
    from neurocontrast.natural.kind import NaturalImagesKind

    return NaturalImagesKind()


def _voice() -> Voice:
    from neurocontrast.natural.report import VOICE

    return VOICE
