"""Fit one matrix of scans in one fold: designs, scalers, probes and their search, averages of members."""
