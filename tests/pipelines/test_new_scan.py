"""The workflow for scans that arrive: one file of JSON each, and a bad scan keeps no other from it."""

import json
import shutil

import pandas as pd
import pytest

import neurocontrast
from neurocontrast.encoders import EncoderSettings, build_encoder, save_encoder
from neurocontrast.transforms import Preprocessing
from tests.pipelines.snakemake_runs import link_repository, run_snakemake

FAST = {"n_bootstraps": 0, "confounds": False, "new_site": False, "n_folds": 3}


@pytest.mark.slow
def test_every_scan_of_the_inbox_is_predicted_once(tmp_path):
    link_repository(tmp_path)
    given = ("run=run", "evaluation=eval", "out=predicted")
    people = neurocontrast.simulate(tmp_path / "made", n_subjects=24, n_sites=2, spacing_mm=8.0, seed=3)
    preprocessing = Preprocessing(spacing_mm=7.0, shape=(24, 32, 24))
    save_encoder(
        tmp_path / "run", build_encoder(EncoderSettings(name="lenet")), {"preprocessing": preprocessing.contract()}
    )
    cache = {"data": {"cache_dir": str(tmp_path / "cache")}}
    embeddings = neurocontrast.embed(tmp_path / "run", participants=people, out=tmp_path / "emb.parquet", config=cache)
    neurocontrast.evaluate(embeddings, out=tmp_path / "eval", **FAST)
    (tmp_path / "inbox").mkdir()
    for number, path in enumerate(pd.read_csv(people, sep="\t")["path"].head(2)):
        shutil.copy(people.parent / path, tmp_path / "inbox" / f"new{number}.nii.gz")
    (tmp_path / "inbox" / "bad.nii.gz").write_bytes(b"no image")
    done = run_snakemake(tmp_path, "new_scan.smk", "inbox=inbox", *given)
    assert done.returncode == 1, done.stderr
    assert sorted(path.name for path in (tmp_path / "predicted").glob("*.jsonl")) == ["new0.jsonl", "new1.jsonl"]
    record = json.loads((tmp_path / "predicted" / "new0.jsonl").read_text())
    assert record["error"] is None
    assert 0 <= record["y_score"] <= 1
    assert "not a NIfTI image" in (tmp_path / "predicted" / "logs" / "bad.log").read_text()
    (tmp_path / "inbox" / "bad.nii.gz").unlink()
    done = run_snakemake(tmp_path, "new_scan.smk", "inbox=inbox", *given)
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in done.stderr
    (tmp_path / "empty").mkdir()
    assert "no file that ends in" in run_snakemake(tmp_path, "new_scan.smk", "inbox=empty", *given).stderr
