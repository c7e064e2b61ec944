"""Commands and what runs share, on their way to ``commands/`` and ``runs/``."""
