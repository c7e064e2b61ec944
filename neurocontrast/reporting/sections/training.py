"""How the encoder was pretrained: its objective, and the training curves."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Paragraph, Pictures, Section
from neurocontrast.reporting.figures.training import draw_training, list_terms
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.naming import objective_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.words import IMAGES

__all__ = ["TRAINING"]

_CLOCKS = ("samples_per_second", "volumes_per_second")


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the training curves; of images, also how many were trained on per second."""
    del options
    terms = list_terms(files)
    if files.words is IMAGES and files.training is not None:
        terms += [name for name in _CLOCKS if name in files.training and files.training[name].notna().any()]
    pictures = [picture for picture in (draw_training(files, term) for term in terms) if picture is not None]
    if not pictures:
        text = "No training curves: training.tsv is absent, or the embeddings came without the record of a run."
        return Section("training", "Pretraining", [Paragraph(text, role="note")])
    lead = f"Objective: {objective_text(files.summary.objective)}."
    return Section("training", "Pretraining", [Pictures(pictures)], lead=lead)


TRAINING = SectionBuilder(
    "training",
    "Pretraining",
    order=200,
    build=_build,
    inputs=(Input("training.tsv", "the training curves", "training", "Comes with embeddings of a recorded run."),),
    covers="pretraining",
)
