"""Fit the models of a plan, and the probe of all scans that is stored."""
