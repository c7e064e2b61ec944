"""
A new scan arrives: prediction, warning, error
==============================================

A run and an evaluation of real brains were made before. Scans of other scanners arrive, one of them damaged: each is
predicted by itself, as soon as it is read, and says how far it lies from those that were learned from.
"""

# %%
# Before: an encoder of tissue maps and a probe of age, learned from people of one scanner
# ----------------------------------------------------------------------------------------
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import neurocontrast
from neurocontrast.datasets import load_sample

sample = load_sample()
folder = Path(tempfile.mkdtemp(prefix="neurocontrast-example-"))
recipe = "tissue_linear"
changes = [
    f"data.cache_dir={folder / 'cache'}",
    "encoder={name: pca, n_components: 20}",
    "data.channels=[gm,wm]",
]
config = neurocontrast.load_config(
    recipe, [*changes, f"data.participants={sample.participants}", "data.where={split: [train]}"]
)
run = neurocontrast.pretrain(config, out=folder / "run")
home = neurocontrast.load_config(recipe, [*changes, "embedding.where={split: [train]}"])
embeddings = neurocontrast.embed(
    run, participants=sample.participants, out=folder / "train.parquet", config=home
)
quick = {"allow_overlap": True, "confounds": False, "n_bootstraps": 0}
evaluation = neurocontrast.evaluate(embeddings, target="age", out=folder / "age", **quick)

# %%
# New scans: a person of each scanner, and files that were cut off on their way
# -----------------------------------------------------------------------------
new = (
    sample.table[sample.table["split"] == "test"]
    .groupby("site")
    .head(1)[["participant_id", "gm", "wm"]]
)
damaged = {"participant_id": "sub-damaged"}
for tissue in ("gm", "wm"):
    damaged[tissue] = str(folder / f"cut_off_{tissue}.nii.gz")
    Path(damaged[tissue]).write_bytes(Path(new[tissue].iloc[0]).read_bytes()[:1000])
arrived = pd.concat([new, pd.DataFrame([damaged])])
arrived.to_csv(folder / "arrived.tsv", sep="\t", index=False)


# %%
# Each is embedded and predicted, and a damaged one stops no other
# ----------------------------------------------------------------
def show(scan: dict) -> None:
    if scan["error"]:
        print(f"{scan['participant_id']}: FAILED: {scan['error'].replace(str(folder), '…')}")
    else:
        print(
            f"{scan['participant_id']}: {scan['y_score']:.0f} years; warnings: {scan['warnings'] or 'none'}"
        )


predictions = neurocontrast.predict(
    evaluation, folder / "arrived.tsv", run=run, out=folder / "predictions.tsv", on_scan=show
)
found = pd.read_csv(predictions, sep="\t")
print(found[["participant_id", "y_score", "mahalanobis_percentile", "outside"]].round(1))
print(json.loads(predictions.with_suffix(".json").read_text())["scans"]["n_failed"], "failed")

# %%
# Against the truth, which a hospital would not have
# --------------------------------------------------
truth = sample.table.set_index("participant_id")["age"].reindex(found["participant_id"])
figure, axis = plt.subplots(figsize=(3.6, 3.4), layout="constrained")
axis.plot([20, 80], [20, 80], color="0.7")
axis.plot(truth, found["y_score"], "o", color="black")
axis.set(xlabel="age (years)", ylabel="predicted age (years)")

# %%
# The same for MONAI's tools: a bundle
# ------------------------------------
print("Bundle:", neurocontrast.bundle(run, evaluation, out=folder / "bundle"))
plt.show()
