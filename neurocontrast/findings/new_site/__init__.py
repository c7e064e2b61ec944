"""What happens at a site that the model has not seen."""
