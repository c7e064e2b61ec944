"""Weights `brain-maps` of neurocontrast: ``neurocontrast.weights.load("brain-maps")``; see README.md."""
