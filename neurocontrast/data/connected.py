"""Group sites that share a person, or scans that share a digest of their content."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def number_connected(
    members: npt.NDArray[np.intp], shared: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Number groups of sites linked by a shared person, or of scans linked by a shared digest.

    Parameters
    ----------
    members : array (n,)
        Code of a site or scan, from 0 to the largest without a gap.
    shared : array (n,)
        Code of a person, or digest, of that site or scan.

    Returns
    -------
    array
        Number of the group of each code of `members`.

    Examples
    --------
    >>> number_connected(np.array([0, 1, 1, 2]), np.array([0, 0, 1, 2])).tolist()
    [0, 0, 1]
    """
    n_members = int(members.max()) + 1
    n_nodes = n_members + int(shared.max()) + 1
    links = coo_array((np.ones(len(members)), (members, n_members + shared)), (n_nodes, n_nodes))
    numbers: npt.NDArray[np.intp] = connected_components(links, directed=False)[1][:n_members]
    return numbers
