"""Encoders of natural images: the published networks, and colours that are standardised by the encoder itself."""

import pytest
import torch

from neurocontrast.encoders import EncoderSettings, ProjectionHead, build_encoder, check_shape
from neurocontrast.encoders.settings import NAMES_OF_DIMS
from neurocontrast.exceptions import ConfigError, DataError

NAMES = NAMES_OF_DIMS[2]
SMALL = ("resnet_small", "lenet5")


def build(name, **settings):
    return build_encoder(EncoderSettings(name=name, **settings))


def colours(n=4, side=32, seed=0):
    return torch.randint(
        0, 256, (n, 3, side, side), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8
    )


@pytest.mark.parametrize(
    ("name", "stem", "n_classes", "published", "maps"),
    [
        (
            "resnet18",
            "cifar",
            10,
            11_173_962,
            (512, 4, 4),
        ),  # the common PyTorch network for CIFAR-10
        ("resnet50", "cifar", 10, 23_520_842, (2048, 4, 4)),
        ("resnet18", "imagenet", 1000, 11_689_512, (512, 1, 1)),  # torchvision's
        ("resnet50", "imagenet", 1000, 25_557_032, (2048, 1, 1)),
    ],
)
def test_resnets_have_the_published_weights_and_maps(name, stem, n_classes, published, maps):
    with torch.device("meta"):
        encoder = build(name, stem=stem)
        images = torch.zeros(2, 3, 32, 32)
        assert encoder(images).shape == (2, encoder.n_features)
        assert encoder.features(images).shape == (2, *maps)
    classifier = (encoder.n_features + 1) * n_classes
    assert sum(each.numel() for each in encoder.parameters()) + classifier == published


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("shape", [(8, 8), (28, 28), (11, 40)])
def test_every_size_from_eight_pixels_is_encoded(name, shape):
    encoder = build(name).eval()
    check_shape(encoder, shape)
    made = encoder(torch.rand(2, 3, *shape, generator=torch.Generator().manual_seed(0)))
    assert made.shape == (2, encoder.n_features)
    assert made.isfinite().all()
    assert not torch.allclose(made[0], made[1])


@pytest.mark.parametrize("name", ["resnet_small", "lenet5"])
def test_bytes_are_the_colours_they_stand_for(name):
    encoder = build(name).eval()
    images = colours()
    encoder.set_standardisation([0.49, 0.48, 0.45], [0.25, 0.24, 0.26])
    assert torch.equal(encoder(images), encoder(images.float() / 255))
    assert torch.equal(encoder(images), encoder(images.double() / 255))


def test_colours_are_standardised_by_the_encoder():
    encoder = build("resnet_small").eval()
    images = colours().float() / 255
    plain = encoder(images)
    mean = images.mean(dim=(0, 2, 3))
    std = images.std(dim=(0, 2, 3))
    encoder.set_standardisation(mean.tolist(), std.tolist())
    seen = []
    encoder.features.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    standardised = encoder(images)
    torch.testing.assert_close(seen[0].mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen[0].std(dim=(0, 2, 3)), torch.ones(3), atol=1e-5, rtol=0)
    assert not torch.allclose(standardised, plain)
    encoder.set_standardisation([0, 0, 0], [1, 1, 1])
    assert torch.equal(encoder(images), plain)


def test_numbers_that_cannot_standardise_are_refused():
    encoder = build("lenet5")
    for mean, std in (
        ([0.5] * 3, [0.2, 0.0, 0.2]),
        ([0.5, 0.5, float("nan")], [0.2] * 3),
        ([0.5] * 2, [0.2] * 3),
    ):
        with pytest.raises(
            DataError, match=r"three finite means and three standard deviations above 0 are needed"
        ):
            encoder.set_standardisation(mean, std)
    assert torch.equal(encoder.std, torch.ones(3))


def test_encoder_of_another_kind_of_images_is_refused_with_those_there_are():
    with pytest.raises(
        ConfigError, match=r"'densenet_small' encodes volumes, and these are images, .*resnet18"
    ):
        check_shape(build("densenet_small"), (32, 32))
    with pytest.raises(ConfigError, match=r"'lenet5'.* needs at least 8 pixels .*images\.size"):
        check_shape(build("lenet5"), (8, 7))
    with pytest.raises(
        ConfigError, match=r"'lenet5' encodes images, and these are volumes, .*121, densenet_small"
    ):
        check_shape(build("lenet5"), (32, 32, 32))


@pytest.mark.parametrize("name", NAMES)
def test_every_norm_is_replaced_and_has_the_same_weights_by_name(name):
    with torch.device("meta"):
        batch = build(name)
        other = build(name, norm="group")
        assert other.features(torch.zeros(2, 3, 64, 64)).shape[1] == other.n_features
    n_norms = sum(isinstance(module, torch.nn.BatchNorm2d) for module in batch.modules())
    assert sum(isinstance(module, torch.nn.GroupNorm) for module in other.modules()) == n_norms > 0
    assert other.state_dict().keys() == dict(batch.named_parameters()).keys() | {"mean", "std"}


def test_the_head_of_simclr_is_normalised_after_each_layer_but_the_last():
    head = ProjectionHead(8, [6, 5, 4], norm="layers")
    assert [type(layer).__name__ for layer in head] == ["Linear", "BatchNorm1d", "ReLU"] * 2 + [
        "Linear"
    ]
    linear = [layer for layer in head if isinstance(layer, torch.nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(8, 6), (6, 5), (5, 4)]
    assert [layer.bias is None for layer in linear] == [
        True,
        True,
        False,
    ]  # normalisation would take a bias out
    made = head[1](head[0](torch.randn(64, 8, generator=torch.Generator().manual_seed(0))))
    torch.testing.assert_close(made.mean(dim=0), torch.zeros(6), atol=1e-4, rtol=0)
