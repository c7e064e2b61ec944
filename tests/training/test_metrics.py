import math

import pytest
import torch

from neurocontrast.training import alignment, effective_rank, uniformity
from neurocontrast.training.loop import _write_metrics


def test_alignment_is_the_mean_squared_distance_on_the_sphere():
    z1, z2 = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[3.0, 0.0], [0.0, -5.0]])
    assert alignment(z1, z2).item() == pytest.approx((0 + 4) / 2)


def test_uniformity_is_the_log_mean_potential_over_pairs():
    z = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    on_sphere = z / z.norm(dim=1, keepdim=True)
    pairs = [math.exp(-2 * (on_sphere[i] - on_sphere[j]).square().sum()) for i in range(7) for j in range(i)]
    assert uniformity(z).item() == pytest.approx(math.log(sum(pairs) / len(pairs)), abs=1e-5)


def test_effective_rank_counts_directions():
    corners = torch.cat([torch.eye(4), -torch.eye(4)])
    assert effective_rank(corners).item() == pytest.approx(4)
    assert effective_rank(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])).item() == pytest.approx(1)
    assert effective_rank(torch.ones(5, 3)).item() == pytest.approx(1)  # collapsed


def test_metrics_file_has_all_columns_all_digits_and_empty_cells(tmp_path):
    _write_metrics(tmp_path / "m.csv", [{"epoch": 1, "a": 0.1 + 0.2}, {"epoch": 2, "a": None, "b": 1.0}])
    assert (tmp_path / "m.csv").read_bytes() == b"epoch,a,b\n1,0.30000000000000004,\n2,,1.0\n"
