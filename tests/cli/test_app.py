"""How the command line ends, and what it says."""

import pytest

from neurocontrast.cli import run
from neurocontrast.exceptions import DataError, TrainingError


def test_help_lists_every_command(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("neurocontrast ")
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    commands = "simulate check doctor pretrain embed evaluate predict explain report compare"
    for command in commands.split():
        assert command in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pretrian"], "pretrain"),
        (["pretrain", "--ou", "x"], "--out"),
        (["simulate"], "Missing argument"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(arguments, said, capsys):
    assert run(arguments) == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert said in shown


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DataError("row 3: age is -3"), 2, "error: row 3: age is -3"),
        (TrainingError("loss is nan"), 1, "error: loss is nan"),
        (OSError(28, "No space left on device", "/run/x"), 1, "/run/x: No space left on device"),
        (ValueError("surprise"), 1, "unexpected ValueError: surprise"),
        (MemoryError(), 1, "out of memory"),
        (SystemExit("a library gave up"), 1, ""),
    ],
)
def test_errors_become_one_message_and_an_exit_code(error, code, said, capsys, monkeypatch):
    def fail(*_arguments, **_options):
        raise error

    monkeypatch.setattr("neurocontrast.report", fail)
    assert run(["report", "somewhere"]) == code
    shown = capsys.readouterr()
    assert said in shown.err.replace("\n", " ")
    assert "Traceback" not in shown.err
    assert shown.out == ""
