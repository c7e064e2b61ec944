"""Rows of `gpu.py`: cases that are measured, their figures, and the table of all of them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Figures = dict[str, float | str | None]


@dataclass(frozen=True)
class Options:
    """Options of the command."""

    device: str
    small: bool
    parts: list[str]
    seconds: dict[str, float]
    cifar: Path | None
    inf_cl: Path | None
    backend: str
    out: Path
    part: str | None
    rows: Path | None


@dataclass(frozen=True)
class Case:
    """A name, and a function that measures until a deadline of `time.perf_counter` at the latest."""

    name: str
    measure: Callable[[float], Figures]


@dataclass(frozen=True)
class Row:
    """Figures of a case, or why there are none."""

    case: str
    figures: Figures = field(default_factory=dict)
    failed: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the row as it is written."""
        return {"case": self.case, "figures": self.figures, "failed": self.failed}


def write_line(path: Path, content: Mapping[str, Any]) -> None:
    """Add a line of JSON, whole, whatever happens to the process afterwards."""
    with path.open("a") as file:
        file.write(json.dumps(content, ensure_ascii=False) + "\n")


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Return the planned cases and the rows of a part; neither where its process ended before them."""
    if not path.exists():
        return [], []
    lines = path.read_text().splitlines()
    complete = [json.loads(line) for line in lines if line.endswith("}")]
    planned = complete[0]["planned"] if complete else []
    return planned, [Row(**content) for content in complete[1:]]


def describe_error(error: Exception) -> str:
    """Return the reason of a failure in a line: memory and a missing compiler by name."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return "does not fit the memory"
    lines = str(error).strip().splitlines() or ["no message"]
    text = f"{type(error).__name__}: {lines[0]}"
    return text if len(text) <= 160 else f"{text[:159]}…"


def wait(device: str) -> None:
    """Wait for all that was started on the device."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(
    call: Callable[[], object], options: Options, *, deadline: float, at_most: float = 1.0
) -> float:
    """Return the median seconds of a call after two that warm up, within `at_most` seconds or by the deadline.

    Small sizes are called once before, and timed once or a little more.
    """
    until = min(deadline, time.perf_counter() + at_most)
    for _ in range(1 if options.small else 2):
        if time.perf_counter() < until:
            call()
            wait(options.device)
    times = list[float]()
    until = min(deadline, time.perf_counter() + (0.01 if options.small else at_most))
    while not times or (time.perf_counter() < until and len(times) < 50):
        start = time.perf_counter()
        call()
        wait(options.device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_mib(call: Callable[[], object], device: str) -> float | None:
    """Return the peak of the device's memory of a call above what was held before it; None of a CPU."""
    import torch

    if device != "cuda":
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def busy_share(call: Callable[[], object], device: str) -> float | None:
    """Return the share of a call's time in which the device computed; None of a CPU."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    if device != "cuda":
        return None
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiled:
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    kernels = [
        (event.time_range.start, event.time_range.end)
        for event in profiled.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return busy_microseconds(kernels) / 1e6 / seconds


def busy_microseconds(intervals: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals, of kernels that may overlap."""
    total = 0.0
    end = float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def table(parts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the rows of all parts as one table in Markdown, with figures by their names."""
    lines = ["| part | case | figures |", "|---|---|---|"]
    for part, content in parts.items():
        for row in content["rows"]:
            figures = [f"{name} {text_of(value)}" for name, value in row["figures"].items()]
            cell = f"failed: {row['failed']}" if row["failed"] else ", ".join(figures)
            lines.append(f"| {part} | {row['case']} | {cell.replace('|', '/')} |")
    return lines


def text_of(value: float | str | None) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.4g}"
