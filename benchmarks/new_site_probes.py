"""What the probe can do at a new site, on features of `new_site.py`: its penalty, and the check of scans.

    python benchmarks/new_site.py --out benchmarks/results/new_site
    python benchmarks/new_site_probes.py --out benchmarks/results/new_site --variants before
    input-views

For each pretrained variant and seed, the package's own `evaluate` fits a probe of age on the
pretraining scans and tests it (`--test`) on people of known sites and of the new site: as it is,
and with a penalty chosen by leaving sites out. Next to the errors: how many scans the check of
outlyingness flags, at known sites and at the new one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pandas as pd
from new_site_scores import age_scores
from new_site_tables import mean_interval
from new_site_variants import VARIANTS
from probes_at_new_sites import fit_and_test

ROOT = Path(__file__).resolve().parent
PROBES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "penalty by leaving sites out": {"inner_splits": "leave-site-out"},
}
FOLDS = {"transfer": "without-novosibirsk", "simulated": "without-four-scanners"}
COLUMNS = {
    "age MAE, home": "home_age_mae",
    "age MAE, new": "new_age_mae",
    "bias, new": "new_age_bias",
    "Spearman, new": "new_age_spearman",
    "flagged, home": "home_outside",
    "flagged, new": "new_outside",
}


def main() -> None:
    options = _options()
    rows = []
    for design, fold in FOLDS.items():
        for variant in options.variants:
            for run in sorted((options.out / design).glob(f"seed-*/runs/{variant}-{fold}")):
                for probe in PROBES:
                    rows.append(
                        {"design": design, "variant": variant, "probe": probe, **_score(run, probe)}
                    )
    found = pd.DataFrame(rows)
    found.to_csv(options.out / "probes.tsv", sep="\t", index=False)
    text = "\n".join(_table(design, part) for design, part in found.groupby("design", sort=False))
    (options.out / "probes.md").write_text(text)
    print(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "new_site")
    parser.add_argument(
        "--variants", nargs="+", default=["before", "input", "input-views"], choices=list(VARIANTS)
    )
    return parser.parse_args()


def _score(run: Path, probe: str) -> dict[str, float]:
    table = run / "embeddings.parquet"
    people = pd.read_parquet(table, columns=["participant_id", "use"]).set_index("participant_id")[
        "use"
    ]
    tables = fit_and_test(table, "age", PROBES[probe])[1]
    found: dict[str, float] = {
        "seed": int(json.loads((run / "provenance.json").read_text())["seed"])
    }
    predicted, outside = (tables[f"external_{name}"] for name in ("predictions", "outlyingness"))
    for part, scans in predicted.groupby(people.loc[predicted["participant_id"]].to_numpy()):
        age, said = scans["y_true"].to_numpy(dtype=float), scans["y_score"].to_numpy(dtype=float)
        found |= age_scores(str(part), age, said)
    for part, scans in outside.groupby(people.loc[outside["participant_id"]].to_numpy()):
        found[f"{part}_outside"] = float(scans["outside"].astype(bool).mean())
    return found


def _table(design: str, found: pd.DataFrame) -> str:
    lines = [
        f"**{design}**",
        "",
        "| features | probe | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    for (variant, probe), part in found.groupby(["variant", "probe"], sort=False):
        cells = " | ".join(mean_interval(part[key]) for key in COLUMNS.values())
        lines.append(f"| {VARIANTS[str(variant)].label} | {probe} | {cells} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
