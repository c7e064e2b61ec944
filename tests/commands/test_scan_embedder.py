import os
import pickle
from pathlib import Path

import joblib
import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.evaluation import LeaveSiteOut
from neurocontrast.exceptions import ConfigError, DataError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("embedder")


@pytest.fixture(scope="module")
def participants(folder):
    return neurocontrast.simulate(folder / "simulated", n_subjects=12, n_sites=2, patients=0.5, spacing_mm=8.0, seed=6)


@pytest.fixture(scope="module")
def run(folder, participants):
    data = {"participants": str(participants), "spacing_mm": 10, "shape": [16, 20, 16], "normalise": "zscore-brain"}
    settings = {
        "data": {**data, "cache_dir": str(folder / "cache"), "n_workers": 1, "val_fraction": 0.3},
        "encoder": {"name": "lenet"},
        "training": {"epochs": 1, "batch_size": 4, "accelerator": "cpu", "probe_every": 0},
    }
    return neurocontrast.pretrain(settings, out=folder / "run")


@pytest.fixture(scope="module")
def table(participants):
    return read_cohort(participants).table


@pytest.fixture(scope="module")
def paths(table):
    return list(table["path"])


@pytest.fixture(scope="module")
def embedder(folder, run):
    return ScanEmbedder(run, cache_dir=folder / "cache")


@pytest.fixture(scope="module")
def features(folder, run, participants):
    config = {"data": {"cache_dir": str(folder / "cache"), "n_workers": 1}}
    return read_embeddings(
        neurocontrast.embed(run, participants=participants, out=folder / "e.parquet", config=config)
    ).features


def test_features_of_paths_and_of_a_table_are_those_of_embed_to_the_last_bit(embedder, table, paths, features):
    for scans in (paths, table, table["path"], np.array(paths, dtype=object)[:, None]):
        assert np.array_equal(embedder.fit_transform(scans), features)


def test_images_are_embedded_as_their_files_are(embedder, paths, features):
    images = [nib.load(path) for path in paths]
    assert np.array_equal(embedder.fit_transform(images), features)
    in_memory = [nib.Nifti1Image(image.get_fdata(dtype=np.float32), image.affine, image.header) for image in images]
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


@pytest.mark.slow  # processes that import PyTorch
def test_sites_are_left_out_in_several_processes(embedder, table):
    model = make_pipeline(embedder, StandardScaler(), LogisticRegression())
    found = cross_validate(
        model, table, table["diagnosis"], cv=LeaveSiteOut(), groups=table[["subject_id", "site"]], n_jobs=2
    )
    assert np.isfinite(found["test_score"]).all()


def test_what_is_pickled_finds_its_run_from_another_working_directory(folder, run, paths, features, monkeypatch):
    monkeypatch.chdir(folder)
    names = [Path(path).relative_to(Path(paths[0]).parent) for path in paths[:2]]
    root = os.path.relpath(Path(paths[0]).parent)
    fitted = ScanEmbedder(run.name, images_root=root, cache_dir=os.path.relpath(folder / "cache")).fit()
    kept = pickle.dumps(fitted)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(_elsewhere)(fitted, [name]) for name in names)
    np.testing.assert_allclose(np.concatenate(found), features[:2], rtol=1e-5)
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(kept).transform(names), features[:2])


def _elsewhere(embedder, scans):
    os.chdir("/")
    return embedder.transform(scans)


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


def test_a_run_of_natural_images_is_refused_by_fit(embedder, run, tmp_path):
    text = (run / "encoder.json").read_text().replace('"preprocessing": {', '"preprocessing": {"kind": "images", ', 1)
    (tmp_path / "encoder.json").write_text(text)
    (tmp_path / "encoder.safetensors").write_bytes((run / "encoder.safetensors").read_bytes())
    with pytest.raises(ConfigError, match="ScanEmbedder embeds brains, and this run was trained on natural images"):
        ScanEmbedder(tmp_path).fit(["a.nii"])
