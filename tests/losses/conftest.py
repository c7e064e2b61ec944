"""Fixtures of the tests of the losses."""

from types import SimpleNamespace

import pytest

from neurocontrast.losses import core
from tests.losses import naive as loops
from tests.losses import naive_kernels, specimens


@pytest.fixture(scope="session")
def naive() -> SimpleNamespace:
    """The double loops of ``naive.py`` and ``naive_kernels.py``, written from the formulas alone."""
    return SimpleNamespace(**(vars(naive_kernels) | vars(loops)))


@pytest.fixture(scope="session")
def random_batch():
    """``random_batch(n, d, seed=…, n_labels=…)``: two views and their metadata, in float64."""
    return specimens.random_batch


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
    "pooled": [each for each in _TILED if not each.name.startswith(("infonce", "alignment-uniformity"))],
    "prediction": specimens.PREDICTIONS,
    # CCL-K solves an n × n system; the mean over observed pairs is streamed by the kernel.
    "tiled": [each for each in _TILED if not each.name.endswith("missing")],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for every loss of the kind that its argument names."""
    for name, chosen in _SPECIMENS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, chosen, ids=[specimen.name for specimen in chosen])
