"""Sections of an evaluation's report, one file for each section.

A file defines a `Finding`: one analysis of the evaluation, with the function that shows the
section.
"""
