"""Two spellings of one cohort give one result, or a refusal in words of the package, at every door.

A failure names the seed and its changes: ``python -c "from tests.fuzz.spellings import spelled;
print(spelled(SEED).changes)"``.
"""

import atexit
import re
import shutil
import tempfile
import unicodedata
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file

import neurocontrast
from neurocontrast.data import read_cohort, read_measures
from neurocontrast.data.cohort import Cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.evaluation import ComBat, Residualiser
from neurocontrast.exceptions import NeurocontrastError
from tests.fuzz.spellings import N_DIGITS, Spelling, plain_cohort, spelled

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
Content = dict[str, tuple[object, ...]]
"""Cells of each person that no spelling may change, by name."""
Door = Callable[[Spelling, Path], Content]
QUICK = {
    "covariates": ["age", "sex"],
    "n_folds": 2,
    "n_inner_folds": 2,
    "C": (0.1,),
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "voxels": "off",
}


def people_of(cohort: Cohort) -> Content:
    """Return age, sex, site, diagnosis and head size of each person, whatever the order of the table.

    A column that a warning names as not taken counts as refused: without it, nothing can use it.
    """
    table = cohort.table
    if re.search("is kept as it is|holds no volumes of heads", " ".join(cohort.warnings)):
        raise NeurocontrastError("a column is named in a warning, and not taken")
    content: Content = {}
    for row in table.to_dict("records"):
        site = unicodedata.normalize("NFC", str(row.get("site")))
        age = round(float(row.get("age", np.nan)), 1)
        size = round(float(row.get("tiv", np.nan)))
        name = str(row["participant_id"])[-N_DIGITS:]
        content[name] = (age, row.get("sex"), site, row.get("diagnosis"), size)
    return content


def by_reading(cohort: Spelling, folder: Path) -> Content:
    """Read the table of people."""
    table, _ = cohort.write(folder)
    return people_of(read_cohort(table, channels=()))


def by_frame(cohort: Spelling, folder: Path) -> Content:
    """Read the table of people as a DataFrame; a JSON file cannot be beside one."""
    del folder
    if cohort.sidecar:
        raise NeurocontrastError("a DataFrame has no JSON file")
    return people_of(read_cohort(cohort.people, channels=()))


def by_index(cohort: Spelling, folder: Path) -> Content:
    """Index the measures with the table of people, and read the table that was written."""
    table, measures = cohort.write(folder)
    target = folder / "indexed" / "participants.tsv"
    target.parent.mkdir()
    neurocontrast.index(measures.parent, target, phenotypes=[table])
    return people_of(read_cohort(target, channels=()))


def by_measures(cohort: Spelling, folder: Path) -> Content:
    """Join people with their measures, and return the measures' values."""
    table, measures = cohort.write(folder)
    joined = read_measures(table, measures)
    values = joined.measures.values
    values = values[sorted(name for name in values if not values[name].isna().all())]
    names = joined.table["participant_id"].str[-N_DIGITS:]
    return {
        name: tuple(np.round(row, 4))
        for name, row in zip(names, values.to_numpy(dtype=float), strict=True)
    }


def by_indexed_measures(cohort: Spelling, folder: Path) -> Content:
    """Index people and measures, and return the measures' values as read from what was written."""
    table, measures = cohort.write(folder)
    target = folder / "indexed" / "participants.tsv"
    target.parent.mkdir()
    neurocontrast.index(measures.parent, target, phenotypes=[table])
    joined = read_measures(target)
    values = joined.measures.values[sorted(joined.measures.values)]
    names = joined.table["participant_id"].str[-N_DIGITS:]
    return {
        name: tuple(np.round(row, 4))
        for name, row in zip(names, values.to_numpy(dtype=float), strict=True)
    }


def by_check(cohort: Spelling, folder: Path) -> Content:
    """Check the table with an image for each person; its problems are a refusal."""
    images = folder / "images"
    images.mkdir(parents=True)
    generator = np.random.default_rng(0)
    paths = []
    for number in range(len(cohort.people)):
        voxels = generator.uniform(0, 200, (9, 11, 9)).astype(np.uint8)
        path = images / f"{number}.nii"
        nib.save(nib.Nifti1Image(voxels, np.diag([18.0, 18.0, 18.0, 1.0])), path)
        paths.append(str(path))
    table, _ = replace(cohort, people=cohort.people.assign(path=paths)).write(folder)
    report = neurocontrast.check(table)
    report.problems.raise_if_any()
    return people_of(report.cohort)


