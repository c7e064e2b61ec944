from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation import EvaluationSettings, SiteRecentring, plan_study
from neurocontrast.evaluation.designs import FeatureDesign
from neurocontrast.evaluation.fitting import fit_probe
from neurocontrast.evaluation.stored_probe import fit_on_all
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.transformers.sites import (
    ARRAYS,
    describe_recentring,
    recentre_table,
    restore_recentring,
)
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.findings import measure

FAST = {
    "n_bootstraps": 0,
    "confounds": False,
    "outlyingness": False,
    "n_inner_folds": 3,
    "alpha": (1.0, 100.0),
}


def scans(n: int = 240, *, n_sites: int = 4, shift: float = 3.0, age_by_site: float = 0.0, seed: int = 0):
    """Age moves features along one direction, each site along another; sites may differ in age."""
    generator = np.random.default_rng(seed)
    places = np.arange(n) % n_sites
    ages = generator.uniform(20, 80, n) + age_by_site * (places == n_sites - 1)
    directions = generator.normal(size=(n_sites + 1, 30))
    features = np.outer((ages - 50) / 15, directions[0]) + shift * directions[1 + places]
    table = pd.DataFrame(
        {
            "participant_id": [f"sub-{row:03d}" for row in range(n)],
            "age": ages,
            "sex": generator.choice(["F", "M"], n),
            "site": [f"s{place}" for place in places],
            "diagnosis": generator.choice(["control", "patient"], n),
        }
    )
    return table, features + generator.normal(size=features.shape)


def evaluate(table, features, **options):
    settings = EvaluationSettings(**{"target": "age", **FAST, **options})
    return measure(plan_study(table, features, settings=settings))


def mae_of(result, where, model="embedding"):
    return result.evaluation.content()["new_site"][where][model]["mae"]["value"]


def test_a_shift_of_the_features_is_undone_at_a_site_that_was_never_seen():
    result = evaluate(*scans(), recentre="site")
    assert mae_of(result, "home") < 3.5
    assert mae_of(result, "unseen") > 2 * mae_of(result, "home")
    assert mae_of(result, "unseen", "recentred") < 1.4 * mae_of(result, "home")
    assert result.evaluation.content()["new_site"]["models"] == ["embedding", "recentred", "baseline"]


def test_a_true_difference_in_the_target_is_lost_and_the_notice_says_so():
    table, features = scans(shift=0.0, age_by_site=25.0)
    result = evaluate(table, features, recentre="site")
    last = result.tables["new_sites"].set_index(["site", "model"]).loc["s3"]
    assert abs(last.loc["embedding", "bias"]) < 8
    assert last.loc["recentred", "bias"] == pytest.approx(-25, abs=6)
    told = next(each["message"] for each in result.evaluation.content()["warnings"] if each["code"] == "recentred")
    assert "transductive" in told
    assert "A true difference of sites in age is taken out too" in told


def test_what_is_known_of_a_site_is_not_taken_for_its_shift():
    """A diagnosis is predicted; sites differ in age, which the features show: kept, or taken for the site."""
    generator = np.random.default_rng(3)
    table, _ = scans(400, n_sites=2)
    old = table["site"] == "s1"
    table["age"] = np.where(old, 70.0, 30.0) + generator.normal(0, 8, 400)
    patient = table["diagnosis"] == "patient"
    age, disease = generator.normal(size=(2, 30))
    features = np.outer((table["age"] - 50) / 15, age) + np.outer(patient, disease) + generator.normal(size=(400, 30))
    design = {keep: recentred(features, plan(table, features).table, keep) for keep in ((), ("age",))}
    rows = np.flatnonzero(~old), np.flatnonzero(old)
    plain, kept = (design[keep](*rows) for keep in ((), ("age",)))
    gap = (features[rows[1]].mean(axis=0) - features[rows[0]].mean(axis=0)) @ age / (age @ age)
    for (x_train, x_test), expected in ((plain, 0.0), (kept, gap)):
        found = (x_test.mean(axis=0) - x_train.mean(axis=0)) @ age / (age @ age)
        assert found == pytest.approx(expected, abs=0.5)


def recentred(features, table, keep=()):
    return FeatureDesign(features, table, (SiteRecentring("site", subject="subject_id", preserve=keep),))


def plan(table, features, **options):
    return plan_study(table, features, settings=EvaluationSettings(**{"target": "diagnosis", **FAST, **options}))


