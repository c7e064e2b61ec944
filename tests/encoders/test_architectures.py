import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from monai.networks.nets import DenseNet121
from torch.nn import functional

from neurocontrast.encoders import EncoderSettings, build_encoder
from neurocontrast.encoders.architectures import ARCHITECTURES, convert, read_state
from neurocontrast.exceptions import CheckpointError

sys.path.insert(0, str(Path(__file__).parent))
from foreign_networks import DenseNet, MedicalNet, randomised

VOLUMES = torch.rand(2, 1, 37, 40, 33, generator=torch.Generator().manual_seed(1))


def imported(path, name):
    return convert(read_state(path, ARCHITECTURES[name]), ARCHITECTURES[name], path=path)


def assert_same(model, network, volumes=VOLUMES, *, projected=False):
    """Assert that an imported model gives the features, and the embeddings, of its authors' network."""
    with torch.no_grad():
        torch.testing.assert_close(
            model.encoder(volumes), network.pooled(volumes), rtol=1e-5, atol=1e-5
        )
        if projected:
            torch.testing.assert_close(
                model(volumes), network.projected(volumes), rtol=1e-5, atol=1e-5
            )


@pytest.fixture(scope="module")
def authors():
    return randomised(DenseNet("encoder"))


def test_the_y_aware_authors_checkpoint_gives_their_features_and_embeddings(tmp_path):
    network = randomised(DenseNet("encoder"))
    assert sum(each.numel() for each in network.parameters()) == 11_831_040
    # As they save: with the prefix of several GPUs, and the state of the optimiser.
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
    network.projected(VOLUMES[:, :, :33, :33]).sum().backward()
    optimizer.step()
    state = {f"module.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.save(
        {"epoch": 99, "model": state, "optimizer": optimizer.state_dict()},
        tmp_path / "DenseNet121.pth",
    )
    model, left_out = imported(tmp_path / "DenseNet121.pth", "yaware")
    assert sum(each.numel() for each in model.parameters()) == 11_831_040
    assert not model.training
    assert left_out == []
    assert_same(model, network, projected=True)


def test_a_classifier_of_theirs_keeps_its_final_norm_and_loses_its_classifier(tmp_path):
    network = randomised(DenseNet("classifier"))
    torch.save(network.state_dict(), tmp_path / "classifier.pth")
    model, left_out = imported(tmp_path / "classifier.pth", "yaware")
    assert left_out == ["classifier.bias", "classifier.weight"]
    assert model.encoder.settings.final_norm
    assert not model.encoder.settings.projection
    assert_same(model, network)


def test_nidl_s_encoder_within_a_lightning_checkpoint(tmp_path):
    network = randomised(DenseNet("nidl", n_channels=2))
    state = {f"encoder.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.save(
        {"state_dict": {**state, "projection_head.layers.0.weight": torch.zeros(3)}},
        tmp_path / "last.ckpt",
    )
    model, left_out = imported(tmp_path / "last.ckpt", "nidl-densenet121")
    assert left_out == ["projection_head.layers.0.weight"]
    assert_same(model, network, VOLUMES.repeat(1, 2, 1, 1, 1), projected=True)


