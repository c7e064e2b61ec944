import pytest
import torch
from torch import nn

from neurocontrast.training.batchnorm import batch_statistics, reestimate_statistics


@pytest.fixture
def network():
    return nn.Sequential(nn.Conv3d(1, 2, 3), nn.BatchNorm3d(2, momentum=0.1), nn.ReLU(), nn.Dropout(0.5))


def batches():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 1, 6, 6, 6, generator=generator) + 3 for _ in range(3)]


def test_statistics_are_the_average_over_batches(network):
    record = reestimate_statistics(network, batches())
    maps = [network[0](batch) for batch in batches()]
    mean = torch.stack([m.mean(dim=(0, 2, 3, 4)) for m in maps]).mean(0)
    variance = torch.stack([m.var(dim=(0, 2, 3, 4)) for m in maps]).mean(0)
    torch.testing.assert_close(network[1].running_mean, mean)
    torch.testing.assert_close(network[1].running_var, variance)
    assert network[1].momentum == 0.1
    assert record == {
        "statistics": "cumulative average over un-augmented training samples",
        "n_layers": 1,
        "n_scans": 12,
        "n_batches": 3,
    }


def test_estimating_again_forgets_what_was_before(network):
    reestimate_statistics(network, batches())
    first = network[1].running_mean.clone()
    network.train()(100 + batches()[0])
    reestimate_statistics(network, batches())
    assert torch.equal(network[1].running_mean, first)


def test_without_batchnorm_nothing_is_read():
    def unread():
        raise AssertionError("read")
        yield

    assert reestimate_statistics(nn.Linear(2, 2), unread())["n_layers"] == 0


def test_batch_statistics_touch_no_running_ones_and_drop_nothing_out(network):
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    expected = network[2](nn.functional.batch_norm(network[0](batches()[0]), None, None, training=True))
    with batch_statistics(network):
        torch.testing.assert_close(network(batches()[0]), expected)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(module.training for module in network.modules())
    assert network[1].track_running_stats