def embedded(cohort: Spelling) -> pd.DataFrame:
    """Return an embeddings table of the people as spelled, in their order, with noise as features."""
    names = cohort.people.columns
    if not {"participant_id", "age", "sex", "site"} <= set(names) or cohort.sidecar:
        raise NeurocontrastError("a table of embeddings has the package's own columns")
    table = cohort.people.reset_index(drop=True)
    order = table["participant_id"].str[-N_DIGITS:].astype(int)
    features = np.random.default_rng(1).normal(size=(len(table), 4))[order]
    columns = [f"feature_{column:04d}" for column in range(4)]
    return table.join(pd.DataFrame(features, columns=columns))


def by_evaluating(cohort: Spelling, folder: Path) -> Content:
    """Evaluate a table of embeddings; the order of its rows decides the folds."""
    table = embedded(cohort)
    order = table["participant_id"].str[-N_DIGITS:].argsort()
    result = neurocontrast.evaluate(
        table.iloc[order], target="diagnosis", out=folder / "evaluation", **QUICK
    )
    metrics = result.record.metrics | {
        f"baseline {name}": metric for name, metric in result.record.baseline.items()
    }
    return {name: (round(metric.mean, 6),) for name, metric in metrics.items()}


def by_testing(cohort: Spelling, folder: Path) -> Content:
    """Test a model of the plain cohort on the same people as spelled, of other names."""
    training = embedded(plain_cohort())
    tested = embedded(cohort)
    tested["participant_id"] = "T" + tested["participant_id"].str[-N_DIGITS:]
    columns = [name for name in tested if name.startswith("feature_")]
    tested[columns] += 0.25
    folder.mkdir(parents=True, exist_ok=True)
    tested.to_parquet(folder / "test.parquet")
    result = neurocontrast.evaluate(
        training,
        target="diagnosis",
        out=folder / "evaluation",
        test=str(folder / "test.parquet"),
        **QUICK,
    )
    external = result.record.external
    models = {"embedding": external["metrics"], "covariates": external["baseline"]}
    return {
        f"{model} {name}": (round(float(metric["value"]), 6),)
        for model, metrics in models.items()
        for name, metric in metrics.items()
    }


def by_residualising(cohort: Spelling, folder: Path) -> Content:
    """Take age and sex as learned from the plain cohort out of features of the people as spelled."""
    return harmonised(Residualiser(["age", "sex"]), cohort, folder)


def by_combat(cohort: Spelling, folder: Path) -> Content:
    """Harmonise features of the people as spelled by the sites of the plain cohort."""
    return harmonised(ComBat("site", preserve=["age", "sex"]), cohort, folder)


def harmonised(transformer: Residualiser | ComBat, cohort: Spelling, folder: Path) -> Content:
    """Fit on the plain cohort and transform the people as spelled."""
    del folder
    columns = ["age", "sex", "site", *(f"feature_{column:04d}" for column in range(4))]
    training = embedded(plain_cohort())
    table = embedded(cohort)
    for frame in (training, table):
        frame["age"] = frame["age"].astype(float)
    used = [name for name in columns if name != "site" or isinstance(transformer, ComBat)]
    changed = transformer.fit(training[used]).transform(table[used])
    names = table["participant_id"].str[-N_DIGITS:]
    rows = np.asarray(changed, dtype=float)
    return {name: tuple(np.round(row, 6)) for name, row in zip(names, rows, strict=True)}


def pretrained(cohort: Spelling, folder: Path) -> Path:
    """Train on people and measures in the order of their names, with views that hardly differ."""
    people = cohort.people
    if "participant_id" in people:
        people = people.iloc[people["participant_id"].str[-N_DIGITS:].argsort()]
    measures = cohort.measures[["participant_id", *sorted(cohort.measures.columns[1:])]]
    table, values = replace(cohort, people=people, measures=measures).write(folder)
    settings = {
        "data": {"kind": "measures", "participants": str(table), "measures": str(values)},
        "augment": {"corruption": None, "noise": {"sd": 1e-9}},
        "encoder": {"name": "mlp", "widths": [8], "projection": [4]},
        "objective": {
            "loss": "yaware",
            "kernel": [
                {"column": "age", "type": "gaussian", "sigma": 5.0},
                {"column": "sex", "type": "categorical"},
            ],
        },
        "training": {"epochs": 1, "batch_size": 8, "accelerator": "cpu"},
    }
    return neurocontrast.pretrain(settings, out=folder / "run")


