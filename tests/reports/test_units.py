"""Measures in another unit at one site or of one person, and zeros that say that a program did not look."""

import numpy as np
import pandas as pd
import pytest

import neurocontrast
from neurocontrast.cli.app import run as command_line
from neurocontrast.data import read_measures
from neurocontrast.data.measures import MeasuresContract, MeasuresTable, measures_of, read_tables
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.data.sources import RegionalMeasures
from neurocontrast.documents.embeddings import Embeddings, write_embeddings
from neurocontrast.exceptions import DataError
from neurocontrast.transforms import MeasureSettings
from tests.reports.folders import DESIKAN, VOLUMES_MM3, write_aparc, write_aseg

HEAD = "EstimatedTotalIntraCranialVol"
SITES = ("paris", "paris", "lyon", "lyon", "lyon")
"""Sites of every five people: 60 % at one of them."""
VOLUMES = [*VOLUMES_MM3, HEAD]
THICK = [f"lh_{name}_thickness" for name in DESIKAN]
N = 40


@pytest.fixture
def measures():
    """Measures of forty people in mm and mm³, by their canonical names."""
    random = np.random.default_rng(4)
    typical = {**VOLUMES_MM3, HEAD: 1.5e6, **dict.fromkeys(THICK, 2.5)}
    values = {name: size * random.normal(1, 0.1, N) for name, size in typical.items()}
    return pd.DataFrame(values, index=pd.Index([f"sub-{row:02d}" for row in range(N)]))


@pytest.fixture
def write(tmp_path):
    """Write the measures, and the table of their people, and return the path of the latter."""

    def write(measures, *, has_site=True, folder="."):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        measures.rename_axis("participant_id").to_csv(
            place / "measures.tsv", sep="\t", na_rep="n/a"
        )
        people = pd.DataFrame({"participant_id": measures.index, "age": 40.0 + np.arange(N)})
        if has_site:
            people["site"] = [SITES[row % 5] for row in range(N)]
        people.to_csv(place / "participants.tsv", sep="\t", index=False)
        return place / "participants.tsv"

    return write


PARIS = [row for row in range(N) if SITES[row % 5] == "paris"]


def scaled(measures, rows, columns, factor):
    changed = measures.copy()
    changed.iloc[rows, [changed.columns.get_loc(name) for name in columns]] *= factor
    return changed


@pytest.mark.parametrize(
    ("columns", "factor", "unit"),
    [
        (VOLUMES, 1e-3, "in mm³, where .* seems to be in mL"),
        (["Left-Hippocampus"], 1e-3, "'Left-Hippocampus' should be in mm³, where 3,.* in mL"),
        (["Left-Hippocampus"], 1e-6, "in L"),
        ([HEAD], 1e-3, f"'{HEAD}' should be in mm³, where 1,.*; found 1,.* in mL"),
        (THICK, 0.1, "in mm, where 2.* found 0.2.* in cm"),
        (THICK[:3], 0.1, r"and 2 more columns should be in mm\b.* in cm"),
        (THICK, 1e3, "in µm"),
    ],
)
def test_a_site_in_another_unit_is_refused_by_name(measures, write, columns, factor, unit):
    with pytest.raises(DataError, match=f"(?s)site paris, 16 of 16 rows.*{unit}"):
        read_measures(write(scaled(measures, PARIS, columns, factor)))


@pytest.mark.parametrize(
    ("columns", "factor"), [(VOLUMES, 1e-3), (THICK, 0.1), ([HEAD], 1e-3), (THICK[:4], 0.1)]
)
def test_a_person_in_another_unit_is_refused_by_name(measures, write, columns, factor):
    changed = scaled(measures, [7, 12], columns, factor)
    for has_site in (True, False):
        with pytest.raises(DataError) as error:
            read_measures(write(changed, has_site=has_site))
        assert "sub-07" in str(error.value)
        assert "sub-12" in str(error.value)
        assert "sub-08" not in str(error.value)


def test_a_column_of_a_site_of_two_is_judged_by_the_site(measures, write):
    path = write(scaled(measures, [4, 9], ["Left-Hippocampus"], 1e-3))
    assert len(read_measures(path)) == N  # two values of forty, at a site of many
    people = pd.read_csv(path, sep="\t")
    people.loc[[4, 9], "site"] = "oslo"
    people.to_csv(path, sep="\t", index=False)
    with pytest.raises(DataError, match=r"site oslo, 2 of 2 rows.*'Left-Hippocampus' should be"):
        read_measures(path)


