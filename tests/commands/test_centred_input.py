"""`encoder.centre_input`: the mean volume of the training scans, taken from every volume by the network itself."""

import shutil

import numpy as np
import pytest
import torch
from small_run import weights

import neurocontrast
from neurocontrast.config import load_config
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.data.cohort import split_by_subject
from neurocontrast.encoders import EncoderSettings, build_encoder, load_encoder
from neurocontrast.exceptions import CheckpointError, ConfigError
from neurocontrast.transforms import brain_transforms


@pytest.fixture(scope="module")
def run(whole, tmp_path_factory):
    config = load_config(whole / "config.yaml", ["encoder.centre_input=true"])
    return neurocontrast.pretrain(config, out=tmp_path_factory.mktemp("runs") / "centred")


def test_the_mean_of_the_training_scans_alone_travels_with_the_weights(run, cohort):
    encoder, contract = load_encoder(run)
    table = read_cohort(cohort)
    rows, others = split_by_subject(table, 0.3, 0)
    images = CohortDataset(table, brain_transforms(spacing_mm=10.0, shape=(16, 20, 16)))
    volumes = np.stack([np.asarray(item["image"]) for item in images])
    assert len(others)
    np.testing.assert_allclose(encoder.centre[0].numpy(), volumes[rows].mean(axis=0), atol=2e-3)  # cached in float16
    assert contract["centre"] == {"shape": [16, 20, 16], "n_scans": len(rows)}


def test_a_network_sees_deviations_from_its_centre():
    volumes = torch.rand(3, 2, 16, 20, 16, generator=torch.Generator().manual_seed(0))
    plain = build_encoder(EncoderSettings(name="lenet"), n_channels=2).eval()
    centred = build_encoder(EncoderSettings(name="lenet", centre_input=True), n_channels=2).eval()
    mean = volumes.mean(dim=0)
    centred.set_centre(mean)
    with torch.no_grad():
        torch.testing.assert_close(centred(volumes), plain(volumes - mean), rtol=0, atol=0)


def test_weights_of_an_epoch_are_complete_and_a_killed_run_resumes_to_the_same_bytes(run, tmp_path):
    half, _ = load_encoder(run / "checkpoints/epoch-0001")
    torch.testing.assert_close(half.centre, load_encoder(run)[0].centre, rtol=0, atol=0)
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run/encoder.json").unlink()
    shutil.rmtree(tmp_path / "run/checkpoints/epoch-0002")
    neurocontrast.pretrain(None, out=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(run)


def test_a_run_cannot_continue_with_another_input(whole, run):
    with pytest.raises(CheckpointError, match=r"encoder\.centre_input: was false, is true"):
        neurocontrast.pretrain(load_config(run / "config.yaml"), out=whole, resume=True)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pca", "pca centres its input by itself"),
        ("lda", "lda centres its input by itself"),
        ("resnet18", "resnet18 is given standardised colours"),
    ],
)
def test_encoders_that_would_not_read_it_refuse_it(name, why):
    with pytest.raises(ConfigError, match=rf"centre_input belongs to networks of volumes, and {why}"):
        load_config(None, [f"encoder={{name: {name}, centre_input: true}}"])
