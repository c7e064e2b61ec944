"""Plan an evaluation: everything that is decided, refused or warned about before the first fit."""
