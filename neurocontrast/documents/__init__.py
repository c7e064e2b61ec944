"""Typed models of the files that a stage writes and the next one reads, one kind a module.

A document is a checked, frozen view of a JSON object: keys have types, and what it says nothing of
is kept, so that a file is written again as it was read.
"""
