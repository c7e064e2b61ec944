"""The record ``images.json``, which `images` writes beside a store of natural images."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment


class ImagesOrigin(Document):
    """Section ``source``: name and kind of the files that images were read from."""

    name: str | None = None
    kind: str | None = None
    digest: str | None = None
    n_files_skipped: int | None = None


class ImagesChoice(Document):
    """Section ``settings``: the section ``images`` of the configuration, without folders."""

    dataset: str | None = None
    background: str | None = None
    """Backgrounds behind grey pictures, such as ``random``; None where there are none."""


class ImagesRecord(Document):
    """Content of ``images.json``: data set, classes and splits of a store of natural images."""

    format: int = 1
    dataset: str | None = None
    name: str | None = None
    """Beginning of all identifiers."""
    statement: list[str] = Field(default_factory=list)
    """Sentences for reports about the data set."""
    shape: list[int] = Field(default_factory=list)
    n_images: dict[str, int] = Field(default_factory=dict)
    """Split → number of images."""
    classes: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Class → split → number of images."""
    columns: list[str] = Field(default_factory=list)
    source: ImagesOrigin | None = None
    settings: ImagesChoice = Field(default_factory=ImagesChoice)
    images_sha256: str | None = None
    libraries: dict[str, str | None] = Field(default_factory=dict)
    """Decoder of images → version."""
    environment: Environment | None = None
