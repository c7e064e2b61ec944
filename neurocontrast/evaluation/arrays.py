"""Arrays of an evaluation, by what they hold."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.generic]
"""Codes of classes, or numbers: what is predicted."""
Rows = npt.NDArray[np.intp]
"""Positions in a table."""
Texts = npt.NDArray[np.object_]
"""Subjects or sites, one a scan."""
