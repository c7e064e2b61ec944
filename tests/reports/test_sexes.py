"""Sexes as hospitals write them: read by the values of a column where these are clear, refused by name where not."""

import json

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

from neurocontrast import index
from neurocontrast.cells import Refusal
from neurocontrast.data import read_cohort
from neurocontrast.data.codes import base_name, codes_in_name
from neurocontrast.data.decoding import decode_column
from neurocontrast.data.descriptions import Description
from neurocontrast.data.sexes import plain_word, read_sexes
from neurocontrast.exceptions import DataError

N_PEOPLE = 6


@pytest.fixture
def scans(tmp_path):
    """Write six raw scans."""
    for number in range(N_PEOPLE):
        folder = tmp_path / f"raw/sub-{number:02d}/anat"
        folder.mkdir(parents=True)
        image = nib.Nifti1Image(np.full((8, 8, 8), number, np.int16), np.eye(4))
        nib.save(image, folder / f"sub-{number:02d}_T1w.nii.gz")
    return tmp_path / "raw"


def write_people(folder, columns, *, separator=",", ending="csv"):
    """Write a table of the six people; returns its path."""
    people = {"participant_id": [f"sub-{number:02d}" for number in range(N_PEOPLE)], **columns}
    path = folder / f"people.{ending}"
    pd.DataFrame(people).to_csv(path, sep=separator, index=False)
    return path


def alternate(*cells):
    return [cells[number % len(cells)] for number in range(N_PEOPLE)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *[("m", "w"), ("M", "W"), ("H", "F"), ("h", "f"), ("Männlich", "Weiblich")],
        *[("Homme", "Femme"), ("Mann", "Frau"), ("hombre", "mujer"), ("Varón", "Mujer")],
        *[("Homem", "Mulher"), ("man", "vrouw"), ("man", "kvinna"), ("maschio", "femmina")],
        *[("ma\u0308nnlich", "weiblich"), ("masc.", "fem."), ("MALE", "Female"), ("男", "女")],
        *[("мужской", "женский"), ("erkek", "kadın"), ("mężczyzna", "kobieta"), ("male", "w")],
    ],
)
def test_clear_words_are_read_everywhere(scans, tmp_path, first, second):
    sexes = alternate(first, second)
    people = write_people(tmp_path, {"sex": sexes, "age": 30})
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    assert found.table["sex"].tolist() == alternate("M", "F")
    assert read_cohort(people, channels=()).table["sex"].tolist() == alternate("M", "F")
    frame = pd.DataFrame({"participant_id": list("abcdef"), "sex": sexes})
    assert read_cohort(frame, channels=()).table["sex"].tolist() == alternate("M", "F")


@pytest.mark.parametrize(
    "cells", [("H", "M"), ("V", "M"), ("M", "K"), ("f", "n"), ("h",), ("M", "hombre"), ("0", "1")]
)
def test_letters_that_begin_several_words_are_refused_with_their_lines(scans, tmp_path, cells):
    people = write_people(tmp_path, {"sex": alternate(*cells)})
    with pytest.raises(DataError) as of_index:
        index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    with pytest.raises(DataError) as of_cohort:
        read_cohort(people, channels=())
    for error in (of_index, of_cohort):
        text = str(error.value)
        assert f"found '{cells[0]}'" in text
        assert "line 2" in text
    assert not (tmp_path / "out/participants.tsv").exists()


def test_a_typing_error_does_not_make_other_letters_doubtful():
    values = read_sexes(["M", "F", "H"]).values
    assert values[:2] == ("M", "F")
    assert isinstance(values[2], Refusal)


@pytest.mark.parametrize(
    ("column", "name", "codes"),
    [
        ("Gender_ 1=female_2=male", "gender", {"1": "female", "2": "male"}),
        ("SEX_ID (1=m, 2=f)", "sex_id", {"1": "m", "2": "f"}),
        ("sex(1=m,2=f)", "sex", {"1": "m", "2": "f"}),
        ("gender (0 = female; 1 = male)", "gender", {"0": "female", "1": "male"}),
        ("Sex [M=1/F=2]", "sex", {"1": "M", "2": "F"}),
        ("sex (M: 1, F: 2)", "sex", {"1": "M", "2": "F"}),
        ("sex_1_male_2_female", "sex", {"1": "male", "2": "female"}),
        ("Geschlecht (1=männlich, 2=weiblich)", "geschlecht", {"1": "männlich", "2": "weiblich"}),
        ("sex", "sex", {}),
        ("M/F", "m/f", {}),
        ("sex_at_birth", "sex_at_birth", {}),
    ],
)
def test_codes_in_a_column_s_name(column, name, codes):
    assert base_name(column) == name
    assert codes_in_name(column) == codes


