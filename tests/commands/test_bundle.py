"""A run and its probe as a MONAI bundle, which gives the numbers of `embed` and `predict`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from monai.bundle import ConfigWorkflow
from small_run import PEOPLE, TABLES, changed_run, read_json

import neurocontrast as nc
from neurocontrast.cli.app import run as neurocontrast
from neurocontrast.data import read_measures
from neurocontrast.documents.embeddings import read_embeddings
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError


def run_bundle(bundle: Path, place: Path, output: Path, **options) -> Path:
    workflow = ConfigWorkflow(
        config_file=str(bundle / "configs" / "inference.yaml"), workflow_type="inference", logging_file=False,
        bundle_root=str(bundle), dataset_dir=str(place), output=str(output), **options,
    )  # fmt: skip
    workflow.initialize()
    assert workflow.check_properties() == []
    workflow.run()
    return output


def test_a_bundle_without_a_probe_embeds(of_others, others, tmp_path):
    (tmp_path / "mine.txt").write_text("Copyright 2026 somebody. CC BY-SA 3.0.\n")
    bundle = nc.bundle(of_others.run, out=tmp_path / "bundle", licence=tmp_path / "mine.txt")
    licence = (bundle / "docs" / "license.txt").read_text()
    assert licence.startswith("Copyright 2026 somebody.")
    assert "BSD 3-Clause" in licence
    about = read_json(bundle / "configs" / "metadata.json")["network_data_format"]
    image = about["inputs"]["image"]
    pred = about["outputs"]["pred"]
    assert all(len(each["channel_def"]) == each["num_channels"] for each in (image, pred))
    assert (image["spatial_shape"], pred["num_channels"]) == ([16, 20, 16], 32)
    made = run_bundle(bundle, others, tmp_path / "o.parquet")
    np.testing.assert_array_equal(
        read_embeddings(made).features, read_embeddings(of_others.table).features
    )


def test_a_bundle_predicts_as_predict_does_and_names_nobody(of_others, others, tmp_path):
    run, _, evaluation = of_others
    wanted = pd.read_csv(nc.predict(evaluation, others, run=run, out=tmp_path / "p.tsv"), sep="\t")
    bundle = nc.bundle(run, evaluation, out=tmp_path / "bundle")
    found = pd.read_csv(run_bundle(bundle, others, tmp_path / "o.tsv"), sep="\t")
    pd.testing.assert_frame_equal(
        found.drop(columns="trained_on"), wanted.drop(columns="trained_on")
    )
    assert wanted["trained_on"].all()
    assert found["trained_on"].isna().all()  # not false: nobody can tell
    assert read_json(tmp_path / "o.json")["n"]["of_trained_subjects"] is None
    card = (bundle / "docs" / "README.md").read_text()
    assert "## Probe of diagnosis" in card
    assert "not for people" in card


def test_a_bad_scan_stops_no_other(of_others, others, tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.nii.gz").write_bytes(b"no image")
    shutil.copy(others.parent / pd.read_csv(others, sep="\t")["path"][0], inbox / "b.nii.gz")
    run, _, evaluation = of_others
    made = run_bundle(
        nc.bundle(run, evaluation, out=tmp_path / "bundle"), inbox, tmp_path / "o.tsv"
    )
    bad, good = pd.read_csv(made, sep="\t").to_dict("records")
    assert "not a NIfTI image" in bad["error"]
    assert good["y_pred"] in ("patient", "control")


def test_what_cannot_be_bundled_is_refused_and_nothing_is_written(whole, tmp_path, capsys):
    run = whole
    out = tmp_path / "bundle"
    python = {"monai": "1.6.1", "image_shape": [1, 16, 16, 16], "transforms": [{"class": "m.Own"}]}
    wrong = [
        ({"preprocessing": python}, CheckpointError, "given from Python"),
        ({"preprocessing": {"kind": "images"}}, ConfigError, "trained on natural images"),
        ({"format": 9}, CheckpointError, "format 9 is not known"),
        ({"preprocessing": {"transform_version": 7}}, CheckpointError, "version is 7"),
        (
            {"weights": {"file": "nowhere.safetensors", "sha256": "0"}},
            CheckpointError,
            "the weights are missing",
        ),
    ]
    for number, (changes, error, message) in enumerate(wrong):
        with pytest.raises(error, match=message):
            nc.bundle(changed_run(run, tmp_path / f"{number}", **changes), out=out)
    with pytest.raises(CheckpointError, match=r"no encoder\.json there"):
        nc.bundle(tmp_path, out=out)
    with pytest.raises(ConfigError, match=r"licence: .* cannot be read"):
        nc.bundle(run, out=out, licence=tmp_path / "nowhere.txt")
    with pytest.raises(CheckpointError, match="there is no probe"):
        nc.bundle(run, run, out=out)
    assert not out.exists()
    assert neurocontrast(["bundle", str(run), "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out)
    assert neurocontrast(["bundle", str(run), "--out", str(out)]) == 2
    assert "not empty" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="is not a bundle"):
        nc.bundle(run, out=run, overwrite=True)
    assert nc.bundle(run, out=out, overwrite=True) == out


def test_a_probe_of_other_features_is_refused(of_others, brain_run, tmp_path):
    run, _, evaluation = of_others
    with pytest.raises(DataError, match="Features of two encoders have nothing in common"):
        nc.bundle(brain_run, evaluation, out=tmp_path / "b")
    broken = shutil.copytree(evaluation, tmp_path / "broken")
    (broken / "probe" / "probe.npz").unlink()
    with pytest.raises(CheckpointError, match=r"probe\.npz: missing"):
        nc.bundle(run, broken, out=tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_bundle_of_measures_predicts_from_their_tables_and_its_card_speaks_of_measures(
    of_measures, tmp_path
):
    run, table, evaluation = of_measures
    bundle = nc.bundle(run, evaluation, out=tmp_path / "bundle")
    tables = tmp_path / "tables"
    tables.mkdir()
    for path in TABLES:
        shutil.copy(path, tables)
    found = pd.read_csv(run_bundle(bundle, tables, tmp_path / "o.tsv"), sep="\t").set_index(
        "participant_id"
    )
    wanted = pd.read_csv(nc.predict(evaluation, table, out=tmp_path / "p.tsv"), sep="\t").set_index(
        "participant_id"
    )
    np.testing.assert_allclose(
        found.loc[wanted.index, "y_score"], wanted["y_score"], rtol=1e-4, atol=1e-5
    )
    card, about = (
        (bundle / name).read_text() for name in ("docs/README.md", "configs/metadata.json")
    )
    for name in ("aparc.a2009s+aseg", "lh_G_front_sup_thickness", "Left-Hippocampus", "mm³"):
        assert name in card
    for text in (card, about):
        assert not any(
            word in text.lower() for word in ("voxel", "brain mri", "skull", "nifti", "an image")
        )
    assert json.loads(about)["task"] == "sex from regional measures of the brain"
    known = read_json(run / "encoder.json")["preprocessing"]["columns"]
    assert json.loads(about)["network_data_format"]["inputs"]["image"]["num_channels"] == len(known)


def test_a_bundle_of_measures_without_a_probe_embeds_their_tables(of_measures, tmp_path):
    run, table, _ = of_measures
    joined = tmp_path / "measures.tsv"
    cohort = read_measures(PEOPLE, TABLES)
    names = cohort.table[["participant_id"]].reset_index(drop=True)
    names.join(cohort.measures.values.reset_index(drop=True)).to_csv(joined, sep="\t", index=False)
    bundle = nc.bundle(run, out=tmp_path / "bundle")
    made = run_bundle(bundle, PEOPLE, tmp_path / "o.parquet", measures=str(joined))
    np.testing.assert_allclose(
        read_embeddings(made).features, read_embeddings(table).features, atol=1e-5
    )