def test_training_sites_are_moved_by_training_rows_and_new_ones_by_their_own():
    table, features = scans(120, n_sites=3)
    study = plan(table, features)
    design = recentred(study.features, study.table)
    sites = study.table["site"].to_numpy(dtype=object)
    train, test = np.flatnonzero(sites != "s2"), np.flatnonzero(sites == "s2")
    x_train, x_test = design(train, test)
    assert np.abs(x_train[sites[train] == "s0"].mean(axis=0) - x_train[sites[train] == "s1"].mean(axis=0)).max() < 0.2
    assert np.abs(x_test.mean(axis=0) - x_train.mean(axis=0)).max() < 0.2
    again = design(train, test[:7])[0]
    np.testing.assert_array_equal(x_train, again)  # whoever is tested does not move the training rows
    known = design(train, np.flatnonzero(sites == "s0")[:1])[1]
    np.testing.assert_allclose(known[0], x_train[np.flatnonzero(sites[train] == "s0")[0]])


def test_the_fit_does_not_chase_what_recentred_features_cannot_tell():
    table, features = scans(shift=0.0, age_by_site=40.0)
    study = plan(table, features, target="age")
    design = recentred(study.features, study.table)
    rows = np.arange(len(study.table))
    fitted = design.within_sites(study.target, rows)
    means = pd.Series(fitted.values).groupby(study.table["site"].to_numpy()).mean()
    assert np.ptp(means) < 2.0
    assert fitted.values.mean() == pytest.approx(study.target.values.mean(), abs=1.0)
    classes = Target("sex", "binary", np.array([0, 1]), ("F", "M"), "M")
    assert design.within_sites(classes, np.arange(2)) is classes


def test_a_stored_probe_recentres_as_the_evaluation_does():
    table, features = scans(120, n_sites=3)
    table.loc[:5, "age"], table.loc[4:9, "sex"] = np.nan, None
    study = plan(table, features)
    table, rows = study.table, np.arange(len(study.table))
    fitted = fit_on_all(plan(table, features, recentre="site"), encoder=None)[1].recentring
    columns = describe_recentring(fitted)
    assert columns[0] == {"name": "age", "mean": pytest.approx(table["age"].mean())}
    assert columns[1:] == [{"name": "sex", "level": "F"}, {"name": "sex", "level": "M"}]
    arrays = {name: getattr(fitted, attribute) for name, attribute in ARRAYS.items()}
    stored = restore_recentring(fitted.sites_, arrays, columns)
    expected = recentred(study.features, table, ("age", "sex"))(rows, rows)[0]
    np.testing.assert_allclose(recentre_table(stored, study.features, table), expected)
    new = table.assign(site="new", age=table["age"].mean(), sex=None)
    without = recentre_table(stored, study.features, new.drop(columns=["age", "sex"]))
    np.testing.assert_allclose(without, recentre_table(stored, study.features, new))  # at the mean, and of no sex


def test_small_sites_do_not_leave_the_evaluation():
    table, features = scans(64, n_sites=3)
    table.loc[:3, "site"] = "tiny"
    probe = fit_on_all(plan(table, features, recentre="site"), encoder=None)[1]
    assert probe.recentring.sites_.tolist() == ["s0", "s1", "s2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "site"}, "target=site"),
        ({"harmonise": "combat"}, "harmonise=combat takes the shifts"),
        ({"residualise": ("site",)}, r"residualise=\[site\] takes the shifts"),
        ({"recentre_preserve": ("agee",)}, "Did you mean 'age'"),
    ],
)
def test_what_cannot_be_recentred_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        plan(*scans(80), **{"recentre": "site", **options})


def test_a_scan_without_a_site_cannot_be_recentred():
    table, features = scans(80)
    table.loc[3, "site"] = None
    with pytest.raises(DataError, match="1 of 80 scans have no site"):
        plan(table, features, recentre="site")


def test_ages_of_tested_people_do_not_move_what_is_learned():
    table, features = scans(120, n_sites=3)
    study = plan(table, features, target="age")
    design = recentred(study.features, study.table)
    rows = np.arange(len(study.table))
    train, test = rows[rows % 4 > 0], rows[rows % 4 == 0]
    told = study.target.values.copy()
    told[test] += 30
    subjects = study.table["participant_id"].to_numpy(dtype=object)
    as_it_is, moved = (
        fit_probe(design, target, train, test, subjects=subjects, settings=study.settings, seed=0)[0].scores
        for target in (study.target, replace(study.target, values=told))
    )
    np.testing.assert_array_equal(as_it_is, moved)
