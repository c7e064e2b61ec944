from dataclasses import replace

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation import EvaluationSettings, plan_evaluation
from neurocontrast.evaluation.fit.distribution import (
    LEVELS,
    DistributionError,
    fit_distribution,
    place,
    training_reference,
)
from neurocontrast.evaluation.rows import NO_SITE
from tests.evaluation.quick import names


def draw(n: int, *, p: int = 60, seed: int = 0, site: float = 2.0):
    generator = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(p, p)) / np.sqrt(p)
    places = np.arange(n) % 3
    shifts = site * np.random.default_rng(98).normal(size=(3, p))
    return generator.normal(size=(n, p)) @ mixing + shifts[places], np.array(
        [f"s{place}" for place in places]
    )


@pytest.mark.parametrize("p", [20, 200])
def test_new_people_of_known_sites_are_flagged_at_the_nominal_rate(p):
    shares = []
    for seed in range(6):
        x, sites = draw(150, p=p, seed=seed)
        found = fit_distribution(x, sites, names(150), seed=seed)[0]
        shares.append((found.percentiles(draw(600, p=p, seed=100 + seed)[0])[1] > 97.5).mean())
    assert (
        0.01 < np.mean(shares) < 0.06
    )  # of some 50 scans a site, the 97.5th percentile lies near the largest


def test_a_scan_far_from_every_site_is_outside_and_one_between_two_sites_too():
    x, sites = draw(150, site=6.0)
    found = fit_distribution(x, sites, names(150), seed=0)[0]
    between = (found.centres[0] + found.centres[1]) / 2
    assert found.percentiles(np.stack([x.mean(axis=0) + 20, between]))[1].min() > 97.5
    assert found.percentiles(found.centres)[1].max() < 1


def test_percentiles_are_of_people_measured_without_themselves():
    """With more features than scans, a training scan lies in the span of the reference; a new one does not."""
    x, sites = draw(100, p=300)
    found = fit_distribution(x, sites, names(100), seed=0)[0]
    assert np.median(found.percentiles(draw(300, p=300, seed=1)[0])[1]) == pytest.approx(50, abs=15)
    assert np.median(found.percentiles(x)[1]) < 20  # these shaped it


def test_scans_of_a_study_are_measured_without_themselves(make_cohort):
    cohort = make_cohort(60, n_features=200)
    plan = plan_evaluation(
        cohort.table, cohort.features, settings=EvaluationSettings(target="diagnosis")
    )
    reference = training_reference(plan)
    distances, percentiles = reference.score(plan, np.arange(10, 60)).T
    np.testing.assert_array_equal(distances, reference.distances[10:])
    assert np.median(percentiles) == pytest.approx(50, abs=10)


def test_of_two_sites_that_do_not_differ_each_lies_inside_the_other(make_cohort):
    """A half of the scans has larger distances of its own than all of them."""
    shares = []
    for seed in range(4):
        x, _ = draw(80, p=100, seed=seed)
        table = make_cohort(80).table.assign(
            site=np.array(["a", "b"], dtype=object)[np.arange(80) % 2]
        )
        x -= 2.0 * np.random.default_rng(98).normal(size=(3, 100))[np.arange(80) % 3]
        settings = EvaluationSettings(target="age", splits="leave-site-out")
        plan = plan_evaluation(
            table, x, settings=settings, info=EmbeddingsInfo(pretraining_subjects=[])
        )
        reference = training_reference(plan)
        shares += [
            (reference.score_held_out(plan, split)[:, 1] > 97.5).mean() for split in plan.splits
        ]
    assert np.mean(shares) < 0.05


def test_all_scans_of_a_subject_are_in_one_fold():
    """Copies of a scan would make it usual, were they not left out together."""
    x, sites = draw(40, p=300)
    once = fit_distribution(x, sites, names(40), seed=0)[0]
    thrice = fit_distribution(
        np.repeat(x, 3, axis=0), np.repeat(sites, 3), np.repeat(names(40), 3), seed=0
    )[0]
    new = draw(200, p=300, seed=1)[0]
    assert np.median(thrice.percentiles(new)[1]) == pytest.approx(
        np.median(once.percentiles(new)[1]), abs=20
    )


def test_the_distance_is_that_of_the_shrunk_covariance():
    """With fewer features than axes, nothing is left over, and the distance can be had from the matrix itself."""
    x, _ = draw(80, p=10)
    found = fit_distribution(x, np.repeat("a", 80), names(80), seed=0)[0]
    z = (x - x.mean(axis=0)) / found.scale
    drawn = ledoit_wolf_shrinkage(z, assume_centered=True)
    covariance = (1 - drawn) * z.T @ z / 79 + drawn * np.trace(z.T @ z) / 79 / 10 * np.eye(10)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", z, np.linalg.inv(covariance), z))
    np.testing.assert_allclose(found.nearest(x)[0], expected, rtol=1e-8)


def test_what_does_not_vary_is_left_out():
    x, sites = draw(60, p=5)
    x = np.column_stack([x, np.full(60, 3.0)])
    found = fit_distribution(x, sites, names(60), seed=0)[0]
    moved = x.copy()
    moved[:, -1] = 99.0
    np.testing.assert_allclose(found.nearest(moved)[0], found.nearest(x)[0])
    with pytest.raises(DistributionError, match="no feature varies within the training sites"):
        fit_distribution(np.ones((60, 4)), sites, names(60), seed=0)


def test_a_percentile_is_among_the_usual_distances_of_the_nearest_site():
    """Probes of earlier versions, the shipped ones among them, have other usual distances at every site."""
    x, sites = draw(150, site=6.0)
    found = fit_distribution(x, sites, names(150), seed=0)[0]
    nearest = np.searchsorted(found.sites, sites)
    apart = replace(found, usual=found.usual * np.array([[1.0], [10.0], [10.0]]))
    before = found.percentiles(x)[1]
    after = apart.percentiles(x)[1]
    np.testing.assert_array_equal(after[nearest == 0], before[nearest == 0])
    assert after[nearest > 0].max() < 1 < np.median(before[nearest > 0])


def test_small_sites_and_scans_without_a_site_share_a_centre():
    x, sites = draw(60)
    found = fit_distribution(x, np.array(["one", NO_SITE, *sites[2:]]), names(60), seed=0)[0]
    assert found.sites == ("(other sites)", "s0", "s1", "s2")


def test_too_few_people_have_no_distribution():
    x, sites = draw(60)
    with pytest.raises(DistributionError, match=r"fewer than 20 training subjects \(19\)"):
        fit_distribution(x, sites, np.tile(names(19), 4)[:60], seed=0)


def test_a_place_among_usual_distances():
    usual = np.linspace(1.0, 3.0, len(LEVELS))
    assert [place(value, usual) for value in (0.0, 1.0, 2.0, 3.0, 9.0)] == [
        0.0,
        0.0,
        50.0,
        100.0,
        100.0,
    ]
    assert place(1.0, np.ones(len(LEVELS))) == 50.0
