"""Sex, site, age and every category have one reading wherever two tables meet."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import neurocontrast
from neurocontrast.cells import level_of
from neurocontrast.data.cohort import read_cohort
from neurocontrast.data.columns import levels_of
from neurocontrast.data.metadata import encode_metadata
from neurocontrast.embedding import write_embeddings
from neurocontrast.evaluation import ComBat, Residualiser, covariate_encoder
from neurocontrast.evaluation.rows import tidy_table
from neurocontrast.exceptions import DataError, NeurocontrastWarning

FASTEST = {
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "C": (1e-2, 1.0),
    "voxels": "off",
    "n_folds": 2,
    "n_inner_folds": 2,
}
FEATURES = [f"feature_{number:04d}" for number in range(4)]
WORDS = {"F": "female", "M": "Male"}
CODES = {"F": 2, "M": 1}


def people(n=60, *, seed=0, first=0) -> pd.DataFrame:
    """Return embeddings of people of three sites; patients are mostly women, so sex tells who is one."""
    random = np.random.default_rng(seed)
    is_patient = random.integers(0, 2, n).astype(bool)
    is_female = random.random(n) < np.where(is_patient, 0.85, 0.15)
    table = pd.DataFrame(
        {
            "participant_id": [f"sub-{first + row:03d}" for row in range(n)],
            "age": random.uniform(20, 80, n).round(1),
            "sex": np.where(is_female, "F", "M"),
            "site": (np.arange(n) % 3 + 1).astype(str),
            "diagnosis": np.where(is_patient, "patient", "control"),
        }
    )
    values = random.normal(size=(n, len(FEATURES))) + is_patient[:, None]
    return table.join(pd.DataFrame(values, columns=FEATURES))


TRAINING = people()
EXTERNAL = people(48, seed=1, first=500)


@pytest.fixture
def external(tmp_path):
    """Return a function that evaluates, and gives the external figures of embedding and baseline."""

    def figures(test, training=TRAINING, **options):
        folder = neurocontrast.evaluate(
            training,
            out=tmp_path / "evaluation",
            test=test,
            overwrite=True,
            **{"target": "diagnosis", **FASTEST, **options},
        )
        content = json.loads((folder / "evaluation.json").read_text())["external"]
        return {key: content[key] for key in ("metrics", "baseline", "baseline_covariates")}

    return figures


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """Return the external figures where both tables are written alike."""
    folder = tmp_path_factory.mktemp("usual")
    out = neurocontrast.evaluate(
        TRAINING, out=folder / "e", test=EXTERNAL, target="diagnosis", **FASTEST
    )
    content = json.loads((out / "evaluation.json").read_text())["external"]
    assert content["baseline"]["auc"]["value"] > 0.75
    return {key: content[key] for key in ("metrics", "baseline", "baseline_covariates")}


def sexes(written, rows=slice(None)) -> pd.DataFrame:
    """Return the external people with other words for the sexes of some rows."""
    sex = EXTERNAL["sex"].astype(object)
    sex[rows] = EXTERNAL["sex"].map(written)[rows]
    return EXTERNAL.assign(sex=sex)


@pytest.mark.parametrize(
    "test",
    [
        sexes(WORDS),
        sexes(CODES),
        sexes({"F": 2.0, "M": 1.0}),
        sexes({"F": "2", "M": "1.0 "}),
        sexes(WORDS, EXTERNAL["site"] == "2"),
        EXTERNAL.assign(sex=EXTERNAL["sex"].astype("category")),
        EXTERNAL.assign(site=EXTERNAL["site"].astype(int)),
        EXTERNAL.assign(site=EXTERNAL["site"].astype(float)),
        EXTERNAL.assign(site=EXTERNAL["site"].astype(int).astype("Int64")),
        EXTERNAL.assign(site=EXTERNAL["site"] + ".0"),
        EXTERNAL.assign(age=EXTERNAL["age"].astype(str)),
        EXTERNAL.assign(age=EXTERNAL["age"].astype("Float64")),
    ],
    ids=[
        *("words", "codes", "floats", "text of codes", "one site"),
        *("category", "int", "float", "Int64", "text of floats", "text of ages", "Float64"),
    ],
)
def test_an_external_set_of_another_spelling_has_the_same_baseline(test, external, usual):
    assert external(test) == usual


@pytest.mark.parametrize("word", ["H", "0", "?"])
def test_a_word_that_is_not_understood_beside_f_and_m_is_no_third_sex(word, tmp_path):
    table = sexes({"F": "F", "M": word}, EXTERNAL["site"] == "2")
    with pytest.raises(
        DataError, match=f"column 'sex' has F or M .*'{re.escape(word)}' in .*sub-5"
    ):
        neurocontrast.evaluate(table, target="diagnosis", out=tmp_path / "e", **FASTEST)
    with pytest.raises(DataError, match="column 'sex' has F or M"):
        Residualiser(["sex"]).fit(table[["sex", *FEATURES]])
    with pytest.raises(DataError, match="column 'sex' has F or M"):
        ComBat("site", preserve=["sex"]).fit(table[["site", "sex", *FEATURES]])


@pytest.mark.parametrize("letters", [("H", "M"), ("v", "m"), ("M", "K")])
def test_letters_that_begin_words_for_either_sex_are_refused(letters, tmp_path):
    """With H (hombre), M can be mujer: women would be the class M of a probe of sex."""
    table = TRAINING.assign(sex=TRAINING["sex"].map(dict(zip("MF", letters, strict=True))))
    for options in ({"target": "diagnosis"}, {"target": "sex"}):
        with pytest.raises(DataError, match=r"letters that begin words for either sex.*sub-0"):
            neurocontrast.evaluate(table, out=tmp_path / "e", **FASTEST | options)
    assert not (tmp_path / "e").exists()


def test_a_subject_id_that_some_rows_lack_is_refused(tmp_path):
    """A join that found no subject for some scans would make two people of one."""
    table = TRAINING.assign(subject_id=TRAINING["participant_id"])
    table.loc[3, "subject_id"] = None
    with pytest.raises(DataError, match=r"subject_id is missing in 1 of 60 rows \(sub-003\)"):
        neurocontrast.evaluate(table, target="diagnosis", out=tmp_path / "e", **FASTEST)
    with pytest.raises(DataError, match="subject_id is missing in 1 of 60 rows"):
        neurocontrast.evaluate(
            EXTERNAL, target="diagnosis", test=table, out=tmp_path / "e", **FASTEST
        )


@pytest.mark.parametrize("code", [999, -9])
def test_codes_for_missing_covariates_of_the_external_table_are_refused(external, code):
    educated = [table.assign(education=table["age"] / 5) for table in (TRAINING, EXTERNAL)]
    educated[1].loc[:9, "education"] = code
    with pytest.raises(DataError, match=rf"test: column 'education', 10 scans: '{code}"):
        external(educated[1], educated[0], covariates=["age", "sex", "education"])


def test_other_sexes_and_codes_alone_stay_levels():
    for sex in (("F", "M", "other"), ("a", "b", "c"), ("0", "1", "1")):
        table = pd.DataFrame({"sex": sex})
        assert len(covariate_encoder().fit(table).get_feature_names_out()) == len(set(sex))


def test_an_external_set_is_a_dataframe_a_path_or_a_text(external, usual, tmp_path):
    path = tmp_path / "others.parquet"
    features = EXTERNAL[FEATURES].to_numpy(np.float32)
    write_embeddings(path, EXTERNAL.drop(columns=FEATURES), features, {})
    assert external(path) == external(str(path)) == usual
    with pytest.raises(DataError, match="test: the DataFrame lacks participant_id"):
        external(EXTERNAL.drop(columns="participant_id"))


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (sexes({"F": 0, "M": 1}), r"'1' in 26 rows .*'0' in 22 rows .*'F', 'M'.* 0 and 1 mean"),
        (sexes({"F": "X", "M": "M"}, slice(0, 9)), r"'X' in . rows \(sub-50.*Learned were 'F'"),
    ],
)
def test_a_sex_never_seen_in_training_is_refused_by_name(test, message, external):
    with pytest.raises(DataError, match=rf"test: column 'sex' .*{message}.*evaluation.test_where"):
        external(test)


def test_sexes_of_0_and_1_in_both_tables_stay_as_they_are(external, usual):
    codes = {"F": 0, "M": 1}
    training = TRAINING.assign(sex=TRAINING["sex"].map(codes))
    assert external(sexes(codes), training) == usual
    with pytest.raises(DataError, match=r"'F' in .*Learned were '0', '1'"):
        external(EXTERNAL, training)


@pytest.mark.parametrize("codes", [{"F": 0, "M": 1}, {"F": True, "M": False}])
def test_one_sites_codes_beside_anothers_words_are_refused(codes, external):
    coded = TRAINING["sex"].map(codes).astype(object)
    table = TRAINING.assign(sex=TRAINING["sex"].where(TRAINING["site"] != "1", coded))
    with pytest.raises(DataError, match="has F or M in some rows"):
        external(EXTERNAL, training=table)
    with pytest.raises(DataError, match="has F or M in some rows"):
        Residualiser(["sex"]).fit(table[[*FEATURES, "sex"]])


def test_codes_1_and_2_of_a_dataframe_are_read_with_a_warning(external, usual):
    with pytest.warns(NeurocontrastWarning, match="1 is read as male and 2 as female"):
        assert external(EXTERNAL.assign(sex=EXTERNAL["sex"].map(CODES))) == usual
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        external(EXTERNAL.assign(sex=EXTERNAL["sex"].map(WORDS)))
    assert not [warning for warning in caught if "read as male" in str(warning.message)]


def test_codes_that_are_not_read_bring_no_warning_that_they_were(recwarn):
    tidy_table(TRAINING.assign(sex=TRAINING["sex"].map({"F": "01", "M": "03"})))
    assert not [warning for warning in recwarn if "read as male" in str(warning.message)]


def test_another_category_of_levels_never_seen_is_refused_by_name(external):
    training = TRAINING.assign(hand=np.where(TRAINING.index % 2, "R", "L"))
    test = EXTERNAL.assign(hand=np.where(EXTERNAL.index % 2, "right", "L"))
    with pytest.raises(DataError, match=r"test: column 'hand' .*'right' in 24 rows \(sub-501"):
        external(test, training, covariates=("hand",))


def test_a_covariate_of_numbers_is_read_where_it_is_written_as_text(external):
    training = TRAINING.assign(edu=TRAINING["age"] / 4)
    test = EXTERNAL.assign(edu=EXTERNAL["age"] / 4)
    written = test.assign(edu=test["edu"].astype(str))
    options = {"covariates": ("edu",)}
    assert external(written, training, **options) == external(test, training, **options)
    with pytest.raises(DataError, match=r"column 'edu' holds numbers .* \(sub-500: 'high'"):
        external(test.assign(edu="high"), training, **options)


def test_classes_are_read_by_one_rule_and_refused_by_name(external, usual):
    codes = {"patient": 1, "control": 0}
    training = TRAINING.assign(diagnosis=TRAINING["diagnosis"].map(codes))
    test = EXTERNAL.assign(diagnosis=EXTERNAL["diagnosis"].map(codes).astype(float))
    assert external(test, training) == usual
    with pytest.raises(DataError, match=r"'Patient' in .*Did you mean 'control'"):
        external(EXTERNAL.assign(diagnosis=EXTERNAL["diagnosis"].str.title()))


def test_a_sex_that_is_predicted_has_its_class_named_in_any_word(tmp_path):
    options = {"target": "sex", **FASTEST}
    table = TRAINING.assign(sex=TRAINING["sex"].map(WORDS))
    written = neurocontrast.evaluate(table, out=tmp_path / "1", positive="female", **options)
    usual = neurocontrast.evaluate(TRAINING, out=tmp_path / "2", positive="F", **options)
    assert written.record.classes == usual.record.classes == ["M", "F"]
    assert written.auc == usual.auc


def test_groups_have_two_sexes_where_one_site_writes_words(tmp_path):
    words = TRAINING["sex"].map(WORDS)
    table = TRAINING.assign(sex=TRAINING["sex"].where(TRAINING["site"] != "2", words))
    folder = neurocontrast.evaluate(table, out=tmp_path / "e", target="diagnosis", **FASTEST)
    groups = pd.read_csv(folder / "groups.tsv", sep="\t")
    assert groups.loc[groups["group_by"] == "sex", "group"].tolist() == ["F", "M"]


def test_a_selection_reads_a_column_as_the_table_is_read(external, usual):
    table = TRAINING.assign(sex=TRAINING["sex"].map(CODES))
    assert external(EXTERNAL, table, where={"sex": ["male", "F"]}) == usual
    coded = TRAINING.assign(sex=TRAINING["sex"].map({"F": 1, "M": 0}))
    with pytest.raises(DataError, match="no value 'M'"):
        external(EXTERNAL, coded, where={"sex": "M"})


def test_columns_of_any_dtype_of_pandas_are_evaluated(tmp_path):
    usual = neurocontrast.evaluate(TRAINING, out=tmp_path / "usual", target="diagnosis", **FASTEST)
    n = len(TRAINING)
    gaps = {
        "on_medication": pd.array([True, pd.NA] * (n // 2), dtype="boolean"),
        "arrow": pd.array([True, pd.NA] * (n // 2), dtype="bool[pyarrow]"),
        "count": pd.array([1, pd.NA] * (n // 2), dtype="Int64"),
        "words": pd.array(["a", pd.NA] * (n // 2), dtype="string[pyarrow]"),
        "level": pd.Categorical(["a", None] * (n // 2)),
        "day": pd.Series(pd.to_datetime(["2020-01-01", None] * (n // 2))),
    }
    typed = {
        "sex": TRAINING["sex"].astype("category"),
        "site": TRAINING["site"].astype("string"),
        "age": TRAINING["age"].astype(object).where(TRAINING.index > 0, pd.NA),
        "diagnosis": TRAINING["diagnosis"].astype("category"),
    }
    table = TRAINING.assign(**gaps, **typed)
    result = neurocontrast.evaluate(table, out=tmp_path / "typed", target="diagnosis", **FASTEST)
    assert result.auc == usual.auc
    assert result.record.baseline_covariates == usual.record.baseline_covariates


def test_a_target_of_booleans_with_gaps_is_one_of_text(tmp_path):
    taken = pd.Series(pd.array(TRAINING["diagnosis"] == "patient", dtype="boolean"))
    taken[:6] = pd.NA
    options = {"target": "taken", **FASTEST}
    aucs = []
    for number, cells in enumerate([taken, taken.astype("string"), taken.astype(object)]):
        table = TRAINING.assign(taken=cells)
        aucs.append(neurocontrast.evaluate(table, out=tmp_path / str(number), **options).auc)
    assert aucs[0] == aucs[1] == aucs[2]


# The transformers, on data that they have not seen.


def measured(n=80, seed=0) -> pd.DataFrame:
    """Return two features that differ between sexes by 3 and between sites by 5."""
    random = np.random.default_rng(seed)
    sex = random.choice(["F", "M"], n)
    site = random.choice([1, 2], n)
    values = random.normal(size=(n, 2))
    values += 3.0 * (sex == "M")[:, None] + 5.0 * (site == 2)[:, None]
    return pd.DataFrame(values, columns=["a", "b"]).assign(sex=sex, site=site)


@pytest.mark.parametrize("written", [WORDS, CODES, {"F": "2.0", "M": " 1"}])
def test_residuals_of_new_people_do_not_depend_on_the_word_for_a_sex(written):
    residualiser = Residualiser(["sex"]).fit(measured())
    new = measured(seed=1)
    usual = residualiser.transform(new)
    assert abs(usual[new["sex"] == "M"].mean() - usual[new["sex"] == "F"].mean()) < 1.0
    for dtype in (object, "category"):
        other = new.assign(sex=new["sex"].map(written).astype(dtype))
        np.testing.assert_array_equal(residualiser.transform(other), usual)


def test_one_new_person_is_read_beside_what_was_learned():
    coded = measured().assign(sex=lambda table: table["sex"].map({"F": 0, "M": 1}))
    residualiser = Residualiser(["sex"]).fit(coded)
    whole = residualiser.transform(coded)
    males = coded[coded["sex"] == 1]
    np.testing.assert_array_equal(residualiser.transform(males), whole[coded["sex"] == 1])


def test_an_unseen_level_is_refused_by_residualiser_or_ignored_with_a_warning():
    table = measured()
    new = measured(seed=1)
    new.loc[:2, "sex"] = ["X", "Y", None]
    with pytest.raises(ValueError, match=r"'X' in 1 row .0., 'Y' in 1 row .1.. Learned were 'F'"):
        Residualiser(["sex"]).fit(table).transform(new)
    lenient = Residualiser(["sex"], handle_unknown="ignore").fit(table)
    with pytest.warns(NeurocontrastWarning, match="'X' in 1 row"):
        lenient.transform(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lenient.transform(new[2:])


@pytest.mark.parametrize("dtype", [float, str, object, "Int64", "category", "string", "float text"])
def test_site_1_and_1_0_are_one_site_to_combat(dtype):
    table = measured().drop(columns="sex")
    combat = ComBat("site", handle_unknown="ignore").fit(table)
    usual = combat.transform(table)
    assert abs(usual[table["site"] == 1].mean() - usual[table["site"] == 2].mean()) < 1.0
    site = table["site"].astype(float).astype(str) if dtype == "float text" else table["site"]
    written = table.assign(site=site if dtype == "float text" else site.astype(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error", NeurocontrastWarning)
        np.testing.assert_array_equal(combat.transform(written), usual)
    with pytest.warns(NeurocontrastWarning, match=r"site '3' has .*Learned were '1', '2'"):
        raw = combat.transform(table.assign(site=3))
    np.testing.assert_array_equal(raw, table[["a", "b"]])


def test_the_site_is_a_category_and_the_age_a_number_whatever_their_dtype():
    table = pd.DataFrame({"site": [1, 2, 3], "age": ["30", "89+", None]})
    encoder = covariate_encoder().fit(table)
    expected = [[30, 0, 1, 0, 0], [89, 0, 0, 1, 0], [59.5, 1, 0, 0, 1]]
    np.testing.assert_array_equal(encoder.transform(table), expected)
    typed = table.assign(site=["1", "2.0", "3"], age=pd.array([30, 89, None], dtype="Int64"))
    np.testing.assert_array_equal(encoder.transform(typed), expected)
    with pytest.raises(ValueError, match=r"column 'age' holds numbers .*1: 'old'"):
        encoder.transform(table.assign(age=[30, "old", 50]))


# Tables of people, kernels and labels of a calibration.


def test_a_table_of_people_has_one_site_for_1_and_1_0_and_for_two_forms_of_an_accent():
    sites = ["1", "1.0", " 1", "01", "São", "Sa\u0303o"]
    table = pd.DataFrame({"participant_id": list("abcdef"), "site": sites, "age": ["30"] * 6})
    cohort = read_cohort(table, channels=())
    assert cohort.table["site"].tolist() == ["1", "1", "1", "01", "São", "São"]
    assert len(cohort.select({"site": 1.0})) == 3


def test_a_table_of_people_of_any_dtype_is_read_alike():
    usual = pd.DataFrame(
        {
            "participant_id": ["a", "b", "c"],
            "age": ["30", "41.5", ""],
            "sex": ["F", "M", ""],
            "site": ["1", "2", ""],
            "taken": ["True", "False", ""],
            "day": ["2020-01-01", "2020-02-01", ""],
        }
    )
    typed = pd.DataFrame(
        {
            "participant_id": pd.Categorical(["a", "b", "c"]),
            "age": pd.array([30, 41.5, None], dtype="Float64"),
            "sex": pd.array([2, 1, None], dtype="Int64"),
            "site": [1.0, 2.0, None],
            "taken": pd.array([True, False, None], dtype="boolean"),
            "day": pd.to_datetime(["2020-01-01", "2020-02-01", None]),
        }
    )
    first, second = (read_cohort(table, channels=()) for table in (usual, typed))
    pd.testing.assert_frame_equal(first.table, second.table)


def test_kernels_compare_levels_in_one_spelling():
    table = pd.DataFrame({"scanner": ["1", "1.0", "2", None]})
    codes, names = encode_metadata(table, {"scanner": "categorical"})
    assert codes["scanner"].tolist() == [0, 0, 1, -1]
    assert names["scanner"] == ["1", "2"]


def test_labels_of_a_calibration_are_read_as_the_target_is(tmp_path):
    options = {"target": "sex", **FASTEST}
    folder = neurocontrast.evaluate(TRAINING, out=tmp_path / "e", **options)
    labels = EXTERNAL[["participant_id", "sex"]]
    tables = []
    for written in ({"F": "F", "M": "M"}, WORDS, CODES):
        labelled = labels.assign(sex=labels["sex"].map(written))
        out = tmp_path / "p.tsv"
        neurocontrast.predict(folder, EXTERNAL, out=out, calibrate=labelled, overwrite=True)
        tables.append(pd.read_csv(out, sep="\t"))
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])
    assert (tables[0]["y_score"] != tables[0]["y_score_zero_shot"]).any()
    with pytest.raises(DataError, match="found 'X'; must be 'F', 'M'"):
        neurocontrast.predict(
            folder, EXTERNAL, out=tmp_path / "x.tsv", calibrate=labels.assign(sex="X")
        )


def test_a_probe_of_an_earlier_version_is_calibrated_by_any_word(tmp_path):
    options = {"target": "sex", **FASTEST}
    folder = neurocontrast.evaluate(TRAINING, out=tmp_path / "e", **options)
    description = folder / "probe" / "probe.json"
    texts = {"M": "Male", "F": "female"}
    probe = json.loads(description.read_text())
    probe["classes"] = [texts[name] for name in probe["classes"]]
    description.write_text(json.dumps(probe))
    out = neurocontrast.predict(
        folder, EXTERNAL, out=tmp_path / "p.tsv", calibrate=EXTERNAL[["participant_id", "sex"]]
    )
    assert set(pd.read_csv(out, sep="\t")["y_pred"]) == {"Male", "female"}


def test_a_test_part_with_levels_that_train_lacks_is_refused(tmp_path):
    part = np.where(TRAINING.index < 40, "train", "test")
    table = TRAINING.assign(part=part, hand=np.where(TRAINING.index < 40, "L", "left"))
    table.loc[3, "hand"] = "R"
    options = {"target": "diagnosis", "split_column": "part", **FASTEST}
    with pytest.raises(DataError, match=r"split_column: column 'hand' .*'left' in 20 rows"):
        neurocontrast.evaluate(table, out=tmp_path / "1", covariates=("age", "hand"), **options)
    moved = table.assign(site=np.where(TRAINING.index < 40, TRAINING["site"], "9"))
    result = neurocontrast.evaluate(moved, out=tmp_path / "2", **options)
    assert result.record.baseline_covariates == ["age", "sex"]
    messages = [notice.message for notice in result.record.warnings]
    assert any("site has values in test that train lacks" in message for message in messages)


@pytest.mark.parametrize(
    ("cell", "level"),
    [
        *((1, "1"), (1.0, "1"), ("1.0", "1"), (" 1 ", "1"), ("01", "01"), ("1.5", "1.5")),
        *((np.float32(2), "2"), (True, "True"), (np.True_, "True"), ("1e3", "1e3")),
        *((None, None), (pd.NA, None), (pd.NaT, None), (np.nan, None), ("n/a", None)),
        *(("v1.0", "v1.0"), ("Sa\u0303o", "São"), (pd.Timestamp("2020-01-31"), "2020-01-31")),
    ],
)
def test_a_level_has_one_spelling(cell, level):
    assert level_of(cell) == level
    assert levels_of("any", [cell]) == [level]


def test_classes_and_sites_that_differ_in_case_alone_are_named(tmp_path):
    written = TRAINING.assign(diagnosis=TRAINING["diagnosis"].replace("patient", "Patient"))
    table = pd.concat([TRAINING[:30], written[30:]], ignore_index=True)
    with pytest.raises(DataError, match="'Patient', 'patient' are spelled nearly alike"):
        neurocontrast.evaluate(table, out=tmp_path / "1", target="diagnosis", **FASTEST)
    sites = TRAINING["site"].replace({"1": "Paris", "2": "paris"})
    options = {"target": "diagnosis", **FASTEST}
    result = neurocontrast.evaluate(TRAINING.assign(site=sites), out=tmp_path / "2", **options)
    messages = [notice.message for notice in result.record.warnings]
    assert any("'Paris', 'paris'. If they are one" in message for message in messages)
