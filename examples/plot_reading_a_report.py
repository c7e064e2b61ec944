"""
Reading a report
================

What a reviewer asks of a result, and where the evaluation folder and the report answer: is it better than age, sex and
site; is it the same at every site; are probabilities what they say; and would it hold at a site never seen.
"""

# %%
# An evaluation
# -------------
#
# Features are simulated: five sites, a disease that four of 16 features show, and older patients.
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import RocCurveDisplay

import neurocontrast

random = np.random.default_rng(0)
patient = random.random(300) < 0.5
features = random.normal(size=(300, 16))
features[:, :4] += 0.5 * patient[:, None]
site = np.repeat(["amsterdam", "berlin", "lyon", "madrid", "oslo"], 60)
features[site == "oslo", 4:8] += 1.0
names = [f"sub-{number:03d}" for number in range(300)]
table = pd.DataFrame(
    {"participant_id": names, "subject_id": names, "session": "", "path": "", "site": site}
)
table["age"] = 45 + 5 * patient + 12 * random.normal(size=300)
table["sex"] = random.choice(["F", "M"], size=300)
table["diagnosis"] = np.where(patient, "patient", "control")
folder = Path(tempfile.mkdtemp(prefix="neurocontrast-example-"))
columns = pd.DataFrame(features, columns=[f"feature_{number:04d}" for number in range(16)])
pd.concat([table, columns], axis=1).to_parquet(folder / "embeddings.parquet")
evaluation = neurocontrast.evaluate(
    folder / "embeddings.parquet", target="diagnosis", out=folder / "evaluation", n_bootstraps=500
)
print(*sorted(path.name for path in evaluation.iterdir()), sep="  ")

# %%
# The headline: beside covariates, with intervals
# -----------------------------------------------
summary = json.loads((evaluation / "evaluation.json").read_text())
for name, part in (("embedding", summary["metrics"]), ("age + sex + site", summary["baseline"])):
    low, high = part["auc"]["interval"]
    print(f"{name:18s} AUC {part['auc']['pooled']:.2f} [{low:.2f}, {high:.2f}]")
for warning in summary["warnings"]:
    print("warning:", warning["message"])

# %%
# Site by site
# ------------
#
# ``predictions.tsv`` has one row a person, repeat and fold; scikit-learn's displays take it from there.
predictions = pd.read_csv(evaluation / "predictions.tsv", sep="\t")
truth = (predictions["y_true"] == "patient").astype(int)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for name, rows in predictions.groupby("site"):
    RocCurveDisplay.from_predictions(truth[rows.index], rows["y_score"], name=name, ax=axes[0])
CalibrationDisplay.from_predictions(
    truth, predictions["y_score"], n_bins=8, ax=axes[1], name="all sites"
)
axes[0].set_title("each site")
axes[1].set_title("are probabilities what they say?")

# %%
# Would it hold at a new site?
# ----------------------------
#
# Each site in turn is left out of everything that is fitted. ``new_sites.tsv`` has a row a site and model.
new = pd.read_csv(evaluation / "new_sites.tsv", sep="\t")
print(
    new.loc[new["model"] == "embedding", ["site", "n", "auc", "home_auc"]]
    .round(2)
    .to_string(index=False)
)

# %%
# One file for a reviewer
# -----------------------
#
# The same as one HTML page that needs no network, with definitions and limits beside each table.
print("Report:", neurocontrast.report(evaluation))
plt.show()
