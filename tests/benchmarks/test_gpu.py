"""``benchmarks/gpu`` on a CPU: limits of time, failures of one case, and every part at small sizes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import figure, rows
from benchmarks.gpu import losses as gpu_losses

ROOT = Path(__file__).parents[2]
ON_CPU = ("--device", "cpu", "--small", "--backend", "eager")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Parts are processes that find the scripts in the current folder."""
    monkeypatch.chdir(ROOT)


def test_limits_together_are_below_seven_minutes():
    assert sum(gpu.SECONDS.values()) <= 7 * 60 - 15
    assert set(gpu.MODULES) == set(gpu.SECONDS)


def test_a_case_that_fails_says_why_and_the_next_is_measured(tmp_path, monkeypatch):
    def fail(deadline):
        raise RuntimeError("no working C++ compiler\nand much more")

    def exhaust(deadline):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 275 GiB")

    cases = [rows.Case("compiled", fail), rows.Case("plain", exhaust)]
    cases += [rows.Case("ours", lambda deadline: {"ms": 2.0})]
    module = type(sys)("gpu_stub")
    module.cases = lambda part, options: iter(cases)
    monkeypatch.setitem(sys.modules, "gpu_stub", module)
    monkeypatch.setitem(gpu.MODULES, "losses", "gpu_stub")
    path = tmp_path / "rows.jsonl"
    gpu.run_part(gpu.parse([*ON_CPU, "--part", "losses", "--rows", str(path)]))
    planned, measured = rows.read_rows(path)
    assert planned == ["compiled", "plain", "ours"]
    assert [row.failed for row in measured] == [
        "RuntimeError: no working C++ compiler",
        "does not fit the memory",
        None,
    ]


def test_a_part_starts_no_case_after_its_time(tmp_path, monkeypatch):
    module = type(sys)("gpu_stub")
    names = ["first", "second", "third"]
    module.cases = lambda part, options: [
        rows.Case(name, lambda deadline: {"s": time.sleep(0.15) or 0.15}) for name in names
    ]
    monkeypatch.setitem(sys.modules, "gpu_stub", module)
    monkeypatch.setitem(gpu.MODULES, "figure", "gpu_stub")
    path = tmp_path / "rows.jsonl"
    arguments = [*ON_CPU, "--seconds", "0.2", "--part", "figure", "--rows", str(path)]
    gpu.run_part(gpu.parse(arguments))
    planned, measured = rows.read_rows(path)
    assert planned == names
    assert [row.case for row in measured] == ["first", "second"]


def test_a_part_beyond_its_limit_is_ended_and_the_table_says_so(monkeypatch):
    arguments = [*ON_CPU, "--seconds", "0.5"]
    monkeypatch.setattr(sys, "argv", ["gpu.py", *arguments])
    content = gpu.measure("embedding", gpu.parse(arguments))
    assert content["problem"] == "ended at its limit of 0 s"
    content["not_reached"] = ["conditional"]
    machine = {"device": "CPU", "torch": "2", "cores": 2}
    report = {"machine": machine, "seconds": 1.0, "parts": {"embedding": content}}
    assert "embedding: not reached: conditional." in gpu.show(report)


def test_a_line_that_was_cut_by_the_end_of_the_process_is_no_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows.write_line(path, {"planned": ["a", "b"]})
    rows.write_line(path, rows.Row("a", {"ms": 1.0}).as_dict())
    path.write_text(path.read_text() + '{"case": "b", "fig')
    planned, measured = rows.read_rows(path)
    assert planned == ["a", "b"]
    assert [row.case for row in measured] == ["a"]


def test_kernels_that_overlap_are_busy_once():
    assert rows.busy_microseconds([(0, 10), (5, 12), (20, 30), (21, 22)]) == 22


def test_the_classifier_finds_classes_that_are_apart():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    features = 4 * torch.eye(3)[labels] + 0.3 * torch.randn(60, 3, generator=generator)
    predicted = figure.classify(features[:40], labels[:40], features[40:])
    assert (predicted == labels[40:]).all()


def test_inf_cl_is_read_from_its_file(tmp_path):
    path = tmp_path / "flash.py"
    path.write_text(
        "from torch.nn.functional import cross_entropy\n"
        "def cal_flash_loss(q, k, labels, head_dim):\n"
        "    return cross_entropy(q @ k.T, labels, reduction='none')\n"
    )
    batch = gpu_losses.make_batch(8, "cpu")
    expected = gpu_losses.of_cpu.ours("InfoNCE")(*batch[0], batch[1])
    torch.testing.assert_close(gpu_losses.inf_cl(path)(*batch[0], batch[1]), expected)


def test_a_compiler_that_is_not_there_fails_its_cases_alone(monkeypatch):
    monkeypatch.setattr(gpu_losses, "SMALL", (4, 4))
    options = gpu.parse(["--device", "cpu", "--small", "--backend", "no_such_compiler"])
    cases = {case.name: case for case in gpu_losses.cases("losses", options)}
    deadline = time.perf_counter()
    failed = gpu.measured(cases["NTXent, compiled, 4 pairs"], deadline)
    assert "no_such_compiler" in failed.failed
    row = gpu.measured(cases["NTXent, plain, 4 pairs"], deadline)
    assert row.failed is None
    ours = gpu.measured(cases["NTXent, ours, 4 pairs"], deadline)
    assert ours.figures["value"] == pytest.approx(row.figures["value"], rel=1e-5)


@pytest.mark.slow
def test_every_part_runs_on_a_cpu(tmp_path):
    out = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "benchmarks.gpu", *ON_CPU, "--seconds", "300", "--out", out]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(out.read_text())
    for part, content in report["parts"].items():
        assert content["problem"] is None, part
        assert content["not_reached"] == [], part
        assert all(row["failed"] is None for row in content["rows"]), part
        assert f"| {part} |" in done.stdout
    of_figure = report["parts"]["figure"]["rows"]
    assert len(of_figure) == 10
    assert all("synthetic" in row["case"] for row in of_figure)
    steps = {row["case"] for row in report["parts"]["steps"]["rows"]}
    assert {"small, 4 pairs", "conditional_reference, 4 pairs in micro-batches of 2"} <= steps
