"""What a machine has, and what a run would cost on it."""

import importlib
import json

import pytest
import torch

import neurocontrast as nc
from neurocontrast import resources
from neurocontrast.cli import run as run_cli
from neurocontrast.encoders import Encoder
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.resources import as_duration

# The function has its module's name, so the module is found among those imported.
MODULE = importlib.import_module("neurocontrast.stages.doctor")
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


class Work:
    """A clock that tells how many voxels the encoder has seen: three for one where a gradient is taken."""

    def __init__(self, monkeypatch):
        self.done, forward = 0.0, Encoder.forward

        def counted(encoder, volumes):
            self.done += volumes.numel() * (3 if torch.is_grad_enabled() else 1)
            return forward(encoder, volumes)

        monkeypatch.setattr(Encoder, "forward", counted)

    def __call__(self):
        return self.done


@pytest.mark.parametrize(
    ("changes", "time"),
    [({}, 1e9), ({"micro_batch_size": 3}, 1e9), ({}, 4e5)],
)
def test_the_estimate_is_within_a_factor_of_two_of_a_run_s_work(tmp_path, cohort, monkeypatch, changes, time):
    clock = Work(monkeypatch)
    monkeypatch.setattr(MODULE, "perf_counter", clock)
    config = _config(tmp_path, cohort, **changes)
    run = nc.doctor(config, seconds=time).run
    assert run["timed"]["as_configured"] is (time == 1e9)
    before = clock()
    nc.pretrain(config, out=tmp_path / "run")
    done = clock() - before
    assert done / 2 < run["seconds"] < 2 * done


def test_it_counts_the_scans_of_the_table(tmp_path, cohort):
    run = nc.doctor(_config(tmp_path, cohort), seconds=0.1).run
    assert {"n_scans": 26, "n_training_scans": 20, "n_validation_scans": 6}.items() <= run.items()
    assert not (tmp_path / "cache").exists()


def test_memory_grows_with_what_passes_the_network_at_once(tmp_path):
    def needed(**training):
        return nc.doctor(_config(tmp_path, **training), seconds=0.1).run["memory_bytes"]

    whole, half, micro = needed(batch_size=4096), needed(batch_size=2048), needed(batch_size=4096, micro_batch_size=8)
    assert whole - micro > 1.5 * (half - micro) > 0


def test_processes_on_one_cpu_share_it(tmp_path):
    one, two = (nc.doctor(_config(tmp_path, devices=n), n_scans=40, seconds=0.1).run for n in (1, 2))
    assert (one["n_devices"], two["n_devices"]) == (1, 1)
    assert two["memory_bytes"] > 1.5 * one["memory_bytes"]
    spread = nc.doctor(_config(tmp_path, num_nodes=2), n_scans=40, seconds=0.1)
    assert spread.run["n_devices"] == 2


def test_a_table_of_the_future_is_a_number_of_scans(tmp_path):
    run = nc.doctor(_config(tmp_path), n_scans=400, seconds=0.1).run
    assert (run["n_training_scans"], run["n_validation_scans"]) == (300, 100)
    assert nc.doctor(_config(tmp_path), seconds=0.1).run["n_scans"] is None


def test_nothing_is_measured_in_no_time(tmp_path):
    found = nc.doctor(_config(tmp_path), seconds=0)
    assert found.run is None
    assert found.machine["processor"]["n_usable"] >= 1
    assert found.machine["software"]["packages"]["torch"]


def test_what_pretrain_refuses_here_is_a_problem_and_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = nc.doctor(_config(tmp_path, precision="bf16-mixed"), seconds=0.1)
    assert len(found.problems) == 1
    assert found.problems[0].startswith("training.precision: 'bf16-mixed' is for GPUs")
    assert found.run is None


def test_what_does_not_fit_is_warned_about(tmp_path, monkeypatch):
    few = {"total_bytes": 1 << 20, "available_bytes": 1 << 20, "own_bytes": 0}
    monkeypatch.setattr(MODULE, "describe_memory", lambda: few)
    warnings = nc.doctor(_config(tmp_path), n_scans=50, seconds=0.1).warnings
    assert any("of memory are needed" in warning for warning in warnings), warnings


