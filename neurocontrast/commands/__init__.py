"""Commands, a file each, which the command line and the Python API both call.

Each function has the name of its command, and is also a name of the package itself:
`neurocontrast.embed`. What several commands need is in the folders below, such as `runs`.
"""
