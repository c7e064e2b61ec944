"""`explain` of a run of members: the map, or the ranking, of the mean of their scores."""

import numpy as np
import pandas as pd
import pytest
from small_run import FASTEST, MEASURES, OF_MEASURES, PEOPLE, TABLES, read_json

import neurocontrast as nc
from neurocontrast.exceptions import DataError

N = 2
OPTIONS = {**FASTEST, "allow_overlap": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("explained")


@pytest.fixture(scope="module")
def people(folder):
    table = pd.read_csv(PEOPLE, sep="\t", dtype=str)
    table["site"] = np.array(("a", "b", "c"))[np.arange(len(table)) % 3]
    table = table[table["age"].notna() & table["sex"].notna()][:120]
    table.to_csv(folder / "people.tsv", sep="\t", index=False)
    return folder / "people.tsv"


def config_of(people, **encoder):
    return OF_MEASURES | {
        "data": {"participants": str(people), "measures": TABLES},
        "encoder": {"name": "mlp", "widths": [16, 8], "beside": {"n_components": 4}} | encoder,
        "training": {"epochs": 1, "batch_size": 64, "members": N, "members_leave": "sites"},
    }


@pytest.fixture(scope="module")
def run(folder, people):
    return nc.pretrain(config_of(people), out=folder / "run").location


@pytest.fixture(scope="module")
def evaluations(run, people, folder):
    table = nc.embed(run, participants=people, out=folder / "e.parquet", config=MEASURES)
    return {
        target: nc.evaluate(table, target=target, out=folder / target, **OPTIONS).folder
        for target in ("age", "sex")
    }


def explain(evaluation, out, **options):
    return nc.explain(evaluation, out=out, config=MEASURES, **options)


def test_the_score_is_the_mean_prediction_and_its_blocks_add_up(evaluations, run, people, tmp_path):
    explained = explain(evaluations["age"], tmp_path / "age", run=run, participants=people)
    about = read_json(explained / "explain.json")
    assert (about["n_members"], about["score"]) == (N, "predicted value, mean of 2 members")
    assert about["warnings"] == []
    ranking = pd.read_csv(explained / "regions.tsv", sep="\t")
    np.testing.assert_allclose(ranking["network"] + ranking["components"], ranking["value"])
    assert sum(block["share"] for block in about["blocks"]) == pytest.approx(1)
    predicted = nc.predict(
        evaluations["age"], people, run=run, config=MEASURES, out=tmp_path / "predicted.tsv"
    )
    subjects = pd.read_csv(explained / "saliency.tsv", sep="\t")
    expected = sorted(predicted.table["y_score"])
    np.testing.assert_allclose(sorted(subjects["score"]), expected, atol=1e-4)


@pytest.mark.usefixtures("blank_figures")
def test_run_and_people_of_an_evaluation_are_found_and_its_report_says_members(
    evaluations, run, people, tmp_path
):
    explained = explain(evaluations["sex"], None)
    about = read_json(explained / "explain.json")
    assert (
        about["encoder"]
        == read_json(evaluations["sex"] / "evaluation.json")["run"]["weights"]["sha256"]
    )
    (note,) = about["warnings"]
    assert "the mean of 2 members' probabilities" in note
    assert about["score"] == "decision value (log-odds), mean of 2 members"
    page = nc.report(evaluations["sex"], out=tmp_path / "report.html", figures=False).read_text()
    assert "the mean of 2 members’ scores" in page


def test_another_run_than_that_of_the_evaluation_is_refused(evaluations, run, people, tmp_path):
    with pytest.raises(DataError, match=r"2 members of a run .* has those of one encoder"):
        explain(evaluations["age"], tmp_path / "x", run=run / "members/0", participants=people)
    table = nc.embed(
        run / "members/0", participants=people, out=tmp_path / "e.parquet", config=MEASURES
    )
    one = nc.evaluate(table, target="age", out=tmp_path / "one", **OPTIONS)
    with pytest.raises(DataError, match=r"one encoder, and .* has those of 2 members"):
        explain(one.folder, tmp_path / "x", run=run, participants=people)
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_shares_of_linear_members_add_up_to_the_score(people, folder, tmp_path):
    linear = config_of(people) | {"encoder": {"name": "pca", "n_components": 3}}
    run = nc.pretrain(linear, out=tmp_path / "run").location
    table = nc.embed(run, participants=people, out=tmp_path / "e.parquet", config=MEASURES)
    evaluated = nc.evaluate(table, target="age", out=tmp_path / "age", **OPTIONS)
    explained = explain(evaluated.folder, tmp_path / "x", run=run, participants=people)
    ranking = pd.read_csv(explained / "regions.tsv", sep="\t")
    assert ranking["value"].sum() == pytest.approx(1, abs=1e-3)


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.slow
def test_scans_are_mapped_by_the_mean_of_their_members(settings, others, cached, tmp_path):
    overrides = ("training.members=2", "training.epochs=1", "encoder.beside={n_components: 2}")
    run = nc.pretrain(settings(*overrides), out=tmp_path / "run")
    table = nc.embed(run, participants=others, out=tmp_path / "e.parquet", config=cached)
    evaluated = nc.evaluate(
        table, target="diagnosis", out=tmp_path / "evaluation", voxels="off", **OPTIONS
    )
    config = cached | {"explanation": {"n_subjects": 4, "patch_mm": 60, "accelerator": "cpu"}}
    explained = nc.explain(evaluated.folder, run=run, participants=others, config=config)
    about = read_json(explained / "explain.json")
    assert about["n_members"] == 2
    assert [block["name"] for block in about["blocks"]] == ["network", "components"]
    assert sum(block["share"] for block in about["blocks"]) == pytest.approx(1)
    import nibabel as nib

    whole, network, components = (
        nib.load(explained / f"saliency{name}.nii.gz").get_fdata()
        for name in ("", "_network", "_components")
    )
    np.testing.assert_allclose(network + components, whole, atol=1e-5)
    page = nc.report(evaluated.folder, out=tmp_path / "report.html", figures=False).read_text()
    assert "the mean of 2 members’ scores, was put where the patch was" in page
