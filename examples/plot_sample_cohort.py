"""
Why a new scanner fails, and what tissue maps change
====================================================

Real brains of three scanners. The age of people is read from principal components, once of intensities and once of
smoothed maps of tissue, and the error at a scanner that nothing was learned from is told apart into bias and spread.
"""

# %%
# Brains of three scanners, with maps of their tissues
# ----------------------------------------------------
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import neurocontrast
from neurocontrast.datasets import load_sample

sample = load_sample()
print(
    sample.table.groupby(["site", "diagnosis", "split"])["age"]
    .describe()[["count", "min", "mean", "max"]]
    .round(1)
)
print(sample.files.groupby("licence").size())

# %%
# Two inputs, one encoder
# -----------------------
#
# Both encoders learn from 47 healthy people of one scanner, in London, and embed all others. What they see differs.
folder = Path(tempfile.mkdtemp(prefix="neurocontrast-example-"))
pca = ["encoder={name: pca, n_components: 30}", f"data.cache_dir={folder / 'cache'}"]
inputs = {
    "intensities": ["data.channels=[t1]", "data.normalise=zscore-brain", "data.smooth_mm=0"],
    "smoothed maps of tissue": ["data.channels=[gm,wm]"],
}
recipe = "tissue_linear"
found = {}
for name, changes in inputs.items():
    learned = [f"data.participants={sample.participants}", "data.where={split: [train]}"]
    run = neurocontrast.pretrain(
        neurocontrast.load_config(recipe, [*pca, *changes, *learned]), out=folder / name
    )
    others = neurocontrast.load_config(recipe, [*pca, *changes, "embedding.where={split: [test]}"])
    table = neurocontrast.embed(
        run, participants=sample.participants, out=folder / f"{name}.parquet", config=others
    )
    evaluation = neurocontrast.evaluate(table, target="age", out=folder / f"{name}-age")
    sites = pd.read_csv(evaluation / "new_sites.tsv", sep="\t")
    found[name] = sites[sites["model"] == "embedding"].set_index("site")

# %%
# The error is bias
# -----------------
#
# Where a scanner is known (grey), both inputs read age. Where it is new (dark), intensities shift everybody by years:
# that is the bias (dots). A few labelled people of that scanner take it away; what remains is spread.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True, layout="constrained")
for axis, (name, sites) in zip(axes, found.items(), strict=True):
    rows = range(len(sites))
    axis.barh(
        [row + 0.2 for row in rows], sites["home_mae"], 0.35, color="0.75", label="scanner known"
    )
    axis.barh([row - 0.2 for row in rows], sites["mae"], 0.35, color="0.3", label="scanner new")
    axis.plot(
        sites["bias"].abs(),
        [row - 0.2 for row in rows],
        "o",
        color="tab:orange",
        label="new, size of the bias",
    )
    axis.set(title=name, yticks=list(rows), yticklabels=sites.index, xlabel="error of age (years)")
axes[0].legend(fontsize=8)
for name, sites in found.items():
    print(name)
    print(sites[["n", "home_mae", "mae", "bias", "spread"]].round(1))

# %%
# What to take from it
# --------------------
#
# A few dozen people show the effect and do not measure it: ``benchmarks/README.md`` has it on 209 brains. One new
# scanner proves nothing, since its bias is a lottery; several do. Where a few labelled scans of a new scanner can be
# had, ``neurocontrast predict --calibrate`` takes the bias away.
print("Report:", neurocontrast.report(evaluation))
plt.show()
