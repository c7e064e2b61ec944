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


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last_3d])
def test_the_layout_of_the_weights_changes_no_feature(layout):
    encoder = build_encoder(EncoderSettings(name="densenet_small", centre_input=True), n_channels=2).eval()
    volumes = torch.rand(2, 2, 33, 40, 35, generator=torch.Generator().manual_seed(0))
    encoder.set_centre(volumes[0])
    with torch.no_grad():
        expected = encoder(volumes)
        torch.testing.assert_close(encoder.to(memory_format=layout)(volumes), expected)


def test_it_is_off_by_default_and_a_run_without_it_has_no_such_tensor(whole):
    encoder, contract = load_encoder(whole)
    assert "centre" not in encoder.state_dict()
    assert "centre" not in contract


def test_weights_of_an_epoch_are_complete_and_a_killed_run_resumes_to_the_same_bytes(run, tmp_path):
    half, _ = load_encoder(run / "checkpoints/epoch-0001")
    torch.testing.assert_close(half.centre, load_encoder(run)[0].centre, rtol=0, atol=0)
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run/encoder.json").unlink()
    shutil.rmtree(tmp_path / "run/checkpoints/epoch-0002")
    neurocontrast.pretrain(None, out=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(run)


def test_untrained_networks_are_centred_too(run, tmp_path):
    untrained = neurocontrast.pretrain(load_config(run / "config.yaml", ["training.epochs=0"]), out=tmp_path / "run")
    torch.testing.assert_close(load_encoder(untrained)[0].centre, load_encoder(run)[0].centre, rtol=0, atol=0)


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


@pytest.mark.slow
def test_several_processes_find_the_same_mean(run, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    changes = ["training.devices=2", "training.epochs=1"]
    several = neurocontrast.pretrain(load_config(run / "config.yaml", changes), out=tmp_path / "several")
    torch.testing.assert_close(load_encoder(several)[0].centre, load_encoder(run)[0].centre, rtol=0, atol=0)
