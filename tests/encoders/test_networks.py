"""Every network by name: built from the list, of the dimensions, blocks and norm that its settings promise."""

import pytest
import torch

from neurocontrast.encoders import EncoderSettings, build_encoder
from neurocontrast.encoders.networks import NETWORKS
from neurocontrast.encoders.settings import N_BLOCKS, NAMES_OF_DIMS

NAMES = sorted(set().union(*NAMES_OF_DIMS.values()) - {"pca", "lda"})


def test_the_list_has_the_names_that_a_configuration_may_have():
    assert sorted(NETWORKS) == NAMES, "add the name to encoders/settings.py, or to NETWORKS"
    assert set(N_BLOCKS) <= set(NAMES_OF_DIMS[3])


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_as_its_settings_say(name):
    n_channels = 3 if name in NAMES_OF_DIMS[2] else 2
    with torch.device("meta"):  # shapes without arithmetic: the large networks take no time
        encoder = build_encoder(EncoderSettings(name=name, norm="group"), n_channels=n_channels)
        samples = torch.zeros(2, n_channels, *[encoder.smallest_shape] * encoder.n_dims)
        features = encoder(samples)
    assert name in NAMES_OF_DIMS[encoder.n_dims]
    assert features.shape == (2, encoder.n_features)
    assert not any("BatchNorm" in type(module).__name__ for module in encoder.modules())
    n_blocks = len(encoder.features.blocks)
    assert n_blocks == N_BLOCKS.get(name, 0), "N_BLOCKS of encoders/settings.py: number of blocks"
    if n_blocks:
        maps = encoder.features.of_blocks(samples, range(1, n_blocks + 1))
        n_maps = [of_block.shape[1] for of_block in maps]
        assert n_maps == list(encoder.features.blocks.values())
        assert n_maps[-1] == encoder.features.n_features
