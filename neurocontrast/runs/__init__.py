"""The folder of a run and its parts, the weights that a run starts from, and its known answer."""
