"""Plant every fault of ``faults.tsv`` in a copy of the tree, one at a time, and run the tests that must find it.

    python tests/faults/plant.py [--jobs N] [WORD ...]

With words, only faults whose line contains one of them. Exits with 1 if a fault survives, that is,
if its tests pass.
"""

import argparse
import compileall
import csv
import importlib
import os
import py_compile
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("faults.tsv")
PARTS = (
    "neurocontrast",
    "configs",
    "tests",
    "pipelines",
    "sample",
    "benchmarks",
    "weights",
    "docs",
    "pyproject.toml",
    "README.md",
)
MAX_SECONDS = 600  # a test; one that a fault makes endless has found it
# Loaded once, before the copies are tested: most of a short test's time.
LIBRARIES = ("monai.transforms", "nibabel", "pandas", "pytest", "scipy.stats", "sklearn.linear_model",
             "torch", "typer", "lightning_fabric", "matplotlib.pyplot")  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A change of one line that a test must notice; `tests` are pytest's, relative to ``tests/``.

    `file` is relative to the package, a script ``../benchmarks/NAME.py`` or ``../benchmarks/FOLDER/NAME.py``.
    """

    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]

    def plant(self, root: Path) -> str:
        """Change the file below `root`, and return what it held before."""
        path = root / "neurocontrast" / self.file
        before = path.read_text()
        if before.count(self.old) != 1:
            raise ValueError(
                f"{self.file}: '{self.old}' occurs {before.count(self.old)} times, must be once"
            )
        path.write_text(before.replace(self.old, self.new))
        return before


def read_faults(path: Path = LIST) -> list[Fault]:
    """Read the faults of a table."""
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        Fault(row["file"], row["old"], row["new"], row["why"], tuple(row["tests"].split()))
        for row in rows
    ]


def copy_tree(target: Path) -> None:
    """Copy what tests need; a changed file is compiled again, whatever the clock says."""
    ignored = shutil.ignore_patterns("__pycache__", ".*", "_build")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=ignored)
        elif (ROOT / part).is_file():
            shutil.copy(ROOT / part, target / part)
    compileall.compile_dir(
        target, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
    )


def begin(root: Path, tests: Sequence[str], log: Path) -> int:
    """Start pytest in a copy, in a process of its own; return its number."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(root)
        os.environ |= {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(root))
        pytest = importlib.import_module("pytest")
        options = [
            "-qx",
            "-pno:cacheprovider",
            "-m",
            "",
            f"--timeout={MAX_SECONDS}",
            f"--basetemp={log}.files",
        ]
        code = int(pytest.main([*options, *(f"tests/{test}" for test in tests)]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def verdict(status: int) -> str:
    """Return what an exit status of pytest says of a planted fault."""
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return {0: "SURVIVED", 1: "found"}.get(
        os.WEXITSTATUS(status), f"pytest ended with {os.WEXITSTATUS(status)}"
    )


def run_faults(faults: Sequence[Fault], *, n_jobs: int, folder: Path) -> dict[Fault, str]:
    """Plant each fault, and return what became of it."""
    copies = [folder / f"copy-{number}" for number in range(n_jobs)]
    for copy in copies:
        copy_tree(copy)
    print(f"{len(faults)} faults; first their tests without a fault", flush=True)
    clean = begin(
        copies[0], sorted({test for fault in faults for test in fault.tests}), folder / "clean.log"
    )
    if verdict(os.waitpid(clean, 0)[1]) != "SURVIVED":
        raise SystemExit(
            f"The tests fail without a fault:\n{(folder / 'clean.log').read_text()[-3000:]}"
        )
    waiting = list(reversed(faults))
    running = {}
    found = {}
    while waiting or running:
        while waiting and copies:
            fault = waiting.pop()
            copy = copies.pop()
            before = fault.plant(copy)
            log = folder / f"{len(found) + len(running)}-{copy.name}.log"
            running[begin(copy, fault.tests, log)] = (fault, copy, before, log, time.monotonic())
        pid, status = os.waitpid(-1, 0)
        fault, copy, before, log, started = running.pop(pid)
        (copy / "neurocontrast" / fault.file).write_text(before)
        copies.append(copy)
        found[fault] = verdict(status)
        shutil.rmtree(f"{log}.files", ignore_errors=True)
        took = f"{time.monotonic() - started:4.0f} s"
        print(f"{len(found):3} {found[fault]:8} {took}  {fault.file}: {fault.why}", flush=True)
        if found[fault] not in ("found", "SURVIVED"):
            print(log.read_text()[-2000:], flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the faults that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only faults whose line contains one of these")
    parser.add_argument("--jobs", type=int, default=1, help="faults tried at a time")
    parser.add_argument("--list", type=Path, default=LIST, help="table of faults")
    given = parser.parse_args(arguments)
    faults = [
        fault
        for fault in read_faults(given.list)
        if not given.words
        or any(word in "\t".join([fault.file, fault.old, fault.why]) for word in given.words)
    ]
    if not faults:
        parser.error("no fault has these words in its line")
    for name in LIBRARIES:
        importlib.import_module(name)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        found = run_faults(faults, n_jobs=given.jobs, folder=Path(folder))
    missed = [fault for fault, said in found.items() if said != "found"]
    minutes = (time.monotonic() - started) / 60
    print(f"{len(found) - len(missed)} of {len(found)} faults found in {minutes:.0f} min")
    for fault in missed:
        print(f"not found: {fault.file}: {fault.why} ({found[fault]})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
