"""What a paper needs of an evaluation of images: methods, limits, guidelines."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Items, Numbered, Paragraph, Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.images.methods import write_methods
from neurocontrast.reporting.images.silences import list_silences
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.references import Citations

__all__ = ["build_guidelines", "build_methods", "build_silences"]


def build_methods(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the methods text with its references."""
    del options
    cite = Citations()
    blocks: list[Block] = [Paragraph(text, label=heading) for heading, text in write_methods(files, cite)]
    blocks.append(Numbered("References", cite.listed()))
    lead = "Generated from the record of the run, to be checked and pasted into a paper."
    return Section("methods", "Methods", blocks, lead=lead)


def build_silences(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the list of what the report does not say."""
    del options
    return Section("silences", "What this report does not say", [Items(list_silences(files))])


def build_guidelines(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Say which guideline fits a study of natural images, and what this report has for it."""
    del files, options
    cite = Citations()
    items = [
        (
            f"NeurIPS paper checklist {cite('neurips')}:",
            "the one that fits a comparison of objectives on public images. For its questions on experimental details, "
            "statistical significance and limitations this report has Methods, the intervals with what they vary over, "
            "and What this report does not say; code, versions and seeds stand under Provenance. Compute, licences of "
            "the data, and broader impact are left to you.",
        ),
        (
            f"REFORMS {cite('reforms')}:",
            "where the accuracy is evidence for a claim about the world, and not about a method.",
        ),
        (
            f"Model cards {cite('model_cards')}:",
            "where the encoder is given to others: intended use, and performance by group.",
        ),
        (
            "Not TRIPOD+AI or CLAIM:",
            "these are for prediction in patients and for medical images; reports of scans have their tables.",
        ),
    ]
    return Section("guidelines", "Reporting guidelines", [Items(items), Numbered("Guidelines", cite.listed())])
