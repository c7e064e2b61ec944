"""What every command ends with."""

import io
import json

import pandas as pd
import pytest
from rich.console import Console

from neurocontrast.cli import command as module
from neurocontrast.cli import run
from neurocontrast.cli.command import Result, show_result
from neurocontrast.cli.evaluation_commands import comparison_result, evaluation_result


def test_an_evaluation_ends_with_its_metric_beside_the_baselines(study):
    summary = json.loads((study.folder / "EVAL" / "evaluation.json").read_text(encoding="utf-8"))
    found = evaluation_result(study.folder / "EVAL")
    assert found.facts["models"]["embedding"]["value"] == summary["metrics"]["auc"]["pooled"]
    assert list(found.facts["models"]["covariates only"]["interval"]) == summary["baseline"]["auc"]["interval"]
    assert found.facts["n_warnings"] == len(summary["warnings"])
    low, high = summary["metrics"]["auc"]["interval"]
    assert f"[{low:.3g}, {high:.3g}]" in found.table.to_string()
    table = comparison_result(study.folder / "BOTH").table
    assert list(table.columns) == ["metric", "model", "difference [95% interval]", "p (Holm)"]
    assert table.iloc[0, 2] == "0"


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (["check", "study/participants.tsv", "--table-only"], {"passed", "problems", "warnings", "summary"}),
        (["report", "EVAL", "--no-figures"], {"path"}),
        (["predict", "EVAL", "EMB.parquet", "--out", "P.tsv", "--overwrite"], {"n_scans", "n_trained_on", "path"}),
        (["compare", "EVAL", "AGAIN", "--out", "BOTH", "--overwrite"], {"reference", "differences", "path"}),
    ],
)
def test_every_result_is_there_for_programs_and_people_read_what_comes_next(study, capsys, command, keys):
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
        show_result(Result({}, "age", pd.DataFrame({"model": ["[a]"], "mae": [3.14159]}), ["one note"], tmp_path / "x"))
        shown[terminal] = console.file.getvalue()
    assert shown[False].splitlines() == ["age", "model   mae", "[a]    3.14", "one note", str(tmp_path / "x")]
    assert "─" in shown[True]
    assert "3.14" in shown[True]
