"""The sections of a report of natural images."""

from neurocontrast.reporting.sections.images.classes import build_classes, build_confidence, build_confusion
from neurocontrast.reporting.sections.images.data import build_data
from neurocontrast.reporting.sections.images.gallery import build_gallery
from neurocontrast.reporting.sections.images.record import build_guidelines, build_methods, build_silences
from neurocontrast.reporting.sections.images.result import build_result, build_warnings
from neurocontrast.reporting.sections.images.sensitive import build_sensitive
from neurocontrast.reporting.sections.images.shared import build_map, build_training

__all__ = [
    "build_classes",
    "build_confidence",
    "build_confusion",
    "build_data",
    "build_gallery",
    "build_guidelines",
    "build_map",
    "build_methods",
    "build_result",
    "build_sensitive",
    "build_silences",
    "build_training",
    "build_warnings",
]
