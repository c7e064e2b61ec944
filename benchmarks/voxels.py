"""What the baseline of voxels costs: an evaluation of simulated scans with it and without, in CPU seconds.

OMP_NUM_THREADS=1 python benchmarks/voxels.py [n_scans]
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.embedding import write_embeddings

N_ROUNDS = 3
PLAIN = {"confounds": False, "new_site": False, "outlyingness": False, "umap": False}


def main() -> None:
    n_scans = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = neurocontrast.simulate(folder / "s", n_subjects=n_scans, n_sites=4, patients=0.5, spacing_mm=6.0, seed=6)
        table = read_cohort(made).table
        features = np.random.default_rng(0).normal(size=(n_scans, 32)).astype(np.float32)
        write_embeddings(folder / "e.parquet", table, features, {"pretraining_subjects": []})
        seconds: dict[str, list[float]] = {"off": [], "on": []}
        for number in range(N_ROUNDS):
            for voxels, found in seconds.items():
                start = time.process_time()
                out = neurocontrast.evaluate(
                    folder / "e.parquet", target="diagnosis", out=folder / f"{voxels}-{number}", voxels=voxels, **PLAIN
                )
                found.append(time.process_time() - start)
        summary = json.loads((out / "evaluation.json").read_text())
    for voxels, found in seconds.items():
        print(f"voxels={voxels}: {statistics.median(found):.1f} CPU s ({n_scans} scans, median of {N_ROUNDS})")
    print(f"AUC of 60 principal components {summary['voxels']['auc']['pooled']:.3f}, {summary['voxels_about']}")


if __name__ == "__main__":
    main()
