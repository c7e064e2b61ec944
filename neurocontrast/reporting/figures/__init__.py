"""The figures of the report, one room a subject; each returns a `Picture` or None where there is nothing to draw."""

from neurocontrast.reporting.figures.confusion import count_confusion, count_text, draw_confusion, name_rule
from neurocontrast.reporting.figures.embedding_map import MAPS, draw_map, list_map_columns
from neurocontrast.reporting.figures.headline import draw_headline
from neurocontrast.reporting.figures.regression import draw_predicted, draw_residuals
from neurocontrast.reporting.figures.roc import draw_one_vs_rest, draw_precision_recall, draw_roc
from neurocontrast.reporting.figures.scans import draw_scan
from neurocontrast.reporting.figures.sites import draw_forest
from neurocontrast.reporting.figures.training import draw_training, list_terms

__all__ = [
    "MAPS",
    "count_confusion",
    "count_text",
    "draw_confusion",
    "draw_forest",
    "draw_headline",
    "draw_map",
    "draw_one_vs_rest",
    "draw_precision_recall",
    "draw_predicted",
    "draw_residuals",
    "draw_roc",
    "draw_scan",
    "draw_training",
    "list_map_columns",
    "list_terms",
    "name_rule",
]
