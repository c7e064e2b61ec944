"""Scans of several channels, such as maps of grey and white matter, from the table to the report's baseline."""

import json

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from small_run import FAST, with_maps

import neurocontrast
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import DataError
from neurocontrast.transforms import brain_transforms


@pytest.fixture(scope="module")
def participants(cohort):
    """The cohort with a map of dark and a map of bright voxels beside each scan."""
    return with_maps(cohort)


@pytest.fixture(scope="module")
def run(settings, participants, tmp_path_factory):
    of_maps = ("data.channels=[gm,wm]", "data.normalise=none", "data.smooth_mm=14", "training.epochs=1")
    config = settings(f"data.participants={participants}", *of_maps)
    return neurocontrast.pretrain(config, out=tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def embeddings(run, participants, cache):
    config = {"data": {"cache_dir": str(cache), "n_workers": 1}}
    return neurocontrast.embed(run, participants=participants, out=run.parent / "e.parquet", config=config)


def test_each_channel_is_the_scan_of_its_own_file(participants):
    cohort = read_cohort(participants, channels=["gm", "wm"])
    transforms = brain_transforms(spacing_mm=10.0, shape=(16, 20, 16), normalise="none", n_channels=2)
    both = CohortDataset(cohort, transforms)[3]["image"]
    for channel, column in zip(both, ("gm", "wm"), strict=True):
        alone = brain_transforms(spacing_mm=10.0, shape=(16, 20, 16), normalise="none")(
            {"image": cohort.table[column][3]}
        )
        np.testing.assert_array_equal(channel.numpy(), alone["image"][0].numpy())


def test_a_run_records_its_channels_and_embed_reads_them(run, embeddings, participants):
    contract = json.loads((run / "encoder.json").read_text())
    assert contract["channels"] == ["gm", "wm"]
    assert contract["n_channels"] == 2
    assert contract["preprocessing"]["smooth_mm"] == 14.0
    assert read_embeddings(embeddings).features.shape == (14, 32)


def test_the_baseline_of_voxels_and_the_explanation_take_all_channels(run, embeddings, participants, cache, tmp_path):
    options = FAST | {"n_folds": 3, "voxels": "on", "allow_overlap": True}
    out = neurocontrast.evaluate(embeddings, target="diagnosis", out=tmp_path / "evaluation", **options)
    single = json.loads((out / "evaluation.json").read_text())["voxels_about"]["n_voxels"] / 2
    assert single == int(single) > 1000
    config = {"data": {"cache_dir": str(cache)}, "explanation": {"n_subjects": 4, "patch_mm": 60}}
    maps = neurocontrast.explain(out, run=run, participants=participants, config=config)
    assert np.abs(nib.load(maps / "saliency.nii.gz").get_fdata()).max() > 0


def test_check_names_the_column_of_a_missing_map(participants):
    table = pd.read_csv(participants, sep="\t", dtype=str, keep_default_na=False)
    table.loc[2, "wm"], table.loc[4, "gm"] = "nowhere.nii.gz", "n/a"
    table.to_csv(participants.parent / "bad.tsv", sep="\t", index=False)
    found = neurocontrast.check(participants.parent / "bad.tsv", channels=["gm", "wm"])
    assert {(problem.column, problem.line) for problem in found.problems.found} == {("wm", 4), ("gm", 6)}
    assert neurocontrast.check(participants, channels=["gm", "wm"]).passed


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        (["gm", "wn"], "there is no column 'wn'"),
        (["gm", "age"], "column 'age' holds no files"),
    ],
)
def test_channels_that_are_no_columns_of_files_are_refused(participants, channels, message):
    with pytest.raises(DataError, match=message):
        read_cohort(participants, channels=channels)


def test_channels_on_different_grids_are_refused(participants, tmp_path):
    first, *_ = read_cohort(participants, channels=["gm", "wm"]).scans
    image = nib.load(first[1])
    moved = image.affine.copy()
    moved[0, 3] += 12
    nib.save(nib.Nifti1Image(image.get_fdata(), moved), tmp_path / "moved.nii.gz")
    nib.save(nib.Nifti1Image(image.get_fdata()[:-1], image.affine), tmp_path / "smaller.nii.gz")
    load = brain_transforms(spacing_mm=10.0, shape=(16, 20, 16), normalise="none", n_channels=2)
    for other, message in (("moved", "puts it 12.0 mm from"), ("smaller", "must lie on one grid")):
        with pytest.raises(RuntimeError) as error:
            load({"image": [first[0], str(tmp_path / f"{other}.nii.gz")]})
        assert message in str(error.value.__cause__)
