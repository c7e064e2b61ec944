import json
import pickle
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml
from small_run import FASTEST, embedded_people, read_json

from neurocontrast.cli.app import run
from neurocontrast.commands.evaluate import evaluate
from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.exceptions import ConfigError, DataError

FAST = FASTEST | {"n_bootstraps": 50, "n_folds": 3}


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory) -> Path:
    metrics = [{"epoch": 0, "train_loss": 2.0}, {"epoch": 1, "train_loss": 1.5}]
    about = {
        "run": {"encoder": {"name": "densenet121"}},
        "training_metrics": metrics,
        "simulated": True,
    }
    return embedded_people(tmp_path_factory.mktemp("embeddings") / "emb.parquet", **about)


def test_the_result_is_the_folder_with_its_figures(embeddings, tmp_path):
    result = evaluate(embeddings, out=tmp_path / "eval", **FAST)
    assert result == tmp_path / "eval" == Path(result)
    assert (f"{result}", result.name, result.is_dir()) == (str(tmp_path / "eval"), "eval", True)
    assert isinstance(result / "folds.tsv", Path)
    written = read_json(result / "evaluation.json")
    assert result.auc == written["metrics"]["auc"]["pooled"]
    assert "auc" in dir(result)
    rows = result.table.set_index(["model", "metric"])
    assert rows.loc[("embedding", "auc"), "value"] == result.auc
    assert rows.loc[("embedding", "auc"), "low"] == written["metrics"]["auc"]["interval"][0]
    assert rows.loc[("covariates only", "auc"), "value"] == written["baseline"]["auc"]["pooled"]
    assert "<td>embedding</td>" in result._repr_html_()
    assert f"auc {result.auc:.3g}" in repr(result)
    with pytest.raises(AttributeError, match=r"no attribute 'acu'; its metrics: 'auc'"):
        _ = result.acu
    assert result.report(figures=False) == tmp_path / "eval" / "report.html"
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_frame_is_evaluated_as_its_file_is(tmp_path):
    some = lambda table: table.assign(age=table["age"].where(table.index % 9 > 0))  # noqa: E731
    file = embedded_people(tmp_path / "emb.parquet", simulated=True, change=some)
    frame = pd.read_parquet(file)
    found = evaluate(frame, out=tmp_path / "frame", target="diagnosis", **FAST)
    pd.testing.assert_frame_equal(found.table, evaluate(file, out=tmp_path / "file", **FAST).table)
    with pytest.raises(DataError, match="the DataFrame lacks participant_id, feature_0000"):
        evaluate(frame[["age", "sex"]], out=tmp_path / "none")


def test_an_evaluation_is_one_folder_of_tables_and_a_summary(embeddings, tmp_path):
    out = tmp_path / "deep" / "eval"
    assert evaluate(embeddings, target="diagnosis", out=out, **{**FAST, "confounds": True}) == out
    tables = (
        "predictions folds sites groups calibration cohort confounds flow scans splits training"
    )
    files = {"evaluation.json", "config.yaml", "probe", *(f"{name}.tsv" for name in tables.split())}
    assert {path.name for path in out.iterdir()} == files
    assert {path.name for path in out.parent.iterdir()} == {"eval"}  # nothing temporary is left
    summary = read_json(out / "evaluation.json")
    assert summary["simulated"] is True
    assert summary["run"] == {"encoder": {"name": "densenet121"}}
    assert summary["embeddings"]["file"] == "emb.parquet"
    assert len(summary["embeddings"]["digest"]) == 64
    assert summary["environment"]["neurocontrast"]
    assert "NaN" not in (out / "evaluation.json").read_text()
    assert str(tmp_path) not in (out / "config.yaml").read_text()
    resolved = yaml.safe_load((out / "config.yaml").read_text())
    assert EvaluationSettings(**resolved["evaluation"]).target == "diagnosis"
    assert pd.read_csv(out / "training.tsv", sep="\t")["train_loss"].tolist() == [2.0, 1.5]
    predictions = pd.read_csv(out / "predictions.tsv", sep="\t")
    assert len(predictions) == 60


