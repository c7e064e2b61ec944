"""Evaluations of several models on the same folds, compared."""
