"""Section of the evaluation's warnings, which comes first."""

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
    """Return the section of the evaluation's warnings, with a remark if there are none."""
    warnings = list_warnings(files)
    if not warnings:
        remark = (
            "The evaluation raised no warning about its data, the sizes of groups, or overlap with "
            "pretraining."
        )
        return Section("warnings", "Read this first", [note(remark)])
    title = f"Read this first: {count_text(len(warnings), 'warning')}"
    return Section("warnings", title, [Items(warnings, role="warnings")])


def list_warnings(files: EvaluationFolder) -> list[tuple[str, str]]:
    """Return pairs of each warning's message and explanation, in the order of the evaluation."""
    listed = []
    for warning in files.summary.warnings:
        if warning.code not in files.words.unasked:
            message = hide_ids(warning.message or warning.code, files, warning.code)
            listed.append((message, warning.explanation))
    return listed


WARNINGS = Finding("warnings", show_warnings)
