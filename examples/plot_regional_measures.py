"""
Regional measures, from FreeSurfer's tables to a report
=======================================================

Thicknesses and volumes of 226 students come with the repository. Half of the people are learned from, the other half is
studied: can their sex be told, and is the encoder worth more than the measures themselves?
"""

# %%
# Tables of FreeSurfer, and two groups of people
# ----------------------------------------------
#
# `data.measures` takes tables of ``aparcstats2table`` and ``asegstats2table`` as they are.
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import neurocontrast
from neurocontrast.datasets import load_sample

sample = Path(load_sample().participants).parent
tables = sorted(map(str, (sample / "measures").glob("data-*.tsv")))
work = Path(tempfile.mkdtemp())
people = pd.read_csv(
    sample / "measures" / "participants.tsv", sep="\t", dtype=str, keep_default_na=False
)
people[:120].to_csv(work / "learned.tsv", sep="\t", index=False)
people[120:].to_csv(work / "studied.tsv", sep="\t", index=False)

# %%
# Learn, embed, evaluate
# ----------------------
#
# A cohort of one age says little of age: its people are 18 to 26. Sites are not recorded, and a report says so.
config = neurocontrast.load_config(
    "measures",
    [
        f"data.participants={work / 'learned.tsv'}",
        f"data.measures={json.dumps(tables)}",
        "training.epochs=20",
    ],
)
run = neurocontrast.pretrain(config, out=work / "run")
embeddings = neurocontrast.embed(
    run, participants=work / "studied.tsv", out=work / "emb.parquet", config=config
)
evaluation = neurocontrast.evaluate(
    embeddings, out=work / "sex", target="sex", n_bootstraps=200, C=(1e-3, 1e-2, 1e-1)
)
report = neurocontrast.report(evaluation)

# %%
# The embedding beside the measures themselves
# --------------------------------------------
#
# With a hundred people of one scanner a linear model of the measures is hard to beat; the gain shows at sites never
# seen, after learning from thousands of people (the page on evidence).
found = json.loads((evaluation / "evaluation.json").read_text())
rows = {
    "embedding": found["metrics"],
    "the same measures": found["regional"],
    "age alone": found["baseline"],
}
figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
for place, metrics in enumerate(rows.values()):
    low, high = metrics["auc"]["interval"]
    axes.plot([low, high], [place, place], color="C0", linewidth=2)
    axes.plot(metrics["auc"]["pooled"], place, "o", color="C0")
axes.axvline(0.5, color="0.6", linestyle=":")
axes.set_yticks(range(len(rows)), list(rows))
axes.invert_yaxis()
axes.set_xlabel("AUC of sex, with 95 % intervals over people")
plt.show()
