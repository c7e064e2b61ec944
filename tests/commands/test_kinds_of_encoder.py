"""Encoders of other kinds, with the files and commands of any other: linear, on a grid, predicting."""

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from small_run import Listening, metrics, read_json, weights

import neurocontrast
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder, load_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms import brain_transforms


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    config = settings("encoder={name: pca, n_components: 5}", "data.val_fraction=0")
    return neurocontrast.pretrain(config, out=tmp_path_factory.mktemp("linear") / "run")


def test_features_are_the_scores_of_scikit_learns_components(run, cohort, cached, tmp_path):
    embeddings = neurocontrast.embed(
        run, participants=cohort, out=tmp_path / "e.parquet", config=cached
    )
    transforms = brain_transforms(spacing_mm=10.0, shape=(16, 20, 16))
    voxels = np.stack(
        [item["image"].numpy().ravel() for item in CohortDataset(read_cohort(cohort), transforms)]
    )
    expected = PCA(5, svd_solver="full").fit_transform(voxels)
    found = read_embeddings(embeddings).features
    np.testing.assert_allclose(
        np.abs(found), np.abs(expected), rtol=1e-2, atol=2e-2 * np.abs(expected).max()
    )


def test_the_run_says_what_it_is(run):
    contract = read_json(run / "encoder.json")
    assert contract["encoder"]["name"] == "pca"
    assert contract["n_features"] == 5
    assert contract["objective"]["loss"] == "none"
    shares = contract["explained_variance_ratio"]
    assert len(shares) == 5
    assert shares == sorted(shares, reverse=True)
    assert load_encoder(run)[0].n_features == 5


def test_embed_reads_out_a_network_that_was_trained_by_its_mean(whole, cohort, cached, tmp_path):
    read_out = {"blocks": [1], "grid": [3, 4, 3]}
    config = cached | {"embedding": {"read_out": read_out}}
    made = neurocontrast.embed(
        whole, participants=cohort, out=tmp_path / "e.parquet", config=config
    )
    found = read_embeddings(made)
    assert found.features.shape[1] == 8 * 36
    assert found.info.read_out == read_out
    config["embedding"]["layer"] = "head"
    with pytest.raises(ConfigError, match="the head takes the encoder's own features"):
        neurocontrast.embed(whole, participants=cohort, out=tmp_path / "h.parquet", config=config)


AGE = "objective={loss: supervised, column: age}"
SEX = "objective={loss: supervised, column: sex, error: cross-entropy}"


@pytest.fixture(scope="module")
def of_age(settings, tmp_path_factory):
    return neurocontrast.pretrain(settings(AGE), out=tmp_path_factory.mktemp("runs") / "age")


def test_the_head_ends_in_the_predictions_of_the_range_or_classes_of_training(
    settings, of_age, tmp_path
):
    of_sex = neurocontrast.pretrain(settings(SEX, "training.epochs=1"), out=tmp_path / "sex")
    for run, n_outputs in ((of_age, 1), (of_sex, 2)):
        model, contract = load_model(run)
        assert model.n_features == n_outputs
        assert contract.encoder.content()["projection"] == [8, 4, n_outputs]
    age, sex = (read_json(run / "encoder.json")["objective"]["target"] for run in (of_age, of_sex))
    assert age["lowest"] < age["mean"] < age["highest"]
    assert sex == {"column": "sex", "kind": "categorical", "classes": ["F", "M"]}


def test_what_contrasts_nothing_is_not_measured_as_contrast(of_age):
    (row, _) = metrics(of_age)
    assert {"train_loss", "train_term_absolute", "val_loss", "val_features_effective_rank"} <= set(
        row
    )
    assert not {"val_alignment", "val_uniformity", "val_effective_rank"} & set(row)


def test_resumed_runs_have_the_same_weights(settings, of_age, tmp_path):
    part = neurocontrast.pretrain(settings(AGE, "training.epochs=1"), out=tmp_path / "part")
    assert weights(neurocontrast.pretrain(settings(AGE), out=part, resume=True)) == weights(of_age)


N_TRAINED = 12


