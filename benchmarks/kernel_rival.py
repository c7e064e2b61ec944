"""How much better is the second rival, which is not linear, than the linear one, and what does it cost?

    python -m benchmarks.kernel_rival DATA/regions --people 1500    # a minute of one core

DATA/regions holds ``participants.tsv`` and ``measures.tsv``. Ages are predicted in five folds from the
regional measures; the features of the embedding are noise, and stand aside. Printed are the mean
absolute errors of ridge regression and of kernel ridge regression, and the seconds of the whole
evaluation with and without measures.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import neurocontrast
from neurocontrast.data import read_measures

QUICK = {
    "target": "age",
    "covariates": ("sex",),
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "voxels": "off",
}


def embeddings_of(folder: Path, n_people: int) -> tuple[pd.DataFrame, list[str]]:
    """Return people with their measures and eight features of noise, and the measures' names."""
    cohort = read_measures(folder / "participants.tsv", folder / "measures.tsv")
    generator = np.random.default_rng(0)
    rows = np.sort(generator.choice(len(cohort), n_people, replace=False))
    measures = cohort.measures.values.iloc[rows].reset_index(drop=True)
    people = cohort.table.iloc[rows].drop(columns="path").reset_index(drop=True)
    noise = generator.normal(size=(n_people, 8))
    features = pd.DataFrame(noise, columns=[f"feature_{column:04d}" for column in range(8)])
    return people.join(measures).join(features), list(measures.columns)


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--people", type=int, default=1500)
    options = parser.parse_args()
    table, measures = embeddings_of(options.folder, options.people)
    with tempfile.TemporaryDirectory() as scratch:
        for regional in ((), tuple(measures)):
            started = time.perf_counter()
            result = neurocontrast.evaluate(
                table,
                out=Path(scratch) / f"{len(regional)}",
                regional=regional,
                progress=False,
                **QUICK,
            )
            seconds = time.perf_counter() - started
            print(f"{len(regional)} measures: {seconds:.0f} s")
        figures = result.table.query("metric == 'mae'")[["model", "estimator", "value"]]
        print(figures.to_string(index=False, float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
