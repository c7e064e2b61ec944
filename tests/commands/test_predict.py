import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_run import FASTEST, INFO, embedded_people, read_json

import neurocontrast as nc
from neurocontrast.cli.app import run
from neurocontrast.documents.embeddings import read_embeddings, write_embeddings
from neurocontrast.evaluation import load_probe
from neurocontrast.exceptions import (
    CheckpointError,
    ConfigError,
    DataError,
    LeakageError,
    NeurocontrastError,
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("embeddings")
    return embedded_people(folder / "emb.parquet"), embedded_people(
        folder / "others.parquet", first=50, n=40
    )


@pytest.fixture(scope="module")
def evaluation(tables, tmp_path_factory) -> Path:
    return nc.evaluate(tables[0], out=tmp_path_factory.mktemp("evaluation") / "e", **FASTEST)


def test_a_probe_is_applied_to_others_and_says_whom_it_has_seen(evaluation, tables, tmp_path):
    out = nc.predict(evaluation, tables[1], out=tmp_path / "p.tsv")
    found = pd.read_csv(out, sep="\t", dtype={"session": str})
    read = read_embeddings(tables[1])
    assert list(found.columns) == [
        "participant_id",
        "session",
        "site",
        "y_score",
        "y_pred",
        "trained_on",
    ]
    assert found["participant_id"].tolist() == read.table["participant_id"].tolist()
    assert (
        found["trained_on"].tolist() == [True] * 10 + [False] * 30
    )  # sub-050 to sub-059 were trained on
    np.testing.assert_allclose(
        found["y_score"], load_probe(evaluation / "probe").predict(read.features)
    )
    assert (found["y_pred"] == np.where(found["y_score"] >= 0.5, "patient", "control")).all()
    origin = read_json(tmp_path / "p.json")
    assert origin["n"] == {"scans": 40, "of_trained_subjects": 10}
    assert origin["embeddings"]["file"] == "others.parquet"
    assert {path.name for path in tmp_path.iterdir()} == {"p.tsv", "p.json"}
    # The folder of the probe will do, and targets are not needed.
    write_embeddings(tmp_path / "bare.parquet", read.table[["participant_id"]], read.features, INFO)
    bare = nc.predict(evaluation / "probe", tmp_path / "bare.parquet", out=tmp_path / "bare.tsv")
    np.testing.assert_array_equal(pd.read_csv(bare, sep="\t")["y_score"], found["y_score"])


def test_what_an_external_test_says_and_what_predict_says_are_the_same(tables, tmp_path):
    options = {
        **FASTEST,
        "test": str(tables[1]),
        "test_where": {},
        "allow_overlap": True,
        "threshold": "prevalence",
    }
    out = nc.evaluate(tables[0], out=tmp_path / "e", **options)
    external = pd.read_csv(out / "external_predictions.tsv", sep="\t")
    found = pd.read_csv(nc.predict(out, tables[1], out=tmp_path / "p.tsv"), sep="\t")
    np.testing.assert_allclose(found["y_score"], external["y_score"], atol=1e-6)
    assert (found["y_pred"] == external["y_pred"]).all()
    summary = read_json(out / "evaluation.json")
    assert summary["external"]["file"] == "others.parquet"
    assert len(summary["external"]["digest"]) == 64
    assert summary["external"]["n_overlap"] == 10
    assert str(tmp_path) not in (out / "config.yaml").read_text()


def test_images_of_a_given_split_are_tested_elsewhere_by_the_probe_of_train_and_validation(
    tmp_path,
):
    def split(table):
        return table.assign(
            split=np.repeat(["train", "validation", "test"], (200, 60, 150)), path="images.npy#0"
        )

    classes = tuple(f"class {code}" for code in range(6))
    table, other = (
        embedded_people(
            tmp_path / f"{first}.parquet", n=410, first=first, classes=classes, change=split
        )
        for first in (0, 1000)
    )
    options = {**FASTEST, "split_column": "split"}
    with pytest.raises(LeakageError, match="260 of 410 subjects are in the training table too"):
        nc.evaluate(table, out=tmp_path / "e", test=str(table), **options)
    out = nc.evaluate(table, out=tmp_path / "e", test=str(other), **options)
    assert read_json(out / "evaluation.json")["external"]["n_train"] == 260
    found = pd.read_csv(nc.predict(out, other, out=tmp_path / "p.tsv"), sep="\t").set_index(
        "participant_id"
    )
    assert not found["trained_on"].any()
    tested = pd.read_csv(out / "external_predictions.tsv", sep="\t").set_index("participant_id")
    scores = [f"score_{name}" for name in classes]
    np.testing.assert_allclose(found.loc[tested.index, scores], tested[scores], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda f: embedded_people(f, n_features=11),
            "the probe was fitted on 12 features, and this table has 11",
        ),
        (lambda f: embedded_people(f, run={"weights": {"sha256": "b" * 64}}), "Features of two"),
        (lambda f: embedded_people(f, run={}), "one that is not recorded"),
        (lambda f: embedded_people(f, n=0), "wrong.parquet: the table has no rows"),
        (
            lambda f: pd.read_parquet(embedded_people(f)).assign(feature_0002=np.nan).to_parquet(f),
            "finite for sub-000",
        ),
    ],
)
def test_wrong_embeddings_are_refused_and_nothing_is_written(evaluation, tmp_path, make, message):
    make(tmp_path / "wrong.parquet")
    with pytest.raises(DataError, match=message):
        nc.predict(evaluation, tmp_path / "wrong.parquet", out=tmp_path / "out" / "p.tsv")
    assert not (tmp_path / "out").exists()


