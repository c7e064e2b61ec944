"""What long work shows."""

import io
import re
import time

import pytest
from rich.console import Console

from neurocontrast import display as module


def test_plain_lines_say_where_the_work_is(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LINES", 0.0)
    console = Console(file=io.StringIO(), force_terminal=False, width=160, highlight=False)
    with module._Lines(console).task("epoch 1", 4, "batches") as task:
        for _ in range(4):
            task.advance(loss=0.123456)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "epoch 1 …"
    assert lines[1].startswith("epoch 1: 1/4 batches")
    assert "left" in lines[1]
    assert "loss 0.1235" in lines[1]
    assert lines[-1].startswith("epoch 1: 4/4 batches")
    assert len(lines) == 5


def test_plain_lines_stay_few_when_the_work_is_quick():
    console = Console(file=io.StringIO(), force_terminal=False, width=160, highlight=False)
    lines = module._Lines(console)
    for _ in range(2):
        with lines.task("scans", 1000, "scans") as task:
            for _ in range(1000):
                task.advance()
    assert (
        len(console.file.getvalue().splitlines()) == 3
    )  # the first says before it begins that there is work


def test_each_silence_ends_with_a_sign_of_life(monkeypatch, capsys):
    monkeypatch.setattr(module, "_SECONDS_OF_SILENCE", 0.01)
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LINES", 0.5)
    monkeypatch.setattr(module, "_SILENCE", module._Silence())
    with module.sign_of_life():
        time.sleep(0.2)
        module.console_progress().message("begun")
        time.sleep(0.7)
    assert capsys.readouterr().err.split() == ["Working", "…", "begun", "Working", "…"]
    with (
        module.sign_of_life(),
        module._Bars(Console(file=io.StringIO(), force_terminal=True)).task("scans", 1, "scans"),
    ):
        time.sleep(0.7)
    assert capsys.readouterr().err == ""


def test_warnings_are_marked_and_quiet_shows_nothing(capsys):
    module.console_progress().warning("few patients")
    assert capsys.readouterr().err.strip() == "warning: few patients"
    module.console_progress(quiet=True).warning("few patients")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("total", "width"), [(4, 60), (4, 160), (None, 160)])
def test_a_terminal_gets_a_bar_with_every_figure_however_narrow_it_is(total, width):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False)
    figures = {f"term [{number}]": float(number) for number in range(8)}
    with module._Bars(console).task("Pretraining", total, "volumes") as task:
        task.advance(2, **figures)
    shown = " ".join(re.sub(r"\x1b\[[0-9;?]*\w", " ", console.file.getvalue()).split())
    assert "Pretraining" in shown
    assert all(f"[{number}] {number}" in shown for number in range(8))
