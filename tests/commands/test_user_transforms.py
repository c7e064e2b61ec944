"""Transforms of a user's, given from Python: applied, recorded, refused by name where they are others."""

import functools

import numpy as np
import pytest
import torch
from monai.transforms import (
    Compose,
    Lambdad,
    LoadImaged,
    NormalizeIntensityd,
    Orientationd,
    RandFlipd,
    RandGaussianNoised,
    ResizeWithPadOrCropd,
    ScaleIntensityd,
    Spacingd,
)
from small_run import changed_run, weights

import neurocontrast
from neurocontrast.config import load_config
from neurocontrast.data import read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.transforms import LoadScand, ResampleByAread, brain_transforms

GRID = {"spacing_mm": 10.0, "shape": [16, 20, 16]}


def composed(*more):
    return Compose([LoadScand("image"), ResampleByAread("image", **GRID), *more])


def scaled(maxv=1.0):
    return composed(ScaleIntensityd("image", minv=0.0, maxv=maxv))


@pytest.fixture(scope="module")
def given(tmp_path_factory, settings):
    out = tmp_path_factory.mktemp("runs") / "given"
    return neurocontrast.pretrain(settings(), out=out, transforms=scaled())


def features(run, cohort, out, **options):
    return read_embeddings(
        neurocontrast.embed(run, participants=cohort, out=out, **options)
    ).features


def test_the_package_s_own_steps_given_make_the_features_of_its_settings(whole, settings, tmp_path):
    own = brain_transforms(**GRID, normalise="zscore")
    assert weights(
        neurocontrast.pretrain(settings(), out=tmp_path / "run", transforms=own)
    ) == weights(whole)


def loaded_by_monai(width=1.0):
    """Return transforms as docs/scans.md shows them, and a function with a setting."""
    return Compose(
        [
            LoadImaged("image", ensure_channel_first=True),
            Orientationd("image", axcodes="RAS"),
            Spacingd("image", pixdim=(10.0, 10.0, 10.0)),
            ResizeWithPadOrCropd("image", spatial_size=(16, 20, 16)),
            NormalizeIntensityd("image"),
            Lambdad("image", func=functools.partial(torch.mul, other=width)),
        ]
    )


def test_a_run_with_monai_s_reader_is_embedded_resumed_and_names_no_scan(
    tmp_path, settings, cohort, cached
):
    def run(*overrides, width=1.0, resume=False):
        return neurocontrast.pretrain(
            settings("training.epochs=1", *overrides),
            out=tmp_path / "run",
            transforms=loaded_by_monai(width),
            resume=resume,
        )

    run()
    contract = (tmp_path / "run" / "encoder.json").read_text()
    assert str(cohort.parent) not in contract
    assert not any(name in contract for name in read_cohort(cohort).table["participant_id"])
    out = tmp_path / "e.parquet"
    embedded = features(tmp_path / "run", cohort, out, config=cached, transforms=loaded_by_monai())
    assert np.isfinite(embedded).all()
    with pytest.raises(CheckpointError, match="Lambdad has other settings"):
        features(
            tmp_path / "run",
            cohort,
            tmp_path / "f.parquet",
            config=cached,
            transforms=loaded_by_monai(2.0),
        )
    with pytest.raises(CheckpointError, match="Lambdad has other settings"):
        run("training.epochs=2", width=2.0, resume=True)
    run("training.epochs=2", resume=True)


def test_transforms_must_be_given_again(tmp_path, given, cohort, cached):
    out = tmp_path / "x.parquet"
    with pytest.raises(CheckpointError, match=r"ScaleIntensityd.*Give the same ones again"):
        features(given, cohort, out, config=cached)
    with pytest.raises(CheckpointError, match="ScaleIntensityd has other settings"):
        features(given, cohort, out, config=cached, transforms=scaled(maxv=2.0))
    with pytest.raises(
        ConfigError, match=r"data\.smooth_mm: is 6\.0, and the run was trained with 0\.0"
    ):
        features(given, cohort, out, config={"data": {"smooth_mm": 6.0}}, transforms=scaled())
    assert not out.exists()
    assert np.isfinite(features(given, cohort, out, config=cached, transforms=scaled())).all()


def test_resume_wants_the_same_views_again(tmp_path, settings):
    def run(name, *overrides, std=0.1, resume=False):
        noise = Compose([RandGaussianNoised("image", prob=1.0, std=std)])
        return neurocontrast.pretrain(
            settings(*overrides), out=tmp_path / name, augment=noise, resume=resume
        )

    stopped = run("stopped", "training.epochs=1")
    with pytest.raises(ConfigError, match=r"augment\.transforms: came from Python"):
        neurocontrast.pretrain(out=stopped, resume=True)
    with pytest.raises(CheckpointError, match="augment has other transforms"):
        run("stopped", std=0.5, resume=True)
    assert weights(run("stopped", resume=True)) == weights(run("whole"))


def test_the_resolved_configuration_says_what_took_the_place_of_what(tmp_path, settings):
    own = {
        "transforms": composed(NormalizeIntensityd("image")),
        "augment": RandFlipd("image", prob=0.5),
    }
    run = neurocontrast.pretrain(settings("training.epochs=0"), out=tmp_path / "run", **own)
    resolved = load_config(run / "config.yaml")
    assert resolved.data.transforms == resolved.augment.transforms == "python"
    assert "normalise" not in (run / "config.yaml").read_text()


@pytest.mark.parametrize("section", ["data", "augment"])
def test_a_file_names_no_code(tmp_path, cohort, section):
    steps = [{"_target_": "monai.transforms.RandFlipd", "keys": "image"}]
    for value, message in (
        (steps, rf"{section}\.transforms"),
        ("python", rf"{section}\.transforms: came from Python"),
    ):
        config = {"data": {"val_fraction": 0}, "augment": {}}
        config[section]["transforms"] = value
        with pytest.raises(ConfigError, match=message):
            neurocontrast.pretrain(config, participants=cohort, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        (lambda: composed(RandGaussianNoised("image")), "RandGaussianNoised is random"),
        (
            lambda: Compose([ScaleIntensityd("image")]),
            "a transform failed|no transform before the first random one",
        ),
        (
            lambda: Compose([LoadScand("image"), ResampleByAread("picture", **GRID)]),
            "a transform failed",
        ),
        (
            lambda: Compose([LoadImaged("image")]),
            r"must make images of shape \(channels, D, H, W\)",
        ),
    ],
)
def test_transforms_that_cannot_be_used_are_refused_before_anything_is_written(
    tmp_path, settings, transforms, message
):
    with pytest.raises((ConfigError, DataError), match=message):
        neurocontrast.pretrain(settings(), out=tmp_path / "run", transforms=transforms())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ({"image_shape": [1, 2]}, "preprocessing contract"),
        ({"transforms": "all"}, r"'preprocessing\.transforms' must be a list, found 'all'"),
        ({"transform_version": 99}, "preprocessing contract"),
    ],
)
def test_a_damaged_contract_is_refused(tmp_path, given, cohort, damaged, message):
    run = changed_run(given, tmp_path / "stranger", preprocessing=damaged)
    with pytest.raises(CheckpointError, match=message):
        features(run, cohort, tmp_path / "x.parquet", transforms=scaled())
