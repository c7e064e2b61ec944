import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional

from neurocontrast.encoders import EncoderSettings, ReadOut, build_encoder

VOLUMES = torch.rand(2, 1, 33, 40, 35, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["densenet_small", "lenet"])
@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 4, 3), (2, 1, 5)])
def test_features_of_blocks_are_means_over_the_cells_of_a_grid(name, grid):
    n_blocks = 4 if name == "densenet_small" else 3
    blocks = (n_blocks, 2)
    encoder = build_encoder(EncoderSettings(name=name, read_out=ReadOut(blocks=blocks, grid=grid))).eval()
    with torch.no_grad():
        found = encoder(VOLUMES)
        maps = encoder.features.of_blocks(VOLUMES, blocks)
    assert found.shape == (2, encoder.n_features)
    np.testing.assert_array_equal(maps[0].numpy(), encoder.features(VOLUMES).detach().numpy())
    # Cells that do not share a voxel are those of PyTorch's adaptive pooling.
    for each, start in zip(maps, (0, maps[0].shape[1] * np.prod(grid)), strict=True):
        if all(n % cells == 0 for n, cells in zip(each.shape[2:], grid, strict=True)):
            expected = functional.adaptive_avg_pool3d(each, grid).flatten(1)
            torch.testing.assert_close(found[:, start : start + expected.shape[1]], expected)


def test_a_voxel_that_two_cells_share_counts_in_both_by_its_part():
    encoder = build_encoder(EncoderSettings(name="lenet", read_out=ReadOut(grid=(2, 1, 1)))).eval()
    with torch.no_grad():
        maps = encoder.features(VOLUMES[:, :, :24])
        found = encoder(VOLUMES[:, :, :24]).reshape(2, 32, 2)
    assert maps.shape[2] == 3
    planes = maps.mean(dim=(3, 4))
    torch.testing.assert_close(found[..., 0], (planes[..., 0] + planes[..., 1] / 2) / 1.5)


def test_the_default_is_global_average_pooling_of_the_last_block():
    encoder = build_encoder(EncoderSettings(name="lenet")).eval()
    with torch.no_grad():
        torch.testing.assert_close(encoder(VOLUMES), encoder.features(VOLUMES).mean(dim=(2, 3, 4)), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "read_out", "message"),
    [
        ("lenet", {"blocks": (4,)}, "lenet has blocks 1 to 3, found 4"),
        ("resnet18", {"grid": (2, 2, 1)}, "nothing reads it with name: resnet18"),
    ],
)
def test_a_read_out_that_the_network_does_not_have_is_refused(name, read_out, message):
    with pytest.raises(ValidationError, match=message):
        EncoderSettings(name=name, read_out=read_out)
