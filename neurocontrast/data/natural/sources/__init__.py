"""Sources of natural images: a file and a line of `SOURCES` each.

A source is a function ``read(settings, open_wanted)`` that returns `Pictures`. ``open_wanted(wanted)`` opens the files
of ``settings.source``, folder or archive, whose names the function ``wanted`` accepts.
"""

from __future__ import annotations

__all__ = ["SOURCES"]

SOURCES = {
    "digits": "neurocontrast.data.natural.sources.digits:read_digits",
    "cifar10": "neurocontrast.data.natural.sources.cifar:read_cifar",
    "cifar100": "neurocontrast.data.natural.sources.cifar:read_cifar",
    "mnist": "neurocontrast.data.natural.sources.mnist:read_mnist",
    "fashion-mnist": "neurocontrast.data.natural.sources.mnist:read_mnist",
    "folder": "neurocontrast.data.natural.sources.folder:read_class_folders",
}
"""Name of the setting ``images.dataset`` → import path of the function that reads the source."""
