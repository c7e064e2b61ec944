"""The whole path, command by command, as the README tells it."""

import itertools
import json
import shlex
from pathlib import Path

import pandas as pd
import pytest

from neurocontrast.cli import run

WAY = ["simulate", "check", "pretrain", "embed", "evaluate", "report"]


@pytest.mark.parametrize(("command", "following"), itertools.pairwise(WAY))
def test_a_command_ends_with_the_next_one_and_with_paths_that_are_there(study, command, following, capsys):
    (line,) = [line for line in study.said[command] if line.startswith("Next: ")]
    program, name, *words = shlex.split(line.removeprefix("Next: "))
    assert (program, name) == ("neurocontrast", following)
    assert any(Path(word).exists() for word in words), line
    assert run([name, *words, "--help"]) == 0  # options and arguments are known
    assert "Usage" in capsys.readouterr().out


def test_every_command_succeeds_and_leaves_its_files_and_nothing_else(study):
    assert study.codes == dict.fromkeys(study.codes, 0)
    assert not list(study.folder.rglob(".tmp-*"))
    names = {
        "study": {"participants.tsv", "images", "simulation.json"},
        "RUN": {"config.yaml", "provenance.json", "metrics.csv", "encoder.json", "encoder.safetensors"},
        "EVAL": {"evaluation.json", "predictions.tsv", "folds.tsv", "sites.tsv", "config.yaml", "report.html"},
        "BOTH": {"models.tsv", "differences.tsv", "comparison.json"},
    }
    for folder, expected in names.items():
        assert expected <= {path.name for path in (study.folder / folder).iterdir()}
    summary = json.loads((study.folder / "EVAL" / "evaluation.json").read_text(encoding="utf-8"))
    assert (summary["target"], summary["n"]["scans"], summary["n_overlap"]) == ("diagnosis", 24, 0)
    assert summary["simulated"]
    assert "SIMULATED" in (study.folder / "EVAL" / "report.html").read_text(encoding="utf-8").upper()
    differences = pd.read_csv(study.folder / "BOTH" / "differences.tsv", sep="\t")
    assert (differences["difference"].abs() < 1e-9).all()


def test_a_folder_that_cannot_be_renamed_is_filled_in_place(study, tmp_path, monkeypatch, capsys):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    arguments = ["evaluate", study.path("EMB.parquet"), "--out", ".", "--n-folds", "3", "--quiet"]
    few = [part for each in ("n_bootstraps=20", "C=[0.01]") for part in ("--set", f"evaluation.{each}")]
    assert run([*arguments, *few]) == 0
    assert (here / "evaluation.json").is_file()
    assert run([*arguments, *few, "--overwrite", "--report"]) == 0
    assert (here / "evaluation.json").is_file()
    assert (here / "report.html").is_file()
    assert "Next: open the page" in capsys.readouterr().out
    assert not list(here.glob(".tmp-*"))
