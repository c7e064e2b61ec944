"""
Regional measures: weights, a new site, its calibration
=======================================================

Weights of regional measures, learned from people of 37 sites, tell the ages of 79 people of a hospital that
they never saw. Ten people of known age shift them. Then the same five encoders are trained on for a question of the
hospital's own.
"""

# %%
# People of a hospital that nothing was learned from
# --------------------------------------------------
#
# A table of FreeSurfer's measures, a row a person, as `aparcstats2table` and `asegstats2table` write them side by side.
# A folder of subjects, or the tables of FreeSurfer themselves, are taken as well.
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.metrics import roc_auc_score

import neurocontrast
from neurocontrast.datasets import load_measures

work = Path(tempfile.mkdtemp())
sample = load_measures("ds000222")
people = sample.table
(table,) = sample.measures
people.describe()[["age"]].round(1)

# %%
# Ages and sexes by the weights
# -----------------------------
#
# One call reads, standardises, embeds by five encoders, and applies the probes of age and sex. Whoever lies outside of
# the people learned from is marked, with the reason.
predictions = neurocontrast.predict("measures", table, out=work / "people.tsv")
predictions.table[["participant_id", "predicted_age", "probability_sex_M", "outside"]].head()

# %%
# Ten people of known age
# -----------------------
#
# The error of a new hospital has two parts: a bias, which all of its people share, and what is left of each person. Ten
# people of known age tell the bias, and the summary says which error to expect. They are no test any more: the column
# ``calibrated_on`` names them. Here the young are read rightly and the old too young, since few old people were learned
# from. One number for everybody does not mend that: the error stays as large. At most sites it falls.
labelled = people.sample(10, random_state=0)
labelled[["participant_id", "age"]].to_csv(work / "labels.tsv", sep="\t", index=False)
calibrated = neurocontrast.predict(
    "measures", table, out=work / "calibrated.tsv", calibrate=work / "labels.tsv"
)
print(calibrated.summary())

ages = people.set_index("participant_id")["age"]
tested = calibrated.table.set_index("participant_id").query("~calibrated_on")
truth = ages.loc[tested.index]
panels = {
    "by the weights alone": tested["predicted_age_zero_shot"],
    "after ten labelled people": tested["predicted_age"],
}
figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
for axis, (title, predicted) in zip(axes, panels.items(), strict=True):
    axis.plot([15, 80], [15, 80], color="0.6", linewidth=1)
    axis.scatter(truth, predicted, s=16, alpha=0.7, linewidths=0)
    axis.set_title(f"{title}: off by {(predicted - truth).abs().mean():.1f} years", fontsize=10)
    axis.set_xlabel("age, years")
    axis.set_aspect("equal")
axes[0].set_ylabel("predicted age, years")
plt.show()

# %%
# A question of your own: all five encoders trained on
# ----------------------------------------------------
#
# In each of five folds every encoder is trained end to end on the labels of the others, and the five probabilities
# are averaged. A model of age alone is fitted in the same folds. With 79 labels the probe of the weights, which has
# learned sex from 1,748 people, does better: fine-tuning is for questions that no weights answer.
evaluation = neurocontrast.finetune(
    "measures",
    participants=people,
    target="sex",
    out=work / "sex",
    config={
        "data": {"measures": str(table)},
        "finetune": {"epochs": 5},
        "evaluation": {"n_bootstraps": 200},
    },
)
summary = json.loads((evaluation / "evaluation.json").read_text())
is_male = people["sex"] == "M"
pd.Series(
    {
        "five encoders, trained on": summary["metrics"]["auc"]["pooled"],
        "age alone": summary["baseline"]["auc"]["pooled"],
        "the probe of the weights": roc_auc_score(is_male, predictions.table["probability_sex_M"]),
    },
    name="AUC of sex",
).round(2)