def test_most_people_in_the_smaller_unit_are_set_against_the_others(measures, write):
    unknown = measures.rename(columns={name: f"lh_Area{name}_volume" for name in VOLUMES})
    lyon = [row for row in range(N) if row not in PARIS]
    changed = scaled(unknown, lyon, [name for name in unknown if "_volume" in name], 1e-3)
    with pytest.raises(DataError, match=r"site paris, 16 of 16 rows.* and the others in mL"):
        read_measures(write(changed))


def test_single_odd_values_are_no_other_unit(measures, write):
    for columns in (["Left-Amygdala"], ["Left-Amygdala", "CSF", "3rd-Ventricle"], THICK[:1]):
        kept = scaled(measures, [7], columns, 1e-3 if columns[0] in VOLUMES else 0.1)
        assert read_measures(write(kept)).measures.values.shape == measures.shape
    halved = scaled(measures, PARIS, VOLUMES, 0.5)  # children, and another program
    assert len(read_measures(write(halved))) == N


def test_tables_of_real_people_are_in_one_unit(shared_folder):
    cohort = read_measures(shared_folder / "data" / "regions" / "participants.tsv")
    assert len(cohort) == 2629
    thalamus = cohort.measures.values["Left-Thalamus-Proper"]
    assert thalamus.isna().sum() == 273  # 0 in tables that were pooled
    assert any("546 volumes or areas are 0" in note for note in cohort.measures.notes)


def test_a_dataframe_is_judged_by_row_and_by_its_column_of_sites(measures):
    changed = scaled(measures, PARIS, VOLUMES, 1e-3).reset_index(drop=True)
    with pytest.raises(DataError, match=r"(?s)X: 16 problems.*row 0: 'Left-Hippocampus' and"):
        measures_of(changed, name="X")
    changed["site"] = [SITES[row % 5] for row in range(N)]
    with pytest.raises(DataError, match="X: 1 problem\n  site paris, 16 of 16 rows"):
        measures_of(changed, name="X")


def test_people_that_all_are_in_another_unit_than_a_run_are_refused(measures, write):
    unknown = measures.rename(columns={name: f"lh_Area{name}_volume" for name in VOLUMES})
    unknown = unknown.drop(columns=THICK)
    first = RegionalMeasures(MeasureDataSettings())
    learned = first.read_cohort(write(unknown))
    source = first.prepared(learned, range(N))
    assert len(source.read_cohort(write(unknown * 1.3))) == N
    with pytest.raises(DataError, match=r"site paris, 16 of 16 rows.* in mL"):
        source.read_cohort(write(unknown / 1000))
    with pytest.raises(DataError, match=r"row 0: .* in mL"):
        source.cohort_of(unknown.iloc[:1] / 1000, None)


@pytest.fixture
def subjects(tmp_path):
    """Write a folder of FreeSurfer's statistics of eight people, some of whose volumes are multiplied."""

    def write(factors, volumes=VOLUMES_MM3, by_fastsurfer=False):
        random = np.random.default_rng(0)
        root = tmp_path / "subjects"
        for number, factor in enumerate(factors):
            stats = root / f"sub-{number:02d}" / "stats"
            given = volumes if isinstance(volumes, dict) else volumes(number)
            write_aseg(stats / "aseg.stats", random, factor=factor, volumes=given)
            for side in ("lh", "rh"):
                write_aparc(stats / f"{side}.aparc.stats", random)
        return root

    return write


def test_index_names_the_people_in_another_unit(subjects, tmp_path):
    root = subjects([1, 1, 1, 1e-3, 1, 1e-3, 1, 1])
    with pytest.raises(DataError, match=r"(?s)sub-03.*in mL.*sub-05.*in mL"):
        neurocontrast.index(root, tmp_path / "out" / "participants.tsv")


CALLOSUM = {"CC_Central": 0, "CC_Anterior": 0, "Optic-Chiasm": 0}
CAVITIES = {"5th-Ventricle": 0, "Left-vessel": 0, "WM-hypointensities": 0, "Left-Inf-Lat-Vent": 0}


def test_structures_that_every_brain_has_are_missing_where_they_are_0(subjects):
    root = subjects([1] * 8, lambda number: VOLUMES_MM3 | CAVITIES | (
        CALLOSUM if number < 3 else dict.fromkeys(CALLOSUM, 400)
    ))  # fmt: skip
    table = read_tables(root)
    assert table.values[list(CALLOSUM)].isna().sum().tolist() == [3, 3, 3]
    assert (table.values[list(CAVITIES)] == 0).all().all()
    note = next(note for note in table.notes if "are 0" in note)
    assert "9 volumes or areas are 0, of structures that every brain has" in note


