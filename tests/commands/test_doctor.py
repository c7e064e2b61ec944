"""What a machine has, and what of a configuration would be refused on it."""

import importlib
import json

import pytest
import torch

import neurocontrast as nc
from neurocontrast.cli import run as run_cli
from neurocontrast.exceptions import ConfigError, DataError

# The function has its module's name, so the module is found among those imported.
MODULE = importlib.import_module("neurocontrast.commands.doctor")
TINY = {
    "data": {"spacing_mm": 8, "shape": [24, 28, 24], "n_workers": 1, "val_fraction": 0.25},
    "encoder": {"name": "lenet"},
    "training": {"epochs": 3, "batch_size": 8, "accelerator": "cpu"},
}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    return nc.simulate(folder / "simulated", n_subjects=26, n_sites=2, spacing_mm=8.0, patients=0.0)


def _config(tmp_path, cohort=None, **training):
    data = {**TINY["data"], "cache_dir": str(tmp_path / "cache")}
    if cohort is not None:
        data["participants"] = str(cohort)
    return {**TINY, "data": data, "training": {**TINY["training"], **training}}


def test_a_machine_is_described_without_a_table(tmp_path):
    found = nc.doctor(_config(tmp_path))
    assert (found.run["shape"], "n_training_scans" in found.run) == ([24, 28, 24], False)
    assert found.machine["processor"]["n_usable"] >= 1
    assert found.machine["packages"]["torch"]


def test_what_pretrain_refuses_here_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = nc.doctor(_config(tmp_path, precision="bf16-mixed"))
    assert len(found.problems) == 1
    assert found.problems[0].startswith("training.precision: 'bf16-mixed' is for GPUs")
    assert found.run is None


@pytest.mark.parametrize(("many", "said"), [(1000, "lda, pca or densenet_small"), (20, "densenet121")])
def test_it_says_which_network_suits_so_many_scans(tmp_path, cohort, monkeypatch, many, said):
    monkeypatch.setattr(MODULE, "_MANY_SCANS", many)
    assert f"Suited to this number of scans: {said}." in nc.doctor(_config(tmp_path, cohort)).to_text()


def test_a_wrong_table_or_shape_is_refused_as_by_pretrain(tmp_path, cohort):
    with pytest.raises(DataError, match="there is no such file"):
        nc.doctor(_config(tmp_path, tmp_path / "nowhere.tsv"))
    config = _config(tmp_path)
    config["encoder"] = {"name": "densenet121"}
    with pytest.raises(ConfigError, match="needs at least 32 voxels"):
        nc.doctor(config)
    config = {**_config(tmp_path, cohort), "objective": {"loss": "supcon", "label": "handedness"}}
    with pytest.raises(DataError, match="handedness"):
        nc.doctor(config)
    with pytest.raises(DataError, match=r"probe_columns: .* no column 'agee'"):
        nc.doctor(_config(tmp_path, cohort, probe_every=1, probe_columns=["agee"]))


ARGUMENTS = [
    *("--set", "encoder.name=lenet", "--set", "data.spacing_mm=8", "--set", "data.shape=[24,28,24]"),
    *("--set", "training.batch_size=8", "--quiet"),
]


def test_the_command_tells_the_facts_and_json_is_for_programs(cohort, capsys):
    assert run_cli(["doctor", *ARGUMENTS, "--participants", str(cohort)]) == 0
    shown = capsys.readouterr().out
    for fact in ("Python 3.", f"torch {torch.__version__}", "cores usable", "GPU ", "This run: lenet on ", "24×28×24"):
        assert fact in shown, fact
    assert run_cli(["doctor", *ARGUMENTS, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"machine", "run", "problems"}


def test_a_configuration_that_is_refused_here_ends_with_2_after_the_facts(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_cli(["doctor", *ARGUMENTS, "--set", "training.precision=16-mixed"]) == 2
    shown = capsys.readouterr().out
    assert "cores usable" in shown
    assert "problem: training.precision: '16-mixed' is for GPUs" in shown
