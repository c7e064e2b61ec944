"""Time `neurocontrast.index` on a BIDS tree of 10,000 subjects, 12,500 T1w images and some 50,000 files, with joins.

    python benchmarks/indexing.py [--n-subjects 10000] [--others VENV/bin/python]

Every subject has a T1w image with its JSON file and two other images; every fourth subject has a
second session, with ``sessions.tsv``. Ages and sexes are in ``participants.tsv``, a second table is
in ``phenotype/``. The tree is written once and read several times (the fastest counts); a bare walk
with `os.scandir` is timed in the same run. With ``--others``, so are pybids and bids2table, which
that interpreter has (`pip install pybids bids2table` in an environment of their own). Seconds are
of the clock; of the processor in brackets, since a busy machine takes longer.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from neurocontrast import index

OTHERS = {
    "pybids, index alone": "import bids; print(len(bids.BIDSLayout(root).get(suffix='T1w', extension='.nii.gz')))",
    "bids2table, index alone": "import bids2table; print(len(bids2table.index_dataset(root)))",
}
_MEASURED = """
import resource, sys, time
root, start, before = sys.argv[1], time.perf_counter(), time.process_time()
{statement}
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
took = f"{{time.perf_counter() - start:.1f}} s ({{time.process_time() - before:.1f}} s)"
print(f"{{took}}, peak {{memory:.0f}} MiB")
"""


def write_tree(root: Path, n_subjects: int) -> int:
    """Write the tree; return the number of files."""
    n_files = 0
    for number in range(n_subjects):
        subject = f"sub-{number:05d}"
        sessions = ["ses-1", "ses-2"] if number % 4 == 0 else ["ses-1"]
        for session in sessions:
            folder = root / subject / session / "anat"
            folder.mkdir(parents=True)
            stem = f"{subject}_{session}"
            for name in (f"{stem}_T1w.nii.gz", f"{stem}_T2w.nii.gz", f"{stem}_FLAIR.nii.gz"):
                (folder / name).write_bytes(b"x" * 2048)
            (folder / f"{stem}_T1w.json").write_text(
                '{"Manufacturer": "Siemens", "MagneticFieldStrength": 3}'
            )
            n_files += 4
        if len(sessions) > 1:
            (root / subject / f"{subject}_sessions.tsv").write_text(
                "session_id\tage\nses-1\t30\nses-2\t31\n"
            )
            n_files += 1
    people = "".join(
        f"sub-{number:05d}\t{20 + number % 60}\t{'FM'[number % 2]}\tsite{number % 9}\n"
        for number in range(n_subjects)
    )
    (root / "participants.tsv").write_text("participant_id\tage\tsex\tsite\n" + people)
    (root / "dataset_description.json").write_text('{"Name": "Benchmark", "BIDSVersion": "1.10.0"}')
    (root / "phenotype").mkdir()
    groups = "".join(
        f"sub-{number:05d}\t{'control' if number % 3 else 'patient'}\n"
        for number in range(n_subjects)
    )
    (root / "phenotype" / "group.tsv").write_text("participant_id\tgroup\n" + groups)
    return n_files + 3


def walk(folder: Path) -> Iterator[str]:
    """Give every file below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from walk(Path(entry.path))
            else:
                yield entry.path


def main() -> None:
    """Write the tree, and print the times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n-subjects", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--others", help="Python interpreter that has pybids and bids2table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "bids"
        root.mkdir()
        n_files = write_tree(root, options.n_subjects)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times: dict[str, list[tuple[float, float]]] = {"scandir": [], "index": []}
        for each in range(options.rounds):
            start, before = time.perf_counter(), time.process_time()
            sum(1 for _ in walk(root))
            times["scandir"].append((time.perf_counter() - start, time.process_time() - before))
            start, before = time.perf_counter(), time.process_time()
            found = index(root, Path(folder) / f"table{each}.tsv")
            times["index"].append((time.perf_counter() - start, time.process_time() - before))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for name, statement in OTHERS.items() if options.others else ():
            command = [options.others, "-c", _MEASURED.format(statement=statement), str(root)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            said = (
                done.stdout.split("\n")
                if done.returncode == 0
                else done.stderr.strip().split("\n")[-1:]
            )
            print(f"{name}: {', '.join(filter(None, said))}")
    print(f"{n_files} files, {len(found.table)} scans")
    for name, found_times in times.items():
        clock, processor = min(found_times)
        print(f"{name}: {clock:.2f} s ({processor:.2f} s)")
    print(f"peak memory {peak / 1024:.0f} MiB, of which {memory / 1024:.0f} before")


if __name__ == "__main__":
    main()
