"""Time `neurocontrast.index` on a BIDS tree of 10,000 subjects, 12,500 T1w images and some 50,000 files, with joins.

    python benchmarks/indexing.py [--n-subjects 10000]

Every subject has a T1w image with its JSON file and two other images; every fourth subject has a second session, with
``sessions.tsv``. Ages and sexes are in ``participants.tsv``, a second table is in ``phenotype/``. The tree is written
once and read several times (the fastest counts); a bare walk with `os.scandir` is timed in the same run.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from neurocontrast.stages import index


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
            (folder / f"{stem}_T1w.json").write_text('{"Manufacturer": "Siemens", "MagneticFieldStrength": 3}')
            n_files += 4
        if len(sessions) > 1:
            (root / subject / f"{subject}_sessions.tsv").write_text("session_id\tage\nses-1\t30\nses-2\t31\n")
            n_files += 1
    people = "".join(
        f"sub-{number:05d}\t{20 + number % 60}\t{'FM'[number % 2]}\tsite{number % 9}\n" for number in range(n_subjects)
    )
    (root / "participants.tsv").write_text("participant_id\tage\tsex\tsite\n" + people)
    (root / "phenotype").mkdir()
    groups = "".join(f"sub-{number:05d}\t{'control' if number % 3 else 'patient'}\n" for number in range(n_subjects))
    (root / "phenotype" / "group.tsv").write_text("participant_id\tgroup\n" + groups)
    return n_files + 2


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-subjects", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "bids"
        root.mkdir()
        n_files = write_tree(root, options.n_subjects)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times: dict[str, list[float]] = {"scandir": [], "index": []}
        for each in range(options.rounds):
            start = time.perf_counter()
            sum(1 for _ in walk(root))
            times["scandir"].append(time.perf_counter() - start)
            start = time.perf_counter()
            found = index(root, Path(folder) / f"table{each}.tsv")
            times["index"].append(time.perf_counter() - start)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{n_files} files, {len(found.index.table)} scans")
    print(f"os.scandir {min(times['scandir']):.2f} s; index with joins {min(times['index']):.2f} s")
    print(f"peak memory {peak / 1024:.0f} MiB, of which {before / 1024:.0f} before")


if __name__ == "__main__":
    main()
