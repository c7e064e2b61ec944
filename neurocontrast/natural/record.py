"""``images.json``, which the command `images` writes next to a store of natural images."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment


class ImagesOrigin(Document):
    """Section ``source`` of ``images.json``: name, kind and digest of the files that were read."""

    name: str | None = None
    kind: str | None = None
    digest: str | None = None
    n_files_skipped: int | None = None


class ImagesChoice(Document):
    """Section ``settings`` of ``images.json``: how images were chosen, without paths of folders."""

    dataset: str | None = None
    background: str | None = None
    """Background behind grey pictures, such as ``random``; None without a background."""


class ImagesRecord(Document):
    """Content of ``images.json``: data set, classes and splits of a store of natural images."""

    format: int = 1
    dataset: str | None = None
    name: str | None = None
    """Name with which all identifiers of images begin."""
    statement: list[str] = Field(default_factory=list)
    """Sentences on the data set, for reports."""
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
    """Name of a library that decodes images → version."""
    environment: Environment | None = None
