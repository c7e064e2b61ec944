"""The figures of the report; each function returns a `Picture`, or None where there is nothing to draw."""
