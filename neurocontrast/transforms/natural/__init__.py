"""Random views of natural images, a whole batch at once."""
