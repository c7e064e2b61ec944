"""What the demo of real brains showed: read from the evaluations that `pipelines/demo_real.sh` wrote."""

import sys
from pathlib import Path

import pandas as pd

out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-real")
SHOWN = {
    "age": {"home_mae": "MAE at home", "mae": "MAE when new", "bias": "bias", "spread": "spread"},
    "sex": {"home_auc": "AUC at home", "auc": "AUC when new"},
}
for target, columns in SHOWN.items():
    found = []
    for encoder in ("components", "discriminants", "network", "untrained"):
        table = out / f"{encoder}-{target}" / "new_sites.tsv"
        if not table.is_file():
            sys.exit(f"{out} holds no finished demo; run it with: make demo-real")
        sites = pd.read_csv(table, sep="\t")
        found.append(sites[sites["model"] == "embedding"].assign(encoder=encoder))
    rows = pd.concat(found)[["site", "encoder", "n", *columns]].rename(columns=columns)
    print(
        f"\n{target}, people whom no encoder has seen; probes fitted with (at home) or without (new) their scanner\n"
    )
    print(
        rows.sort_values("site", kind="stable").to_string(
            index=False, float_format="{:.2f}".format, na_rep=""
        )
    )

print(
    f"\nThe encoders side by side: {out / 'age' / 'comparison.html'}, {out / 'sex' / 'comparison.html'}"
)
print(f"Bias and few labels of a new scanner: {out / 'discriminants-age' / 'report.html'}")
