import json

import numpy as np
import pytest

from neurocontrast.evaluation.fit.fits import predict_out_of_fold
from neurocontrast.evaluation.measure.finding import Inputs
from neurocontrast.evaluation.measure.new_site import (
    MAX_GROUPS,
    measure_new_sites,
    plan_sites_left_out,
)
from neurocontrast.evaluation.plan.models import ConstantModel
from neurocontrast.evaluation.probes.fitting import FitContext
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import inner_folds
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from tests.evaluation import quick

FAST = {"new_site": True, "min_site_n": 10, "C": (1e-3, 1e-1)}


def make_plan(cohort, **options):
    return quick.make_plan(cohort, **FAST | options)


def evaluate(cohort, **options):
    return quick.evaluate_study(make_plan(cohort, **options))


def content(cohort, **options):
    return evaluate(cohort, **options).evaluation.content()


@pytest.fixture(scope="module")
def shifted(make_cohort):
    return evaluate(
        make_cohort(150, age=2.0, site=3.0), target="age", outlyingness=True, n_bootstraps=200
    )


@pytest.fixture(scope="module")
def left_out(make_cohort):
    """The same people, the sites left out in turn."""
    cohort = make_cohort(150, age=2.0, site=3.0)
    return evaluate(cohort, target="age", outlyingness=True, splits="leave-site-out")


def test_a_shift_between_sites_shows_as_an_error_at_the_unseen_one(shifted):
    block = shifted.evaluation.content()["new_site"]
    home, unseen, ratio = (block[part]["embedding"]["mae"] for part in ("home", "unseen", "ratio"))
    assert (block["design"], block["metric"], block["n_sites"]) == ("leave-one-site-out", "mae", 3)
    assert home["value"] == pytest.approx(shifted.evaluation.metrics["mae"].pooled)
    assert ratio["value"] == pytest.approx(unseen["value"] / home["value"])
    assert 1.5 < ratio["low"] < ratio["value"] < ratio["high"]
    gain = block["unseen_minus_constant"]["embedding"]["mae"]
    constant = block["unseen"]["constant"]["mae"]
    assert gain["value"] == pytest.approx(unseen["value"] - constant["value"])
    assert "new_site_worse" in quick.warnings(shifted)
    json.dumps(block, allow_nan=False)


def test_the_table_has_each_site_unseen_and_known(shifted):
    table = shifted.tables["new_sites"]
    sites = shifted.tables["sites"].set_index("site")
    assert set(table["model"]) == {"embedding", "baseline", "constant"}
    own = table[table["model"] == "embedding"].set_index("site")
    np.testing.assert_allclose(own["home_mae"], sites.loc[own.index, "mae"])
    assert (own["n"] == sites.loc[own.index, "n"]).all()
    assert (own["n"] + own["n_train"] == 150).all()
    pooled = np.average(own["mae"], weights=own["n"])
    assert pooled == pytest.approx(
        shifted.evaluation.content()["new_site"]["unseen"]["embedding"]["mae"]["value"]
    )
    assert (own["mae_low"] < own["mae"]).all()
    assert own["bias"].abs().max() <= own["mae"].max()


def test_the_unseen_figures_are_those_of_leaving_sites_out(shifted, left_out):
    found, main = (each.evaluation.content() for each in (shifted, left_out))
    for model, part in (("embedding", "metrics"), ("baseline", "baseline")):
        value = found["new_site"]["unseen"][model]["mae"]["value"]
        assert value == pytest.approx(main[part]["mae"]["pooled"], rel=0.02)
    assert main["new_site"] is None
    assert "hold sites out already" in main["new_site_note"]


def test_without_a_shift_there_is_little_to_warn_of(make_cohort):
    found = content(make_cohort(150, age=2.0), target="age", n_repeats=2)
    assert found["new_site"]["ratio"]["embedding"]["mae"]["value"] == pytest.approx(1.0, abs=0.15)
    assert "new_site_worse" not in quick.warnings(found)


@pytest.mark.parametrize("classes", [("control", "patient"), ("a", "b", "c")])
def test_classes_have_a_ratio_of_their_losses(make_cohort, classes):
    block = content(make_cohort(120, classes=classes, diagnosis=0.5), n_bootstraps=50)["new_site"]
    assert set(block["ratio"]["embedding"]) == {"brier", "log_loss"}
    assert block["metric"] == ("auc" if len(classes) == 2 else "balanced_accuracy")
    home, unseen, difference = (
        block[part]["embedding"]["auc"] for part in ("home", "unseen", "difference")
    )
    assert difference["value"] == pytest.approx(unseen["value"] - home["value"])
    assert difference["low"] < difference["value"] < difference["high"]


def test_sites_that_cannot_be_left_out_are_named(make_cohort):
    cohort = make_cohort(150, n_sites=4)
    cohort.table.loc[cohort.table["site"] == "site-0", "diagnosis"] = "control"
    cohort.table.loc[:2, "site"] = "small"
    cohort.table.loc[3:9, "site"] = None
    found = content(cohort)
    block = found["new_site"]
    assert {each["site"]: each["why"] for each in block["skipped"]} == {
        "site-0": "single class (control)",
        "small": "fewer than 5 subjects (3) tested while the site is known",
    }
    assert block["left_out"] == ["site-1", "site-2", "site-3"]
    assert "2 sites were not left out" in quick.warnings(found)["new_site_skipped"]


