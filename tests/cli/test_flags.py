"""Messages that name parameters of Python are shown with the flags of the command line."""

import inspect

import pytest

from neurocontrast.cli import run
from neurocontrast.cli.command import EvaluationOptions
from neurocontrast.cli.data_commands import index, prepare
from neurocontrast.cli.evaluation_commands import report
from neurocontrast.cli.flags import Flags
from neurocontrast.exceptions import ConfigError


def flags_of(*functions, command=""):
    parameters = {}
    for function in functions:
        parameters |= inspect.signature(function, eval_str=True).parameters
    return Flags.of(command, parameters)


def test_flags_are_those_that_typer_shows():
    flags = flags_of(index, report, EvaluationOptions).by_parameter
    assert flags["n_folds"] == "--n-folds"
    assert flags["skip"] == "--skip"
    assert flags["phenotypes"] == "--phenotype"
    assert flags["viewer"] == "--map"
    assert flags["show_ids"] == "--show-ids"
    assert flags["overrides"] == "--set"
    assert flags["quiet"] == "--quiet"
    assert flags["root"] == ""


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        # a parameter at the beginning of a line
        ("out: 'x' exists.", "--out: 'x' exists."),
        ("n_workers must be 1", "--n-workers must be 1"),
        ("a: bad\nn_workers: must be 1", "a: bad\n--n-workers: must be 1"),
        ("choose.1: must be text", "--choose: must be text"),
        ("configuration: data.spacing_mm: must be above 0", "--spacing-mm: must be above 0"),
        ("x.yaml: data.spacing_mm: must be above 0", "x.yaml: data.spacing_mm: must be above 0"),
        ("the folder out: full", "the folder out: full"),
        ("outer: x", "outer: x"),
        # a value
        ("Pass overwrite=True.", "Pass --overwrite."),
        ("Pass overwrite=true, or skip=True", "Pass --overwrite, or --skip"),
        ("Leave bias=False out", "Leave --no-bias out"),
        ("n_workers=1 instead", "--n-workers 1 instead"),
        ("(spacing_mm=1.5)", "(--spacing-mm 1.5)"),
        ("keep=[age]", "keep=[age]"),
        ("Say --set data.n_workers=1.", "Say --set data.n_workers=1."),
        ("Truth: overwrite=Trueish", "Truth: --overwrite Trueish"),
        # the verb before a flag
        ("Set skip=true.", "Use --skip."),
        ("or set skip=True", "or use --skip"),
        ("Reset skip=True", "Reset --skip"),
        ("Set nothing=1", "Set nothing=1"),
        # a message for both readers
        ("out: say --out x, or out=x", "out: say --out x, or out=x"),
        # positional arguments
        ("root: is an argument", "root: is an argument"),
        ("Pass root=x", "Pass root=x"),
    ],
)
def test_messages_name_options_as_flags(message, shown):
    assert flags_of(index, prepare).translate(message) == shown


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Set harmonise=none.", "Use --set evaluation.harmonise=none."),
        ("C=[0.1, 1]", "--set evaluation.C=[0.1, 1]"),
        ("or where={site: a}", "or --set evaluation.where={site: a}"),
        ("n_folds=3", "--n-folds 3"),
        ("not {'kind': 1}; evaluation.kind=binary", "not {'kind': 1}; evaluation.kind=binary"),
        ("kind='binary'", "kind='binary'"),
        ("harmonise: unknown", "harmonise: unknown"),
    ],
)
def test_messages_name_keys_without_a_flag_by_set(message, shown):
    flags = flags_of(EvaluationOptions, command="evaluate")
    assert flags.translate(message) == shown


def test_a_command_without_a_section_knows_no_keys():
    assert flags_of(EvaluationOptions).translate("harmonise=none") == "harmonise=none"


def test_the_message_of_a_command_has_flags_and_that_of_python_parameters(capsys, monkeypatch):
    def refuse(*_arguments, **_options):
        raise ConfigError("out: 'E' exists. Pass overwrite=True, or set harmonise=none.")

    monkeypatch.setattr("neurocontrast.evaluate", refuse)
    assert run(["evaluate", "e.parquet", "--target", "age", "--out", "E"]) == 2
    shown = "--out: 'E' exists. Pass --overwrite, or use --set evaluation.harmonise=none."
    assert shown in " ".join(capsys.readouterr().err.split())
