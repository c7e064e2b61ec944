"""The report: one HTML page made from the files of an evaluation folder, and from nothing else."""

from neurocontrast.reporting.comparison import ComparisonFiles, build_comparison, render_comparison
from neurocontrast.reporting.page import Citations, Input, Section, SectionBuilder, list_pictures, render_page
from neurocontrast.reporting.read import EvaluationFiles, ReportOptions, read_evaluation
from neurocontrast.reporting.sections import SECTIONS, build_sections
from neurocontrast.reporting.style import Picture

__all__ = [
    "SECTIONS",
    "Citations",
    "ComparisonFiles",
    "EvaluationFiles",
    "Input",
    "Picture",
    "ReportOptions",
    "Section",
    "SectionBuilder",
    "build_comparison",
    "build_sections",
    "list_pictures",
    "read_evaluation",
    "render_comparison",
    "render_page",
]
