"""Nouns and templates of reports on samples other than scans, registered by their own packages."""

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
    """Nouns and templates of reports on one kind of samples, such as natural images."""

    words: Words
    """Nouns for a sample; the templates of the kind are found under ``words.kind``."""
    templates: jinja2.BaseLoader
    """Templates, which replace the templates for scans that have the same names.

    Four are needed: ``result_data.j2``, ``result_sentence.j2``, ``result_plain.j2`` and
    ``result_reviewer.j2``.
    """
    names: Callable[[Path, Sequence[str]], Mapping[str, object]]
    """Function that returns variables for the templates in addition to the usual ones; called with
    the evaluation's folder and the paths of some samples."""


VOICES: Registry[Voice] = Registry()
"""Kind of samples in ``encoder.json`` → nouns and templates; other kinds are reported as scans."""
