"""Typed models of the files that a stage writes and the next one reads, one kind a module.

A document is a checked, frozen view of a JSON object: known keys have types, and unknown keys are
kept, so that a file is written again as it was read.
"""
