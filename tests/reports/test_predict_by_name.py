"""People are predicted by the name of weights: all probes at once, with the reasons why one lies outside."""

import json

import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast.cli import run as command
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import ConfigError, DataError
from tests.cli.conftest import refused
from tests.reports.weights_of_measures import (
    N_LEARNED,
    SAMPLE,
    VERSION,
    make_weights,
    people_of_sample,
)

FACTS = ["age", "sex"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return make_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def people():
    """People whom nothing was learned from, in another order than the alphabet's."""
    rest = people_of_sample().iloc[N_LEARNED:]
    return rest.iloc[::-1].reset_index(drop=True)


def predicted(weights, people, **options):
    return nc.predict(weights, people, progress=False, **options)


def test_all_probes_predict_each_person_as_embeddings_do(weights, people, tmp_path):
    found = predicted(weights, people, features=True)
    table = found.table.set_index("participant_id")
    people[["participant_id"]].to_csv(tmp_path / "people.tsv", sep="\t", index=False)
    people.drop(columns=FACTS).to_csv(tmp_path / "measures.tsv", sep="\t", index=False)
    embedded = nc.embed(
        weights,
        participants=tmp_path / "people.tsv",
        out=tmp_path / "e.parquet",
        config={"data": {"measures": str(tmp_path / "measures.tsv")}},
    )
    read = read_embeddings(embedded)
    features = pd.DataFrame(read.features, index=read.table["participant_id"])
    own = table.filter(regex="^feature_")
    np.testing.assert_allclose(own.loc[features.index], features, rtol=1e-4, atol=1e-5)
    for probe, column in (("age", "predicted_age"), ("sex", "probability_sex_M")):
        alone = nc.predict(weights / probe, embedded, out=tmp_path / f"{probe}.tsv")
        expected = alone.table.set_index("participant_id")["y_score"]
        np.testing.assert_allclose(table.loc[expected.index, column], expected, rtol=1e-3)
    assert set(table["predicted_sex"]) <= {"F", "M"}
    is_male = table["probability_sex_M"] >= 0.5
    assert (table["predicted_sex"].eq("M") == is_male).all()
    assert not table["trained_on"].any()
    one = predicted(weights / "age", people).table
    assert "predicted_age" in one
    assert "predicted_sex" not in one


def test_tables_of_freesurfer_become_a_table_of_people(weights, tmp_path, capsys):
    out = tmp_path / "people.tsv"
    given = ["predict", f"{weights}", f"{SAMPLE}", "--out", f"{out}"]
    assert command(given) == 0
    said = capsys.readouterr()
    assert "age and sex predicted for 226 people" in said.out
    assert f"{N_LEARNED} of" in said.err
    table = pd.read_csv(out, sep="\t")
    assert table["trained_on"].sum() == N_LEARNED
    about = json.loads(out.with_suffix(".json").read_text())
    assert set(about["probes"]) == {"age", "sex"}
    # People whom the weights were learned from test nothing.
    assert about["error_of_age"]["n_people"] == table["age"][~table["trained_on"]].notna().sum()
    assert not [name for name in table if name.startswith("feature_")]


def test_who_lies_outside_is_marked_with_the_reasons(weights, people, tmp_path):
    people["age"] = people["age"].astype(float)
    people.loc[0, "Left-Hippocampus"] = 700.0
    people.loc[1, "age"] = 71.0
    people.loc[3, people.columns[10:60]] = np.nan
    table = predicted(weights, people).table.set_index("participant_id")
    names = people["participant_id"]
    why = table["why_outside"]
    assert "SD from the median: Left-Hippocampus -" in why[names[0]]
    assert "age 71.0 is outside of 18" in why[names[1]]
    assert "lacks 50 of" in why[names[3]]
    assert table.loc[names[:2], "outside"].all()
    assert pd.isna(table.loc[names[3], "predicted_age"])
    assert "lacks 50 of" in table.loc[names[3], "error"]
    others = table.drop(index=names[:4])
    assert others["predicted_age"].notna().all()
    assert others["outside"].mean() < 0.2
    assert why[others.index][~others["outside"]].isna().all()


@pytest.mark.parametrize(
    ("version", "is_other"), [(VERSION, False), ("FreeSurfer 7.4.1", True), ("", False)]
)
def test_another_version_is_named(weights, people, tmp_path, version, is_other):
    path = tmp_path / "measures.tsv"
    people.to_csv(path, sep="\t", index=False)
    about = {"parcellation": "aparc.a2009s", "software": version}
    path.with_suffix(".json").write_text(json.dumps(about))
    table = predicted(weights, path).table
    named = table["why_outside"].fillna("").str.contains(f"{version}, learned from {VERSION}")
    assert named.all() == is_other
    assert named.any() == is_other


def test_a_cell_that_cannot_be_read_stops_no_other(weights, people, tmp_path, capsys):
    path = tmp_path / "measures.tsv"
    cells = people.astype(object)
    cells.loc[2, "Left-Hippocampus"] = "large"
    cells.to_csv(path, sep="\t", index=False)
    given = ["predict", f"{weights}", f"{path}", "--out", f"{tmp_path / 'p.tsv'}"]
    assert command(given) == 1
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t").set_index("participant_id")
    name = people["participant_id"][2]
    assert "found 'large'" in table.loc[name, "error"]
    assert table["error"].notna().sum() == 1
    assert len(table) == len(people)


def calibrated(weights, people, labels, **options):
    return predicted(weights, people, calibrate=labels, **options)


def test_labelled_people_move_their_site_and_test_nothing(weights, people, tmp_path):
    people["site"] = ["north"] * 40 + ["south"] * (len(people) - 40)
    people["age"] = people["age"].astype(float) + np.where(people["site"] == "north", 3.0, 0.0)
    labels = people.loc[:9, ["participant_id", "age", "sex"]]
    plain = predicted(weights, people).table
    found = calibrated(weights, people, labels, out=tmp_path / "p.tsv")
    table = found.table.set_index("participant_id").loc[plain["participant_id"]].reset_index()
    assert table["calibrated_on"].sum() == 10
    assert set(table.loc[table["calibrated_on"], "participant_id"]) == set(labels["participant_id"])
    moved = table["predicted_age"] - plain["predicted_age"]
    shift = found.record.calibration["age"]["north"].shift
    of_labelled = plain.set_index("participant_id")["predicted_age"].loc[labels["participant_id"]]
    errors = labels["age"].to_numpy() - of_labelled.to_numpy()
    assert shift == pytest.approx(errors.mean())
    np.testing.assert_allclose(moved, np.where(table["site"] == "north", shift, 0), atol=1e-9)
    assert (table["predicted_age_zero_shot"] == plain["predicted_age"]).all()
    assert found.record.calibration["sex"]["north"].n_subjects == 10
    is_test = ~table["calibrated_on"]
    errors = (table["predicted_age"] - table["age"]).abs()[is_test]
    assert found.record.error_of_age.n_people == table["age"][is_test].notna().sum()
    assert found.record.error_of_age.mean_absolute == pytest.approx(errors.mean())
    assert any("age at 'south' is not calibrated" in text for text in found.record.warnings)
    assert "age, site north: moved by" in found.summary()


def test_the_error_to_expect_is_said_where_it_was_measured(weights, people, tmp_path):
    by_n_people = []
    for n_people, error in ((0, 6.5), (5, 6.0), (10, 5.2), (50, 4.4)):
        shots = {"n_people": n_people, "error": error, "low": 4.0, "high": 8.0, "n_sites": 3}
        shots["unlabelled"] = 6.4
        by_n_people.append(shots)
    content = {
        "format": 1,
        "target": "age",
        "metric": "mean absolute error in years",
        "measured_by": "a test",
        "by_n_people": by_n_people,
    }
    path = weights / "age" / "expected.json"
    path.write_text(json.dumps(content))
    try:
        labels = people.loc[:19, ["participant_id", "age"]]
        said = calibrated(weights, people, labels).summary()
        assert "error in years of about 5.2 after 10 labelled people, and 6.4 without" in said
        said = predicted(weights, people).summary()
        assert "in years of about 6.5 without labelled people (measured at 3 sites" in said
        path.write_text(json.dumps(content | {"by_n_people": []}))
        with pytest.raises(
            nc.exceptions.CheckpointError, match="'by_n_people' must hold one error or more"
        ):
            predicted(weights, people)
    finally:
        path.unlink()


def change_months(labels):
    labels["age"] *= 12


def change_one_age(labels):
    labels["age"] = 22


def change_stranger(labels):
    labels.loc[0, "participant_id"] = "sub-nobody"


def change_word(labels):
    labels["age"] = labels["age"].astype(object)
    labels.loc[0, "age"] = "old"


def change_columns(labels):
    labels.rename(columns={"age": "years_lived"}, inplace=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_months, "Give ages in years|an age is a number of years"),
        (change_one_age, "all 10 labelled people of site .* are 22 years old"),
        (change_stranger, "sub-nobody.*no scan belongs to this participant"),
        (change_word, "found 'old'; an age is a number of years"),
        (change_columns, r"no column is a target of these weights \('age', 'sex'\)"),
    ],
)
def test_labels_that_tell_nothing_are_refused(weights, people, tmp_path, change, message):
    labels = people.loc[:9, ["participant_id", "age"]].copy()
    change(labels)
    with pytest.raises(DataError, match=message):
        calibrated(weights, people, labels, out=tmp_path / "p.tsv")
    assert not (tmp_path / "p.tsv").exists()


