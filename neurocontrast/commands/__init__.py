"""Commands, a file each, which the command line and the Python API both call.

Each function has the name of its command, and can be imported from the package itself:
`neurocontrast.embed`. Code that several commands need is in subpackages that the commands import,
such as `neurocontrast.runs`.
"""
