import json
import shutil

import numpy as np
import pytest
import safetensors
import torch
from monai.networks.nets import DenseNet, DenseNet121
from small_run import Listening, read_json
from torch.nn import functional

import neurocontrast
from neurocontrast.cli import run as command
from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.encoders import EncoderSettings, build_encoder, load_encoder, save_encoder
from neurocontrast.exceptions import CheckpointError, ConfigError
from neurocontrast.files import digest_of_file

SMALL = {"data": {"spacing_mm": 5.0, "shape": [32, 40, 32], "channels": ["t1"]}}
VOLUMES = torch.rand(2, 1, 32, 40, 32, generator=torch.Generator().manual_seed(1))


def pooled(network, volumes):
    with torch.no_grad():
        return functional.relu(network.eval().features(volumes)).mean(dim=(2, 3, 4))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A MONAI DenseNet121, as a file."""
    path = tmp_path_factory.mktemp("weights") / "monai.pt"
    torch.manual_seed(0)
    torch.save(DenseNet121(spatial_dims=3, in_channels=1, out_channels=2).state_dict(), path)
    return path


@pytest.fixture(scope="module")
def imported(tmp_path_factory, checkpoint):
    out = tmp_path_factory.mktemp("imported") / "monai"
    return neurocontrast.import_weights(
        checkpoint, architecture="monai-densenet121", out=out, config=SMALL
    )


def test_imported_weights_are_embedded_with_as_a_run_is(imported, checkpoint, cohort, tmp_path):
    contract = read_json(imported / "encoder.json")
    assert contract["imported"]["sha256"] == digest_of_file(checkpoint)
    assert (contract["preprocessing"]["spacing_mm"], contract["preprocessing"]["shape"]) == (
        5.0,
        [32, 40, 32],
    )
    config = {"data": {"cache_dir": str(tmp_path)}}
    out = neurocontrast.embed(
        imported, participants=cohort, out=tmp_path / "e.parquet", config=config
    )
    read = read_embeddings(out)
    assert read.features.shape == (14, 1024)
    scans = [str(cohort.parent / path) for path in read.table["path"][:2]]
    assert np.allclose(ScanEmbedder(imported).fit().transform(scans), read.features[:2], atol=1e-5)


def test_what_is_known_of_the_authors_weights_is_written_beside_them(tmp_path, monkeypatch):
    encoder = build_encoder(EncoderSettings(final_norm=False))
    state = {
        name.replace("features.layers", "features"): each
        for name, each in encoder.state_dict().items()
    }
    torch.save(
        {name.replace(".layers.", "."): each for name, each in state.items()}, tmp_path / "w.pt"
    )
    out = neurocontrast.import_weights(
        tmp_path / "w.pt", architecture="yaware", out=tmp_path / "out"
    )
    contract = read_json(out / "encoder.json")
    assert contract["channels"] == ["gm"]
    prepared = contract["preprocessing"]
    assert (prepared["spacing_mm"], prepared["shape"], prepared["normalise"]) == (
        1.5,
        [121, 145, 121],
        "zscore",
    )
    assert contract["objective"]["loss"] == "yaware"
    assert not contract["encoder"]["final_norm"]
    assert "head" not in contract


def test_pretraining_continues_from_imported_weights(imported, cohort, cache, tmp_path):
    data = {
        "participants": str(cohort),
        "cache_dir": str(cache),
        "channels": None,
        "val_fraction": 0,
    }
    config = {
        "data": SMALL["data"] | data,
        "training": {"epochs": 0, "init": str(imported), "accelerator": "cpu"},
    }
    out = neurocontrast.pretrain(config, out=tmp_path / "run")
    assert all(
        map(torch.equal, load_encoder(imported)[0].parameters(), load_encoder(out)[0].parameters())
    )
    assert (
        read_json(out / "encoder.json")["init"]["imported"]["architecture"] == "monai-densenet121"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architecture": "monai_densenet121"}, r"Did you mean 'monai-densenet121'\?"),
        ({"config": {"data": {"channels": ["gm", "wm"]}}}, r"data\.channels: .* take 1 .* found 2"),
        ({"config": {"data": {"shape": [16, 16, 16]}}}, r"data\.shape: .* at least 32 voxels"),
        ({"config": {"data": {"kind": "images"}}}, r"data\.kind: these networks encode scans"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_leaves_nothing(checkpoint, tmp_path, changes, said):
    options = {"architecture": "monai-densenet121", "config": SMALL, **changes}
    with pytest.raises(ConfigError, match=said):
        neurocontrast.import_weights(checkpoint, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_weights_whose_preparation_nobody_knows_are_taken_with_a_warning(checkpoint, tmp_path):
    said = Listening()
    options = {"architecture": "monai-densenet121", "progress": said}
    neurocontrast.import_weights(checkpoint, out=tmp_path / "out", **options)
    assert any("files do not say how scans were prepared" in text for text in said.said)
    with pytest.raises(ConfigError, match="exists and is not an empty folder"):
        neurocontrast.import_weights(checkpoint, out=tmp_path / "out", **options)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_monai_s_module_loads_what_is_exported(tmp_path, suffix, final_norm):
    encoder = build_encoder(
        EncoderSettings(name="densenet_small", final_norm=final_norm), seed=3
    ).eval()
    samples = {"preprocessing": {"shape": [32, 40, 32]}}
    save_encoder(tmp_path / "run", encoder, EncoderDescription.model_validate(samples))
    file = neurocontrast.export_weights(tmp_path / "run", out=tmp_path / f"w.{suffix}")
    if suffix == "pt":
        state = torch.load(file, weights_only=True)
    else:
        state = safetensors.torch.load_file(file)
        with safetensors.safe_open(file, "pt") as opened:
            assert json.loads(opened.metadata()["preprocessing"]) == {"shape": [32, 40, 32]}
    network = DenseNet(3, 1, 2, init_features=32, growth_rate=16, block_config=(4, 5, 8, 6))
    missing, unexpected = network.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["class_layers.out.weight", "class_layers.out.bias"], [])
    with torch.no_grad():
        torch.testing.assert_close(pooled(network, VOLUMES), encoder(VOLUMES), rtol=1e-5, atol=1e-5)


def test_the_commands_end_with_2_and_one_message(imported, checkpoint, tmp_path, capsys):
    short = tmp_path / "short.pt"
    short.write_bytes(checkpoint.read_bytes()[:-5000])
    damaged = shutil.copytree(imported, tmp_path / "damaged")
    (damaged / "encoder.json").write_text("{")
    importing = ["weights", "import", "--architecture", "yaware", "--out", tmp_path / "o"]
    for arguments, said in (
        ([*importing, short], "not a readable file of weights"),
        ([*importing, tmp_path / "none.pt"], "there is no such file"),
        ([*importing, checkpoint], "tensors do not fit"),
        (
            ["weights", "export", imported, "--out", tmp_path / "w.onnx"],
            "must be a file that ends in .pt or",
        ),
        (["weights", "export", damaged, "--out", tmp_path / "w.pt"], "not readable as JSON"),
    ):
        assert command([str(argument) for argument in arguments]) == 2
        assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "short.pt"]
    good = [checkpoint, "--architecture", "monai-densenet121", "--out", tmp_path / "g", "--json"]
    assert command(list(map(str, ["weights", "import", *good]))) == 0
    assert json.loads(capsys.readouterr().out)["n_features"] == 1024
    with pytest.raises(CheckpointError, match="no projection head"):
        neurocontrast.encoders.load_model(tmp_path / "g")
