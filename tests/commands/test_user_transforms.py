"""Transforms of a user's, from a configuration or from Python: applied, carried with the weights, refused by name."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from monai.transforms import Compose, NormalizeIntensityd, RandFlipd, RandGaussianNoised, ScaleIntensityd
from small_run import changed_run, weights

import neurocontrast
from neurocontrast.config import load_config
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.transforms import LoadScand, ResampleByAread, brain_transforms

GRID = {"spacing_mm": 10.0, "shape": [16, 20, 16]}
TARGETS = [
    {"_target_": "neurocontrast.transforms.LoadScand", "keys": "image"},
    {"_target_": "neurocontrast.transforms.ResampleByAread", "keys": "image", **GRID},
    {"_target_": "monai.transforms.ScaleIntensityd", "keys": "image", "minv": 0.0, "maxv": 1.0},
]
NOISE = {"_target_": "monai.transforms.RandGaussianNoised", "keys": "image", "prob": 1.0, "std": 0.1}


def composed(*more):
    return Compose([LoadScand("image"), ResampleByAread("image", **GRID), *more])


@pytest.fixture(scope="module")
def recipe(cohort, cache):
    def make(data=None, augment=None, **training):
        return {
            "data": {"participants": str(cohort), "cache_dir": str(cache), "val_fraction": 0.3, "n_workers": 1}
            | (data or {}),
            "augment": augment or {"transforms": [NOISE]},
            "encoder": {"name": "lenet", "projection": [8, 4]},
            "training": {"epochs": 2, "batch_size": 4, "accelerator": "cpu", **training},
        }

    return make


@pytest.fixture(scope="module")
def described(tmp_path_factory, recipe):
    return neurocontrast.pretrain(recipe({"transforms": TARGETS}), out=tmp_path_factory.mktemp("runs") / "described")


def features(run, cohort, out, **options):
    return read_embeddings(neurocontrast.embed(run, participants=cohort, out=out, **options)).features


def test_a_description_travels_with_the_weights_and_embed_applies_it(tmp_path, described, cohort, cache):
    contract = json.loads((described / "encoder.json").read_text())
    assert contract["preprocessing"]["targets"] == TARGETS
    assert contract["preprocessing"]["image_shape"] == [1, 16, 20, 16]
    assert contract["augment"] == {"transforms": [NOISE]}
    config = {"data": {"cache_dir": str(cache)}}
    one = features(described, cohort, tmp_path / "a.parquet", config=config)
    # Without the run's configuration too: what was done to the scans is known by the weights alone.
    lonely = shutil.copytree(described, tmp_path / "elsewhere")
    (lonely / "config.yaml").unlink()
    other = features(lonely, cohort, tmp_path / "b.parquet", config={"data": {"cache_dir": str(tmp_path / "cache")}})
    assert np.array_equal(one, other)


def test_other_transforms_than_the_run_s_are_refused_by_name(tmp_path, described, whole, cohort, cache):
    others = [*TARGETS[:2], {**TARGETS[2], "maxv": 2.0}]
    for run, said in ((described, '"maxv": 1'), (whole, "null")):
        with pytest.raises(ConfigError, match=rf'data\.transforms: is .*"maxv": 2.* the run was trained with .*{said}'):
            features(run, cohort, tmp_path / "x.parquet", config={"data": {"transforms": others}})
    with pytest.raises(ConfigError, match=r"data\.smooth_mm: is 6\.0, and the run was trained with 0\.0"):
        features(described, cohort, tmp_path / "x.parquet", config={"data": {"smooth_mm": 6.0}})
    assert not list(tmp_path.iterdir())
    same = {"data": {"transforms": TARGETS, "cache_dir": str(cache)}}
    features(described, cohort, tmp_path / "x.parquet", config=same)


def test_the_package_s_own_steps_described_make_the_features_of_its_settings(tmp_path, recipe, cohort, cache):
    own = brain_transforms(**GRID, normalise="zscore")
    names = [type(step).__name__ for step in own.flatten().transforms]
    assert names[-1] == "NormalizeIntensityd"
    settings = {"transforms": [*TARGETS[:2], {"_target_": "monai.transforms.NormalizeIntensityd", "keys": "image"}]}
    off = {"blur": None, "noise": None, "cutout": None}
    by_settings = neurocontrast.pretrain(recipe({**GRID, "normalise": "zscore"}, off), out=tmp_path / "settings")
    by_targets = neurocontrast.pretrain(recipe(settings, off), out=tmp_path / "targets")
    assert weights(by_settings) == weights(by_targets)


def test_transforms_from_python_must_be_given_again(tmp_path, recipe, described, cohort, cache):
    scaled = composed(ScaleIntensityd("image", minv=0.0, maxv=1.0))
    run = neurocontrast.pretrain(recipe(GRID), out=tmp_path / "run", transforms=scaled)
    assert weights(run) == weights(described)
    config = {"data": {"cache_dir": str(cache)}}
    with pytest.raises(CheckpointError, match=r"ScaleIntensityd.*Give the same ones again"):
        features(run, cohort, tmp_path / "none.parquet", config=config)
    other = composed(ScaleIntensityd("image", minv=0.0, maxv=2.0))
    with pytest.raises(CheckpointError, match="ScaleIntensityd has other settings"):
        features(run, cohort, tmp_path / "other.parquet", config=config, transforms=other)
    again = composed(ScaleIntensityd("image", minv=0.0, maxv=1.0))
    made = features(run, cohort, tmp_path / "same.parquet", config=config, transforms=again)
    assert np.array_equal(made, features(described, cohort, tmp_path / "described.parquet", config=config))
    assert not (tmp_path / "none.parquet").exists()


def test_views_from_python_are_those_of_their_description_and_resume_wants_them_again(tmp_path, recipe, described):
    def run(name, std=0.1, resume=False, **training):
        config, noise = recipe({"transforms": TARGETS}, **training), RandGaussianNoised("image", prob=1.0, std=std)
        return neurocontrast.pretrain(config, out=tmp_path / name, augment=Compose([noise]), resume=resume)

    assert weights(run("whole")) == weights(described)
    stopped = run("stopped", epochs=1)
    with pytest.raises(ConfigError, match=r"augment\.transforms: came from Python"):
        neurocontrast.pretrain(out=stopped, resume=True)
    with pytest.raises(CheckpointError, match="augment has other transforms"):
        run("stopped", std=0.5, resume=True)
    assert weights(run("stopped", resume=True)) == weights(described)


def test_the_resolved_configuration_says_what_took_the_place_of_what(tmp_path, recipe):
    run = neurocontrast.pretrain(
        recipe(GRID, epochs=0),
        out=tmp_path / "run",
        transforms=composed(NormalizeIntensityd("image")),
        augment=RandFlipd("image", prob=0.5),
    )
    resolved = load_config(run / "config.yaml")
    assert resolved.data.transforms == resolved.augment.transforms == ({"_target_": "python"},)
    assert "normalise" not in (run / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([*TARGETS, NOISE], "RandGaussianNoised is random"),
        (TARGETS[2:], "a transform failed|no transform before the first random one loads"),
        ([TARGETS[0], {**TARGETS[1], "keys": "picture"}], "a transform failed"),
        (
            [{**TARGETS[0], "_target_": "monai.transforms.LoadImaged"}],
            r"must make images of shape \(channels, D, H, W\)",
        ),
        ([{"_target_": "os.system", "command": "true"}], "'os.system' is refused"),
    ],
)
def test_transforms_that_cannot_be_used_are_refused_before_anything_is_written(tmp_path, recipe, steps, message):
    with pytest.raises((ConfigError, DataError), match=message):
        neurocontrast.pretrain(recipe({"transforms": steps}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "hostile",
    [
        {"_target_": "os.system", "command": "touch {marker}"},
        {"_target_": "monai.transforms.Lambdad", "keys": "image", "func": "$lambda x: open('{marker}', 'w')"},
        {"_target_": "monai.transforms.ScaleIntensityd", "keys": "$__import__('pathlib').Path('{marker}').touch()"},
        {"_target_": "monai.transforms.SaveImaged", "keys": "image", "output_dir": "{marker}"},
    ],
)
def test_a_stranger_s_run_folder_runs_nothing(tmp_path, described, cohort, hostile):
    marker, out = tmp_path / "marker", tmp_path / "out.parquet"
    planted = json.loads(json.dumps(hostile).replace("{marker}", str(marker)))
    run = changed_run(described, tmp_path / "stranger", preprocessing={"targets": [*TARGETS, planted]})
    with pytest.raises(ConfigError, match=r"preprocessing\.targets\[3\]"):
        features(run, cohort, out)
    assert not marker.exists()
    assert not out.exists()


@pytest.mark.parametrize(
    "damaged", [{"image_shape": [1, 2]}, {"targets": "all"}, {"targets": [1]}, {"transform_version": 99}]
)
def test_a_damaged_contract_is_refused(tmp_path, described, cohort, damaged):
    run = changed_run(described, tmp_path / "stranger", preprocessing=damaged)
    with pytest.raises(CheckpointError, match="preprocessing contract"):
        features(run, cohort, tmp_path / "x.parquet")
