"""Regional measures from their tables to embeddings."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from small_run import FASTEST, MEASURES, OF_MEASURES, PEOPLE, SAMPLE, TABLES, read_json

import neurocontrast as nc
from neurocontrast.cli.app import run as neurocontrast
from neurocontrast.data import read_measures
from neurocontrast.data.measures import MeasuresContract
from neurocontrast.data.sources import RegionalMeasures
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import CheckpointError, DataError
from neurocontrast.transforms import MeasureSettings
from tests.cli.conftest import refused

THREE_FOLDS = FASTEST | {
    "outlyingness": True,
    "n_folds": 3,
    "allow_overlap": True,
}


@pytest.fixture(scope="module")
def people():
    return read_measures(PEOPLE, TABLES)


def fitted(people, **settings):
    return MeasuresContract.fit(
        people.measures, people.measures.values, MeasureSettings(**settings)
    )


def applied(contract, people, values=None):
    return contract.apply(
        people.measures.values if values is None else values, people.names(), source="people.tsv"
    )


def test_measures_are_standardised_by_those_learned_from(people):
    contract = fitted(people, clip=100.0)
    made = applied(contract, people)
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(made.std(axis=0), 1, atol=1e-3)
    place = contract.columns.index("Left-Hippocampus")
    volumes = np.log(people.measures.values["Left-Hippocampus"])
    expected = (volumes - volumes.mean()) / volumes.std(ddof=0)
    np.testing.assert_allclose(made[:, place], expected, atol=1e-4)
    assert MeasuresContract.from_json(json.loads(json.dumps(contract.as_json()))) == contract


def test_a_volume_that_differs_below_the_smallest_alone_is_left_out(people):
    values = people.measures.values.copy()
    values["Left-vessel"] = 0.0
    values.loc[3, "Left-vessel"] = 0.9  # mm³: its logarithm is that of 1 mm³, as of all others
    contract = MeasuresContract.fit(people.measures, values, MeasureSettings())
    assert "Left-vessel" not in contract.columns
    assert "Left-vessel" in contract.left_out
    assert np.isfinite(applied(contract, people, values)).all()


def test_residual_volumes_do_not_follow_head_size(people):
    contract = fitted(people, head_size="residual", clip=100.0)
    made = applied(contract, people)
    head = made[:, contract.columns.index("EstimatedTotalIntraCranialVol")]
    volume = made[:, contract.columns.index("Left-Hippocampus")]
    assert abs(np.corrcoef(head, volume)[0, 1]) < 1e-3


def test_who_lacks_too_much_is_named_and_another_atlas_is_refused(people):
    contract = fitted(people)
    values = people.measures.values.copy()
    values.iloc[3, :2] = np.nan  # 1 % of them: replaced by medians
    assert np.isfinite(applied(contract, people, values)).all()
    values.iloc[5, :20] = np.nan
    with pytest.raises(DataError, match=f"{people.names()[5]}: lacks 20 of"):
        applied(contract, people, values)
    others = values.rename(columns=lambda name: name.replace("_thickness", "_area"))
    with pytest.raises(DataError, match="measures of training are not there"):
        applied(contract, people, others)


@pytest.fixture(scope="module")
def run(of_measures):
    return of_measures.run


@pytest.fixture(scope="module")
def features(of_measures):
    return read_embeddings(of_measures.table).features


def test_a_run_of_measures_is_embedded_the_same_each_time(features, tmp_path):
    run = nc.pretrain(OF_MEASURES, out=tmp_path / "run")
    again = nc.embed(run, participants=PEOPLE, out=tmp_path / "e.parquet", config=MEASURES)
    assert np.array_equal(read_embeddings(again).features, features)
    assert features.std() > 0


def test_a_run_verifies_and_measures_in_another_unit_are_doubted(run, people, tmp_path):
    values = people.measures.values.assign(participant_id=people.table["participant_id"])
    found = []
    thickness = [name for name in values if name.endswith("_thickness")]
    for factor in (1.0, 2.0):
        values[thickness] *= factor
        values.to_csv(tmp_path / "measures.tsv", sep="\t", index=False)
        found.append(nc.verify_weights(run, scan=tmp_path / "measures.tsv"))
    assert [each.passed for each in found] == [True, True]
    assert not found[0].doubts
    assert "standard deviations from those learned from" in found[1].doubts[-1]
    with pytest.raises(DataError, match="must be one table or folder of regional measures"):
        nc.verify_weights(run, scan=[tmp_path / "measures.tsv", PEOPLE])


def test_rows_of_measures_are_embedded_as_embed_does(run, people, features):
    measures = people.measures.values
    made = ScanEmbedder(run).fit_transform(measures)
    assert np.array_equal(made, features)
    shuffled = measures.iloc[::-1, ::-1].rename(columns=lambda name: name.replace("_and_", "&"))
    with_more = shuffled.assign(age=30.0, participant_id="sub-1")
    made = ScanEmbedder(run, layer="encoder").fit(None).transform(with_more)
    np.testing.assert_allclose(made, features[::-1], rtol=1e-4, atol=1e-5)


def test_rows_of_other_measures_are_refused_by_name(run, people):
    measures = people.measures.values
    embedder = ScanEmbedder(run).fit(None)
    others = measures.rename(
        columns=lambda name: re.sub("_G_front_(sup|middle)_", r"_\1frontal_", name)
    )
    with pytest.raises(
        DataError, match=r"X: 2 of the \d+ measures of training .*'lh_G_front_sup_thickness'"
    ):
        embedder.transform(others)
    with pytest.raises(DataError, match="It seems to be in mL"):
        embedder.transform(measures.where(measures < 1000, measures / 1000))
    with pytest.raises(DataError, match=r"row 3, column 'lh_G_.*': found 'thick'"):
        embedder.transform(measures.astype(object).where(measures != measures.iloc[3], "thick"))
    with pytest.raises(DataError, match=r"DataFrame with one row a person .*, got ndarray"):
        embedder.transform(measures.to_numpy())


def predictions_of(out):
    return pd.read_csv(out, sep="\t", dtype={"participant_id": str})


def test_new_people_are_predicted_from_tables_of_measures(of_measures, tmp_path):
    run, embeddings, probe = of_measures
    expected = predictions_of(nc.predict(probe, embeddings, out=tmp_path / "e.tsv"))
    people = pd.read_csv(PEOPLE, sep="\t", dtype=str, keep_default_na=False).tail(20)
    people.to_csv(tmp_path / "people.tsv", sep="\t", index=False)
    listed = nc.predict(
        probe, tmp_path / "people.tsv", run=run, out=tmp_path / "p.tsv", config=MEASURES
    )
    alone = nc.predict(
        probe, SAMPLE, run=run, out=tmp_path / "f.tsv"
    )  # the tables' folder, without a table of people
    for out in (listed, alone):
        found = predictions_of(out)
        wanted = expected.tail(len(found)).reset_index(drop=True)
        for name in ("y_score", "mahalanobis_percentile"):
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-3)
        same = ["participant_id", "y_pred", "trained_on"]
        assert found[same].equals(wanted[same])
        assert found["error"].isna().all()


def test_a_person_who_lacks_measures_stops_no_other(of_measures, people, tmp_path):
    table = people.measures.values.head(4).assign(participant_id=["sub-a", "sub-b", "c", "d"])
    table.iloc[1, :9] = np.nan
    table.to_csv(tmp_path / "new.tsv", sep="\t", index=False, na_rep="n/a")
    out = tmp_path / "p.tsv"
    given = [
        "predict",
        of_measures.evaluation,
        tmp_path / "new.tsv",
        "--run",
        of_measures.run,
        "--out",
        out,
    ]
    assert neurocontrast([f"{word}" for word in given]) == 1
    found = predictions_of(out).set_index("participant_id")
    assert "sub-b: lacks 9 of" in found.loc["sub-b", "error"]
    assert found["y_score"].notna().tolist() == [name != "sub-b" for name in found.index]


def test_tables_of_another_atlas_or_version_are_refused_or_warned_about(
    of_measures, people, tmp_path, capsys
):
    (run, _, probe), path = of_measures, tmp_path / "new.tsv"
    table = people.measures.values.head(2).assign(participant_id=["a", "b"])
    table.drop(columns="lh_G_front_sup_thickness").to_csv(path, sep="\t", index=False)
    given = ["predict", f"{probe}", str(path), "--run", str(run), "--out", str(tmp_path / "p.tsv")]
    refused(given, capsys, "new.tsv: 1 of the", "'lh_G_front_sup_thickness'")
    assert not (tmp_path / "p.tsv").exists()
    table.to_csv(path, sep="\t", index=False)
    refused([*given, "--images-root", tmp_path], capsys, "regional measures have no images")
    path.with_suffix(".json").write_text('{"parcellation": "aparc.DKTatlas"}')
    assert neurocontrast(given) == 0
    assert (
        "these measures are of aparc.DKTatlas+aseg, and the encoder learned from"
        in capsys.readouterr().err
    )


@pytest.mark.usefixtures("blank_figures")
def test_an_encoder_of_measures_stands_beside_a_linear_model_of_the_same_measures(
    of_measures, tmp_path
):
    _, embeddings, probe = of_measures
    read = read_embeddings(embeddings)
    listed = pd.read_csv(TABLES[-1], sep="\t").set_index("Measure:volume")["Left-Hippocampus"]
    carried = read.table.set_index("participant_id")["Left-Hippocampus"]
    assert carried.to_dict() == listed.loc[carried.index].to_dict()
    found = read_json(probe / "evaluation.json")
    assert found["regional_columns"] == read.info.run.preprocessing.columns
    assert found["regional"]["auc"]["pooled"] > 0.7
    assert not found.get("voxels_about")
    page = nc.report(probe, figures=False).read_text()
    assert (
        f"reads {len(found['regional_columns'])} regional measures (atlas aparc.a2009s+aseg" in page
    )
    assert "Images." not in page
    for options, expected in (
        ({"voxels": "off"}, []),
        (
            {"regional": ("Left-Hippocampus", "Right-H*s")},
            ["Left-Hippocampus", "Right-Hippocampus"],
        ),
    ):
        out = tmp_path / f"{len(expected)}"
        nc.evaluate(embeddings, out=out, target="sex", **THREE_FOLDS, **options)
        assert read_json(out / "evaluation.json").get("regional_columns", []) == expected
    with pytest.raises(DataError, match="this baseline is for scans of brains"):
        nc.evaluate(embeddings, out=tmp_path / "on", target="sex", **THREE_FOLDS, voxels="on")


@pytest.mark.slow
def test_an_encoder_of_measures_is_fine_tuned_in_every_fold(
    run, of_measures, tmp_path, monkeypatch
):
    options = {"target": "age", "n_folds": 2, "n_bootstraps": 20, "allow_overlap": True}

    def tune(name, *, from_scratch=False, **more):
        chosen = {
            "epochs": 2,
            "batch_size": 64,
            "learning_rate": 1e-3,
            "accelerator": "cpu",
            **more,
        }
        given = {"config": MEASURES | {"finetune": chosen}, "from_scratch": from_scratch, **options}
        return nc.finetune(run, participants=PEOPLE, out=tmp_path / name, **given)

    learned = []
    views = RegionalMeasures.views
    monkeypatch.setattr(
        RegionalMeasures,
        "views",
        lambda own, *a, **k: learned.append(own.learned) or views(own, *a, **k),
    )
    tuned = tune("tuned")
    found = read_json(tuned / "evaluation.json")
    assert (
        found["finetuning"]["augment"] == read_json(run / "encoder.json")["augment"]
    )  # no default of any kind
    assert 0 < found["metrics"]["mae"]["pooled"] < 10
    sizes = [len(values) for values in learned if values is not None]
    assert sizes == [
        fold["n_fitted"] for fold in found["finetuning"]["folds"]
    ]  # values of nobody else enter views
    frozen = nc.evaluate(of_measures.table, out=tmp_path / "e", **options)
    assert (frozen / "splits.tsv").read_text() == (tuned / "splits.tsv").read_text()
    other = tune("scratch", from_scratch=True, augment=False)
    scratch = read_json(other / "evaluation.json")
    assert scratch["finetuning"]["begins_with"] == "random weights"
    assert scratch["finetuning"]["augment"] is None
    assert scratch["metrics"]["mae"] != found["metrics"]["mae"]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Return a study whose patients have a smaller left amygdala, and the run of components that it is seen by."""
    folder = tmp_path_factory.mktemp("planted")
    people = read_measures(PEOPLE, TABLES)
    table = people.table[["participant_id", "age", "sex"]].assign(
        diagnosis=["control", "patient"] * 113
    )
    table["site"] = [f"site-{row // 11}" for row in range(len(table))]
    values = people.measures.values.copy()
    values.loc[1::2, "Left-Amygdala"] *= 0.4
    values.assign(participant_id=table["participant_id"]).to_csv(
        folder / "measures.tsv", sep="\t", index=False
    )
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    config = {
        **OF_MEASURES,
        "data": {"kind": "measures", "participants": str(folder / "participants.tsv")},
    }
    run = nc.pretrain(
        {**config, "encoder": {"name": "pca", "n_components": 60}}, out=folder / "run"
    )
    made = nc.embed(run, participants=folder / "participants.tsv", out=folder / "e.parquet")
    return (
        run,
        folder / "participants.tsv",
        nc.evaluate(made, out=folder / "evaluation", **THREE_FOLDS),
    )


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.slow
def test_measures_are_ranked_by_what_they_carry_with_intervals(planted):
    run, participants, evaluation = planted
    folder = nc.explain(evaluation, run=run, participants=participants)
    found = pd.read_csv(folder / "regions.tsv", sep="\t")
    assert found["region"][0] == "Left-Amygdala"
    assert 0 < found["low"][0] < found["value"][0] < found["high"][0]
    assert found["value"].sum() == pytest.approx(
        1, abs=0.05
    )  # of a linear encoder, but for what is clipped
    assert (found["low"] <= found["high"]).all()
    about = read_json(folder / "explain.json")
    assert (about["n_subjects"], about["resampled"], about["n_units"]) == (226, "site", 21)
    assert all(b"sub-" not in path.read_bytes() for path in folder.iterdir())
    page = nc.report(evaluation).read_text()
    assert "Which regions" in page
    assert "Left-Amygdala" in page
    assert "MNI152" not in page


