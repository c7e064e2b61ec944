"""What a MONAI bundle says of a run and its probe: configuration, description and model card."""
