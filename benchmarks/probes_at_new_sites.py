"""What probes do at a site that was never seen: as they are, with penalties chosen for it, clipped.

    python benchmarks/probes_at_new_sites.py EMB.parquet [EMB2.parquet ...] --target age

Each table has a column `use`: probes are fitted on its ``pretrain`` scans and tested on all others
but ``unused``. Prints, for every test site, the error, the rank correlation, the bias, and the
share of scans that lie outside.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.documents.embeddings import read_embeddings
from neurocontrast.evaluation import EvaluationSettings, fit, plan_study
from neurocontrast.findings import measure as measured
from neurocontrast.findings import plan_external

VARIANTS: dict[str, dict[str, Any]] = {
    "as is": {},
    "clip": {"clip": True},
    "inner leave-site-out": {"inner_splits": "leave-site-out"},
}
FAST = {
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "voxels": "off",
    "allow_overlap": True,
}


def fit_and_test(
    path: Path, target: str, options: dict[str, Any]
) -> tuple[str, dict[str, pd.DataFrame]]:
    """Fit a probe on the pretraining scans of a table, test it on the others; return its kind and all tables."""
    read = read_embeddings(path)
    use = read.table["use"].to_numpy(dtype=object)
    fitted, tested = use == "pretrain", (use != "pretrain") & (use != "unused")
    settings = EvaluationSettings(target=target, test=str(path), **FAST, **options)
    study = plan_study(read.table[fitted], read.features[fitted], settings=settings, info=read.info)
    external = plan_external(
        study, read.table[tested], read.features[tested], info=read.info, training_info=read.info
    )
    study = study.with_external(external)
    return study.target.kind, measured(study, fit(study)).tables


def measure(path: Path, target: str, options: dict[str, Any]) -> list[str]:
    """Return a line for each test site."""
    kind, tables = fit_and_test(path, target, options)
    sites = tables["external_sites"].set_index("site")
    outside = tables["external_outlyingness"].groupby("site")["outside"].mean()
    found = tables["external_predictions"].set_index("site")
    lines = []
    for site, row in sites.iterrows():
        if kind == "continuous":
            errors = found.loc[site, "y_score"].astype(float) - found.loc[site, "y_true"].astype(
                float
            )
            figures = (
                f"MAE {row['mae']:5.1f}  Spearman {row['spearman']:5.2f}  bias {errors.mean():6.1f}"
            )
        else:
            figures = f"AUC {row['auc']:.2f}  balanced accuracy {row['balanced_accuracy']:.2f}"
        lines.append(f"{site} (n {row['n']})  {figures}  outside {outside[site]:.2f}")
    return lines


def main() -> None:
    """Print every variant of every table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("embeddings", nargs="+", type=Path)
    parser.add_argument("--target", default="age")
    arguments = parser.parse_args()
    for path in arguments.embeddings:
        for name, options in VARIANTS.items():
            if arguments.target != "age" and "clip" in options:
                continue
            for line in measure(path, arguments.target, options):
                print(f"{path.stem:12s} {name:32s} {line}", flush=True)


if __name__ == "__main__":
    main()
