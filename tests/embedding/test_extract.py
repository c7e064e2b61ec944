import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity
from torch.utils.data import Subset

from neurocontrast.embedding import EmbeddingSettings, extract_features
from neurocontrast.embedding.extract import FinishedBatches
from neurocontrast.encoders import EncoderSettings, build_encoder, build_model
from neurocontrast.exceptions import ConfigError
from tests.training.tiny import Images, Pictures


def samples_of(images):
    return torch.stack([images[row]["image"] for row in range(len(images))])


@pytest.fixture
def encoder():
    return build_encoder(EncoderSettings(name="lenet"))


def test_features_are_the_encoder_s_in_the_order_of_the_scans(encoder):
    images = Images()
    features = extract_features(
        encoder, images, settings=EmbeddingSettings(batch_size=3), n_readers=2
    )
    assert features.shape == (len(images), 32)
    assert features.dtype == np.float32
    with torch.no_grad():
        expected = encoder.eval()(samples_of(images)).numpy()
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)


def test_features_do_not_depend_on_the_batch(encoder):
    images = Images()
    alone = extract_features(encoder.train(), images, settings=EmbeddingSettings(batch_size=1))
    together = extract_features(
        encoder.train(), images, settings=EmbeddingSettings(batch_size=len(images))
    )
    np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-6)


def test_weights_lie_as_before_afterwards(encoder):
    before = {name: (value.clone(), value.stride()) for name, value in encoder.state_dict().items()}
    extract_features(encoder, Images())
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, before[name][0])
        assert value.stride() == before[name][1]
    encoder(samples_of(Images())).sum().backward()  # and can be trained on


def test_bfloat16_is_an_option_and_not_the_default():
    encoder = build_encoder(EncoderSettings(name="densenet_small"))
    images = Subset(Images(side=32), range(2))
    exact, default, half = (
        torch.from_numpy(extract_features(encoder, images, settings=EmbeddingSettings(**how)))
        for how in ({"precision": "32-true"}, {}, {"precision": "bf16-mixed"})
    )
    assert torch.equal(exact, default)
    assert cosine_similarity(exact, half).min() > 0.98
    assert cosine_similarity(exact - exact.mean(0), half - exact.mean(0)).min() < 0.9999


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_absent_gpu_is_refused(encoder):
    with pytest.raises(ConfigError, match=r"embedding\.accelerator: 'cuda' asked for"):
        extract_features(encoder, Images(), settings=EmbeddingSettings(accelerator="cuda"))


@pytest.mark.parametrize("name", ["resnet_small", "lenet5"])
def test_pictures_in_bytes_are_embedded_as_volumes_are(name):
    encoder = build_encoder(EncoderSettings(name=name))
    images = Pictures()
    encoder.set_standardisation([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])
    strides = {key: value.stride() for key, value in encoder.state_dict().items()}
    features = extract_features(
        encoder, images, settings=EmbeddingSettings(batch_size=2), n_readers=2
    )
    assert {key: value.stride() for key, value in encoder.state_dict().items()} == strides
    with torch.no_grad():
        np.testing.assert_allclose(
            features, encoder(samples_of(images)).numpy(), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(("name", "images"), [("lenet", Images()), ("lenet5", Pictures())])
def test_embeddings_after_the_head_are_what_the_loss_saw(name, images):
    model = build_model(EncoderSettings(name=name, projection=(16, 6)))
    made = extract_features(model, images, settings=EmbeddingSettings(batch_size=2))
    assert made.shape == (len(images), 6)
    with torch.no_grad():
        np.testing.assert_allclose(made, model(samples_of(images)).numpy(), rtol=1e-4, atol=1e-5)


FEATURES = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)


@pytest.fixture
def target(tmp_path):
    for first in (0, 4):
        FinishedBatches(tmp_path / "e.parquet", "a" * 32).add(first, FEATURES[first : first + 4])
    return tmp_path / "e.parquet"


def read(target, key="a" * 32):
    features = np.zeros_like(FEATURES)
    finished = FinishedBatches(target, key)
    return [
        first for first in (0, 4, 8) if finished.read_into(features[first : first + 4], first)
    ], features


def test_batches_of_all_calls_are_found_but_those_that_are_not_finite_or_not_whole(target):
    FinishedBatches(target, "a" * 32).add(8, FEATURES[8:] * np.float32("nan"))
    next(target.parent.glob(".*")).joinpath(".tmp-8.npy").write_bytes(b"half")
    there, features = read(target)
    assert there == [0, 4]
    np.testing.assert_array_equal(features[:8], FEATURES[:8])
    np.testing.assert_array_equal(features[8:], 0)


def test_batches_of_another_key_are_not_used_and_go_with_the_others(target):
    assert read(target, "b" * 32)[0] == []
    FinishedBatches(target, "b" * 32).remove()
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", None])
def test_a_damaged_batch_is_computed_again(target, content):
    file = next(target.parent.glob(".*")) / "4.npy"
    file.write_bytes(file.read_bytes()[:-1] if content is None else content)
    there, features = read(target)
    assert there == [0]
    np.testing.assert_array_equal(features[4:], 0)
