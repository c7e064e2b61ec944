"""Work of several processes: workers for files, devices, and the processes that train one network together."""
