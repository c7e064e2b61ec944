"""What the demo showed: read from the evaluations that `pipelines/demo.sh` wrote."""

import json
import sys
from pathlib import Path

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


diagnosis, age = read("run-diagnosis"), read("run-age")
untrained_diagnosis, untrained_age = read("untrained-diagnosis"), read("untrained-age")
print("\nSimulated brains, pooled out-of-fold, with 95 % bootstrap intervals over subjects:\n")
print(f"  diagnosis AUC   pretrained encoder     {shown(diagnosis['metrics']['auc'])}")
print(f"                  age + sex + site only  {shown(diagnosis['baseline']['auc'])}")
print(f"                  untrained encoder      {shown(untrained_diagnosis['metrics']['auc'])}")
print(f"  age R²          pretrained encoder     {shown(age['metrics']['r2'])}")
print(f"                  untrained encoder      {shown(untrained_age['metrics']['r2'])}")
print(f"                  sex + site only        {shown(age['baseline']['r2'])}")

planted = json.loads((out / "study" / "simulation.json").read_text())
print("\nWhat was planted in patients is written in", out / "study" / "simulation.json")
print({key: value for key, value in planted["settings"].items() if key.startswith(("focal", "patient_"))})
print(f"\nReport: {out / 'run-diagnosis' / 'report.html'}")
