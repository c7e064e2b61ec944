"""Typed models of the JSON and table files that one stage writes and a later stage reads.

A document is a checked, frozen view of a JSON object: known keys have types, and unknown keys are
kept, so that a file is written again as it was read.
"""
