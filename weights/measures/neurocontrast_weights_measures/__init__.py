"""Weights `measures` of neurocontrast: ``neurocontrast.weights.load("measures")``; see README.md."""
