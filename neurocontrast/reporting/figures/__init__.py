"""The figures of the report, one room a subject; each returns a `Picture` or None where there is nothing to draw."""

from neurocontrast.reporting.figures.accuracies import draw_accuracies
from neurocontrast.reporting.figures.brain import draw_brain, read_map, share_outside
from neurocontrast.reporting.figures.calibration import calibration_classes, draw_calibration
from neurocontrast.reporting.figures.comparison import draw_differences, draw_models
from neurocontrast.reporting.figures.confounds import confound_metrics, draw_confounds, draw_dependence
from neurocontrast.reporting.figures.confusion import count_confusion, count_text, decisions, draw_confusion, name_rule
from neurocontrast.reporting.figures.curves import draw_one_vs_rest, draw_precision_recall, draw_roc
from neurocontrast.reporting.figures.embedding_map import MAPS, draw_map, list_map_columns
from neurocontrast.reporting.figures.fairness import draw_fairness
from neurocontrast.reporting.figures.flow import draw_flow, list_steps
from neurocontrast.reporting.figures.forest import draw_forest
from neurocontrast.reporting.figures.headline import draw_headline
from neurocontrast.reporting.figures.learning import (
    draw_learning,
    draw_learning_of_models,
    learning_metrics,
    tabulate_learning,
)
from neurocontrast.reporting.figures.new_sites import draw_new_sites
from neurocontrast.reporting.figures.outlyingness import draw_outlyingness
from neurocontrast.reporting.figures.recalls import draw_recalls
from neurocontrast.reporting.figures.regression import draw_predicted, draw_residuals
from neurocontrast.reporting.figures.reliability import draw_reliability
from neurocontrast.reporting.figures.scans import draw_scan
from neurocontrast.reporting.figures.sensitive import draw_sensitive, tabulate_sensitive
from neurocontrast.reporting.figures.tiles import N_TILES, draw_tiles
from neurocontrast.reporting.figures.tradeoff import draw_tradeoff
from neurocontrast.reporting.figures.training import draw_training, list_terms

__all__ = [
    "MAPS",
    "N_TILES",
    "calibration_classes",
    "confound_metrics",
    "count_confusion",
    "count_text",
    "decisions",
    "draw_accuracies",
    "draw_brain",
    "draw_calibration",
    "draw_confounds",
    "draw_confusion",
    "draw_dependence",
    "draw_differences",
    "draw_fairness",
    "draw_flow",
    "draw_forest",
    "draw_headline",
    "draw_learning",
    "draw_learning_of_models",
    "draw_map",
    "draw_models",
    "draw_new_sites",
    "draw_one_vs_rest",
    "draw_outlyingness",
    "draw_precision_recall",
    "draw_predicted",
    "draw_recalls",
    "draw_reliability",
    "draw_residuals",
    "draw_roc",
    "draw_scan",
    "draw_sensitive",
    "draw_tiles",
    "draw_tradeoff",
    "draw_training",
    "learning_metrics",
    "list_map_columns",
    "list_steps",
    "list_terms",
    "name_rule",
    "read_map",
    "share_outside",
    "tabulate_learning",
    "tabulate_sensitive",
]
