"""
Leave-site-out against random folds
===================================

Where one hospital sent the patients and another the controls, a model that reads the scanner seems to read the disease.
Random folds reward it, folds that leave each site out do not. Features are simulated, so that the truth is known.
"""

# %%
# A study in which sites and patients go together
# -----------------------------------------------
#
# Six sites, of which some have many patients. The features hold a weak trace of the disease and a strong one of the
# site.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation import (
    EvaluationSettings,
    LeaveSiteOut,
    SiteStratifiedGroupKFold,
    fit_and_measure,
    plan_evaluation,
)


def study(
    of_disease: float, of_site: float, seed: int
) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Return features (n, 20), who is a patient, and subject and site of each."""
    random = np.random.default_rng(seed)
    site = np.repeat(np.arange(6), 40)
    patient = random.random(240) < np.array([0.1, 0.2, 0.35, 0.65, 0.8, 0.9])[site]
    features = random.normal(size=(240, 20))
    features[:, 0] += of_disease * patient
    features[:, 1:9] += of_site * random.normal(size=(6, 8))[site]
    groups = pd.DataFrame(
        {"subject_id": [f"sub-{k:03d}" for k in range(240)], "site": [f"site-{s}" for s in site]}
    )
    return features, patient.astype(int), groups


# %%
# Three ways to split
# -------------------
#
# Without any trace of the disease, an honest AUC is 0.5.
splitters = {
    "random folds": StratifiedKFold(5, shuffle=True, random_state=0),
    "site-stratified folds": SiteStratifiedGroupKFold(n_splits=5, random_state=0),
    "each site left out": LeaveSiteOut(),
}
model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
rows = []
for of_disease in (0.0, 0.8):
    for seed in range(10):
        features, patient, groups = study(of_disease, of_site=1.5, seed=seed)
        for name, cv in splitters.items():
            scores = cross_val_score(
                model, features, patient, groups=groups, cv=cv, scoring="roc_auc"
            )
            rows.append({"disease": of_disease, "splits": name, "auc": np.nanmean(scores)})
table = pd.DataFrame(rows)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, sharex=True, layout="constrained")
for axis, (of_disease, part) in zip(axes, table.groupby("disease"), strict=True):
    for place, name in enumerate(splitters):
        values = part[part["splits"] == name]["auc"]
        axis.plot(values, [place] * len(values), "o", alpha=0.5)
        axis.plot(values.mean(), place, "|", color="black", markersize=18)
    axis.axvline(0.5, color="0.7", zorder=0)
    axis.set(
        title="no trace of the disease" if of_disease == 0 else "a weak trace of the disease",
        xlabel="AUC",
    )
    axis.set(yticks=range(3), yticklabels=list(splitters))
print(table.groupby(["disease", "splits"])["auc"].mean().round(2).unstack())

# %%
# What the evaluation says by itself
# ----------------------------------
#
# Folds that hold every site evenly do not help, since the model still meets every site in training. ``evaluate`` looks
# for what the site alone explains, and warns.
features, patient, groups = study(0.0, of_site=1.5, seed=0)
people = groups.assign(participant_id=groups["subject_id"], session="", path="", age=50.0, sex="F")
people["age"] += np.random.default_rng(0).normal(size=240)
people["diagnosis"] = np.where(patient, "patient", "control")
settings = EvaluationSettings(target="diagnosis", n_bootstraps=200)
found = fit_and_measure(plan_evaluation(people, features, settings=settings)).evaluation
print(
    f"embedding {found.metrics['auc'].pooled:.2f}, covariates alone {found.baseline['auc'].pooled:.2f}"
)
for warning in found.warnings:
    print("-", warning.message)
plt.show()