def test_a_linear_encoder_is_not_timed_and_its_scans_are_counted_in_memory(tmp_path, cohort, monkeypatch):
    config = {**_config(tmp_path, cohort), "encoder": {"name": "pca", "n_components": 5}}
    found = nc.doctor(config, seconds=0.1)
    assert found.run["memory_bytes"] == 2 * 20 * 24 * 28 * 24 * 4
    assert "20 scans take up to" in found.to_text()
    assert "samples/s" not in found.to_text()
    del config["data"]["participants"]
    assert "For their memory give --participants" in nc.doctor(config, seconds=0.1).to_text()
    few = {"total_bytes": 1 << 20, "available_bytes": 1 << 20, "own_bytes": 0}
    monkeypatch.setattr(MODULE, "describe_memory", lambda: few)
    assert "data.spacing_mm" in nc.doctor(config, n_scans=100, seconds=0.1).warnings[0]


def test_it_says_which_network_suits_so_many_scans(tmp_path):
    small, large = (nc.doctor(_config(tmp_path), n_scans=n, seconds=0.1).to_text() for n in (400, 4000))
    assert "With 300 scans to learn from, begin with encoder.name: lda, pca or densenet_small" in small
    assert "With 3,000 scans to learn from, densenet121 suits" in large
    assert "With" not in nc.doctor(_config(tmp_path), seconds=0.1).to_text()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"seconds": -1}, ConfigError, "seconds: must be 0"),
        ({"seconds": float("nan")}, ConfigError, "seconds"),
        ({"n_scans": 1}, ConfigError, "n_scans: must be at least 2, got 1"),
        ({"n_scans": 5}, ConfigError, "data.val_fraction leaves a single validation sample"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        nc.doctor(_config(tmp_path), **options)


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
    *("--set", "training.batch_size=8", "--seconds", "0.2", "--quiet"),
]


def test_the_command_tells_the_facts(tmp_path, cohort, capsys):
    cache = ["--set", f"data.cache_dir={tmp_path}"]
    assert run_cli(["doctor", *ARGUMENTS, *cache, "--participants", str(cohort)]) == 0
    shown = capsys.readouterr().out
    for fact in (
        "neurocontrast ",
        "Python 3.",
        f"torch {torch.__version__}",
        "cores usable",
        "PyTorch computes with",
        "GPU ",
        "memory ",
        "cache ",
        f"0 KiB in 0 entries: {tmp_path}",
        "This run: 50 epochs ≈ ",
        "samples/s",
        "GiB",
        "8 scans of 24×28×24 voxels a step",
    ):
        assert fact in shown, fact


def test_json_is_for_programs(tmp_path, capsys):
    assert run_cli(["doctor", *ARGUMENTS, "--scans", "30", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"machine", "run", "problems", "warnings"}
    assert found["run"]["epochs"] == 50
    assert {"folder", "n_entries", "n_bytes"} == set(found["machine"]["cache"])
    assert found["run"]["seconds"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "training.epoch=3"], "Did you mean 'epochs'"),
        (["--set", "data.shape=[4,4,4]"], "data.shape"),
        (["--scans", "0"], "n_scans: must be at least 2"),
        (["--seconds", "-3"], "seconds: must be 0"),
        (["--participants", "nowhere.tsv"], "there is no such file"),
    ],
)
def test_bad_input_ends_with_2(arguments, said, capsys):
    assert run_cli(["doctor", *ARGUMENTS, *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_configuration_that_is_refused_here_ends_with_2_after_the_facts(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_cli(["doctor", *ARGUMENTS, "--set", "training.precision=16-mixed"]) == 2
    shown = capsys.readouterr().out
    assert "cores usable" in shown
    assert "problem: training.precision: '16-mixed' is for GPUs" in shown


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(3.2, "3 s"), (600, "10 min"), (11_400, "3.2 h"), (172_790, "48.0 h")],
)
def test_durations_are_told_as_one_would(seconds, said):
    assert as_duration(seconds) == said


def test_limits_of_containers_count(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    found = resources.describe_memory()
    assert (found["total_bytes"], found["available_bytes"]) == (1_000_000, 600_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert resources.describe_memory()["total_bytes"] > 1_000_000
