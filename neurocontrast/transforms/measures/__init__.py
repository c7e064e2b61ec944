"""Random views of regional measures, a whole batch at once."""