def test_columns_that_are_empty_for_everybody_are_left_out_and_noted(subjects, measures, write):
    table = read_tables(subjects([1] * 8, VOLUMES_MM3 | CALLOSUM | CAVITIES))
    assert not set(CALLOSUM) & set(table.values)
    assert set(table.empty) == set(CALLOSUM)
    assert any("left out" in note and "empty for everybody" in note for note in table.notes)
    cohort = read_measures(write(measures.assign(CC_Central=np.nan, CC_Anterior=0.0)))
    assert set(cohort.measures.empty) == {"CC_Central", "CC_Anterior"}
    assert (
        "CC_Central"
        not in MeasuresContract.fit(
            cohort.measures, cohort.measures.values, MeasureSettings()
        ).columns
    )


def test_a_true_0_has_a_logarithm(measures):
    values = measures.assign(**{"Left-vessel": np.r_[np.zeros(N // 2), np.full(N // 2, 60.0)]})
    kinds = {name: "thickness" if name in THICK else "volume" for name in values}
    contract = MeasuresContract.fit(MeasuresTable(values, kinds), values, MeasureSettings())
    applied = contract.apply(values, list(map(str, range(N))), source="x")
    assert np.isfinite(applied).all()
    assert np.abs(applied).max() < 6


def embeddings(measures, **columns):
    """Return a table as `evaluate` reads it, of noise as features, with measures of regions."""
    random = np.random.default_rng(1)
    table = pd.DataFrame({"participant_id": measures.index, "age": random.uniform(20, 80, N)})
    table["site"] = [SITES[row % 5] for row in range(N)]
    table["diagnosis"] = random.permutation(["control", "patient"] * (N // 2))
    for column in range(4):
        table[f"feature_{column:04d}"] = random.normal(size=N).astype(np.float32)
    return pd.concat([table.assign(**columns), measures.reset_index(drop=True)], axis=1)


QUICK = {
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "n_folds": 3,
    "n_inner_folds": 2,
    "C": (1.0,),
}


def evaluated(table, tmp_path, **options):
    return neurocontrast.evaluate(table, out=tmp_path / "ev", **QUICK, **options)


def test_regional_columns_of_an_evaluation_are_judged(measures, tmp_path):
    names = ["Left-*", "Right-*"]
    volumes = [name for name in VOLUMES if name.startswith(("Left", "Right"))]
    bad = embeddings(scaled(measures, PARIS, volumes, 1e-3))
    with pytest.raises(DataError, match=r"site paris, 16 of 16 rows.*in mL"):
        evaluated(bad, tmp_path, regional=names)
    renamed = bad.rename(columns={name: f"vol_{number}" for number, name in enumerate(volumes)})
    with pytest.raises(DataError, match="site paris, 16 of 16 rows"):
        evaluated(renamed, tmp_path, regional=["vol_*"])
    evaluated(embeddings(measures / 1000), tmp_path, regional=names)  # one unit is one unit
    standardised = (measures - measures.mean()) / measures.std()
    evaluated(embeddings(standardised), tmp_path, regional=names, overwrite=True)


def test_head_sizes_in_two_units_are_refused_by_site_and_person(measures, tmp_path):
    volumes = 1500.0 + 10 * np.arange(N)
    mixed = np.where(np.isin(np.arange(N), PARIS), volumes * 1000, volumes)
    with pytest.raises(DataError, match=r"site paris, 16 of 16 rows.*column 'tiv': found 1,.* mL"):
        evaluated(embeddings(measures, tiv=mixed), tmp_path)
    one = np.where(np.arange(N) == 9, volumes * 1000, volumes)
    with pytest.raises(DataError, match="embeddings: sub-09, column 'tiv'"):
        evaluated(embeddings(measures, tiv=one), tmp_path)
    evaluated(embeddings(measures, tiv=volumes * 1000), tmp_path)


def test_an_external_test_set_in_another_unit_is_refused(measures, tmp_path):
    volumes = 1500.0 + 10 * np.arange(N)
    others = measures.set_axis([f"new-{row:02d}" for row in range(N)])
    for name, table in {
        "tiv": embeddings(others, tiv=volumes * 1000),
        "regional": embeddings(others / 1000, tiv=volumes),
    }.items():
        path = tmp_path / f"{name}.parquet"
        read = Embeddings.of(table.assign(site="oslo", session=""))
        write_embeddings(path, read.table, read.features, read.info)
        with pytest.raises(DataError, match="test: embeddings: "):
            evaluated(
                embeddings(measures, tiv=volumes), tmp_path, test=str(path), regional=["Left-*"]
            )


def test_the_command_refuses_with_exit_code_2(measures, write, tmp_path, capsys):
    path = write(scaled(measures, PARIS, VOLUMES, 1e-3))
    given = ["pretrain", "--config", "measures", "--participants", str(path)]
    assert command_line([*given, "--out", str(tmp_path / "run")]) == 2
    assert "site paris, 16 of 16 rows" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
