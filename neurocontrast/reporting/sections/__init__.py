"""Sections of the report, a file each, with the `Finding` that the section shows."""
