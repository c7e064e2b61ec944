"""Voices of reports on samples that are no scans, each registered by its own room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neurocontrast.registry import Registry

if TYPE_CHECKING:
    import jinja2

    from neurocontrast.reporting.wording import Words


@dataclass(frozen=True)
class Voice:
    """Words and texts of reports on one kind of samples."""

    words: Words
    """Nouns for a sample; their `kind` begins the names of the templates."""
    templates: jinja2.BaseLoader
    """Texts that come before those of all evaluations, and four of its own: ``result_data.j2``,
    ``result_sentence.j2``, ``result_plain.j2`` and ``result_reviewer.j2``."""
    names: Callable[[Path, Sequence[str]], Mapping[str, object]]
    """Returns what these texts see beside an evaluation, from its folder and some paths of its
    samples."""


VOICES: Registry[Voice] = Registry()
"""Voices by the kind of samples that ``encoder.json`` names; all other reports are of scans."""
