"""
Your scikit-learn estimator
===========================

An estimator of your own in an evaluation that keeps sites honest: a pipeline, then gradient boosting. Embeddings are
simulated numbers, so that nothing is pretrained.
"""

# %%
# A table of embeddings: 120 people of three sites, a diagnosis that is a ring around the controls
# ------------------------------------------------------------------------------------------------
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import neurocontrast
from neurocontrast.evaluation import EvaluationSettings, fit_and_measure, plan_evaluation

generator = np.random.default_rng(0)
features = generator.normal(size=(120, 16))
features[:, :2] *= 3
patient = np.hypot(features[:, 0], features[:, 1]) + 0.5 * generator.normal(size=120) > 3.5
names = [f"sub-{number:03d}" for number in range(120)]
table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": "", "path": ""})
table["site"] = [f"site-{number % 3}" for number in range(120)]
table["age"] = generator.uniform(20, 80, size=120)
table["sex"] = generator.choice(["F", "M"], size=120)
table["diagnosis"] = np.where(patient, "patient", "control")

# %%
# The default probe is linear, and finds nothing; two estimators that are not linear do
# -------------------------------------------------------------------------------------
settings = EvaluationSettings(target="diagnosis", n_bootstraps=200, new_site=False, confounds=False)
estimators = {
    "logistic regression (default)": None,
    "PCA and a radial SVM": make_pipeline(PCA(2), StandardScaler(), SVC()),
    "gradient boosting": HistGradientBoostingClassifier(max_iter=50),
}
figure, axis = plt.subplots(figsize=(6, 2), layout="constrained")
for name, estimator in estimators.items():
    found = fit_and_measure(
        plan_evaluation(table, features, settings=settings, estimator=estimator)
    ).evaluation
    low, high = found.metrics["auc"].interval
    axis.plot([low, high], [name, name], color="0.6")
    axis.plot(found.metrics["auc"].pooled, name, "o", color="black")
    print(f"{name}: AUC {found.metrics['auc'].pooled:.2f}; {found.probe.estimator[:60]}")
axis.set(xlabel="AUC, 95 % interval", xlim=(0, 1))

# %%
# From a file of embeddings, leaving each site out; the folder says what was fitted
# ---------------------------------------------------------------------------------
embeddings = Path(tempfile.mkdtemp(prefix="neurocontrast-example-")) / "embeddings.parquet"
columns = pd.DataFrame(features, columns=[f"feature_{number:04d}" for number in range(16)])
pd.concat([table, columns], axis=1).to_parquet(embeddings)
evaluation = neurocontrast.evaluate(
    embeddings,
    target="diagnosis",
    splits="leave-site-out",
    estimator=HistGradientBoostingClassifier(max_iter=50),
    out=embeddings.parent / "evaluation",
    n_bootstraps=200,
)
print(json.loads((evaluation / "evaluation.json").read_text())["probe"])
plt.show()
