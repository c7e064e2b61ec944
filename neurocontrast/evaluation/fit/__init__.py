"""Fit the models of a plan in every fold, and the stored probe to all scans.

The stored probe, in ``probe.json`` and ``probe.npz``, is the embedding's estimator fitted once
more; the fits in the folds are not written.
"""