def test_why_nothing_is_left_out(make_cohort):
    def note(cohort, **options) -> str:
        return plan_sites_left_out(make_plan(cohort, **options)).why_not

    cohort = make_cohort(60, n_sites=2)
    assert (
        note(cohort, target="site")
        == "the site is the target, and a site that is left out cannot be predicted"
    )
    assert note(cohort, harmonise="combat").startswith("harmonise=combat and residualise=[site]")
    assert note(make_cohort(60, n_sites=1)) == "one site only ('site-0')"
    assert note(cohort, new_site=False) == "not asked for (new_site=false)"
    nested = make_cohort(60, n_sites=2)
    nested.table["scanner"] = nested.table["site"].replace({"site-0": "A", "site-1": "B"})
    assert "site-0: single class (A)" in note(nested, target="scanner")
    nested.table["site"] = None
    assert note(nested) == "no scan has a site"


def test_a_subject_of_two_sites_is_never_trained_on_while_one_is_unseen(make_cohort):
    cohort = make_cohort(90, n_sessions=2)
    cohort.table.loc[90:110, "site"] = "site-9"
    cohort.table.loc[[0, 1, 90, 91], "site"] = None
    plan = make_plan(cohort)
    splits = plan_sites_left_out(plan).splits
    assert len(splits) == 4
    for split in splits:
        assert plan.table["site"][[*split.train, *split.test]].notna().all()
        assert not set(plan.subjects[split.train]) & set(plan.subjects[split.test])
        assert split.held_out_site not in set(plan.sites[split.train])


@pytest.mark.slow
def test_many_sites_are_left_out_in_groups(make_cohort):
    plan = make_plan(make_cohort(700, n_sites=25), n_folds=2)
    found = plan_sites_left_out(plan)
    assert (len(found.splits), len(found.sites)) == (MAX_GROUPS, 25)
    block = measure_new_sites(Inputs(plan, predict_out_of_fold(plan))).summary["new_site"]
    assert block["design"] == "leave-sites-out in 20 groups"
    assert block["n"]["scans"] == 700


def test_a_class_that_other_sites_lack_cannot_be_tested(make_cohort):
    cohort = make_cohort(90)
    elsewhere = (cohort.table["site"] != "site-0") & (cohort.table["diagnosis"] == "patient")
    cohort.table.loc[elsewhere, "diagnosis"] = "control"
    found = plan_sites_left_out(make_plan(cohort))
    assert not found.sites
    assert "site-0: fewer than two subjects of 'patient' at the other sites" in found.why_not


def test_the_constant_is_what_training_says():
    target = Target("age", "continuous", np.array([1.0, 2.0, 9.0, 50.0]))
    constant = ConstantModel("constant")
    context = FitContext(np.array(list("abcde"), dtype=object), EvaluationSettings(), seed=0)
    split = Split(0, 0, np.array([0, 1, 2]), np.array([3]))
    assert constant.predict(target, split, context).scores == [2.0]
    classes = Target("d", "binary", np.array([0, 0, 0, 1, 1]), ("a", "b"), "b")
    found = constant.predict(classes, Split(0, 0, np.arange(4), np.array([4])), context)
    assert (found.scores[0], found.decisions[0]) == (0.25, 0)


def test_scans_of_an_unseen_site_lie_outside_and_those_of_known_sites_do_not(shifted, left_out):
    block = shifted.evaluation.content()["outlyingness"]
    assert block["n_outside"] / block["n"] < 0.08
    assert {each["site"] for each in block["by_site"]} == {"site-0", "site-1", "site-2"}
    assert "outside_distribution" not in quick.warnings(shifted)
    assert left_out.tables["outlyingness"]["outside"].mean() > 0.95
    assert "do not trust" in quick.warnings(left_out)["outside_distribution"]


def test_too_few_people_have_no_score(make_cohort):
    result = evaluate(make_cohort(18), n_folds=2, new_site=False, outlyingness=True)
    assert result.tables["outlyingness"]["mahalanobis"].isna().all()
    note = result.evaluation.content()["outlyingness"]["note"]
    assert "Without a score: 18 scans (fewer than 20 training subjects" in note
    assert content(make_cohort(40), new_site=False)["outlyingness"] is None


def test_too_few_sites_fall_back_to_dealt_inner_folds_and_say_so(make_cohort):
    plan = make_plan(
        make_cohort(90, n_sites=2), splits="leave-site-out", inner_splits="leave-site-out"
    )
    assert "2 of 2 training folds" in quick.warnings(plan)["inner_splits_dealt"]
    arguments = (plan.target, plan.splits[0].train, plan.subjects)
    dealt = inner_folds(*arguments, n_folds=3, seed=0)
    for a, b in zip(
        dealt, inner_folds(*arguments, n_folds=3, seed=0, sites=plan.sites), strict=True
    ):
        np.testing.assert_array_equal(a[1], b[1])
    enough = make_plan(make_cohort(90, n_sites=4), inner_splits="leave-site-out")
    assert "inner_splits_dealt" not in quick.warnings(enough)
    with pytest.raises(ConfigError, match="inner_splits: a site"):
        make_plan(make_cohort(90), target="site", inner_splits="leave-site-out")


def test_a_penalty_chosen_for_unseen_sites_is_stronger_where_sites_shift_the_features(make_cohort):
    cohort = make_cohort(240, n_sites=6, n_features=100, age=0.5, site=1.5, diagnosis=0.0)
    grid = 3.0 ** np.arange(1, 8)
    options = {"target": "age", "alpha": tuple(grid), "n_inner_folds": 5}
    stratified, by_site = (
        quick.evaluate(cohort, **options, inner_splits=inner).tables["folds"]["alpha"].median()
        for inner in ("stratified", "leave-site-out")
    )
    assert by_site > stratified
