"""How the tiles of a large pool are shared among processes."""

from __future__ import annotations

from collections import Counter

import pytest

from neurocontrast.losses.tiles import Pairs
from neurocontrast.parallel.collectives import Processes


@pytest.mark.parametrize("symmetric", [True, False])
def test_every_tile_is_computed_by_one_process_and_all_compute_as_many(symmetric):
    shares = [list(Pairs(1.0, 3, symmetric=symmetric, processes=Processes(rank, 4)).spans(20)) for rank in range(4)]
    alone = list(Pairs(1.0, 3, symmetric=symmetric).spans(20))
    tiles = Counter((i.start, j.start) for share in shares for i, j, _ in share)
    assert tiles == Counter((i.start, j.start) for i, j, _ in alone)
    assert set(tiles.values()) == {1}
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
