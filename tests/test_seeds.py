"""Randomness depends on its keys alone."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from neurocontrast.seeds import derive_generator, derive_seed, derive_uniforms, philox4x32


def test_every_key_and_its_order_and_type_matter():
    seeds = {
        derive_seed(*keys) for keys in [(1, 2), (2, 1), (12,), ("1", 2), (1, "2"), (1, 2, 0), ()]
    }
    assert len(seeds) == 7
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_another_process_draws_the_same_numbers():
    program = "from neurocontrast.seeds import derive_generator; print(derive_generator('views', 3, 1).integers(10**9))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == derive_generator("views", 3, 1).integers(10**9)


# Known answers of the authors' own library (Random123, kat_vectors: philox4x32, ten rounds).
PHILOX = [
    ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        (0xA4093822, 0x299F31D0),
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), PHILOX)
def test_philox_gives_the_published_words(counter, key, words):
    assert philox4x32(np.array(counter, dtype=np.uint64), key=key).tolist() == words


def test_uniforms_depend_on_keys_sample_and_place_alone():
    whole = derive_uniforms("views", 3, 1, samples=range(100), n_numbers=9)
    assert whole.shape == (100, 9)
    assert np.array_equal(
        whole[[70, 4]], derive_uniforms("views", 3, 1, samples=[70, 4], n_numbers=9)
    )
    assert np.array_equal(
        whole[:, :2], derive_uniforms("views", 3, 1, samples=range(100), n_numbers=2)
    )
    assert not np.isin(derive_uniforms("views", 1, 3, samples=range(100), n_numbers=9), whole).any()
    assert len(np.unique(whole)) == 900


def test_uniforms_of_large_sample_numbers_differ():
    drawn = derive_uniforms("a", samples=[0, 1, 2**32, 2**32 + 1, 2**63], n_numbers=4)
    assert len(np.unique(drawn)) == 20


def test_uniforms_are_uniform_and_unrelated():
    drawn = derive_uniforms("a", 0, samples=range(20000), n_numbers=6)
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    for column in drawn.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4
    correlation = np.corrcoef(np.column_stack([drawn[1:], drawn[:-1]]).T)
    assert np.abs(correlation[~np.eye(12, dtype=bool)]).max() < 0.04
