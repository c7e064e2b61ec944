"""The encoder ``lda``: what people differ by, beside what scans of one person differ by."""

import nibabel as nib
import numpy as np
import pytest
from small_run import Listening, read_json

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import ConfigError

N_TRAINED = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("discriminants")


@pytest.fixture(scope="module")
def scanned(folder):
    """Return the table of people who were scanned twice, once by a scanner that brightens one end of the brain."""
    simulated = neurocontrast.simulate(folder / "s", n_subjects=20, n_sites=2, patients=0.0, spacing_mm=8.0, seed=3)
    table = read_cohort(simulated).table[["participant_id", "path", "age", "site"]].copy()
    table["subject_id"], table["session"] = table["participant_id"], "first"
    again, random = table.assign(session="second"), np.random.default_rng(0)
    for row, path in again["path"].items():
        image = nib.load(path)
        field = np.linspace(-1, 1, image.shape[1])[None, :, None] * random.uniform(0.3, 0.6)
        moved = nib.Nifti1Image((image.get_fdata() * (1 + field)).astype(np.float32), image.affine)
        again.loc[row, "path"] = str(folder / f"{row}.nii.gz")
        nib.save(moved, again.loc[row, "path"])
    table = table.iloc[:].reset_index(drop=True)
    both = {"trained": slice(0, N_TRAINED), "others": slice(N_TRAINED, None)}
    for name, rows in both.items():
        chosen = [*table.iloc[rows].to_dict("records"), *again.iloc[rows].to_dict("records")]
        type(table)(chosen).to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    return folder


def settings_of(folder, table="trained", **encoder):
    data = {"participants": str(folder / f"{table}.tsv"), "spacing_mm": 10, "shape": [16, 20, 16], "n_workers": 1}
    data |= {"cache_dir": str(folder / "cache"), "val_fraction": 0.0, "normalise": "percentile"}
    return {"data": data, "encoder": {"name": "lda", "n_components": 4, **encoder}}


def share_within(folder, **encoder):
    """Return how much of the variance of new people's features is between their two scans."""
    run = neurocontrast.pretrain(settings_of(folder, **encoder), out=folder / f"run-{len(encoder)}")
    config = {"data": {"cache_dir": str(folder / "cache")}}
    out = folder / f"{len(encoder)}.parquet"
    embeddings = read_embeddings(neurocontrast.embed(run, participants=folder / "others.tsv", out=out, config=config))
    order = np.argsort(embeddings.table["session"].to_numpy() + embeddings.table["participant_id"].to_numpy())
    first, second = np.split(embeddings.features[order], 2)
    return ((first - second) ** 2).mean(axis=0).sum() / (2 * first.var(axis=0).sum())


def test_who_embeds_imitations_is_warned(scanned, tmp_path):
    lines = (scanned / "others.tsv").read_text().splitlines()
    more = [f"{line}\t{'imitated1' if 'second' in line else 'real'}" for line in lines[1:]]
    (tmp_path / "imitations.tsv").write_text("\n".join([f"{lines[0]}\tacquisition", *more]))
    run = neurocontrast.pretrain(settings_of(scanned, n_components=3), out=tmp_path / "run")
    config, heard = {"data": {"cache_dir": str(scanned / "cache")}}, Listening()
    table = tmp_path / "imitations.tsv"
    neurocontrast.embed(run, participants=table, out=tmp_path / "e.parquet", config=config, progress=heard)
    assert any("imitations.tsv: holds imitated acquisitions" in text for text in heard.warned)


def test_new_people_keep_apart_from_what_a_scanner_changes(scanned):
    assert share_within(scanned) < 0.5 * share_within(scanned, name="pca")


def test_the_variance_within_subjects_is_the_same_for_every_component(scanned):
    run = neurocontrast.pretrain(settings_of(scanned, shrinkage=1e-5), out=scanned / "even")
    config = {"data": {"cache_dir": str(scanned / "cache")}}
    made = neurocontrast.embed(run, participants=scanned / "trained.tsv", out=scanned / "even.parquet", config=config)
    first, second = np.split(read_embeddings(made).features, 2)
    within = ((first - second) ** 2).mean(axis=0) / 4
    # Shrinkage takes away more of a component in which twelve subjects hardly change: here of the first alone.
    assert within.max() < 1.05
    assert (within[1:] > 0.95).all()
    contract = read_json(run / "encoder.json")
    assert contract["encoder"]["name"] == "lda"
    assert "Fisherfaces" in contract["objective"]["citation"]
    assert contract["explained_variance_ratio"] == sorted(contract["explained_variance_ratio"], reverse=True)


@pytest.mark.parametrize(
    ("table", "encoder", "message"),
    [
        ("once", {}, "lda needs several scans of a subject; each of the 12 training subjects has one"),
        ("trained", {"n_components": 12}, "must be below the number of training subjects, 12, found 12"),
        ("trained", {"name": "pca", "shrinkage": 0.1}, "shrinkage belongs to lda"),
    ],
)
def test_what_discriminants_cannot_be_fitted_to_is_refused(scanned, tmp_path, table, encoder, message):
    lines = (scanned / "trained.tsv").read_text().splitlines(keepends=True)
    (scanned / "once.tsv").write_text("".join(lines[: N_TRAINED + 1]))
    with pytest.raises(ConfigError, match=message):
        neurocontrast.pretrain(settings_of(scanned, table, **encoder), out=tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
