"""What the demo showed: read from the evaluations that `pipelines/demo.sh` wrote."""

import json
import sys
from pathlib import Path

import pandas as pd

out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
if not (out / "run-diagnosis" / "evaluation.json").is_file():
    sys.exit(f"{out} holds no finished demo; run it with: make demo")


def read(name: str) -> dict:
    """Return an evaluation's summary."""
    return json.loads((out / name / "evaluation.json").read_text())


def shown(metric: dict) -> str:
    """Return a pooled metric with its interval."""
    low, high = metric["interval"] or (float("nan"), float("nan"))
    return f"{metric['pooled']:.3f} [{low:.3f}, {high:.3f}]"


BESIDE = {
    "network": "its network alone",
    "components": "its components alone",
    "voxels": "the study's own voxels",
    "voxels_beside": "voxels and the encoder",
    "baseline": "covariates only",
}
"""Models beside the pretrained encoder in its evaluations."""

encoders = {
    "run": "pretrained encoder",
    "untrained": "the same, untrained",
    "components": "60 principal components",
}
print("\nSimulated brains, pooled out-of-fold, with 95 % bootstrap intervals over subjects:\n")
for target, metric, title in (("diagnosis", "auc", "diagnosis AUC"), ("age", "r2", "age R²")):
    found = {name: read(f"{encoder}-{target}") for encoder, name in encoders.items()}
    for name, evaluation in found.items():
        print(f"  {title:14}  {name:32}{shown(evaluation['metrics'][metric])}")
    pretrained = found[encoders["run"]]
    for key, name in BESIDE.items():
        print(f"  {'':14}  {name:32}{shown(pretrained[key][metric])}")

curves = {
    name: read(f"{encoder}-diagnosis")["learning_curve"] for encoder, name in encoders.items()
}
rows = {name: curve["metrics"]["auc"] for name, curve in curves.items()}
for key, name in BESIDE.items():
    rows[name] = curves["pretrained encoder"][key]["auc"]
sizes = curves["pretrained encoder"]["sizes"]
print("\nHow many labelled people does one need? Diagnosis AUC, mean over folds and draws:\n")
print(f"  {'labelled people':34}" + "".join(f"{size:>7}" for size in sizes))
for name, points in rows.items():
    print(f"  {name:34}" + "".join(f"{point['mean']:7.2f}" for point in points))

print("\nDiagnosis, AUC less that of the pretrained encoder:\n")
differences = pd.read_csv(out / "comparison" / "differences.tsv", sep="\t")
for row in differences[differences["metric"] == "auc"].itertuples():
    interval = f"{row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}] over subjects"
    print(f"  {row.model:24}{interval}, p = {row.p_adjusted:.2g} over folds")

planted = json.loads((out / "study" / "simulation.json").read_text())
print("\nWhat was planted in patients is written in", out / "study" / "simulation.json")
print(
    {
        key: value
        for key, value in planted["settings"].items()
        if key.startswith(("focal", "patient_"))
    }
)
print(f"\nReport: {out / 'run-diagnosis' / 'report.html'}")
