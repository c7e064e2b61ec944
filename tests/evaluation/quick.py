"""Settings that leave out what a test does not look at."""

QUICK = {"n_bootstraps": 0, "confounds": False, "new_site": False, "outlyingness": False}
