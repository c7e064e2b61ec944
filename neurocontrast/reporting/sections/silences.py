"""What this report does not say."""

from __future__ import annotations

from collections.abc import Sequence

from neurocontrast.reporting.page import Items, Section, SectionBuilder
from neurocontrast.reporting.prose import write_paragraphs
from neurocontrast.reporting.read import EvaluationFiles

__all__ = ["SILENCES", "list_silences"]


def _build(files: EvaluationFiles, sections: Sequence[SectionBuilder]) -> Section:
    return Section("silences", "What this report does not say", [Items(list_silences(files, sections))])


def list_silences(files: EvaluationFiles, sections: Sequence[SectionBuilder] = ()) -> list[tuple[str, str]]:
    """Return what this report leaves unsaid; tables that no section of its kind draws are named."""
    own = {need.file for each in sections if each.fits(files) for need in each.inputs}
    others = [need for each in sections if not each.fits(files) for need in each.inputs if need.needed]
    not_drawn = [need.file for need in others if need.file not in own and need.is_there(files)]
    return write_paragraphs("silences.j2", files, not_drawn=list(dict.fromkeys(not_drawn)))


SILENCES = SectionBuilder(
    "silences", "What this report does not say", order=220, build=_build, covers="limits", sees_all=True
)
