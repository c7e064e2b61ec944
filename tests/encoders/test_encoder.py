import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional

from neurocontrast.encoders import (
    EncoderSettings,
    ProjectionHead,
    ReadOut,
    build_encoder,
    build_model,
    check_shape,
)
from neurocontrast.exceptions import ConfigError

LENET = EncoderSettings(name="lenet", projection=(16, 8))
SCANS = torch.rand(2, 1, 33, 40, 35, generator=torch.Generator().manual_seed(0))


def test_densenet121_gives_1024_features_and_a_128_embedding():
    model = build_model(EncoderSettings())
    volumes = torch.randn(2, 1, 32, 36, 32)
    assert model.encoder(volumes).shape == (2, 1024)
    assert model(volumes).shape == (2, 128)
    n_parameters = sum(p.numel() for p in model.encoder.parameters())
    assert (
        n_parameters == 11_242_624
    )  # blocks of 6, 12, 24, 16; growth 32; 64 first features; no classifier


def test_weights_depend_on_the_seed_alone_and_leave_the_global_state():
    torch.manual_seed(1)
    first = build_model(LENET, seed=3).state_dict()
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(1))
    second = build_model(LENET, seed=3).state_dict()
    other = build_model(LENET, seed=4).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["head.1.weight"], other["head.1.weight"])
    assert not torch.equal(
        first["encoder.features.layers.0.weight"], other["encoder.features.layers.0.weight"]
    )


def test_shape_below_the_networks_halvings_is_refused():
    encoder = build_encoder(LENET)
    check_shape(encoder, (8, 9, 8))
    with pytest.raises(
        ConfigError, match=r"data\.shape: encoder 'lenet' needs at least 8 voxels .* \[8, 7, 8\]"
    ):
        check_shape(encoder, (8, 7, 8))


def test_the_head_sees_standardised_features_unless_told_otherwise():
    features = 5.0 + 0.01 * torch.randn(16, 10, generator=torch.Generator().manual_seed(0))
    heads = {norm: ProjectionHead(10, [16, 8], norm=norm) for norm in ("batch", "none")}
    similarity = {}
    for norm, head in heads.items():
        z = functional.normalize(head(features), dim=1)
        similarity[norm] = float((z @ z.T).mean())
    assert similarity["none"] > 0.99  # everybody looks the same
    assert similarity["batch"] < 0.7
    assert [type(layer).__name__ for layer in heads["none"]] == ["Linear", "ReLU", "Linear"]
    assert not list(heads["batch"][0].parameters())


@pytest.mark.parametrize(("name", "side"), [("densenet_small", 32), ("lenet", 16)])
def test_the_norm_of_one_volume_makes_features_independent_of_the_others(name, side):
    encoder = build_encoder(EncoderSettings(name=name, norm="group"))
    assert not any("BatchNorm" in type(module).__name__ for module in encoder.modules())
    volumes = torch.randn(2, 1, side, side, side, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(encoder(volumes)[:1], encoder(volumes[:1]), rtol=1e-4, atol=1e-5)
        batch = build_encoder(EncoderSettings(name="lenet"))
        assert not torch.allclose(batch(volumes)[:1], batch(volumes[:1]), rtol=1e-2)


@pytest.mark.parametrize("name", ["densenet_small", "lenet"])
@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 4, 3), (2, 1, 5)])
def test_features_of_blocks_are_means_over_the_cells_of_a_grid_that_share_voxels_by_their_parts(
    name, grid
):
    blocks = (4 if name == "densenet_small" else 3, 2)
    encoder = build_encoder(
        EncoderSettings(name=name, read_out=ReadOut(blocks=blocks, grid=grid))
    ).eval()
    with torch.no_grad():
        found = encoder(SCANS)
        maps = encoder.features.of_blocks(SCANS, blocks)
        assert torch.equal(maps[0], encoder.features(SCANS))
    # Of voxels cut into as many parts as an axis has cells, no part is shared: PyTorch's pooling
    # tells the means.
    for axis, n_cells in enumerate(grid, start=2):
        maps = [each.repeat_interleave(n_cells, dim=axis) for each in maps]
    expected = torch.cat(
        [functional.adaptive_avg_pool3d(each, grid).flatten(1) for each in maps], dim=1
    )
    torch.testing.assert_close(found, expected)
    assert found.shape == (2, encoder.n_features)


def test_the_default_is_global_average_pooling_of_the_last_block():
    encoder = build_encoder(EncoderSettings(name="lenet")).eval()
    with torch.no_grad():
        torch.testing.assert_close(
            encoder(SCANS), encoder.features(SCANS).mean(dim=(2, 3, 4)), rtol=0, atol=0
        )


def test_a_read_out_that_the_network_does_not_have_is_refused():
    with pytest.raises(ValidationError, match="lenet has blocks 1 to 3, found 4"):
        EncoderSettings(name="lenet", read_out={"blocks": (4,)})
    with pytest.raises(ValidationError, match="nothing reads it with name: resnet18"):
        EncoderSettings(name="resnet18", read_out={"grid": (2, 2, 1)})
