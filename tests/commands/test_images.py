"""Pretraining and embedding of natural images: the road of the volumes, with what images need kept beside it."""

import shutil

import numpy as np
import pytest
import torch
from small_run import changed_run, metrics, read_json

import neurocontrast
from neurocontrast.config import load_config
from neurocontrast.data import read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.natural import ImageDataset

SIZES = {"n_train": 40, "n_validation": 10, "n_test": 10}
TINY = (
    "data.kind=images",
    "data.where={split: [train, validation]}",
    "data.val_fraction=0.2",
    "augment={crop: {scale: [0.5, 1]}}",
    "encoder={name: lenet5, projection: [8, 4]}",
    "training={epochs: 2, batch_size: 16, learning_rate: 1e-2, accelerator: cpu, probe_every: 1}",
)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return neurocontrast.prepare_images(
        tmp_path_factory.mktemp("digits") / "d", background="random", **SIZES
    )


@pytest.fixture(scope="module")
def settings(digits):
    return lambda *overrides: load_config(None, [f"data.participants={digits}", *TINY, *overrides])


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    return neurocontrast.pretrain(settings(), out=tmp_path_factory.mktemp("runs") / "run")


def pixels_of(table):
    images = ImageDataset(read_cohort(table))
    return np.stack([images[row]["image"].numpy() for row in range(len(images))])


def test_colours_are_standardised_by_the_images_of_training_alone(run, digits):
    encoder, contract = load_encoder(run)
    contract = contract.content()
    own = contract["preprocessing"]
    assert (own["kind"], own["standardise"], own["shape"]) == ("images", "channels", [3, 8, 8])
    table = read_cohort(digits).select({"split": ["train", "validation"]})
    training, _ = neurocontrast.data.cohort.split_by_subject(table, 0.2, 0)
    assert contract["n_training_scans"] == len(training) == 40
    rows = (
        pixels_of(digits)[
            [int(path.rpartition("#")[2]) for path in table.table["path"].iloc[training]]
        ]
        / 255
    )
    np.testing.assert_allclose(own["mean"], rows.mean(axis=(0, 2, 3)), rtol=1e-9)
    np.testing.assert_allclose(own["std"], rows.std(axis=(0, 2, 3)), rtol=1e-9)
    np.testing.assert_array_equal(encoder.mean.numpy(), np.float32(own["mean"]))
    np.testing.assert_array_equal(encoder.std.numpy(), np.float32(own["std"]))
    assert read_json(run / "provenance.json")["preprocessing"] == own


def test_a_run_says_what_it_was_made_from_and_its_configuration_is_read_back_equal(run, settings):
    assert load_config(run / "config.yaml") == settings()
    provenance = read_json(run / "provenance.json")
    assert list(provenance["stores"].values()) == ["images.npy"]
    assert (provenance["cohort"]["n_scans"], len(provenance["pretraining_subjects"])) == (50, 50)


def test_embeddings_are_the_encoder_s_features_of_the_images(run, digits, tmp_path):
    read = read_embeddings(
        neurocontrast.embed(run, participants=digits, out=tmp_path / "e.parquet")
    )
    with torch.no_grad():
        features = load_encoder(run)[0](torch.from_numpy(pixels_of(digits))).numpy()
    np.testing.assert_allclose(read.features, features, rtol=1e-4, atol=1e-5)
    assert read.info.run.preprocessing.kind == "images"
    assert {"split", "label", "background_red"} <= set(read.table)
    seen = read_json(run / "provenance.json")["pretraining_subjects"]
    assert read.info.pretraining_subjects == seen


def test_a_run_does_not_continue_on_other_images_or_another_table(settings, run, digits, tmp_path):
    out = shutil.copytree(run, tmp_path / "run")
    other = tmp_path / "other" / digits.name
    shutil.copytree(digits.parent, other.parent)
    content = (other.parent / "images.npy").read_bytes()
    (other.parent / "images.npy").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # one pixel
    before = sorted((path, path.stat().st_mtime_ns) for path in out.rglob("*"))
    longer = settings("training.epochs=3", f"data.participants={other}")
    with pytest.raises(CheckpointError, match=r"images\.npy holds other images than when it began"):
        neurocontrast.pretrain(longer, out=out, resume=True)
    lines = other.read_text().splitlines()
    other.write_text(
        "\n".join([*lines[:5], lines[5].rpartition("\t")[0] + "\tdigit 9", *lines[6:]])
    )
    with pytest.raises(CheckpointError, match="cohort: was"):
        neurocontrast.pretrain(longer, out=out, resume=True)
    assert sorted((path, path.stat().st_mtime_ns) for path in out.rglob("*")) == before


def test_a_moved_data_set_continues_and_a_lost_or_cut_store_is_named(
    settings, run, digits, tmp_path
):
    out = shutil.copytree(run, tmp_path / "run")
    moved = shutil.copytree(digits.parent, tmp_path / "moved")
    here = f"data.participants={moved / 'participants.tsv'}"
    neurocontrast.pretrain(settings("training.epochs=3", here), out=out, resume=True)
    assert len(metrics(out)) == 3
    content = (moved / "images.npy").read_bytes()
    (moved / "images.npy").write_bytes(content[:-100])
    with pytest.raises(DataError, match=r"images\.npy"):
        neurocontrast.pretrain(settings("training.epochs=4", here), out=out, resume=True)
    with pytest.raises(DataError, match=r"images\.npy"):
        neurocontrast.embed(
            out, participants=moved / "participants.tsv", out=tmp_path / "e.parquet"
        )
    (moved / "images.npy").unlink()
    with pytest.raises(DataError, match=r"images\.npy: there is no such file"):
        neurocontrast.embed(
            out, participants=moved / "participants.tsv", out=tmp_path / "e.parquet"
        )
    assert not (tmp_path / "e.parquet").exists()


def test_images_of_another_size_are_not_embedded(run, tmp_path):
    large = neurocontrast.prepare_images(tmp_path / "large", size=12, **SIZES)
    with pytest.raises(DataError, match="have 12×12 pixels, and the run was trained on 8×8"):
        neurocontrast.embed(run, participants=large, out=tmp_path / "e.parquet")


@pytest.mark.parametrize("changed", [{"mean": [0.2, 0.3]}, {"shape": [1, 8]}])
def test_a_damaged_contract_is_told(run, digits, tmp_path, changed):
    damaged = changed_run(run, tmp_path / "run", preprocessing=changed)
    with pytest.raises(
        CheckpointError, match=rf"encoder\.json: preprocessing contract: .*{next(iter(changed))}"
    ):
        neurocontrast.embed(damaged, participants=digits, out=tmp_path / "e.parquet")
