"""The package of another checkout beside this one's, in one process: for comparisons of before and after."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["package_of", "views_of"]


@contextlib.contextmanager
def package_of(folder: Path) -> Iterator[None]:
    """Import ``neurocontrast`` from another checkout within the block; what was made of it works afterwards too."""
    ours = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "neurocontrast"
    }
    for name in ours:
        del sys.modules[name]
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))
        for name in [name for name in sys.modules if name.partition(".")[0] == "neurocontrast"]:
            del sys.modules[name]
        sys.modules.update(ours)


def views_of(folder: Path, settings: Any) -> Callable[..., Any]:
    """Return the two views of volumes that a checkout makes, keyed by samples' numbers.

    Parameters
    ----------
    folder : Path
        A checkout with ``neurocontrast.augment`` (up to November 2026), or with
        ``neurocontrast.transforms``.
    settings : AugmentSettings
        The operations.
    """
    chosen = settings.model_dump()
    with package_of(folder):
        if (folder / "neurocontrast" / "augment").is_dir():
            augment = importlib.import_module("neurocontrast.augment")
            return augment.TwoViews(augment.AugmentSettings.model_validate(chosen), seed=0)
        transforms = importlib.import_module("neurocontrast.transforms")
        made = transforms.brain_views(transforms.AugmentSettings.model_validate(chosen))
        views = transforms.TwoViews(made, seed=0)
        return lambda volumes, samples, epoch: views(
            volumes, [str(sample) for sample in samples], epoch=epoch
        )
