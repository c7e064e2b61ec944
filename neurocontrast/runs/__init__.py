"""The folder of a run and its parts, the weights it starts from, and what its features say of it."""
