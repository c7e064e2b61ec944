"""The whole path, command by command, as the README tells it, and what every command ends with."""

import io
import itertools
import json
import shlex
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from neurocontrast.cli import command as module
from neurocontrast.cli import run
from neurocontrast.cli.command import Result, show_result
from neurocontrast.cli.evaluation_commands import comparison_result, evaluation_result
from neurocontrast.commands.report import ComparisonResult

WAY = ["simulate", "check", "pretrain", "embed", "evaluate", "report"]


@pytest.mark.parametrize(("command", "following"), itertools.pairwise(WAY))
def test_a_command_ends_with_the_next_one_and_with_paths_that_are_there(
    study, command, following, capsys
):
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
        "RUN": {
            "config.yaml",
            "provenance.json",
            "metrics.csv",
            "encoder.json",
            "encoder.safetensors",
        },
        "EVAL": {
            "evaluation.json",
            "predictions.tsv",
            "folds.tsv",
            "sites.tsv",
            "config.yaml",
            "report.html",
        },
        "BOTH": {"models.tsv", "differences.tsv", "comparison.json"},
    }
    for folder, expected in names.items():
        assert expected <= {path.name for path in (study.folder / folder).iterdir()}
    summary = json.loads((study.folder / "EVAL" / "evaluation.json").read_text(encoding="utf-8"))
    assert (summary["target"], summary["n"]["scans"], summary["n_overlap"]) == ("diagnosis", 24, 0)
    assert summary["simulated"]
    assert (
        "SIMULATED" in (study.folder / "EVAL" / "report.html").read_text(encoding="utf-8").upper()
    )
    differences = pd.read_csv(study.folder / "BOTH" / "differences.tsv", sep="\t")
    assert differences["difference"].abs().max() < 1e-9


@pytest.mark.slow
def test_a_folder_that_cannot_be_renamed_is_filled_in_place(study, tmp_path, monkeypatch, capsys):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    arguments = ["evaluate", study.path("EMB.parquet"), "--out", ".", "--n-folds", "3", "--quiet"]
    few = [
        part for each in ("n_bootstraps=20", "C=[0.01]") for part in ("--set", f"evaluation.{each}")
    ]
    assert run([*arguments, *few]) == 0
    assert (here / "evaluation.json").is_file()
    assert run([*arguments, *few, "--overwrite", "--report"]) == 0
    assert (here / "evaluation.json").is_file()
    assert (here / "report.html").is_file()
    assert "Next: open the page" in capsys.readouterr().out
    assert not list(here.glob(".tmp-*"))


def test_an_evaluation_ends_with_its_metric_beside_the_baselines(study):
    summary = json.loads((study.folder / "EVAL" / "evaluation.json").read_text(encoding="utf-8"))
    found = evaluation_result(study.folder / "EVAL")
    assert found.facts["models"]["embedding"]["value"] == summary["metrics"]["auc"]["pooled"]
    assert (
        list(found.facts["models"]["covariates only"]["interval"])
        == summary["baseline"]["auc"]["interval"]
    )
    assert found.facts["n_warnings"] == len(summary["warnings"])
    low, high = summary["metrics"]["auc"]["interval"]
    assert f"[{low:.3g}, {high:.3g}]" in found.table.to_string()
    table = comparison_result(ComparisonResult(study.folder / "BOTH")).table
    assert list(table.columns) == ["metric", "model", "difference [95% interval]", "p (Holm)"]
    assert table.iloc[0, 2] == "0"


def test_the_smallest_p_value_is_no_zero_for_programs(tmp_path):
    (tmp_path / "comparison.json").write_text(
        '{"confidence_level": 0.95, "target": "age", "kind": "continuous", "splits": "stratified", '
        '"reference": "a", "models": []}'
    )
    rows = [
        "metric\tmodel\tdifference\tlow\thigh\tp_adjusted",
        "mae\ta\t0\tn/a\tn/a\tn/a",
        "mae\tb\t-1.5\t-2\t-1\t3e-14",
    ]
    (tmp_path / "differences.tsv").write_text("\n".join(rows))
    found = comparison_result(ComparisonResult(tmp_path))
    assert [each["p_adjusted"] for each in json.loads(json.dumps(found.facts["differences"]))] == [
        None,
        3e-14,
    ]
    assert found.table.iloc[:, 2].tolist() == ["0", "-1.5 [-2, -1]"]


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (
            ["check", "study/participants.tsv", "--table-only"],
            {"passed", "problems", "warnings", "summary"},
        ),
        (["report", "EVAL", "--no-figures"], {"path"}),
        (
            ["predict", "EVAL", "EMB.parquet", "--out", "P.tsv", "--overwrite"],
            {"n_scans", "n_trained_on", "path"},
        ),
        (
            ["compare", "EVAL", "AGAIN", "--out", "BOTH", "--overwrite"],
            {"reference", "differences", "path"},
        ),
    ],
)
def test_every_result_is_there_for_programs_and_people_read_what_comes_next(
    study, capsys, command, keys
):
    paths = [study.path(each) if each[0].isupper() or "/" in each else each for each in command]
    assert run([*paths, "--quiet"]) == 0
    assert "Next: " in capsys.readouterr().out
    assert run([*paths, "--json", "--quiet"]) == 0
    assert keys <= set(json.loads(capsys.readouterr().out))


def test_a_pipe_gets_plain_lines_and_a_terminal_a_table(monkeypatch, tmp_path):
    shown = {}
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100, highlight=False)
        monkeypatch.setattr(module, "_console", lambda stream, console=console: console)
        show_result(
            Result(
                {},
                "age",
                pd.DataFrame({"model": ["[a]"], "mae": [3.14159]}),
                ["one note"],
                tmp_path / "x",
            )
        )
        shown[terminal] = console.file.getvalue()
    assert shown[False].splitlines() == [
        "age",
        "model   mae",
        "[a]    3.14",
        "one note",
        str(tmp_path / "x"),
    ]
    assert "─" in shown[True]
    assert "3.14" in shown[True]
