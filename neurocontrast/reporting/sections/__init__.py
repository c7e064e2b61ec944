"""One section of the report a file, each with the `Finding` that it shows."""
