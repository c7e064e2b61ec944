"""Fixtures of the tests of the losses."""

import pytest

from neurocontrast.losses import core
from tests.losses import specimens


@pytest.fixture
def hold(monkeypatch):
    """``hold(n)``: have losses hold no more than n × n similarities at once; None for as many as they like."""

    def set_limit(n: int | None) -> None:
        monkeypatch.setattr(core, "AT_ONCE", 2**20 if n is None else n * n)
        monkeypatch.setattr(core, "FEWEST", 1)

    return set_limit


_TILED = [each for each in specimens.SPECIMENS if not each.name.startswith("cclk")]
_SPECIMENS = {
    "specimen": specimens.SPECIMENS,
    # Formulas over all embeddings, of any views that the loss takes.
    "pooled": [
        each for each in _TILED if not each.name.startswith(("infonce", "alignment-uniformity"))
    ],
    "prediction": specimens.PREDICTIONS,
    # CCL-K solves an n × n system; the mean over observed pairs is streamed by the kernel.
    "tiled": [each for each in _TILED if not each.name.endswith("missing")],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for every loss of the kind that its argument names."""
    for name, chosen in _SPECIMENS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, chosen, ids=[specimen.name for specimen in chosen])
