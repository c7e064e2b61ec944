import os
import pickle
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_run import changed_run

from neurocontrast.data import read_cohort
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.exceptions import ConfigError, DataError


@pytest.fixture(scope="module")
def table(cohort):
    return read_cohort(cohort).table


@pytest.fixture(scope="module")
def paths(table):
    return list(table["path"])


@pytest.fixture(scope="module")
def embedder(brain_run, cache):
    return ScanEmbedder(brain_run, cache_dir=cache)


@pytest.fixture(scope="module")
def features(embedded):
    return read_embeddings(embedded).features


def test_features_of_paths_and_of_a_table_are_those_of_embed_to_the_last_bit(
    embedder, table, paths, features
):
    for scans in (paths, table, table["path"], np.array(paths, dtype=object)[:, None]):
        assert np.array_equal(embedder.fit_transform(scans), features)


def test_images_are_embedded_as_their_files_are(embedder, paths, features):
    images = [nib.load(path) for path in paths]
    assert np.array_equal(embedder.fit_transform(images), features)
    in_memory = [
        nib.Nifti1Image(image.get_fdata(dtype=np.float32), image.affine, image.header)
        for image in images
    ]
    assert np.array_equal(embedder.fit_transform(in_memory), features)
    in_memory[0].get_fdata()[...] += 1000 * np.random.default_rng(0).random(in_memory[0].shape)
    assert not np.array_equal(embedder.fit_transform(in_memory)[0], features[0])


def test_the_features_have_the_names_of_the_table_and_come_as_pandas(embedder, table, features):
    made = clone(embedder).set_output(transform="pandas").fit(table).transform(table)
    assert list(made.columns[:2]) == ["feature_0000", "feature_0001"]
    assert made.shape == features.shape
    assert list(made.index) == list(table.index)
    assert list(embedder.fit(None).get_feature_names_out()) == list(made.columns)


def test_an_encoder_stands_in_a_pipeline_that_is_cross_validated_over_paths(embedder, table, paths):
    model = make_pipeline(embedder, StandardScaler(), LogisticRegression())
    scores = cross_val_score(model, paths, table["diagnosis"], cv=2)
    assert scores.shape == (2,)


def test_all_scans_that_cannot_be_used_are_named_at_once(embedder, paths, tmp_path):
    (tmp_path / "empty.nii").write_bytes(b"")
    wrong = [paths[0], str(tmp_path / "absent.nii.gz"), str(tmp_path / "empty.nii")]
    with pytest.raises(DataError, match=r"absent\.nii\.gz(.|\n)*empty\.nii"):
        embedder.fit(None).transform(wrong)


@pytest.mark.parametrize(
    ("scans", "message"),
    [
        ("scan.nii.gz", "must be a list of scans, got str"),
        ([], "there is no scan"),
        ([1.5, "a.nii", None], "2 of 3 are not"),
        (pd.DataFrame({"file": ["a.nii"]}), "needs a column 'path'; it has: file"),
    ],
)
def test_what_is_no_list_of_scans_is_refused(embedder, scans, message):
    with pytest.raises(DataError, match=message):
        embedder.fit(None).transform(scans)


def test_a_run_of_natural_images_is_refused_by_fit(brain_run, tmp_path):
    run = changed_run(brain_run, tmp_path / "run", preprocessing={"kind": "images"})
    with pytest.raises(
        ConfigError, match="ScanEmbedder embeds brains, and this run was trained on natural images"
    ):
        ScanEmbedder(run).fit(["a.nii"])


def test_what_is_pickled_finds_its_run_from_another_working_directory(
    brain_run, cache, paths, features, monkeypatch
):
    monkeypatch.chdir(brain_run.parent)
    folder = Path(paths[0]).parent
    fitted = ScanEmbedder(
        brain_run.name, images_root=os.path.relpath(folder), cache_dir=os.path.relpath(cache)
    ).fit()
    kept = pickle.dumps(fitted)
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(
        pickle.loads(kept).transform([Path(path).name for path in paths[:2]]), features[:2]
    )
