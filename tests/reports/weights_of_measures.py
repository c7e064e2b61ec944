"""A small folder of weights of measures, learned from some people of the sample."""

import functools
import json
import shutil
from pathlib import Path

import pandas as pd

import neurocontrast as nc
from neurocontrast.data.measures import read_measures

SAMPLE = Path(__file__).resolve().parents[2] / "sample" / "measures"
TABLES = sorted(map(str, SAMPLE.glob("data-*.tsv")))
N_LEARNED = 140
VERSION = "FreeSurfer 6.0.0"
QUICK = {
    "n_folds": 3,
    "n_inner_folds": 2,
    "voxels": "off",
    "confounds": False,
    "n_bootstraps": 0,
    "allow_overlap": True,
    "new_site": False,
    "alpha": (100.0,),
    "C": (1e-2,),
}


def people_of_sample():
    """Return everybody of the sample: identifiers, age, sex, and a column a measure."""
    return _read_sample().copy()


@functools.cache
def _read_sample():
    cohort = read_measures(SAMPLE / "participants.tsv", TABLES)
    facts = cohort.table[["participant_id", "age", "sex"]]
    return pd.concat([facts, cohort.measures.values], axis=1)


def make_weights(folder):
    """Train two members and probes of age and sex on the first people of the sample."""
    learned = people_of_sample().head(N_LEARNED)
    facts = ["participant_id", "age", "sex"]
    learned[facts].to_csv(folder / "people.tsv", sep="\t", index=False)
    learned.drop(columns=facts[1:]).to_csv(folder / "learned.tsv", sep="\t", index=False)
    data = {"kind": "measures", "measures": str(folder / "learned.tsv")}
    age = [{"type": "gaussian", "column": "age", "sigma": 5.0, "missing": "marginal"}]
    config = {
        "data": data | {"participants": str(folder / "people.tsv")},
        "augment": {"noise": {"sd": 0.25}},
        "training": {"epochs": 1, "batch_size": 64, "members": 2},
        "objective": {"loss": "conditional", "temperature": 1.0, "kernel": age},
    }
    run = nc.pretrain(config, out=folder / "run", progress=False)
    embedded = nc.embed(
        run,
        participants=folder / "people.tsv",
        out=folder / "e.parquet",
        config={"data": data},
        progress=False,
    )
    weights = Path(shutil.copytree(run, folder / "weights"))
    for target in ("age", "sex"):
        options = QUICK | {"target": target}
        found = nc.evaluate(embedded, out=folder / f"of_{target}", progress=False, **options)
        shutil.copytree(found / "probe", weights / target)
    for path in weights.glob("members/*/encoder.json"):
        contract = json.loads(path.read_text())
        contract["preprocessing"]["software"] = VERSION
        path.write_text(json.dumps(contract))
    (weights / "README.md").write_text("# Weights of a test\n")
    return weights
