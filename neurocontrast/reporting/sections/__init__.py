"""The sections of the report, in the order in which they are read.

A section builder takes the evaluation's files and the reader's options, and returns a `Section`,
or None where it has nothing to say. A further panel is one more builder in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable

from neurocontrast.reporting.blocks import Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.sections import images
from neurocontrast.reporting.sections.brain import build_brain
from neurocontrast.reporting.sections.cohort import build_cohort
from neurocontrast.reporting.sections.comparison import build_comparison
from neurocontrast.reporting.sections.confounds import build_confounds
from neurocontrast.reporting.sections.embedding import build_map, build_scans, build_training
from neurocontrast.reporting.sections.external import build_external
from neurocontrast.reporting.sections.guidelines import build_guidelines
from neurocontrast.reporting.sections.new_site import build_new_site
from neurocontrast.reporting.sections.outlyingness import build_outlyingness
from neurocontrast.reporting.sections.performance import (
    build_calibration,
    build_curves,
    build_errors,
    build_folds,
    build_learning,
)
from neurocontrast.reporting.sections.record import build_methods, build_provenance, build_silences
from neurocontrast.reporting.sections.result import build_result, build_warnings
from neurocontrast.reporting.sections.similarity import build_similarity
from neurocontrast.reporting.sections.sites import build_groups, build_sites
from neurocontrast.reporting.sections.worst import build_worst
from neurocontrast.reporting.words import IMAGES

__all__ = ["IMAGE_SECTIONS", "SECTIONS", "build_comparison", "build_sections", "sections_of"]

Builder = Callable[[EvaluationFiles, ReportOptions], Section | None]

SECTIONS: tuple[Builder, ...] = (
    build_warnings,
    build_result,
    build_new_site,
    build_outlyingness,
    build_cohort,
    build_sites,
    build_groups,
    build_curves,
    build_calibration,
    build_errors,
    build_worst,
    build_learning,
    build_external,
    build_confounds,
    build_brain,
    build_similarity,
    build_map,
    build_folds,
    build_scans,
    build_training,
    build_methods,
    build_silences,
    build_guidelines,
    build_provenance,
)


IMAGE_SECTIONS: tuple[Builder, ...] = (
    images.build_warnings,
    images.build_result,
    images.build_data,
    images.build_classes,
    images.build_confusion,
    images.build_gallery,
    images.build_confidence,
    images.build_sensitive,
    build_learning,
    build_similarity,
    images.build_map,
    build_folds,
    images.build_training,
    images.build_methods,
    images.build_silences,
    images.build_guidelines,
    build_provenance,
)
"""The sections of a report of natural images."""


def sections_of(files: EvaluationFiles) -> tuple[Builder, ...]:
    """Return the builders of a report, in reading order, by what was evaluated."""
    return IMAGE_SECTIONS if files.words is IMAGES else SECTIONS


def build_sections(files: EvaluationFiles, options: ReportOptions) -> list[Section]:
    """Return the sections that have something to say."""
    sections = (build(files, options) for build in sections_of(files))
    return [section for section in sections if section is not None]
