"""Add natural images to the registries of kinds of samples, from which data and reports choose."""

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
    """Add natural images to the registries of kinds of samples, for ``data.kind: images``.

    Three functions are put into three registries, `ADDRESSES`, `KINDS` and `VOICES`, under the name
    ``images``. When called, they return the form of an image's path in a table (as
    ``images.npy#17``), the kind of samples that reads images, and the words of reports on images.
    Code for natural images is imported only when one of them is called.
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