def test_settings_of_maps_are_refused_of_measures(planted, tmp_path, capsys):
    run, participants, evaluation = planted
    given = [
        "explain",
        evaluation,
        "--run",
        run,
        "--participants",
        participants,
        "--out",
        tmp_path / "x",
    ]
    refused([*given, "--patch-mm", "20"], capsys, "explanation.patch_mm: is of scans")
    assert not (tmp_path / "x").exists()
    assert neurocontrast([*(f"{word}" for word in given), "--n-subjects", "40"]) == 0
    assert "Left-Amygdala" in capsys.readouterr().out
    assert read_json(tmp_path / "x" / "explain.json")["n_subjects"] == 40


def test_weights_of_a_run_of_measures_are_taken_over_by_the_names_of_their_columns(
    run, people, tmp_path
):
    table = people.measures.values.iloc[:, ::-1].drop(columns="Left-vessel")
    table = pd.concat([people.table["participant_id"], table], axis=1)
    table.to_csv(tmp_path / "m.tsv", sep="\t", index=False)
    data = {"participants": PEOPLE, "measures": [str(tmp_path / "m.tsv")]}
    config = {
        **OF_MEASURES,
        "data": data,
        "training": {**OF_MEASURES["training"], "epochs": 1, "init": str(run)},
    }
    nc.pretrain(config, out=tmp_path / "next")
    (before, known), (kept, now) = load_encoder(run), load_encoder(tmp_path / "next" / "init")
    old = known.preprocessing.columns
    new = now.preprocessing.columns
    assert new != [name for name in old if name != "Left-vessel"]
    place = "features.layers.1.weight"
    expected = before.state_dict()[place][:, [old.index(name) for name in new]]
    assert np.array_equal(kept.state_dict()[place], expected)
    said = read_json(tmp_path / "next" / "encoder.json")["init"]["encoder"]
    assert (
        said == "all weights but those of 1 measures, which differ in nobody here or are not there"
    )
    others = table.rename(columns=lambda name: re.sub("_S_(post)?central_", r"_\1central_", name))
    others.to_csv(tmp_path / "m.tsv", sep="\t", index=False)
    with pytest.raises(
        CheckpointError, match=r"measures: 2 of this run are not there: .*postcentral_thickness"
    ):
        nc.pretrain(config, out=tmp_path / "other")