def by_pretraining(cohort: Spelling, folder: Path) -> Content:
    """Train on the people as spelled, and return the weights."""
    run = pretrained(cohort, folder)
    tensors = load_file(run / "encoder.safetensors")
    content: Content = {}
    for name, tensor in tensors.items():
        content[name] = tuple(np.round(tensor.double().numpy().ravel(), 5))
    return content


@cache
def plain_run() -> tuple[Path, Path]:
    """Return a run of the plain cohort, and an evaluation of its embeddings."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run = pretrained(plain_cohort(), folder)
    given = {"data": {"kind": "measures", "measures": str(folder / "measures" / "measures.tsv")}}
    table = neurocontrast.embed(
        run, participants=folder / "people.tsv", out=folder / "e.parquet", config=given
    )
    options = {**QUICK, "allow_overlap": True}
    found = neurocontrast.evaluate(table, target="age", out=folder / "evaluation", **options)
    return run, found


def by_embedding(cohort: Spelling, folder: Path) -> Content:
    """Embed the people as spelled with a run of the plain cohort."""
    run, _ = plain_run()
    table, measures = cohort.write(folder)
    config = {"data": {"kind": "measures", "measures": str(measures)}}
    out = neurocontrast.embed(run, participants=table, out=folder / "e.parquet", config=config)
    found = read_embeddings(out)
    content: Content = {}
    names = found.table["participant_id"].str[-N_DIGITS:]
    people = people_of(read_cohort(table, channels=()))
    for name, features in zip(names, found.features, strict=True):
        content[name] = (*people[name], *np.round(features.astype(float), 4))
    return content


def by_predicting(cohort: Spelling, folder: Path) -> Content:
    """Predict the age of the people as spelled, all of whom the model knows by name or content."""
    run, evaluation = plain_run()
    table, measures = cohort.write(folder)
    config = {"data": {"kind": "measures", "measures": str(measures)}}
    out = neurocontrast.predict(evaluation, table, run=run, out=folder / "p.tsv", config=config)
    content: Content = {}
    for row in pd.read_csv(out, sep="\t", dtype={"participant_id": str}).to_dict("records"):
        name = str(row["participant_id"])[-N_DIGITS:]
        content[name] = (round(float(row["y_pred"]), 3), row["trained_on"])
    return content


REFUSALS = (NeurocontrastError, ValueError)
"""scikit-learn's transformers refuse with its own kind of error, a ValueError."""
DOORS: dict[str, tuple[Door, int]] = {
    "read_cohort": (by_reading, 500),
    "DataFrame": (by_frame, 300),
    "index": (by_index, 300),
    "read_measures": (by_measures, 300),
    "indexed measures": (by_indexed_measures, 150),
    "check": (by_check, 100),
    "evaluate": (by_evaluating, 100),
    "external test": (by_testing, 50),
    "Residualiser": (by_residualising, 100),
    "ComBat": (by_combat, 100),
    "pretrain": (by_pretraining, 36),
    "embed": (by_embedding, 50),
    "predict": (by_predicting, 40),
}
"""What reads a cohort, and how many spellings each reads: more than 2,000 together."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DOORS)
def test_another_spelling_is_the_same_cohort_or_refused(name, tmp_path):
    door, n_spellings = DOORS[name]
    expected = door(plain_cohort(), tmp_path / "plain")
    wrong = []
    n_read = 0
    for seed in range(n_spellings):
        cohort = spelled(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                content = door(replace(cohort), tmp_path / str(seed))
            except REFUSALS:
                continue
        n_read += 1
        if content != expected:
            wrong.append(f"{seed}: {cohort.changes}")
    assert wrong == []
    assert n_read >= n_spellings / 10, "nearly all are refused: the door is shut"
