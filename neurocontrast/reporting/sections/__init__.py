"""Sections of the report: one file for each, which ends with the section's `Finding`."""
