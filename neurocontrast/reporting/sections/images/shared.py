"""Sections that images share with scans, where they have something to show."""

from __future__ import annotations

from dataclasses import replace

from neurocontrast.reporting.blocks import Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.sections import embedding, performance

__all__ = ["build_folds", "build_learning", "build_map"]


def build_folds(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the table of folds; None where there is one test set."""
    return None if files.fixed else performance.build_folds(files, options)


def build_learning(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the learning curves; None where none was asked for."""
    if not files.summary.get("learning_curve"):
        return None
    lead = "A curve that still gets better at its right end would gain from more labelled images; a flat one would not."
    return replace(performance.build_learning(files, options), lead=lead)


def build_map(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the maps of the embedding; None where none was computed."""
    if files.points is None:
        return None
    lead = (
        "Each point is an image. What lies apart here lies apart in the features; what overlaps here need not overlap."
    )
    return replace(embedding.build_map(files, options), lead=lead)
