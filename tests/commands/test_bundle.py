"""A run and its probe as a MONAI bundle, which gives the same numbers without this package."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from monai.bundle import ConfigWorkflow
from small_run import FAST as FASTEST

import neurocontrast as nc
from neurocontrast.bundling.contents import MODULES, sources_of
from neurocontrast.cli.app import run as neurocontrast
from neurocontrast.data import read_measures
from neurocontrast.embedding.table import read_embeddings
from neurocontrast.encoders import EncoderSettings, ReadOut, build_encoder, save_encoder
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.transforms import Preprocessing

SAMPLE = Path(__file__).resolve().parents[2] / "sample" / "measures"
FAST = FASTEST | {"outlyingness": True}
BOX = {"spacing_mm": 7.0, "shape": (24, 32, 24)}
ENCODERS = {
    "lenet": EncoderSettings(name="lenet"),
    "grid": EncoderSettings(name="lenet", norm="group", read_out=ReadOut(blocks=(1, 3), grid=(2, 3, 2))),
    "pca": EncoderSettings(name="pca", n_components=4),
    "densenet": EncoderSettings(name="densenet_small", read_out=ReadOut(blocks=(2, 4), grid=(2, 2, 2))),
}
PREPARED = {
    "zscore": Preprocessing(**BOX),
    "brain": Preprocessing(**BOX, normalise="zscore-brain"),
    "percentile": Preprocessing(**BOX, normalise="percentile", erode_mm=8.0, smooth_mm=6.0),
    "own-spacing": Preprocessing(spacing_mm=None, shape=(24, 30, 24)),
    "larger": Preprocessing(spacing_mm=5.0, shape=(40, 48, 40)),
}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return nc.simulate(tmp_path_factory.mktemp("people") / "made", n_subjects=26, n_sites=2, spacing_mm=8.0, seed=9)


def make_run(folder: Path, encoder: str = "lenet", prepared: str = "zscore", *, seed: int = 3, **contract) -> Path:
    """Write an encoder with random weights as a run of `pretrain` would."""
    settings, n_channels = ENCODERS[encoder], len(contract.get("channels", "1"))
    built = build_encoder(settings, n_voxels=50, n_channels=n_channels, seed=seed)
    if settings.is_linear:
        built.features.layers.set_components(torch.arange(50) * 97, torch.rand(50), torch.randn(4, 50))
        contract["n_voxels"] = 50
    about = {"preprocessing": PREPARED[prepared].contract(), "cache_dtype": "float16", **contract}
    save_encoder(folder, built, about)
    return folder


def embedded(run: Path, participants: Path, folder: Path) -> np.ndarray:
    cache = {"data": {"cache_dir": str(folder / "cache")}}
    table = nc.embed(run, participants=participants, out=folder / "emb.parquet", config=cache)
    return read_embeddings(table).features


def run_bundle(bundle: Path, scans: Path, output: Path) -> list[dict]:
    """Run a bundle in this process, whose modules it must not leave behind."""
    config = str(bundle / "configs" / "inference.yaml")
    try:
        workflow = ConfigWorkflow(
            config_file=config, workflow_type="inference", logging_file=False,
            bundle_root=str(bundle), dataset_dir=str(scans), output=str(output),
        )  # fmt: skip
        sys.path.insert(0, str(bundle))
        workflow.initialize()
        assert workflow.check_properties() == []
        workflow.run()
    finally:
        sys.path[:] = [path for path in sys.path if path != str(bundle)]
        for name in [name for name in sys.modules if name.partition(".")[0] == "scripts"]:
            del sys.modules[name]
    return [json.loads(line) for line in output.read_text().splitlines()]


def few(participants: Path, target: Path, n: int | None = None, **changed) -> Path:
    """Write the first rows of a table elsewhere, and return where."""
    table = pd.read_csv(participants, sep="\t").head(n or 10_000)
    table.assign(path=[str(participants.parent / path) for path in table["path"]], **changed).to_csv(
        target, sep="\t", index=False
    )
    return target


def assert_features_are_those_of_embed(run: Path, scans: Path, folder: Path) -> None:
    found = run_bundle(nc.bundle(run, out=folder / "bundle"), scans, folder / "o.jsonl")
    assert not any(each["error"] for each in found)
    wanted = embedded(run, scans, folder)
    np.testing.assert_allclose([each["features"] for each in found], wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("encoder", "prepared"),
    [*[("lenet", name) for name in PREPARED], ("grid", "zscore"), ("pca", "percentile"), ("densenet", "larger")],
)
def test_a_bundle_gives_the_features_of_embed(people, tmp_path, encoder, prepared):
    run = make_run(tmp_path / "run", encoder, prepared)
    assert_features_are_those_of_embed(run, few(people, tmp_path / "t.tsv", 2), tmp_path)


@pytest.mark.parametrize(("target", "probe"), [("diagnosis", "logistic"), ("age", "ridge")])
def test_a_bundle_predicts_as_predict_does(people, tmp_path, target, probe):
    run = make_run(tmp_path / "run")
    embedded(run, people, tmp_path)
    evaluation = nc.evaluate(
        tmp_path / "emb.parquet", target=target, probe=probe, out=tmp_path / "e", n_folds=3, **FAST
    )
    wanted = pd.read_csv(nc.predict(evaluation, tmp_path / "emb.parquet", out=tmp_path / "p.tsv"), sep="\t").head(5)
    bundle = nc.bundle(run, evaluation, out=tmp_path / "bundle")
    found = pd.DataFrame(run_bundle(bundle, few(people, tmp_path / "t.tsv", 5), tmp_path / "o.jsonl"))
    np.testing.assert_allclose(found["y_score"], wanted["y_score"], rtol=1e-4)
    np.testing.assert_allclose(found["mahalanobis"], wanted["mahalanobis"], rtol=1e-3)
    assert found["outside"].tolist() == wanted["outside"].tolist()
    if target == "diagnosis":
        assert found["y_pred"].tolist() == wanted["y_pred"].tolist()
    card = (bundle / "docs" / "README.md").read_text()
    assert f"## Probe of {target}" in card
    assert "not for people" in card


def test_several_classes_are_predicted_as_by_the_probe(people, tmp_path):
    run = make_run(tmp_path / "run")
    three = few(people, tmp_path / "three.tsv", diagnosis=[*["a", "b", "b", "c"] * 6, "a", "b"])
    embedded(run, three, tmp_path)
    evaluation = nc.evaluate(tmp_path / "emb.parquet", out=tmp_path / "e", n_folds=3, threshold="prevalence", **FAST)
    wanted = pd.read_csv(nc.predict(evaluation, tmp_path / "emb.parquet", out=tmp_path / "p.tsv"), sep="\t")
    bundle = nc.bundle(run, evaluation, out=tmp_path / "bundle")
    found = pd.DataFrame(run_bundle(bundle, three, tmp_path / "o.jsonl"))
    for name in ("score_a", "score_b", "score_c"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4)
    assert found["y_pred"].tolist() == wanted["y_pred"].tolist()


def test_a_bad_scan_stops_no_other(people, tmp_path):
    bundle = nc.bundle(make_run(tmp_path / "run"), out=tmp_path / "bundle")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.nii.gz").write_bytes(b"no image")
    shutil.copy(people.parent / pd.read_csv(people, sep="\t")["path"][0], inbox / "b.nii.gz")
    with pytest.raises(SystemExit) as end:
        run_bundle(bundle, inbox, tmp_path / "o.jsonl")
    assert end.value.code == 1
    bad, good = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert "not a NIfTI image" in bad["error"]
    assert bad["features"] is None
    assert len(good["features"]) == 32


def test_maps_in_several_columns_are_bundled(people, tmp_path):
    maps = Preprocessing(**BOX, normalise="none", smooth_mm=8.0, n_channels=2)
    contract = {"preprocessing": maps.contract(), "cache_dtype": "float32", "channels": ["gm", "wm"]}
    run = make_run(tmp_path / "run", **contract)
    table = pd.read_csv(few(people, tmp_path / "t.tsv", 3), sep="\t").rename(columns={"path": "gm"})
    table.assign(wm=table["gm"].to_numpy()[::-1]).to_csv(tmp_path / "maps.tsv", sep="\t", index=False)
    assert_features_are_those_of_embed(run, tmp_path / "maps.tsv", tmp_path)


def test_the_folder_is_what_the_specification_asks_for(tmp_path):
    (tmp_path / "mine.txt").write_text("Copyright 2026 somebody. CC BY-SA 3.0.\n")
    bundle = nc.bundle(make_run(tmp_path / "run"), out=tmp_path / "b", licence=tmp_path / "mine.txt")
    about = json.loads((bundle / "configs" / "metadata.json").read_text())
    texts = "version monai_version pytorch_version numpy_version task description authors copyright"
    assert all(isinstance(about[name], str) and about[name] for name in texts.split())
    image, made = about["network_data_format"]["inputs"]["image"], about["network_data_format"]["outputs"]["pred"]
    keys = "type format modality num_channels spatial_shape dtype value_range is_patch_data channel_def"
    for tensor in (image, made):
        assert set(tensor) == set(keys.split())
        assert len(tensor["channel_def"]) == tensor["num_channels"]
    assert (image["spatial_shape"], made["num_channels"]) == ([24, 32, 24], 32)
    licence = (bundle / "docs" / "license.txt").read_text()
    assert licence.startswith("Copyright 2026 somebody.")
    assert "BSD 3-Clause" in licence
    config = yaml.safe_load((bundle / "configs" / "inference.yaml").read_text())
    parts = "bundle_root device dataset_dir dataset evaluator network_def inferer run"
    assert set(parts.split()) <= set(config)
    assert torch.load(bundle / "models" / "model.pt", weights_only=True)


def test_what_cannot_be_bundled_is_refused_and_nothing_is_written(tmp_path, capsys):
    run, out = make_run(tmp_path / "run"), tmp_path / "bundle"
    contract = json.loads((run / "encoder.json").read_text())

    def changed(**changes) -> Path:
        other = shutil.copytree(run, Path(tempfile.mkdtemp(dir=tmp_path)) / "run")
        (other / "encoder.json").write_text(json.dumps(contract | changes))
        return other

    python = {"transform_version": 1, "monai": "1.6.1", "image_shape": [1, 16, 16, 16]}
    python["transforms"] = [{"class": "m.Own"}]
    for other, error, message in [
        (changed(preprocessing=python), CheckpointError, "given from Python"),
        (changed(preprocessing={"kind": "images"}), ConfigError, "trained on natural images"),
        (changed(format=9), CheckpointError, "format 9 is not known"),
        (changed(preprocessing={**contract["preprocessing"], "transform_version": 7}), CheckpointError, "version is 7"),
        (changed(weights={"file": "nowhere.safetensors", "sha256": "0"}), CheckpointError, "the weights are missing"),
        (tmp_path, CheckpointError, r"no encoder\.json there"),
    ]:
        with pytest.raises(error, match=message):
            nc.bundle(other, out=out)
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


def test_code_that_needs_more_than_a_bundle_has_is_refused():
    with pytest.raises(ConfigError, match=r"cannot be bundled: neurocontrast\.settings needs pydantic"):
        sources_of(["neurocontrast.settings"])


def test_the_code_of_a_bundle_imports_nothing_of_this_package():
    found = sources_of(MODULES)
    assert {"inference.py", "encoder.py", "loading.py"} <= set(found)
    for name, text in found.items():
        imported = {node.module for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)}
        assert not {each for each in imported if each.startswith("neurocontrast")}, name
        assert {f"{each.partition('.')[2]}.py" for each in imported if each.startswith("scripts.")} <= set(found), name


def test_a_probe_of_other_features_is_refused(people, tmp_path):
    run = make_run(tmp_path / "run")
    embedded(run, people, tmp_path)
    evaluation = nc.evaluate(tmp_path / "emb.parquet", out=tmp_path / "e", n_folds=3, **FAST)
    other = make_run(tmp_path / "other", seed=8)
    with pytest.raises(DataError, match="Features of two encoders have nothing in common"):
        nc.bundle(other, evaluation, out=tmp_path / "b")
    (evaluation / "probe" / "probe.npz").unlink()
    with pytest.raises(CheckpointError, match=r"probe\.npz: missing"):
        nc.bundle(run, evaluation, out=tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_a_bundle_runs_where_this_package_is_not(people, tmp_path):
    run = make_run(tmp_path / "run", "densenet", "larger")
    bundle = nc.bundle(run, out=tmp_path / "bundle")
    scans = few(people, tmp_path / "t.tsv", 2)
    code = (
        "import sys\n"
        "class Forbidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {'neurocontrast', 'pydantic', 'sklearn', 'safetensors', 'isal'}:\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Forbidden())\n"
        "from monai.bundle import run\n"
        f"run(config_file='configs/inference.yaml', dataset_dir={str(scans)!r}, output={str(tmp_path / 'o.jsonl')!r})\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=bundle)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    wanted = embedded(run, scans, tmp_path)
    np.testing.assert_allclose([each["features"] for each in found], wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder, tables = tmp_path_factory.mktemp("measured"), sorted(map(str, SAMPLE.glob("data-*.tsv")))
    config = {
        "data": {"participants": str(SAMPLE / "participants.tsv"), "measures": tables},
        "training": {"epochs": 1, "batch_size": 64},
        "objective": {"loss": "ntxent"},
    }
    run = nc.pretrain(config, out=folder / "run")
    participants, data = config["data"]["participants"], {"data": {"measures": tables}}
    table = nc.embed(run, participants=participants, out=folder / "emb.parquet", config=data)
    evaluation = nc.evaluate(table, out=folder / "e", target="sex", n_folds=3, allow_overlap=True, **FAST)
    return run, table, evaluation


def test_a_bundle_of_measures_predicts_from_their_tables(measured, tmp_path):
    run, table, evaluation = measured
    bundle = nc.bundle(run, evaluation, out=tmp_path / "bundle")
    tables = tmp_path / "tables"
    tables.mkdir()
    for path in SAMPLE.glob("data-*.tsv"):
        shutil.copy(path, tables)
    found = pd.DataFrame(run_bundle(bundle, tables, tmp_path / "o.jsonl")).set_index("participant_id")
    wanted = pd.read_csv(nc.predict(evaluation, table, out=tmp_path / "p.tsv"), sep="\t").set_index("participant_id")
    found = found.loc[wanted.index]
    np.testing.assert_allclose(found["y_score"], wanted["y_score"], rtol=1e-4, atol=1e-5)
    assert found["y_pred"].tolist() == wanted["y_pred"].tolist()
    features = read_embeddings(table).features
    np.testing.assert_allclose(np.stack(found["features"]), features, atol=1e-5 * np.abs(features).max())


def test_the_card_of_a_bundle_of_measures_speaks_of_measures(measured, tmp_path):
    run, _, evaluation = measured
    bundle = nc.bundle(run, evaluation, out=tmp_path / "bundle")
    card, about = ((bundle / name).read_text() for name in ("docs/README.md", "configs/metadata.json"))
    for name in ("aparc.a2009s+aseg", "lh_G_front_sup_thickness", "Left-Hippocampus", "mm³", "participants.tsv"):
        assert name in card
    for text in (card, about):
        assert not any(word in text.lower() for word in ("voxel", "brain mri", "skull", "nifti", "an image"))
    assert json.loads(about)["task"] == "sex from regional measures of the brain"
    known = json.loads((run / "encoder.json").read_text())["preprocessing"]["columns"]
    assert json.loads(about)["network_data_format"]["inputs"]["image"]["num_channels"] == len(known)


def test_bad_rows_of_measures_stop_no_other(measured, tmp_path):
    bundle = nc.bundle(measured[0], out=tmp_path / "bundle")
    values = read_measures(SAMPLE / "participants.tsv", sorted(SAMPLE.glob("data-*.tsv"))).measures.values.head(4)
    table = values.astype(str).assign(participant_id=["a", "b", "c", "d"])
    table.iloc[1, :50] = "n/a"
    table.loc[2, "Left-Hippocampus"] = "4,1"
    table.iloc[3, :-1] = (values.iloc[3] / 1000).astype(str)
    table.loc[4] = table.loc[0]
    table.loc[4, ["participant_id", "Left-Hippocampus"]] = ["e", "1e999"]
    table.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(SystemExit):
        run_bundle(bundle, tmp_path / "new.csv", tmp_path / "o.jsonl")
    good, *bad = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert (good["participant_id"], good["error"]) == ("a", None)
    for record, message in zip(bad, ("lacks 50 of", "found '4,1'", "Are they in mm", "found '1e999'"), strict=True):
        assert message in record["error"]
    table.drop(columns="Left-Hippocampus").to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(RuntimeError) as refused:
        run_bundle(bundle, tmp_path / "new.csv", tmp_path / "o2.jsonl")
    assert "new.csv: 1 of the 212 measures of training are not there: 'Left-Hippocampus'" in str(
        refused.value.__cause__
    )
