"""Images with a given test set through the commands: evaluate, predict, an external set, compare."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from neurocontrast.commands.evaluate import evaluate
from neurocontrast.commands.predict import predict
from neurocontrast.commands.report import compare
from neurocontrast.embedding.table import write_embeddings
from neurocontrast.exceptions import LeakageError

OPTIONS = {"target": "label", "split_column": "split", "n_bootstraps": 200}
OPTIONS |= {"C": (1e-2, 1e-1, 1.0), "alpha": (1.0, 100.0)}


def write(path, *, signal, colour, name="", sizes=(200, 60, 150)):
    """Write embeddings of the same images by encoders that tell classes and colours more or less plainly."""
    generator = np.random.default_rng(0)
    parts = np.repeat(["train", "validation", "test"], sizes)
    codes, colours = generator.integers(6, size=len(parts)), generator.random((len(parts), 3))
    features = generator.normal(size=(len(parts), 10))
    features[:, :6] += signal * np.eye(6)[codes]
    features[:, 6:9] += colour * colours
    names = [f"{name}{part}-{row:05d}" for row, part in enumerate(parts)]
    table = pd.DataFrame({"participant_id": names, "split": parts, "label": [f"class {code}" for code in codes]})
    table[["background_red", "background_green", "background_blue"]] = colours
    write_embeddings(path, table, features.astype(np.float32), {"encoder_digest": "abc", "pretraining_subjects": []})
    return path


def scores_of(path):
    """Return a table of predictions by image, and of it the six scores."""
    table = pd.read_csv(path, sep="\t").set_index("participant_id")
    return table, table[[f"score_class {code}" for code in range(6)]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("fixed")
    for name, signal, colour in (("plain", 1.5, 4.0), ("fair", 1.5, 0.2), ("better", 3.0, 4.0)):
        evaluate(write(root / f"{name}.parquet", signal=signal, colour=colour), out=root / name, **OPTIONS)
    return root


def test_the_stored_probe_says_of_new_images_what_the_evaluation_says(folder, tmp_path):
    out = predict(folder / "plain", folder / "plain.parquet", out=tmp_path / "predictions.tsv")
    (found, scores), (_, evaluated) = scores_of(out), scores_of(folder / "plain" / "predictions.tsv")
    np.testing.assert_allclose(scores.loc[evaluated.index], evaluated, atol=1e-6)
    assert found["trained_on"].sum() == 260
    assert not found.loc[evaluated.index, "trained_on"].any()


def test_an_external_set_is_tested_by_the_probe_of_train_and_validation(folder, tmp_path):
    other = write(tmp_path / "other.parquet", signal=1.5, colour=4.0, name="new-", sizes=(0, 0, 410))
    external = {**OPTIONS, "test": str(other), "test_where": {}, "allow_overlap": True}
    out = evaluate(folder / "plain.parquet", out=tmp_path / "e", **external)
    summary = json.loads((out / "evaluation.json").read_text())
    assert summary["external"]["n_train"] == 260
    _, found = scores_of(predict(folder / "plain", other, out=tmp_path / "predictions.tsv"))
    _, tested = scores_of(out / "external_predictions.tsv")
    np.testing.assert_allclose(found.loc[tested.index], tested, atol=1e-6)


def test_an_external_set_that_was_fitted_on_is_refused(folder, tmp_path):
    external = {**OPTIONS, "test": str(folder / "plain.parquet"), "test_where": {}}
    with pytest.raises(LeakageError, match="260 of 410 subjects are in the training table too"):
        evaluate(folder / "plain.parquet", out=tmp_path / "e", **external)


def test_models_are_compared_on_the_same_images(folder, tmp_path):
    out = compare([folder / "plain", folder / "better", folder / "fair"], out=tmp_path / "c", n_bootstraps=200)
    differences = pd.read_csv(out / "differences.tsv", sep="\t").set_index(["metric", "model"])
    gained = differences.loc[("accuracy", "better")]
    assert gained["test"] == "mcnemar"
    assert gained["p_adjusted"] < 0.001
    assert 0 < gained["low"] < gained["difference"] < gained["high"]
    assert differences.loc[("accuracy", "fair"), "p_value"] > 0.01
    assert differences.loc["auc"]["low"].isna().all()
    models = pd.read_csv(out / "models.tsv", sep="\t").set_index(["metric", "model"])
    hits = {}
    for name in ("plain", "better"):
        table = pd.read_csv(folder / name / "predictions.tsv", sep="\t")
        hits[name] = table["y_true"] == table["y_pred"]
        assert models.loc[("accuracy", name), "value"] == pytest.approx(hits[name].mean())
    assert "McNemar" in json.loads((out / "comparison.json").read_text())["test"]
