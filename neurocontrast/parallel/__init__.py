"""Worker processes for many files, choice of devices, and processes that train one network."""
