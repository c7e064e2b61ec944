"""What a reader must not read into the report."""

from neurocontrast.reporting.blocks import Items, Section
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.prose import write_paragraphs


def show_silences(files: EvaluationFolder) -> Section:
    """Return what a reader must not read into the report."""
    return Section(
        "silences", "What this report does not say", [Items(write_paragraphs("silences.j2", files))]
    )


SILENCES = Finding("silences", show_silences)
