"""Begin, continue, read and join runs: folders with trained encoders and their records."""
