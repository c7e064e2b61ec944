"""
A first report in five minutes
==============================

The whole path from Python: simulate, pretrain, embed, evaluate, report. Far too few brains and far too short a
training to learn anything: it shows the calls, and the files that each leaves for the next.
"""

# %%
# Two simulated cohorts from the same scanners: healthy people, and a study of other people
# -----------------------------------------------------------------------------------------
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import neurocontrast

folder = Path(tempfile.mkdtemp(prefix="neurocontrast-example-"))
scanners = {"n_sites": 3, "spacing_mm": 6.0, "site_seed": 0}
healthy = neurocontrast.simulate(
    folder / "healthy", n_subjects=60, patients=0.0, seed=0, **scanners
)
study = neurocontrast.simulate(folder / "study", n_subjects=80, patients=0.5, seed=1, **scanners)

# %%
# Is the study's table fit to use?
# --------------------------------
print(neurocontrast.check(study).to_text())

# %%
# Pretrain on the healthy; every key of the recipe can be overridden
# ------------------------------------------------------------------
config = neurocontrast.load_config(
    "yaware",
    [
        f"data.participants={healthy}",
        f"data.cache_dir={folder / 'cache'}",
        "data.spacing_mm=6",
        "data.shape=[32,36,32]",
        "training.epochs=1",
        "training.probe_every=0",
    ],
)
run = neurocontrast.pretrain(config, out=folder / "run")

# %%
# Embed the study with the frozen encoder, and predict the diagnosis leaving one site out at a time
# -------------------------------------------------------------------------------------------------
embeddings = neurocontrast.embed(
    run, participants=study, out=folder / "embeddings.parquet", config=config
)
evaluation = neurocontrast.evaluate(
    embeddings, target="diagnosis", splits="leave-site-out", out=folder / "evaluation"
)
summary = json.loads((evaluation / "evaluation.json").read_text())
print(
    "AUC of the embedding",
    summary["metrics"]["auc"]["pooled"],
    "of age and sex",
    summary["baseline"]["auc"]["pooled"],
)
for warning in summary["warnings"]:
    print("warning:", warning["message"])

# %%
# What each site says
# -------------------
#
# ``sites.tsv`` and the other tables of the folder are plain text, for figures of your own.
sites = pd.read_csv(evaluation / "sites.tsv", sep="\t")
figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
axis.barh(sites["site"], sites["n"], color="0.7")
for place, (n, site) in enumerate(zip(sites["n"], sites["site"], strict=True)):
    axis.text(n, place, f" {site}: {n} people", va="center")
axis.set(xlabel="people", yticks=[], xlim=(0, 1.4 * sites["n"].max()))

# %%
# One file for a reviewer
# -----------------------
print("Report:", neurocontrast.report(evaluation))
plt.show()
