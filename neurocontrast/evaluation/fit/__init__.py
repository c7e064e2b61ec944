"""Fit the models of a plan, and the probe on all scans that is written to a file."""
