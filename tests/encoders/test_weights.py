import json

import pytest
import safetensors.torch
import torch

from neurocontrast.encoders import EncoderSettings, build_encoder, load_encoder, save_encoder
from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import digest_of_file

CONTRACT = {"preprocessing": {"shape": [8, 8, 8]}, "batchnorm": {"n_scans": 4}}


@pytest.fixture
def saved(tmp_path):
    encoder = build_encoder(EncoderSettings(name="lenet"), seed=5)
    save_encoder(tmp_path, encoder, CONTRACT)
    return tmp_path, encoder


def rewrite(folder, change):
    """Change the tensors, and the digest with them, as another program would."""
    tensors = safetensors.torch.load_file(folder / "encoder.safetensors")
    change(tensors)
    safetensors.torch.save_file(tensors, folder / "encoder.safetensors")
    contract = json.loads((folder / "encoder.json").read_text())
    contract["weights"]["sha256"] = digest_of_file(folder / "encoder.safetensors")
    (folder / "encoder.json").write_text(json.dumps(contract))


def test_loaded_encoder_is_the_saved_one_in_evaluation_mode(saved):
    folder, encoder = saved
    loaded, contract = load_encoder(folder)
    assert not loaded.training
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert contract["preprocessing"] == CONTRACT["preprocessing"]
    assert contract["n_features"] == 32
    assert contract["encoder"]["name"] == "lenet"
    assert contract["weights"]["sha256"] == digest_of_file(folder / "encoder.safetensors")


def test_equal_weights_give_equal_bytes(saved, tmp_path):
    folder, encoder = saved
    save_encoder(tmp_path / "again", encoder, CONTRACT)
    assert (tmp_path / "again/encoder.safetensors").read_bytes() == (folder / "encoder.safetensors").read_bytes()


def test_folder_without_encoder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"no encoder\.json there"):
        load_encoder(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(CheckpointError, match=r"not finished: continue it with --resume"):
        load_encoder(tmp_path)


def test_changed_weights_are_refused_by_digest(saved):
    folder, _ = saved
    content = bytearray((folder / "encoder.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "encoder.safetensors").write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"SHA-256 is .* damaged or belongs to another run"):
        load_encoder(folder)


def test_every_tensor_that_does_not_fit_is_named(saved):
    folder, _ = saved

    def change(tensors):
        tensors["features.layers.0.weigth"] = tensors.pop("features.layers.0.weight")
        tensors["features.layers.1.bias"] = torch.zeros(3)

    rewrite(folder, change)
    with pytest.raises(CheckpointError) as caught:
        load_encoder(folder)
    message = str(caught.value)
    assert "'features.layers.0.weight' is missing" in message
    assert "'features.layers.0.weigth' is unknown. Did you mean 'features.layers.0.weight'?" in message
    assert "'features.layers.1.bias' has shape [3], the network needs [8]" in message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not a readable encoder description"),
        ("[]", "not a readable encoder description"),
        ('{"format": 9}', "format 9 is not known"),
        ('{"format": 1}', "lacks encoder, n_features, weights, preprocessing"),
    ],
)
def test_damaged_description_is_refused(saved, content, problem):
    folder, _ = saved
    (folder / "encoder.json").write_text(content)
    with pytest.raises(CheckpointError, match=problem):
        load_encoder(folder)


def test_unknown_encoder_settings_are_refused(saved):
    folder, _ = saved
    contract = json.loads((folder / "encoder.json").read_text())
    contract["encoder"]["name"] = "transformer"
    (folder / "encoder.json").write_text(json.dumps(contract))
    with pytest.raises(CheckpointError, match=r"encoder\.name: .*densenet121"):
        load_encoder(folder)


def test_missing_weights_are_named(saved):
    folder, _ = saved
    (folder / "encoder.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"encoder\.safetensors: the weights are missing"):
        load_encoder(folder)


def test_norm_travels_with_the_weights(tmp_path):
    volumes = torch.randn(2, 1, 16, 16, 16, generator=torch.Generator().manual_seed(0))
    encoder = build_encoder(EncoderSettings(name="lenet", norm="group"), seed=5)
    save_encoder(tmp_path, encoder, CONTRACT)
    loaded, contract = load_encoder(tmp_path)
    assert contract["encoder"]["norm"] == "group"
    assert torch.equal(loaded(volumes), encoder(volumes))


def test_description_from_before_there_were_norms_is_read_as_batch(saved):
    folder, encoder = saved
    contract = json.loads((folder / "encoder.json").read_text())
    del contract["encoder"]["norm"]
    (folder / "encoder.json").write_text(json.dumps(contract))
    loaded, _ = load_encoder(folder)
    assert loaded.settings == encoder.settings
    assert loaded.settings.norm == "batch"