@pytest.fixture(scope="module")
def scanned(tmp_path_factory):
    """Return tables of people who were scanned twice, once by a scanner that brightens one end of the brain."""
    folder = tmp_path_factory.mktemp("scanned")
    simulated = neurocontrast.simulate(
        folder / "s", n_subjects=20, n_sites=2, patients=0.0, spacing_mm=8.0, seed=3
    )
    table = read_cohort(simulated).table[["participant_id", "path", "age", "site"]]
    table = table.assign(subject_id=table["participant_id"], session="first")
    again = table.assign(session="second")
    random = np.random.default_rng(0)
    for row, path in again["path"].items():
        image = nib.load(path)
        field = np.linspace(-1, 1, image.shape[1])[None, :, None] * random.uniform(0.3, 0.6)
        moved = nib.Nifti1Image((image.get_fdata() * (1 + field)).astype(np.float32), image.affine)
        again.loc[row, "path"] = str(folder / f"{row}.nii.gz")
        nib.save(moved, again.loc[row, "path"])
    for name, rows in {"trained": slice(0, N_TRAINED), "others": slice(N_TRAINED, None)}.items():
        both = pd.concat([table.iloc[rows], again.iloc[rows]])
        both.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    table[:N_TRAINED].to_csv(folder / "once.tsv", sep="\t", index=False)
    return folder


@pytest.fixture(scope="module")
def linear(settings, scanned):
    """``linear(encoder)``: the configuration of a run on one of these tables."""

    def make(encoder, table="trained"):
        given = ("data.val_fraction=0", "data.normalise=percentile", f"encoder={{{encoder}}}")
        return settings(f"data.participants={scanned}/{table}.tsv", *given)

    return make


def test_who_embeds_imitations_is_warned(linear, scanned, cached, tmp_path):
    table = pd.read_csv(scanned / "others.tsv", sep="\t")
    heard = Listening()
    table["acquisition"] = np.where(table["session"] == "second", "imitated1", "real")
    table.to_csv(tmp_path / "imitations.tsv", sep="\t", index=False)
    run = neurocontrast.pretrain(linear("name: lda, n_components: 3"), out=tmp_path / "run")
    given = {"participants": tmp_path / "imitations.tsv", "config": cached, "progress": heard}
    neurocontrast.embed(run, out=tmp_path / "e.parquet", **given)
    assert any("imitations.tsv: holds imitated acquisitions" in text for text in heard.warned)


def scans_embedded(config, table, cached, out):
    """Return the features of the first scans of a table's people, and those of the second, by a run."""
    run = neurocontrast.pretrain(config, out=out)
    made = neurocontrast.embed(
        run, participants=table, out=out.with_suffix(".parquet"), config=cached
    )
    return np.split(read_embeddings(made).features, 2)


def test_new_people_keep_apart_from_what_a_scanner_changes(linear, scanned, cached, tmp_path):
    share = {}  # of the variance, between two scans of a person
    for name in ("lda", "pca"):
        config = linear(f"name: {name}, n_components: 4")
        first, second = scans_embedded(config, scanned / "others.tsv", cached, tmp_path / name)
        share[name] = ((first - second) ** 2).mean(axis=0).sum() / (2 * first.var(axis=0).sum())
    assert share["lda"] < 0.5 * share["pca"]


def test_the_variance_within_subjects_is_the_same_for_every_component(
    linear, scanned, cached, tmp_path
):
    config = linear("name: lda, n_components: 4, shrinkage: 1e-5")
    first, second = scans_embedded(config, scanned / "trained.tsv", cached, tmp_path / "run")
    within = ((first - second) ** 2).mean(axis=0) / 4
    # Shrinkage takes away more of a component in which twelve subjects hardly change: here of the
    # first alone.
    assert within.max() < 1.05
    assert (within[1:] > 0.95).all()
    contract = read_json(tmp_path / "run" / "encoder.json")
    assert contract["encoder"]["name"] == "lda"
    assert "Fisherfaces" in contract["objective"]["citation"]
    assert contract["explained_variance_ratio"] == sorted(
        contract["explained_variance_ratio"], reverse=True
    )


@pytest.mark.parametrize(
    ("table", "encoder", "message"),
    [
        (
            "once",
            "name: lda",
            "lda needs several scans of a subject; each of the 12 training subjects has one",
        ),
        (
            "trained",
            "name: lda, n_components: 12",
            "must be below the number of training subjects, 12, found 12",
        ),
        ("trained", "name: pca, shrinkage: 0.1", "shrinkage belongs to lda"),
    ],
)
def test_what_discriminants_cannot_be_fitted_to_is_refused(
    linear, tmp_path, table, encoder, message
):
    with pytest.raises(ConfigError, match=message):
        neurocontrast.pretrain(linear(encoder, table), out=tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
