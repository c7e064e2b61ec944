"""MONAI bundles: a run and its probe as a folder that needs PyTorch, MONAI, NumPy, SciPy and nibabel, not this package.

`inference` and `measures` are copied into a bundle with all they import; `contents` copies them.
"""