def test_monai_s_densenet_as_safetensors(tmp_path):
    network = randomised(DenseNet121(spatial_dims=3, in_channels=1, out_channels=2))
    safetensors.torch.save_file(network.state_dict(), tmp_path / "monai.safetensors")
    model, left_out = imported(tmp_path / "monai.safetensors", "monai-densenet121")
    assert left_out == ["class_layers.out.bias", "class_layers.out.weight"]
    with torch.no_grad():
        expected = functional.relu(network.features(VOLUMES)).mean(dim=(2, 3, 4))
        torch.testing.assert_close(model.encoder(VOLUMES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "depth",
    [
        10,
        pytest.param(18, marks=pytest.mark.slow),
        pytest.param(34, marks=pytest.mark.slow),
        50,
    ],
)
def test_medicalnet_s_resnets(tmp_path, depth):
    network = randomised(MedicalNet(depth))
    state = {f"module.{name}": tensor for name, tensor in network.state_dict().items()}
    state = {
        name: tensor for name, tensor in state.items() if "num_batches" not in name
    }  # PyTorch 0.4 had none
    torch.save({"state_dict": state, "optimizer": {}}, tmp_path / "resnet.pth")
    model, left_out = imported(tmp_path / "resnet.pth", f"medicalnet-resnet{depth}")
    assert {name.split(".")[1] for name in left_out} == {"conv_seg"}
    assert_same(model, network)


def test_everything_that_does_not_fit_is_listed_at_once(tmp_path, authors):
    state = dict(authors.state_dict())
    del state["features.norm0.bias"]
    state["features.extra"] = torch.zeros(2)
    state["features.conv0.weight"] = torch.zeros(64, 1, 3, 3, 3)
    state["features.transition1.norm.bias"] = torch.full((256,), torch.nan)
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(CheckpointError) as caught:
        imported(tmp_path / "w.pt", "yaware")
    message = str(caught.value)
    assert "4 tensors do not fit" in message
    assert "'features.norm0.bias' is missing" in message
    assert "'features.extra' is unknown." in message
    assert (
        "'features.conv0.weight' has shape [64, 1, 3, 3, 3], the network needs [64, 1, 7, 7, 7]"
        in message
    )
    assert "'features.transition1.norm.bias' has values that are not finite" in message


def test_weights_of_another_network_are_refused(tmp_path, authors):
    torch.save(authors.state_dict(), tmp_path / "w.pt")
    with pytest.raises(
        CheckpointError,
        match=r"no tensor is named 'layer1\.0\.conv1\.weight'.*Found: features\.conv0",
    ):
        imported(tmp_path / "w.pt", "medicalnet-resnet10")
    with pytest.raises(
        CheckpointError, match=r"(?s)not the weights of MONAI's DenseNet121; \d+ tensors.*\d more$"
    ):
        imported(tmp_path / "w.pt", "monai-densenet121")
    torch.save(MedicalNet(10).state_dict(), tmp_path / "r.pt")
    with pytest.raises(CheckpointError, match=r"'layer1\.1\.conv1\.weight' is missing"):
        imported(tmp_path / "r.pt", "medicalnet-resnet18")


class Planted:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("in_zip", [True, False])
def test_code_in_a_file_is_refused_and_never_run(tmp_path, in_zip):
    content = {
        "model": {"features.conv0.weight": torch.zeros(1)},
        "trap": Planted(tmp_path / "was-run"),
    }
    torch.save(content, tmp_path / "evil.pth", _use_new_zipfile_serialization=in_zip)
    with pytest.raises(
        CheckpointError, match=r"more than tensors, numbers and text.*nothing of it was run"
    ):
        imported(tmp_path / "evil.pth", "yaware")
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("name", ["zip.pth", "old.pth", "w.safetensors", "empty.pth", "text.pth"])
def test_a_file_that_is_cut_short_or_none_is_refused(tmp_path, name):
    path = tmp_path / name
    state = {"features.conv0.weight": torch.zeros(64, 1, 7, 7, 7)}
    if name == "w.safetensors":
        safetensors.torch.save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=name == "zip.pth")
    content = {"empty.pth": b"", "text.pth": b"hello"}.get(name, path.read_bytes()[:-2000])
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"not a readable (file of weights|safetensors file)"):
        imported(path, "yaware")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([torch.zeros(2)], r"no tensor is named .*Found: list"),
        (
            {"a": {"features.conv0.weight": 1}, "b": {"x.features.conv0.weight": 2}},
            r"several state dicts \(a, b\)",
        ),
        (
            {f"{key}.features.conv0.weight": torch.zeros(1) for key in "qk"},
            r"several networks \(q\.features\.conv0\.",
        ),
    ],
)
def test_what_is_not_one_state_dict_is_refused(tmp_path, content, said):
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=said):
        imported(tmp_path / "w.pt", "yaware")


def test_a_3d_resnet_reads_out_its_stages_and_takes_its_smallest_shape():
    settings = EncoderSettings(
        name="resnet10_3d", norm="group", read_out={"blocks": (2, 4), "grid": (1, 2, 1)}
    )
    encoder = build_encoder(settings, n_channels=2)
    shape = [encoder.smallest_shape] * 3
    assert (
        encoder(torch.rand(2, 2, *shape)).shape == (2, (128 + 512) * 2) == (2, encoder.n_features)
    )