def test_settings_and_options_are_the_same_thing(embeddings, tmp_path):
    settings = EvaluationSettings(target="sex", seed=3, **FAST)
    a = evaluate(embeddings, settings=settings, out=tmp_path / "a")
    b = evaluate(embeddings, target="sex", seed=3, out=tmp_path / "b", **FAST)
    assert (a / "predictions.tsv").read_bytes() == (b / "predictions.tsv").read_bytes()
    c = evaluate(embeddings, target="diagnosis", settings=settings, n_folds=3, out=tmp_path / "c")
    summary = read_json(c / "evaluation.json")
    assert (summary["target"], summary["seed"], summary["n_folds"]) == ("diagnosis", 3, 3)


def test_an_existing_evaluation_alone_is_replaced_and_only_on_request(embeddings, tmp_path):
    out = evaluate(embeddings, out=tmp_path / "e", **FAST)
    (out / "report.html").write_text("old")
    with pytest.raises(ConfigError, match="overwrite=True"):
        evaluate(embeddings, out=out, **FAST)
    evaluate(embeddings, out=out, overwrite=True, seed=1, **FAST)
    assert not (out / "report.html").exists()
    assert read_json(out / "evaluation.json")["seed"] == 1
    with pytest.raises(ConfigError, match="is not an evaluation"):
        evaluate(embeddings, out=tmp_path, overwrite=True, **FAST)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train-sizes", "a,b"], "train_sizes"),
        (
            ["--train-sizes", "20,500"],
            "--train-sizes: 500 cannot be had: the smallest training fold has 48 subjects",
        ),
        (["--train-sizes", "0"], "--train-sizes: must be greater than 0, found 0"),
        (["--test", "nowhere.parquet"], "no such file. Give an embeddings table"),
    ],
)
def test_wrong_choices_end_with_exit_code_2_and_nothing_written(
    embeddings, tmp_path, capsys, arguments, message
):
    assert run(["evaluate", str(embeddings), "--out", str(tmp_path / "e"), *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "stratified"}, "split: unknown key.*Did you mean 'splits'"),
        (
            {"splits": "leave-site-outt"},
            "splits: .*'leave-site-outt'.*Did you mean 'leave-site-out'",
        ),
        ({"confidence_level": 95}, "confidence_level: must be less than 1, found 95"),
        ({"C": [1.0, -1.0]}, "C.1: must be greater than 0, found -1.0"),
        ({"target": "diagnose"}, "emb.parquet has no column 'diagnose'. Did you mean 'diagnosis'"),
        ({"n_repeats": 2, "splits": "leave-site-out"}, "n_repeats"),
        ({"probe": "logistic", "target": "age"}, "Use 'auto', 'ridge'"),
        ({"threshold": "sensitivity=0.9"}, "threshold: must be half"),
        ({"train_sizes": [0]}, "train_sizes.0: must be greater than 0, found 0"),
        ({"test_where": {"site": ["oslo"]}}, "test_where: .*--test|test_where: .*test"),
        ({"positive": "patiens"}, "Did you mean 'patient'"),
        ({"n_folds": 1, "seed": -1}, "(?s)n_folds.*seed"),
    ],
)
def test_wrong_options_are_answered_and_nothing_is_written(embeddings, tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(embeddings, out=tmp_path / "e", **options)
    assert not list(tmp_path.iterdir())


def test_the_figure_of_an_external_test_is_printed(tmp_path, capsys):
    embeddings = embedded_people(tmp_path / "e.parquet", n=120)
    test = embedded_people(tmp_path / "test.parquet", first=200)
    options = {**FAST, "where": {"site": ["ucla"]}}
    command = ["evaluate", str(embeddings), "--test", str(test)]
    for name, value in options.items():
        command += ["--set", f"evaluation.{name}={json.dumps(value)}"]
    assert run([*command, "--out", str(tmp_path / "e")]) == 0
    external = read_json(tmp_path / "e" / "evaluation.json")["external"]
    assert external["n"]["scans"] == len(pd.read_parquet(test))
    auc = external["metrics"]["auc"]["value"]
    lines = capsys.readouterr().out.splitlines()
    line = next(line for line in lines if line.startswith("embedding, external test of"))
    assert f"{auc:.3g}" in line
    assert any(line.startswith("covariates only, external test of") for line in lines)
    assert run([*command, "--out", str(tmp_path / "f"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["external"]["embedding"]["value"] == auc
