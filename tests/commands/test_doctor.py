"""What a machine has, and what of a configuration would be refused on it."""

import importlib
import json
from importlib import metadata

import pytest
import torch

import neurocontrast as nc
from neurocontrast.cli import run as run_cli
from neurocontrast.exceptions import ConfigError, DataError

# The function has its module's name, so the module is found among those imported.
MODULE = importlib.import_module("neurocontrast.commands.pretrain")


@pytest.mark.parametrize(("many", "said"), [(1000, "lda, pca or densenet_small"), (5, "densenet121")])
def test_it_says_which_network_suits_so_many_scans(settings, monkeypatch, many, said):
    monkeypatch.setattr(MODULE, "_MANY_SCANS", many)
    assert f"Suited to this number of scans: {said}." in nc.doctor(settings()).to_text()


def test_a_wrong_table_or_shape_is_refused_as_by_pretrain(settings):
    with pytest.raises(DataError, match="there is no such file"):
        nc.doctor(settings("data.participants=nowhere.tsv"))
    with pytest.raises(ConfigError, match="needs at least 32 voxels"):
        nc.doctor(settings("data.participants=null", "encoder.name=densenet121"))


ARGUMENTS = [
    *("--set", "encoder.name=lenet", "--set", "data.spacing_mm=8", "--set", "data.shape=[24,28,24]"),
    *("--set", "training.batch_size=4", "--set", "data.val_fraction=0.3", "--quiet"),
]


def test_the_command_tells_the_facts_and_json_is_for_programs(cohort, capsys):
    assert run_cli(["doctor", *ARGUMENTS, "--participants", str(cohort)]) == 0
    shown = capsys.readouterr().out
    torch_version = f"torch {metadata.version('torch')}"
    for fact in ("Python 3.", torch_version, "cores usable", "GPU ", "This run: lenet on ", "24×28×24"):
        assert fact in shown, fact
    assert run_cli(["doctor", *ARGUMENTS, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"machine", "run", "problems"}


def test_a_configuration_that_is_refused_here_ends_with_2_after_the_facts(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_cli(["doctor", *ARGUMENTS, "--set", "training.precision=16-mixed"]) == 2
    shown = capsys.readouterr().out
    assert "cores usable" in shown
    assert "problem: training.precision: '16-mixed' is for GPUs" in shown