def in_cm(people):
    thick = [name for name in people if name.endswith("_thickness")]
    return people.assign(**{name: people[name] / 10 for name in thick})


def in_litres(people):
    volumes = [name for name in people if name.startswith(("Left-", "Right-", "Brain"))]
    return people.assign(**{name: people[name] / 1e6 for name in volumes})


def of_another_atlas(people):
    return people.rename(columns=lambda name: name.replace("_G_front_sup_", "_superiorfrontal_"))


def twice(people):
    return pd.concat([people, people.head(1)])


def without_names(people):
    return people.drop(columns="participant_id")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_cm, "It seems to be in cm"),
        (in_litres, "It seems to be in L"),
        (of_another_atlas, "measures of training are not there: 'lh_G_front_sup_thickness'"),
        (without_names, "participant_id"),
        (lambda people: people.head(0), "no column|needs at least one row|no known"),
        (lambda people: people[["participant_id", "age"]], "no column|column 'path'|data.measures"),
    ],
)
def test_tables_that_are_not_understood_are_refused(weights, people, tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        predicted(weights, change(people), out=tmp_path / "p.tsv")
    assert not list(tmp_path.iterdir())


def test_rows_are_in_the_order_of_the_table(weights, people):
    shuffled = people.sample(frac=1, random_state=1)
    table = predicted(weights, shuffled).table
    assert table["participant_id"].tolist() == shuffled["participant_id"].tolist()


def test_a_person_who_is_there_twice_has_an_error(weights, people):
    table = predicted(weights, twice(people)).table
    name = people["participant_id"][0]
    assert len(table) == len(people)
    error = table.set_index("participant_id").loc[name, "error"]
    assert "the scan has an earlier row" in error


def test_other_arguments_are_refused_by_one_message(weights, people, tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "notes.pdf").write_bytes(b"%PDF-1.4")
    out = tmp_path / "p.tsv"
    for place, message in (
        (empty, "no table of regional measures is in this folder"),
        (tmp_path / "nowhere", "nowhere"),
        (tmp_path / "notes.pdf", "notes.pdf"),
    ):
        refused(["predict", weights, place, "--out", out], capsys, message)
        assert not out.exists()
    refused(["predict", weights, SAMPLE, "--run", weights, "--out", out], capsys, "have an encoder")
    with pytest.raises(ConfigError, match="out: must be a file that ends in"):
        predicted(weights, people, out=tmp_path / "p.xlsx")
    embeddings = pd.DataFrame({"participant_id": ["a"], "feature_0000": [1.0]})
    with pytest.raises(ConfigError, match="is a table of embeddings, for one probe"):
        predicted(weights, embeddings)


def test_the_age_of_one_visit_is_not_that_of_another(weights, people, tmp_path):
    """A person who came again has grown older than the row of the first visit says."""
    measures = people.drop(columns=FACTS).head(3)
    visits = [measures.assign(session=session) for session in ("1", "2")]
    folder = tmp_path / "visits"
    folder.mkdir()
    pd.concat(visits).to_csv(folder / "measures.tsv", sep="\t", index=False)
    listed = people.head(3)[["participant_id"]].assign(session="ses-1", age=[8, 25, 40])
    listed.to_csv(folder / "participants.tsv", sep="\t", index=False)
    table = predicted(weights, folder).table.sort_values(["session", "participant_id"])
    first, second = (table[table["session"].astype(str) == session] for session in "12")
    assert sorted(first["age"]) == [8, 25, 40]
    assert second["age"].isna().all()
    listed.drop(columns="session").to_csv(folder / "participants.tsv", sep="\t", index=False)
    assert predicted(weights, folder).table["age"].notna().all()


def test_the_json_file_of_a_table_of_measures_holds(weights, people, tmp_path):
    """Ages in months are read as at every other command."""
    table = people.drop(columns="sex").head(3).assign(age=[60, 72, 84])
    table.to_csv(tmp_path / "kids.tsv", sep="\t", index=False)
    (tmp_path / "kids.json").write_text(json.dumps({"age": {"Units": "months"}}))
    table = predicted(weights, tmp_path / "kids.tsv").table
    assert table["age"].tolist() == [5, 6, 7]
