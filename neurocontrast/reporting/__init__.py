"""Pages of evaluations, of comparisons and of quality control, laid out from typed sections."""
