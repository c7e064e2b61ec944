"""Time to read batches as training does, and by a `DataLoader` over the same `CohortDataset`.

    python benchmarks/reading.py

Prints the CPU milliseconds of one thread for a batch of 8 cached volumes of 121×145×121 voxels.
"""

from __future__ import annotations

import tempfile
import time

import torch
from torch.utils.data import DataLoader

import neurocontrast
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.data.batches import read_batches
from neurocontrast.transforms import brain_transforms

BATCHES = [list(range(8)), list(range(8, 16))] * 3


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        table = neurocontrast.simulate(f"{folder}/cohort", n_subjects=16, n_sites=2, spacing_mm=3.0)
        dataset = CohortDataset(read_cohort(table), brain_transforms(), cache_dir=f"{folder}/cache")
        for row in range(len(dataset)):
            dataset[row]
        ways = {
            "read_batches": lambda: read_batches(dataset, BATCHES),
            "DataLoader": lambda: DataLoader(dataset, batch_sampler=BATCHES),
        }
        for _ in range(3):
            for name, way in ways.items():
                started = time.process_time()
                for _ in way():
                    pass
                print(f"{name}: {1000 * (time.process_time() - started) / len(BATCHES):.1f} ms")


if __name__ == "__main__":
    main()
