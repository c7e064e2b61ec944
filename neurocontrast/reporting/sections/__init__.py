"""Sections of the report, one file for each; a file defines its analysis in a `Finding`."""
