"""Everything a GPU is asked, by one command of at most seven minutes, without a download.

    python -m benchmarks.gpu                                  # all parts; a table and gpu.json
    python -m benchmarks.gpu --cifar cifar-10-binary.tar.gz   # figure 2 on CIFAR-10 itself
    python -m benchmarks.gpu --inf-cl inf_cl/flash.py         # the losses beside Inf-CL's kernel
    python -m benchmarks.gpu --device cpu --small             # the same code on a CPU: a minute or two

Parts: ``losses`` (`losses.py`), ``steps`` and ``embedding`` (`steps.py`) and ``figure``
(`figure.py`). Each runs in a process of its own, with a time limit after which that process is
ended; a part writes each row when it is measured, so that a crash or the limit loses one case. The
table names the cases that failed, and the cases that were not reached.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.rows import Case, Options, Row, describe_error, read_rows, table, write_line

SECONDS = {"losses": 140.0, "steps": 110.0, "embedding": 25.0, "figure": 125.0}
"""Time limit of each part, the start of its process included: 400 s together, of seven minutes."""
MODULES = {
    "losses": "benchmarks.gpu.losses",
    "steps": "benchmarks.gpu.steps",
    "embedding": "benchmarks.gpu.steps",
    "figure": "benchmarks.gpu.figure",
}
_LAST_CASE = 0.9
"""Share of its limit after which a part starts no further case."""


def main() -> None:
    options = parse(sys.argv[1:])
    if options.part is not None:
        run_part(options)
        return
    started = time.perf_counter()
    report = {"machine": machine(options.device), "options": describe(options), "parts": {}}
    for part in options.parts:
        print(f"{part}: at most {options.seconds[part]:.0f} s", file=sys.stderr, flush=True)
        report["parts"][part] = measure(part, options)
        options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    report["seconds"] = round(time.perf_counter() - started, 1)
    options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(show(report))


def parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU: tests the script")
    parser.add_argument("--parts", nargs="+", choices=SECONDS, default=list(SECONDS))
    parser.add_argument(
        "--seconds", type=float, help="limit of each part; by default seven minutes are shared"
    )
    parser.add_argument("--cifar", type=Path, help="official binary files of CIFAR-10, also packed")
    parser.add_argument("--inf-cl", type=Path, help="Inf-CL's kernel: a file with cal_flash_loss")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--part", choices=SECONDS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    limits = {part: given.seconds or seconds for part, seconds in SECONDS.items()}
    for path in (given.cifar, given.inf_cl):
        if path is not None and not path.exists():
            parser.error(f"{path} is not there")
    return Options(**{**vars(given), "seconds": limits})


def describe(options: Options) -> dict[str, Any]:
    """Return the options that figures depend on."""
    return {
        "device": options.device,
        "small": options.small,
        "seconds": options.seconds,
        "cifar": None if options.cifar is None else options.cifar.name,
        "inf_cl": None if options.inf_cl is None else options.inf_cl.name,
        "backend": options.backend,
    }


def machine(device: str) -> dict[str, Any]:
    """Return the machine, and the versions that figures depend on."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU; --device cpu --small runs the same code on a CPU.")
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "device": name,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def measure(part: str, options: Options) -> dict[str, Any]:
    """Run a part in a process of its own, which is ended at its limit; return its rows, and what is missing."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        command = [sys.executable, "-m", "benchmarks.gpu", *sys.argv[1:]]
        command += ["--part", part, "--rows", str(rows)]
        problem = None
        try:
            done = subprocess.run(
                command, stderr=subprocess.PIPE, text=True, timeout=options.seconds[part]
            )
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                problem = f"ended with {done.returncode}: {last}"
        except subprocess.TimeoutExpired:
            problem = f"ended at its limit of {options.seconds[part]:.0f} s"
        planned, measured = read_rows(rows)
    reached = {row.case for row in measured}
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "problem": problem,
        "rows": [row.as_dict() for row in measured],
        "not_reached": [case for case in planned if case not in reached],
    }


def run_part(options: Options) -> None:
    """Measure the cases of a part in this process, as long as its time lasts."""
    assert options.part is not None
    assert options.rows is not None
    limit = options.seconds[options.part]
    deadline = time.perf_counter() + _LAST_CASE * limit
    cases = list(importlib.import_module(MODULES[options.part]).cases(options.part, options))
    write_line(options.rows, {"planned": [case.name for case in cases]})
    for case in cases:
        if time.perf_counter() > deadline:
            return
        write_line(options.rows, measured(case, deadline).as_dict())


def measured(case: Case, deadline: float) -> Row:
    """Return the row of a case; one that fails has the reason in the place of figures."""
    try:
        return Row(case.name, figures=case.measure(deadline))
    except Exception as error:  # of a rival, a compiler or memory: the next case is measured
        return Row(case.name, failed=describe_error(error))


def show(report: dict[str, Any]) -> str:
    """Return the whole report as text: a table, and what failed or was not reached."""
    of_machine = report["machine"]
    lines = [
        f"{of_machine['device']}, PyTorch {of_machine['torch']}, {of_machine['cores']} cores; "
        f"{report['seconds']:.0f} s"
    ]
    lines += table(report["parts"])
    for part, content in report["parts"].items():
        if content["problem"]:
            lines.append(f"{part}: {content['problem']}.")
        if content["not_reached"]:
            lines.append(f"{part}: not reached: {', '.join(content['not_reached'])}.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
