import json

import pytest
import safetensors.torch
import torch

from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.encoders import (
    EncoderSettings,
    build_encoder,
    build_model,
    load_encoder,
    load_model,
    save_encoder,
)
from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import digest_of_file

PREPROCESSING = {"shape": [8, 8, 8]}
CONTRACT = EncoderDescription.model_validate(
    {"preprocessing": PREPROCESSING, "batchnorm": {"n_scans": 4}}
)


@pytest.fixture
def saved(tmp_path):
    encoder = build_encoder(EncoderSettings(name="lenet"), seed=5)
    save_encoder(tmp_path, encoder, CONTRACT)
    return tmp_path, encoder


def test_loaded_encoder_is_the_saved_one_in_evaluation_mode(saved):
    folder, encoder = saved
    loaded, contract = load_encoder(folder)
    assert not loaded.training
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert contract.preprocessing.content() == PREPROCESSING
    assert contract.content()["batchnorm"] == {"n_scans": 4}
    assert contract.n_features == 32
    assert contract.encoder.name == "lenet"
    assert contract.sha256 == digest_of_file(folder / "encoder.safetensors")


def test_folder_without_encoder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"no encoder\.json there"):
        load_encoder(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(CheckpointError, match=r"not finished: continue it with --resume"):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not readable as JSON"),
        ("[]", "must hold a JSON object"),
        ('{"format": 9}', "format 9 is not known"),
        ('{"format": 1}', "lacks preprocessing, encoder, n_features, weights. Copy the run again"),
    ],
)
def test_damaged_description_is_refused(saved, content, problem):
    folder, _ = saved
    (folder / "encoder.json").write_text(content)
    with pytest.raises(CheckpointError, match=problem):
        load_encoder(folder)


@pytest.fixture
def with_head(tmp_path):
    settings = EncoderSettings(name="lenet5", projection=(16, 8), projection_norm="layers")
    model = build_model(settings, seed=5)
    model.encoder.set_standardisation([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])
    model(
        torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    )  # moves the running statistics
    save_encoder(tmp_path, model.encoder, CONTRACT, head=model.head)
    return tmp_path, model.eval()


def test_the_head_is_loaded_with_its_encoder_and_gives_the_same_embeddings(with_head):
    folder, model = with_head
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    loaded, contract = load_model(folder)
    assert not loaded.training
    assert torch.equal(loaded(images), model(images))
    assert contract.head.content() == {
        "file": "head.safetensors",
        "sha256": digest_of_file(folder / "head.safetensors"),
    }
    encoder, _ = load_encoder(folder)
    assert torch.equal(encoder(images), model.encoder(images))


def test_a_folder_without_head_says_what_can_be_embedded(saved):
    folder, encoder = saved
    with pytest.raises(
        CheckpointError, match=r"no projection head in this folder.*embedding\.layer: encoder"
    ):
        load_model(folder)
    assert load_encoder(folder)[0].settings == encoder.settings


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def describe(folder, section, **changes):
    """Change a section of what an encoder says of itself."""
    contract = json.loads((folder / "encoder.json").read_text())
    contract[section] |= changes
    (folder / "encoder.json").write_text(json.dumps(contract))


def another_head(folder):
    path = folder / "head.safetensors"
    safetensors.torch.save_file({"0.weight": torch.zeros(3, 84)}, path)
    describe(folder, "head", sha256=digest_of_file(path))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            lambda run: (run / "encoder.safetensors").unlink(),
            r"encoder\.safetensors: the weights are missing",
        ),
        (
            lambda run: flip_a_bit(run / "encoder.safetensors"),
            "SHA-256 is .* damaged or belongs to another run",
        ),
        (lambda run: describe(run, "encoder", name="transformer"), r"encoder\.name: .*densenet121"),
        (
            lambda run: (run / "head.safetensors").unlink(),
            r"head\.safetensors: the weights are missing",
        ),
        (
            lambda run: flip_a_bit(run / "head.safetensors"),
            r"head\.safetensors: SHA-256 is .* damaged or belongs",
        ),
        (
            another_head,
            r"head\.safetensors: the weights do not fit the network .*'1\.weight' is missing",
        ),
        (
            lambda run: describe(run, "head", file="../w"),
            r"'head\.file' must be a file in the same folder, .*'\.\./w'",
        ),
    ],
)
def test_a_damaged_encoder_or_head_is_refused(with_head, damage, problem):
    folder, _ = with_head
    damage(folder)
    with pytest.raises(CheckpointError, match=problem):
        load_model(folder)


def test_a_centre_input_of_earlier_versions_is_ignored_where_it_was_off(saved):
    folder, encoder = saved
    describe(folder, "encoder", centre_input=False)
    assert load_encoder(folder)[0].settings == encoder.settings
    describe(folder, "encoder", centre_input=True)
    with pytest.raises(CheckpointError, match=r"encoder\.centre_input: Input should be False"):
        load_encoder(folder)
