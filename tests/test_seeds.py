"""Randomness depends on its keys alone."""

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neurocontrast.seeds import derive_generator, derive_seed


@given(st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=3)), max_size=4))
def test_seed_is_a_63_bit_number_and_repeats(keys):
    seed = derive_seed(*keys)
    assert 0 <= seed < 2**63
    assert seed == derive_seed(*keys)


def test_every_key_and_its_order_and_type_matter():
    seeds = {derive_seed(*keys) for keys in [(1, 2), (2, 1), (12,), ("1", 2), (1, "2"), (1, 2, 0), ()]}
    assert len(seeds) == 7


def test_another_process_draws_the_same_numbers():
    program = "from neurocontrast.seeds import derive_generator; print(derive_generator('views', 3, 1).integers(10**9))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) == derive_generator("views", 3, 1).integers(10**9)


def test_neighbouring_keys_give_unrelated_streams():
    draws = np.stack([derive_generator("noise", sample).normal(size=2000) for sample in range(8)])
    correlation = np.corrcoef(draws)
    assert np.abs(correlation[~np.eye(8, dtype=bool)]).max() < 0.1
