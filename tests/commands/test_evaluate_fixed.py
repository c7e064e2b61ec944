"""Images with a given test set through the commands: evaluate, predict, an external set, compare."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from neurocontrast.commands.evaluate import evaluate
from neurocontrast.commands.predict import predict
from neurocontrast.embedding.table import write_embeddings
from neurocontrast.exceptions import LeakageError

OPTIONS = {"target": "label", "split_column": "split", "n_bootstraps": 200}
OPTIONS |= {"C": (1e-2, 1e-1, 1.0), "alpha": (1.0, 100.0)}


def write(path, *, name="", sizes=(200, 60, 150)):
    """Write embeddings of images in which their class is seen."""
    generator = np.random.default_rng(0)
    parts = np.repeat(["train", "validation", "test"], sizes)
    codes = generator.integers(6, size=len(parts))
    features = generator.normal(size=(len(parts), 10)) + 1.5 * np.eye(6, 10)[codes]
    names = [f"{name}{part}-{row:05d}" for row, part in enumerate(parts)]
    table = pd.DataFrame({"participant_id": names, "split": parts, "label": [f"class {code}" for code in codes]})
    write_embeddings(path, table, features.astype(np.float32), {"encoder_digest": "abc", "pretraining_subjects": []})
    return path


def scores_of(path):
    """Return a table of predictions by image, and of it the six scores."""
    table = pd.read_csv(path, sep="\t").set_index("participant_id")
    return table, table[[f"score_class {code}" for code in range(6)]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("fixed")
    evaluate(write(root / "plain.parquet"), out=root / "plain", **OPTIONS)
    return root


def test_an_external_set_is_tested_by_the_probe_of_train_and_validation(folder, tmp_path):
    other = write(tmp_path / "other.parquet", name="new-", sizes=(0, 0, 410))
    external = {**OPTIONS, "test": str(other), "test_where": {}, "allow_overlap": True}
    out = evaluate(folder / "plain.parquet", out=tmp_path / "e", **external)
    summary = json.loads((out / "evaluation.json").read_text())
    assert summary["external"]["n_train"] == 260
    table, found = scores_of(predict(folder / "plain", other, out=tmp_path / "predictions.tsv"))
    assert not table["trained_on"].any()
    external = {**OPTIONS, "test": str(folder / "plain.parquet"), "test_where": {}}
    with pytest.raises(LeakageError, match="260 of 410 subjects are in the training table too"):
        evaluate(folder / "plain.parquet", out=tmp_path / "leak", **external)
    _, tested = scores_of(out / "external_predictions.tsv")
    np.testing.assert_allclose(found.loc[tested.index], tested, atol=1e-6)
