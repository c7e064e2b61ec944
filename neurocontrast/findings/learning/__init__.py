"""Curves over the number of training subjects, and over the epochs of pretraining."""

from neurocontrast.findings.finding import Finding
from neurocontrast.findings.learning.measure import LearningCurve, check_sizes, measure_learning_curve
from neurocontrast.findings.learning.show import show_learning, show_training

__all__ = ["LEARNING", "TRAINING"]

LEARNING = Finding("learning", show_learning, measure_learning_curve, check_sizes, record=LearningCurve)
TRAINING = Finding("training", show_training)
