"""`pretrain`, `embed`, `predict` and `finetune`, killed at any file: the next call ends as one that was not killed.

Tables, embeddings and journals are compared by their bytes. JSON files hold the machine and times:
these are left out, and all else is compared. Temporary files (``.tmp-…``), which a kill leaves
beside the output, are gone.
"""

import json
from pathlib import Path

import pandas as pd
import pytest

import neurocontrast
from neurocontrast.config import write_config
from neurocontrast.embedding import read_embeddings
from tests.fuzz import kills

pytestmark = pytest.mark.slow

N_KILLS = 5
"""Of each kind: 20 in all."""
TIMES = {
    "environment",
    "seconds",
    "created",
    "samples_per_second",
    "training_metrics",
    "provenance",
}
"""Keys of times and machines, and of a digest of the file that holds them."""
EVALUATED = {"n_folds": 2, "n_bootstraps": 0, "voxels": "off", "allow_overlap": True}


def call(name, places, options, below, kill_at=0):
    """Call a function of the package, in a folder of its own."""
    below.mkdir()
    return kills.call("neurocontrast", name, places, options, below, kill_at)


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def content(path):
    """Return what a file says, without what differs from call to call."""
    if path.suffix == ".json":
        return without_times(json.loads(path.read_text()))
    if path.suffix == ".parquet":
        read = read_embeddings(path)
        return read.features.tobytes(), read.table.to_csv(), without_times(read.info.content())
    if path.name in ("finetuning.tsv", "metrics.csv"):
        table = pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
        return table.drop(columns=[name for name in table if name in TIMES]).to_csv()
    return path.read_bytes()


def contents(folder):
    """Return what is in a folder beside its cache, its lock, and its checkpoints, which hold times."""
    places = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    kept = [place for place in places if not {"cache", "checkpoints", ".lock"} & set(place.parts)]
    return {place.as_posix(): content(folder / place) for place in kept}


def killed_and_called_again(name, places, options_in, tmp_path):
    """Kill a call at each of several files, call again, and compare with a call that was not killed."""
    whole = tmp_path / "whole"
    n_written = call(name, places, options_in(whole), whole)
    assert n_written > N_KILLS
    expected = contents(whole)
    places_of_kills = kills.spread(n_written, N_KILLS)
    for at in places_of_kills:
        folder = tmp_path / f"killed-{at}"
        call(name, places, options_in(folder), folder, kill_at=at)
        options = options_in(folder)
        out = Path(options_in(folder)["out"])
        # Killed after its last file, the output is whole, and is replaced only when asked to be.
        if out.is_file() or (out / "evaluation.json").is_file():
            options["overwrite"] = True
        getattr(neurocontrast, name)(*places, **options)
        assert contents(folder) == expected, f"killed at write {at} of {n_written}"
    assert len(places_of_kills) == N_KILLS


def test_pretrain_killed_at_any_file(settings, tmp_path):
    path = tmp_path / "config.yaml"
    write_config(path, settings("training.epochs=1"))
    killed_and_called_again(
        "pretrain", (path,), lambda folder: {"out": str(folder / "run"), "resume": True}, tmp_path
    )


def test_embed_killed_at_any_file(whole, cohort, tmp_path):
    def options(folder):
        config = {
            "data": {"cache_dir": str(folder / "cache"), "n_workers": 1},
            "embedding": {"batch_size": 3},
        }
        return {"participants": str(cohort), "out": str(folder / "e.parquet"), "config": config}

    killed_and_called_again("embed", (whole,), options, tmp_path)


def test_predict_killed_at_any_file(of_others, cohort, tmp_path):
    def options(folder):
        return {"run": str(of_others.run), "out": str(folder / "p.tsv")}

    killed_and_called_again("predict", (of_others.evaluation, cohort), options, tmp_path)


def test_finetune_killed_at_any_file(whole, cohort, tmp_path):
    trained = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "accelerator": "cpu"}

    def options(folder):
        config = {"data": {"cache_dir": str(folder / "cache"), "n_workers": 1}, "finetune": trained}
        given = {"participants": str(cohort), "out": str(folder / "out"), "config": config}
        return {**given, "target": "diagnosis", **EVALUATED}

    killed_and_called_again("finetune", (whole,), options, tmp_path)
