"""Reports of other projects' users that are right here already, so that they stay so."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch

import neurocontrast
from neurocontrast import losses
from neurocontrast.data import read_cohort, read_measures
from neurocontrast.data.measures.tables import read_tables
from neurocontrast.evaluation import ComBat
from neurocontrast.exceptions import DataError, NeurocontrastError
from neurocontrast.kernels import Gaussian
from tests.reports.folders import write_aparc, write_aseg, write_people

QUICK = {
    "n_folds": 2,
    "n_inner_folds": 2,
    "C": (0.1,),
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
}


def people_with_features(n: int = 24) -> pd.DataFrame:
    """Return people of two sites, two diagnoses and four features, of which the first tells the diagnosis."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"participant_id": [f"p{number:02d}" for number in range(n)]})
    table["age"] = generator.uniform(20, 80, n)
    table["sex"] = ["FM"[number // 2 % 2] for number in range(n)]
    table["site"] = ["ab"[number % 2] for number in range(n)]
    table["diagnosis"] = [("control", "patient")[number // 4 % 2] for number in range(n)]
    for column in range(4):
        table[f"feature_{column:04d}"] = generator.normal(size=n)
    table["feature_0000"] += 2 * (table["diagnosis"] == "patient")
    return table


@pytest.fixture
def mixed_versions(tmp_path):
    """Subjects of FreeSurfer 6 and of 5.3, whose white matter and thalamus have other names."""
    generator = np.random.default_rng(0)
    names = [f"sub-{number:02d}" for number in range(1, 9)]
    for number, name in enumerate(names):
        is_old = number % 2 == 1
        matter = "Cortical" if is_old else "Cerebral"
        volumes = [
            f"# Measure {side}{matter}WhiteMatter, {side}{matter}WhiteMatterVol, "
            f"x hemisphere white matter volume, {220_000 + 1000 * number}.5, mm^3"
            for side in ("lh", "rh")
        ]
        stats = tmp_path / "mixed" / name / "stats"
        write_aseg(
            stats / "aseg.stats",
            generator,
            version=None if is_old else "6.0.1",
            thalamus="Thalamus-Proper" if is_old else "Thalamus",
            further_measures=volumes,
        )
        for side in ("lh", "rh"):
            write_aparc(
                stats / f"{side}.aparc.stats",
                generator,
                version=None if is_old else "6.0.1",
                missing_comma=True,
            )
    write_people(tmp_path / "people.tsv", names, generator)
    return tmp_path


def test_two_versions_of_freesurfer_have_one_name_for_each_structure(mixed_versions):
    table = read_tables(mixed_versions / "mixed")
    thalami = [name for name in table.values if "Thalamus" in name]
    white = [name for name in table.values if "WhiteMatter" in name]
    assert sorted(thalami) == ["Left-Thalamus-Proper", "Right-Thalamus-Proper"]
    assert len(white) == 2
    assert not table.values[[*thalami, *white]].isna().any(axis=None)


def test_files_that_a_mac_leaves_are_no_measures(mixed_versions):
    for stats in mixed_versions.glob("mixed/*/stats"):
        for path in list(stats.iterdir()):
            path.with_name(f"._{path.name}").write_bytes(b"\x00\x05\x16\x07")
    assert len(read_tables(mixed_versions / "mixed").values) == 8


@pytest.mark.parametrize(
    ("header", "refusal"),
    [
        ("participant_id\tage\tage", "twice|'age'"),
        ("participant_id\tage\tAge", "twice"),
    ],
)
def test_a_column_named_twice_is_refused(header, refusal, tmp_path):
    path = tmp_path / "people.tsv"
    path.write_text(f"{header}\na\t30\t40\n")
    with pytest.raises(DataError, match=refusal):
        read_cohort(path, channels=())


def test_a_band_of_ages_is_no_age_and_the_message_says_where_to_keep_it(tmp_path):
    path = tmp_path / "people.tsv"
    path.write_text("participant_id\tage\na\t20-25\nb\t25-30\n")
    with pytest.raises(DataError, match=r"line 2.*'20-25'[\s\S]*line 3[\s\S]*age_band"):
        read_cohort(path, channels=())


def test_combat_leaves_constant_features_and_refuses_a_site_of_one_person():
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"volume": generator.normal(size=12), "constant": 3.0})
    table["site"] = ["a"] * 6 + ["b"] * 6
    changed = np.asarray(ComBat("site").fit_transform(table))
    assert np.isfinite(changed).all()
    np.testing.assert_allclose(changed[:, 1], 3.0)
    alone = pd.concat([table, table.iloc[:1].assign(site="c")])
    with pytest.raises(ValueError, match="'c' has fewer than 3 rows"):
        ComBat("site").fit(table).transform(alone)


def test_a_target_of_one_class_is_refused_and_people_without_one_are_left_out(tmp_path):
    table = people_with_features()
    with pytest.raises(NeurocontrastError, match="control"):
        neurocontrast.evaluate(
            table.assign(diagnosis="control"), target="diagnosis", out=tmp_path / "one", **QUICK
        )
    table.loc[:3, "diagnosis"] = None
    result = neurocontrast.evaluate(table, target="diagnosis", out=tmp_path / "two", **QUICK)
    assert len(pd.read_csv(result / "predictions.tsv", sep="\t")) == 20


@pytest.mark.parametrize("temperature", [1e-3, 1e-2])
def test_a_loss_is_finite_at_a_temperature_near_0(temperature):
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(2, 16, 8, generator=generator).requires_grad_()
    ages = {"age": torch.linspace(20, 80, 16)}
    kernel = Gaussian("age", sigma=5.0)
    for loss in (
        losses.YAwareInfoNCE(kernel, temperature=temperature),
        losses.ConditionalAlignmentUniformity(kernel, temperature=temperature),
        losses.NTXent(temperature=temperature),
    ):
        value = loss(views[0], views[1], ages)
        (gradient,) = torch.autograd.grad(value, views)
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all()


def test_switches_of_scikit_learn_and_pandas_change_no_figure(tmp_path):
    table = people_with_features()
    plain = neurocontrast.evaluate(table, target="diagnosis", out=tmp_path / "plain", **QUICK)
    with (
        sklearn.config_context(transform_output="pandas"),
        pd.option_context("mode.copy_on_write", True, "future.infer_string", True),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        other = neurocontrast.evaluate(table, target="diagnosis", out=tmp_path / "other", **QUICK)
    assert other.record.metrics == plain.record.metrics


def test_a_table_of_measures_with_a_person_twice_is_refused(mixed_versions):
    people = mixed_versions / "people.tsv"
    stats = read_tables(mixed_versions / "mixed")
    names = pd.read_csv(people, sep="\t")["participant_id"]
    values = stats.values.reset_index(drop=True).assign(participant_id=list(names))
    path = mixed_versions / "measures.tsv"
    pd.concat([values, values.iloc[:1]]).to_csv(path, sep="\t", index=False)
    with pytest.raises(DataError, match="01"):
        read_measures(people, path)
