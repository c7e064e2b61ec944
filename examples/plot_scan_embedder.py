"""
An encoder in a scikit-learn pipeline
=====================================

Scans in, predictions out, every site left out once. Far too few brains and far too short a training to learn anything:
it shows the calls.
"""

# %%
# Simulated scans of four sites, and an encoder pretrained on them for one epoch
# ------------------------------------------------------------------------------
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.embedding import ScanEmbedder
from neurocontrast.evaluation import LeaveSiteOut, SiteStratifiedGroupKFold

folder = Path(tempfile.mkdtemp(prefix="neurocontrast-example-"))
scanners = {"n_sites": 4, "spacing_mm": 8.0, "site_seed": 0}
healthy = neurocontrast.simulate(
    folder / "healthy", n_subjects=32, patients=0.0, seed=0, **scanners
)
study = neurocontrast.simulate(folder / "study", n_subjects=48, patients=0.5, seed=1, **scanners)
recipe = {
    "data": {
        "participants": str(healthy),
        "cache_dir": str(folder / "cache"),
        "spacing_mm": 8.0,
        "shape": [24, 28, 24],
        "n_workers": 1,
    },
    "encoder": {"name": "lenet"},
    "training": {"epochs": 1, "batch_size": 16, "probe_every": 0},
}
run = neurocontrast.pretrain(recipe, out=folder / "run")

# %%
# Scans of a few people as features: a transformer like any other
# ---------------------------------------------------------------
scans = read_cohort(study).table
embedder = ScanEmbedder(run, cache_dir=folder / "cache").set_output(transform="pandas")
print(embedder.fit_transform(scans.head(3)).iloc[:, :4])

# %%
# From the files to the diagnosis, each site left out once: subject and site of each scan are the groups
# ------------------------------------------------------------------------------------------------------
model = make_pipeline(
    ScanEmbedder(run, cache_dir=folder / "cache"), StandardScaler(), LogisticRegression()
)
groups = scans[["subject_id", "site"]]
found = cross_validate(
    model, scans, scans["diagnosis"], groups=groups, cv=LeaveSiteOut(), scoring="roc_auc"
)
print("AUC at each site while it is unseen", found["test_score"].round(2))
figure, axis = plt.subplots(figsize=(5, 2.2), layout="constrained")
axis.barh(sorted(scans["site"].unique()), found["test_score"], color="0.7")
axis.axvline(0.5, color="black", linewidth=1)
axis.set(xlabel="AUC while the site is unseen; 0.5 is chance", xlim=(0, 1))

# %%
# The same with folds that hold every class of every site evenly
# --------------------------------------------------------------
folds = SiteStratifiedGroupKFold(n_splits=3, random_state=0)
found = cross_validate(model, scans, scans["diagnosis"], groups=groups, cv=folds, scoring="roc_auc")
print("AUC of each fold", found["test_score"].round(2))
plt.show()
