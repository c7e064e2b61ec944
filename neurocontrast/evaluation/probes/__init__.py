"""Fit a matrix of scans in one fold: designs, scalers, probes, searches, averages of members."""
