"""Views synthesised from maps of tissue: what trains on them, and that all that follows needs the scan alone."""

import json

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from small_run import metrics, weights, with_maps

import neurocontrast
from neurocontrast.config import load_config
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import ConfigError, DataError

MAPS = ("data.maps=[gm,wm]", "augment.synthesise={probability: 0.5}")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthesised") / "simulated"
    return with_maps(neurocontrast.simulate(folder, n_subjects=14, n_sites=2, spacing_mm=8.0, seed=7))


@pytest.fixture
def of_maps(settings, table):
    def make(*overrides, maps=MAPS):
        return settings(f"data.participants={table}", *maps, "training.epochs=2", *overrides)

    return make


def test_a_run_sees_the_scan_alone_and_its_contract_says_what_its_views_were_made_of(of_maps, table, cache, tmp_path):
    run = neurocontrast.pretrain(
        of_maps("training.probe_every=1", "training.probe_columns=[age]"), out=tmp_path / "run"
    )
    contract = json.loads((run / "encoder.json").read_text())
    assert (contract["n_channels"], contract["maps"]) == (1, ["gm", "wm"])
    assert contract["augment"]["synthesise"]["probability"] == 0.5
    assert "n_channels" not in contract["preprocessing"]
    assert metrics(run)[-1]["probe_age_r2"]
    scans_alone = table.parent / "participants.tsv"
    config = {"data": {"cache_dir": str(cache), "n_workers": 1}}
    embedded = neurocontrast.embed(run, participants=scans_alone, out=tmp_path / "e.parquet", config=config)
    assert read_embeddings(embedded).features.shape == (14, 32)
    of_run = load_config(run / "config.yaml")
    again = neurocontrast.embed(run, participants=scans_alone, out=tmp_path / "again.parquet", config=of_run)
    np.testing.assert_array_equal(read_embeddings(again).features, read_embeddings(embedded).features)


def test_synthesised_views_change_the_weights_and_a_resumed_run_is_the_run(of_maps, tmp_path):
    whole = neurocontrast.pretrain(of_maps(), out=tmp_path / "whole")
    plain = neurocontrast.pretrain(of_maps(maps=()), out=tmp_path / "plain")
    assert weights(whole) != weights(plain)
    part = neurocontrast.pretrain(of_maps("training.epochs=1"), out=tmp_path / "part")
    neurocontrast.pretrain(of_maps(), out=part, resume=True)
    assert weights(part) == weights(whole)


def test_maps_elsewhere_than_their_scans_are_named_at_once(of_maps, table, tmp_path):
    rows = pd.read_csv(table, sep="\t", dtype=str)
    for row in (1, 4):
        for tissue in ("gm", "wm"):
            path = table.parent / rows[tissue][row]
            image = nib.load(path)
            moved = image.affine.copy()
            moved[0, 3] += 16
            nib.save(nib.Nifti1Image(image.get_fdata(), moved), table.parent / f"moved_{path.name}")
            rows.loc[row, tissue] = f"moved_{path.name}"
    rows.to_csv(table.parent / "moved.tsv", sep="\t", index=False)
    with pytest.raises(DataError) as error:
        neurocontrast.pretrain(of_maps(f"data.participants={table.parent / 'moved.tsv'}"), out=tmp_path / "run")
    assert "2 problems" in str(error.value)
    assert all(f"{name}: the maps lie elsewhere" in str(error.value) for name in rows["participant_id"][[1, 4]])
    assert not (tmp_path / "run" / "config.yaml").exists()


@pytest.mark.parametrize(
    ("maps", "error", "message"),
    [
        (("data.maps=[gm,wm]",), ConfigError, "data.maps are for augment.synthesise and a network"),
        (MAPS[1:], ConfigError, "augment.synthesise needs the maps of tissue"),
        (
            (*MAPS, "encoder={name: pca, n_components: 3}"),
            ConfigError,
            "data.maps are for augment.synthesise and a net",
        ),
        ((*MAPS, "data.channels=[gm,wm]"), ConfigError, "data.maps needs scans of one channel"),
        ((*MAPS, "data.maps=[gm,gm]"), ConfigError, "must name each column once"),
        ((*MAPS, "data.maps=[gm,t1]"), ConfigError, "none of data.channels"),
        ((*MAPS, "data.maps=gm"), ConfigError, "data.maps: must be a list"),
        ((*MAPS, "data.maps=[gm,wn]"), DataError, "data.maps: there is no column 'wn'"),
        ((*MAPS, "data.maps=[gm,age]"), DataError, "column 'age' holds no files"),
        ((*MAPS, "augment.synthesise.contrast=[0.5,0.1]"), ConfigError, r"\[lowest, highest\]"),
        ((*MAPS, "augment.synthesise.rim=[0,2]"), ConfigError, "augment.synthesise.rim"),
        ((*MAPS, "augment.synthesise.labels=seg"), ConfigError, "augment.synthesise.labels: unknown key"),
    ],
)
def test_maps_and_views_that_do_not_fit_are_refused(of_maps, tmp_path, maps, error, message):
    with pytest.raises(error, match=message):
        neurocontrast.pretrain(of_maps(maps=maps), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
