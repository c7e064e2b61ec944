"""Real brains: a linear encoder of tissue maps, and the age of people at scanners that it has not seen.

Uses the sample cohort of this repository (sample/README.md). Runs in under a minute.
"""

# %% Brains of three scanners, with maps of their tissues
import tempfile
from pathlib import Path

import pandas as pd

import neurocontrast
from neurocontrast.datasets import load_sample

sample = load_sample()
print(sample.table.groupby(["site", "diagnosis", "split"])["age"].describe()[["count", "min", "mean", "max"]].round(1))
print(sample.files.groupby("licence").size())

# %% Principal components of smoothed maps, learned from healthy people of one scanner
folder = Path(tempfile.mkdtemp(prefix="neurocontrast-example-"))
recipe = Path(__file__).resolve().parent.parent / "configs" / "brain" / "tissue_linear.yaml"
changes = [f"data.cache_dir={folder / 'cache'}", "encoder={name: pca, n_components: 30}", "data.channels=[gm,wm]"]
config = neurocontrast.load_config(
    recipe, [*changes, f"data.participants={sample.participants}", "data.where={split: [train]}"]
)
run = neurocontrast.pretrain(config, out=folder / "run")

# %% Features of the other people, and their age: cross-validated, and with each scanner left out
others = neurocontrast.load_config(recipe, [*changes, "embedding.where={split: [test]}"])
embeddings = neurocontrast.embed(run, participants=sample.participants, out=folder / "others.parquet", config=others)
evaluation = neurocontrast.evaluate(embeddings, target="age", out=folder / "age")
sites = pd.read_csv(evaluation / "new_sites.tsv", sep="\t").set_index(["site", "model"])
print("Years of error where the scanner is known (home_mae) and where it is new (mae), with its bias:")
print(sites[["n", "home_mae", "mae", "bias", "mae_10_shots"]].round(1))

# %% One file for a reviewer
print("Report:", neurocontrast.report(evaluation))
