"""The sections of a report, found by listing this folder: a new section is one new file that defines a builder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

from neurocontrast.reporting.page import Section, SectionBuilder
from neurocontrast.reporting.read import EvaluationFiles

__all__ = ["SECTIONS", "build_sections"]


def _find() -> tuple[SectionBuilder, ...]:
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    builders = {each for module in modules for each in vars(module).values() if isinstance(each, SectionBuilder)}
    return tuple(sorted(builders, key=lambda each: each.order))


SECTIONS = _find()
"""Every section of this package, in reading order."""


def build_sections(files: EvaluationFiles, *, sections: Sequence[SectionBuilder] = SECTIONS) -> list[Section]:
    """Return the sections that have something to say.

    Parameters
    ----------
    files : EvaluationFiles
        What was read.
    sections : sequence of SectionBuilder
        Sections to build, in reading order; ``(*SECTIONS, MINE)`` adds one.
    """
    built = (build(files, sections) for build in sections)
    return [section for section in built if section is not None]