@pytest.mark.timeout(60)
@pytest.mark.parametrize("begun", ["a", " ", "_", "(", "=", "(=", "a=", "a =", "sex_1a"])
def test_a_name_of_a_hundred_thousand_characters_is_read(begun):
    """The time grows with the length of a name, not with its square (an hour for such a name)."""
    name = begun[:-1] + begun[-1] * 100_000
    assert base_name(name) == plain_word(name).strip(" _")
    assert codes_in_name(name) == {}


def test_codes_in_a_name_hold_at_every_door(scans, tmp_path):
    columns = {"Gender_ 1=female_2=male": alternate("1", "2")}
    people = write_people(tmp_path, columns)
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    assert found.table["sex"].tolist() == alternate("F", "M")
    # A table of scans takes the column by the name sex, and is told which codes to keep in it.
    warning = read_cohort(people, channels=()).warnings[0]
    assert "rename it 'sex (1=female, 2=male)'" in warning
    people = write_people(tmp_path, {"sex (1=female, 2=male)": alternate("1", "2")})
    assert read_cohort(people, channels=()).table["sex"].tolist() == alternate("F", "M")


@pytest.mark.parametrize("meanings", [("h", "m"), ("v", "m"), ("sexo h", "sexo m")])
@pytest.mark.parametrize("explained_by", ["levels", "name"])
def test_codes_explained_by_letters_that_begin_several_words_are_refused(
    scans, tmp_path, meanings, explained_by
):
    """With h (hombre), m can be mujer: a study of women would be one of men."""
    column = "sex"
    if explained_by == "name":
        column = f"sex (1={meanings[0]}, 2={meanings[1]})"
    else:
        levels = dict(zip("12", meanings, strict=True))
        (tmp_path / "people.json").write_text(json.dumps({"sex": {"Levels": levels}}))
    people = write_people(tmp_path, {column: "2"})
    with pytest.raises(DataError, match=f"explained as '{meanings[1]}'"):
        index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    with pytest.raises(DataError, match=f"explained as '{meanings[1]}'"):
        read_cohort(people, channels=())


def test_a_word_beside_a_letter_says_which_sex_is_meant(tmp_path):
    levels = {"1": "h (hombre)", "2": "m (mujer)"}
    (tmp_path / "people.json").write_text(json.dumps({"sex": {"Levels": levels}}))
    people = write_people(tmp_path, {"sex": alternate("1", "2")})
    assert read_cohort(people, channels=()).table["sex"].tolist() == alternate("M", "F")


def test_a_code_that_a_name_does_not_explain_is_refused(tmp_path):
    people = write_people(tmp_path, {"sex (1=female, 2=male)": alternate("1", "2", "3")})
    with pytest.raises(DataError, match=r"line 4.*found '3'; the column's name has '1', '2'"):
        read_cohort(people, channels=())


@pytest.mark.parametrize("column", ["M/F", "Geschlecht", "Sexe", "gender", "SEX"])
def test_usual_names_are_taken_by_index(scans, tmp_path, column):
    people = write_people(tmp_path, {column: alternate("M", "F")})
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    assert found.table["sex"].tolist() == alternate("M", "F")


@pytest.mark.parametrize(
    ("column", "cells", "kind"),
    [
        ("Q3", ("male", "female"), "sex"),
        ("PatientSex", ("M", "F"), "sex"),
        ("is_male", ("1", "0"), "sex"),
        ("age_months", ("360", "400"), "age"),
        ("Age (years)", ("30", "40"), "age"),
        ("recruiting_center", ("a", "b"), "site"),
    ],
)
def test_a_column_that_looks_like_one_and_is_not_taken_is_named(
    scans, tmp_path, column, cells, kind
):
    people = write_people(tmp_path, {column: alternate(*cells)})
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    notes = " ".join(found.notes)
    warnings = " ".join(read_cohort(people, channels=()).warnings)
    for text in (notes, warnings):
        assert f"column '{column}' is" in text
        assert f"rename it '{kind}'" in text


