import pytest
import torch
from torch import nn

from neurocontrast.training.batchnorm import batch_statistics


@pytest.fixture
def network():
    return nn.Sequential(nn.Conv3d(1, 2, 3), nn.BatchNorm3d(2, momentum=0.1), nn.ReLU(), nn.Dropout(0.5))


def batches():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 1, 6, 6, 6, generator=generator) + 3 for _ in range(3)]


def test_batch_statistics_touch_no_running_ones_and_drop_nothing_out(network):
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    expected = network[2](nn.functional.batch_norm(network[0](batches()[0]), None, None, training=True))
    with batch_statistics(network):
        torch.testing.assert_close(network(batches()[0]), expected)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(module.training for module in network.modules())
    assert network[1].track_running_stats
