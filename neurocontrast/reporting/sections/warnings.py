"""Show the warnings of an evaluation."""

from neurocontrast.reporting.blocks import (
    Items,
    Section,
    note,
)
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.privacy import hide_ids
from neurocontrast.reporting.wording import count_text


def show_warnings(files: EvaluationFolder) -> Section:
    """Return the warnings; the section is there without any, too."""
    warnings = list_warnings(files)
    if not warnings:
        text = "The evaluation raised no warning about its data, the sizes of groups, or overlap with pretraining."
        return Section("warnings", "Read this first", [note(text)])
    title = f"Read this first: {count_text(len(warnings), 'warning')}"
    return Section("warnings", title, [Items(warnings, role="warnings")])


def list_warnings(files: EvaluationFolder) -> list[tuple[str, str]]:
    """Return each warning with its explanation, in the order of the evaluation."""
    found = [each for each in files.summary.warnings if each.code not in files.words.unasked]
    return [
        (hide_ids(each.message or each.code, files, each.code), each.explanation) for each in found
    ]


WARNINGS = Finding("warnings", show_warnings)