def test_bare_codes_are_read_by_one_rule_and_a_message_says_so(scans, tmp_path):
    people = write_people(tmp_path, {"SEX": alternate("1", "2")})
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    cohort = read_cohort(people, channels=())
    assert found.table["sex"].tolist() == cohort.table["sex"].tolist() == alternate("M", "F")
    for text in (" ".join(found.notes), " ".join(cohort.warnings)):
        assert "1 is read as male and 2 as female" in text
        assert "'sex (1=female, 2=male)'" in text


def test_codes_beside_words_are_read_by_one_rule_at_every_door(scans, tmp_path):
    people = write_people(tmp_path, {"sex": alternate("F", "1")})
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    cohort = read_cohort(people, channels=())
    assert found.table["sex"].tolist() == cohort.table["sex"].tolist() == alternate("F", "M")
    for text in (" ".join(found.notes), " ".join(cohort.warnings)):
        assert "mixes numbers and letters; 1 is read as male" in text


@pytest.mark.parametrize("names", [("sex", "Sex"), ("Age", "age"), ("M/F", "m/f")])
def test_a_column_named_twice_is_refused_by_index_too(scans, tmp_path, names):
    first, second = names
    people = write_people(tmp_path, {first: ["1"] * 6, second: ["2"] * 6})
    with pytest.raises(DataError, match=f"people.csv: .*'{second.lower()}' twice"):
        index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])


def test_an_empty_column_is_not_advised_to_be_renamed(scans, tmp_path):
    people = write_people(tmp_path, {"sex": ["n/a"] * 6})
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    assert not any("rename" in note for note in found.notes)


def test_a_number_beside_one_and_two_makes_all_codes_doubtful():
    values = read_sexes(["0", "1", "2"]).values
    assert all(isinstance(value, Refusal) for value in values)


def test_one_sex_alone_with_many_missing_is_told(scans, tmp_path):
    people = write_people(tmp_path, {"sex": alternate("F", "n/a")})
    text = "all 3 known cells are F, and 3 are missing"
    assert any(text in warning for warning in read_cohort(people, channels=()).warnings)
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    assert any(text in note for note in found.notes)


def test_other_sexes_are_kept_and_told(scans, tmp_path):
    people = write_people(tmp_path, {"sex": alternate("m", "w", "divers")})
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    assert found.table["sex_recorded"].tolist() == alternate("", "", "divers")
    assert any("kept in sex_recorded: 'divers'" in note for note in found.notes)


def test_head_sizes_are_judged_by_person(scans, tmp_path):
    people = write_people(tmp_path, {"tiv": alternate("1400000", "1450")})
    found = index(scans, tmp_path / "out/participants.tsv", phenotypes=[people])
    assert found.table["tiv"].tolist() == alternate("1400.0", "1450")
    assert read_cohort(people, channels=()).table["tiv"].tolist() == alternate(1400.0, 1450.0)
    people = write_people(tmp_path, {"tiv": alternate("1.4", "1450")})
    with pytest.raises(DataError, match=r"line 2.*'1.4'; the volume of a head"):
        read_cohort(people, channels=())


def test_head_sizes_are_converted_by_their_units():
    litres = decode_column("tiv", "tiv", ["1.4", "n/a"], Description(units="L"))
    assert litres.values == ["1400.0", ""]
    wrong = decode_column("tiv", "tiv", ["1400"], Description(units="L")).values[0]
    assert isinstance(wrong, Refusal)


def test_a_header_with_both_separators_is_read_by_the_rows(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text('participant_id;sex;age;"notes, free"\nsub-1;F;30;x\nsub-2;M;31;y\n')
    assert read_cohort(path, channels=()).table["age"].tolist() == [30, 31]
    path.write_text("participant_id;sex;age;notes, free\nsub-1;F;30;x\nsub-2;M;31;y\n")
    assert read_cohort(path, channels=()).table["age"].tolist() == [30, 31]
    path.write_text("participant_id,sex,a;b\nsub-1,F,30\nsub-2,M,31\n")
    assert read_cohort(path, channels=()).table["a;b"].tolist() == [30, 31]
    path.write_text("participant_id;sex;notes, free\nsub-1;F;x\nsub-2;M;y;z\n")
    with pytest.raises(DataError, match=r"people\.csv: the header .* has semicolons and commas"):
        read_cohort(path, channels=())
