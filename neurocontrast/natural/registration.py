"""Enter natural images into the registries by which data and reports know kinds of samples."""

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
    """Enter each registry; natural images are imported when an entry is first asked for."""
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
