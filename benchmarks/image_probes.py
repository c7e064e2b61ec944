"""How long the classifier of images after an epoch takes at the size of CIFAR.

    python -m benchmarks.image_probes [--n-images 60000] [--threads 2]

Simulated features of 512 numbers, as of a ResNet after its last rectifier: normal latent variables,
whose variances decay as 1/j², shifted by ten classes along the first thirty, mixed, and negative
values set to 0. Four of six images are fitted on at four penalties, one chooses, and one is tested.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from neurocontrast.documents.embeddings import write_embeddings
from pipelines.natural.probing import write_accuracy


def simulate(n_images: int, n_features: int = 512, n_classes: int = 10) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(0)
    codes = generator.integers(n_classes, size=n_images)
    order = np.arange(1, n_features + 1)
    centres = 0.5 * generator.standard_normal((n_classes, n_features)) * (order <= 30)
    latent = generator.standard_normal((n_images, n_features)) + centres[codes]
    mixed = (latent / order) @ generator.standard_normal((n_features, n_features))
    mixed /= np.sqrt(np.sum(1 / order**2))
    shifts = 0.2 * generator.standard_normal(n_features)
    return np.maximum(mixed + shifts, 0).astype(np.float32), codes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-images", type=int, default=60_000)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    features, codes = simulate(arguments.n_images)
    splits = np.array(["train"] * 4 + ["validation", "test"], dtype=object)
    table = pd.DataFrame({"participant_id": [f"i{row}" for row in range(len(codes))]})
    table["split"] = splits[np.arange(len(codes)) % 6]
    table["label"] = np.array(list("abcdefghij"), dtype=object)[codes]
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "epoch-1.parquet")
        write_embeddings(source, table, features, {})
        wall = time.perf_counter()
        cpu = time.process_time()
        accuracy = write_accuracy(source, Path(scratch, "out.tsv"), n_threads=arguments.threads)
    seconds = time.perf_counter() - wall
    print(f"accuracy {accuracy:.4f}: {seconds:.0f} s, {time.process_time() - cpu:.0f} s of CPU")


if __name__ == "__main__":
    main()
