"""What this report does not say."""

from __future__ import annotations

from collections.abc import Sequence

from neurocontrast.reporting.blocks import Items, Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.prose import write_paragraphs
from neurocontrast.reporting.section import SectionBuilder

__all__ = ["SILENCES", "list_silences"]


def _build(files: EvaluationFiles, options: ReportOptions, sections: Sequence[SectionBuilder]) -> Section:
    """Build the list of what this report leaves unsaid."""
    del options
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
