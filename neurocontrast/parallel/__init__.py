"""Workers for many files, devices, and the processes that train one network together."""
