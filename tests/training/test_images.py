"""Training sees no difference between volumes and images of two dimensions."""

import pytest
import torch
from tiny import Pictures, assert_resumes, data, run, views_of_pictures

from neurocontrast.encoders import EncoderSettings, build_model

ENCODER = EncoderSettings(name="resnet_small", projection=(16, 8), projection_norm="layers")
OF_PICTURES = {"encoder": ENCODER, "made_views": views_of_pictures}


def given(**changes):
    return data(images=Pictures(), **changes)


def pictures(rows):
    return torch.stack([Pictures()[row]["image"] for row in rows])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of one batch an epoch, so that re-estimated statistics are those of all training pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    model, result = run(folder, given=given(), batch_size=10, probe_every=1, **OF_PICTURES)
    return folder, model, result


def test_statistics_of_encoder_and_head_are_those_of_unaugmented_pictures(trained):
    _, model, result = trained
    encoder, head = model.encoder, model.head
    n_layers = sum(isinstance(module, torch.nn.BatchNorm2d) for module in encoder.modules())
    assert result.batchnorm == {**result.batchnorm, "n_layers": n_layers, "n_scans": 10, "n_batches": 1}
    with torch.no_grad():
        first = encoder.features.layers.conv1(pictures(range(10)).float() / 255)
        torch.testing.assert_close(encoder.features.layers.bn1.running_mean, first.mean(dim=(0, 2, 3)))
        still = build_model(ENCODER)
        still.load_state_dict(model.state_dict())
        hidden = still.head[0](still.train().encoder(pictures(range(10))))
        torch.testing.assert_close(head[1].running_mean, hidden.mean(dim=0), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(head[1].running_var, hidden.var(dim=0), rtol=1e-4, atol=1e-5)


def test_a_resumed_run_of_pictures_is_the_uninterrupted_one(tmp_path):
    assert_resumes(tmp_path, 5, given=given(), epochs=2, **OF_PICTURES)
