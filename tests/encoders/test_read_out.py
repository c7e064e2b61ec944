import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional

from neurocontrast.encoders import EncoderSettings, ReadOut, build_encoder

VOLUMES = torch.rand(2, 1, 33, 40, 35, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["densenet_small", "lenet"])
@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 4, 3), (2, 1, 5)])
def test_features_of_blocks_are_means_over_the_cells_of_a_grid_that_share_voxels_by_their_parts(name, grid):
    blocks = (4 if name == "densenet_small" else 3, 2)
    encoder = build_encoder(EncoderSettings(name=name, read_out=ReadOut(blocks=blocks, grid=grid))).eval()
    with torch.no_grad():
        found, maps = encoder(VOLUMES), encoder.features.of_blocks(VOLUMES, blocks)
        assert torch.equal(maps[0], encoder.features(VOLUMES))
    # Of voxels cut into as many parts as an axis has cells, no part is shared: PyTorch's pooling tells the means.
    for axis, n_cells in enumerate(grid, start=2):
        maps = [each.repeat_interleave(n_cells, dim=axis) for each in maps]
    expected = torch.cat([functional.adaptive_avg_pool3d(each, grid).flatten(1) for each in maps], dim=1)
    torch.testing.assert_close(found, expected)
    assert found.shape == (2, encoder.n_features)


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
