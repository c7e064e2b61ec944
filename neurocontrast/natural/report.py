"""Nouns and template variables of reports on natural images, and a data set's ``images.json``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import jinja2
import yaml

from neurocontrast.exceptions import DataError
from neurocontrast.natural.record import ImagesRecord
from neurocontrast.natural.store import RECORD_NAME, is_image_path, split_image_path
from neurocontrast.reading import read_json
from neurocontrast.reporting.voices import Voice
from neurocontrast.reporting.wording import Words

_ROOM = "neurocontrast.natural"
_LARGEST = 4_000_000
"""Largest size of an ``images.json`` that is read, in bytes."""


def find_record(folder: Path, paths: Sequence[str]) -> ImagesRecord:
    """Read the ``images.json`` next to the ``.npy`` file that stores the evaluated images.

    `paths` are the images' paths, as ``images.npy#17``; the first such path names the ``.npy``
    file. The file is looked for at that path, and if absent, at the same path below `folder`, the
    folder of the evaluation. The record is empty if the ``.npy`` file is not found, or the
    ``images.json`` next to the file is absent or damaged.
    """
    path = next(filter(is_image_path, paths), None)
    if path is None:
        return ImagesRecord()
    store, _ = split_image_path(path)
    for candidate in (store, folder / store):
        if candidate.is_file():
            return _read_record(candidate.with_name(RECORD_NAME))
    return ImagesRecord()


def _read_record(path: Path) -> ImagesRecord:
    """Read the ``images.json`` at `path`; the record is empty for an absent or damaged file."""
    try:
        return ImagesRecord.of(read_json(path, limit=_LARGEST), path)
    except DataError:
        return ImagesRecord()


def names_of_texts(folder: Path, paths: Sequence[str]) -> dict[str, object]:
    """Return the variables of report templates by name: only ``origin``, an `ImagesRecord`.

    The record is the ``images.json`` of the data set of the evaluated images, whose own paths are
    in `paths`; `folder` is the folder of the evaluation, as in `find_record`.
    """
    return {"origin": find_record(folder, paths)}


def read_words() -> Words:
    """Read the nouns that reports use for natural images, from ``templates/words.yaml``."""
    path = resources.files(_ROOM) / "templates" / "words.yaml"
    return Words(**yaml.safe_load(path.read_text("utf-8")))


VOICE = Voice(read_words(), jinja2.PackageLoader(_ROOM, "templates"), names_of_texts)