def test_outputs_are_not_overwritten_unasked(evaluation, tables, tmp_path):
    nc.predict(evaluation, tables[1], out=tmp_path / "p.tsv")
    with pytest.raises(ConfigError, match="overwrite=True"):
        nc.predict(evaluation, tables[1], out=tmp_path / "p.tsv")
    nc.predict(evaluation, tables[1], out=tmp_path / "p.tsv", overwrite=True)
    with pytest.raises(ConfigError, match=r"ends in \.tsv"):
        nc.predict(evaluation, tables[1], out=tmp_path / "p.csv")


@pytest.mark.parametrize("full", ["p.tsv", "p.json"])
def test_a_full_disk_leaves_no_table_and_overwrite_replaces_the_rest(
    evaluation, tables, tmp_path, monkeypatch, full
):
    out = tmp_path / "p.tsv"
    replace = os.replace

    def no_space(source, target):
        if Path(target) == tmp_path / full:
            raise OSError(28, os.strerror(28))
        replace(source, target)

    for overwrite in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr("neurocontrast.files.os.replace", no_space)
            with pytest.raises(OSError, match="No space"):
                nc.predict(evaluation, tables[1], out=out, overwrite=overwrite)
        assert not out.exists()
        nc.predict(evaluation, tables[1], out=out, overwrite=True)
    out.unlink()
    (tmp_path / "p.json").write_text('{"mine": 1}')
    with pytest.raises(ConfigError, match="overwrite=True"):
        nc.predict(evaluation, tables[1], out=out)
    assert (tmp_path / "p.json").read_text() == '{"mine": 1}'


def test_neighbours_are_not_stored_and_the_message_says_what_to_do(tables, tmp_path):
    out = nc.evaluate(
        tables[0], out=tmp_path / "e", probe="sklearn.neighbors:KNeighborsClassifier", **FASTEST
    )
    assert not (out / "probe").exists()
    assert "would need pickle" in read_json(out / "evaluation.json")["probe"]["why_not_stored"]
    with pytest.raises(CheckpointError, match=r"would need pickle.*--test"):
        nc.predict(out, tables[1], out=tmp_path / "p.tsv")
    out = nc.evaluate(tables[0], out=tmp_path / "adjusted", residualise=["age"], **FASTEST)
    with pytest.raises(CheckpointError, match="harmonised or residualised features need"):
        nc.predict(out, tables[1], out=tmp_path / "p.tsv")
    with pytest.raises(NeurocontrastError, match="there is no probe"):
        nc.predict(tmp_path, tables[1], out=tmp_path / "p.tsv")


def test_the_command_line_predicts_and_answers_bad_input(evaluation, tables, tmp_path, capsys):
    out = tmp_path / "p.tsv"
    assert run(["predict", f"{evaluation}", str(tables[1]), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == str(out)
    assert "10 of 40 scans are of subjects that the probe was fitted on" in said.err
    assert run(["predict", str(tmp_path), str(tables[1]), "--out", str(tmp_path / "q.tsv")]) == 2
    assert "there is no probe" in capsys.readouterr().err
    arguments = [
        "predict",
        f"{evaluation}",
        str(tables[1]),
        "--out",
        str(tmp_path / "r.tsv"),
        "--set",
    ]
    assert run([*arguments, "embeding.where={sex: [F]}"]) == 2
    assert "Did you mean 'embedding'?" in capsys.readouterr().err
    assert run([*arguments, "embedding.where={sex: [F]}"]) == 0
    assert "The configuration is for scans" in capsys.readouterr().err
