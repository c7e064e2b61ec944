"""Section of conclusions that the report does not support."""

from neurocontrast.documents.findings import ExternalTest, NewSite
from neurocontrast.reporting.blocks import Items, Section
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.texts import write_paragraphs


def show_silences(files: EvaluationFolder) -> Section:
    """Return the section of conclusions that a reader must not draw from the report."""
    paragraphs = write_paragraphs(
        "silences.j2",
        files,
        external=files.summary.part(ExternalTest),
        new_site=files.summary.part(NewSite),
    )
    return Section("silences", "What this report does not say", [Items(paragraphs)])


SILENCES = Finding("silences", show_silences)
