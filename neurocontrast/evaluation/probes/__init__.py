"""Fit probes to features in one fold: adjust, standardise, choose the penalty, predict."""
