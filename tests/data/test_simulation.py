import dataclasses

import numpy as np
import pytest

from neurocontrast.data.simulation import (
    Scanner,
    SimulationSettings,
    draw_person,
    draw_scanner,
    render_scan,
)
from neurocontrast.data.simulation.anatomy import load_anatomy
from neurocontrast.data.simulation.people import AGE_RANGE_YEARS, Person, draw_sites
from neurocontrast.transforms.preprocessing import MNI_ORIGIN_MM

SETTINGS = SimulationSettings(spacing_mm=8.0)
CLEAN = Scanner()


def people(settings: SimulationSettings, n: int) -> list[Person]:
    return [draw_person(settings, index) for index in range(n)]


def plain(**changes: object) -> Person:
    person = dataclasses.replace(
        draw_person(SETTINGS, 0),
        age=45.0,
        sex="F",
        brain_age_gap=0.0,
        log_size=0.0,
        ventricle_gap=0.0,
        focal_loss=0.0,
    )
    return dataclasses.replace(person, **changes)


def scanned(person: Person | None = None, spacing_mm: float = 8.0, **scanner: float) -> np.ndarray:
    """A person's scan by a scanner that is clean but for what is given."""
    settings = SETTINGS.model_copy(update={"spacing_mm": spacing_mm})
    return render_scan(settings, person or plain(), dataclasses.replace(CLEAN, **scanner)).astype(
        float
    )


def intensity(
    volume: np.ndarray, centre_mm: tuple[float, float, float], spacing_mm: float
) -> float:
    """Mean around a point, over the mean of the brain."""
    at = np.round((np.array(centre_mm) - MNI_ORIGIN_MM) / spacing_mm).astype(int)
    around = volume[tuple(slice(i - 1, i + 2) for i in at)]
    return float(around.mean() / volume[volume > 0].mean())


def test_a_person_is_the_same_in_a_cohort_of_any_size():
    small, large = (SETTINGS.model_copy(update={"n_subjects": n}) for n in (5, 500))
    assert people(small, 5) == people(large, 5)
    np.testing.assert_array_equal(
        render_scan(small, draw_person(small, 4)), render_scan(large, draw_person(large, 4))
    )


@pytest.mark.parametrize(("spacing_mm", "shape"), [(4.0, (46, 55, 46)), (8.0, (23, 28, 23))])
def test_the_grid_covers_the_mni_field_of_view(spacing_mm, shape):
    anatomy = load_anatomy(spacing_mm)
    assert anatomy.shape == shape
    np.testing.assert_allclose(anatomy.affine @ [0, 0, 0, 1], [*MNI_ORIGIN_MM, 1])
    settings = SETTINGS.model_copy(update={"spacing_mm": spacing_mm})
    volume = render_scan(settings, plain())
    assert volume.shape == shape
    assert volume.dtype == np.int16
    assert 1.2e6 < (volume > 0).sum() * spacing_mm**3 < 2.4e6  # mm³, a brain's


def test_people_fold_differently_and_share_a_mean():
    scans = np.stack([scanned(plain(index=index), spacing_mm=4.0) for index in range(12)])
    anatomy = load_anatomy(4.0)
    outer, deep = np.zeros((2, *anatomy.shape), dtype=bool)
    outer.ravel()[anatomy.brain[(anatomy.outer > 0.8) & (anatomy.head > 0.99)]] = True
    deep.ravel()[anatomy.brain[(anatomy.outer < 0.1) & (anatomy.head > 0.99)]] = True
    spread = scans.std(axis=0) / scans.mean()
    assert np.median(spread[outer]) > 1.3 * np.median(spread[deep])
    patterns = (scans - scans.mean(axis=0))[:, outer]
    assert np.abs(np.corrcoef(patterns)[np.triu_indices(12, 1)]).max() < 0.3


def test_two_seeds_share_nobody_and_can_share_scanners():
    pretraining = SimulationSettings(seed=1, site_seed=7)
    clinical = SimulationSettings(seed=11, site_seed=7)
    ids = [
        {person.participant_id for person in people(settings, 50)}
        for settings in (pretraining, clinical)
    ]
    assert not ids[0] & ids[1]
    for site in range(3):
        ours = draw_scanner(pretraining, site)
        theirs = draw_scanner(clinical, site)
        assert (ours.gamma, ours.noise, ours.blur_mm) == (
            theirs.gamma,
            theirs.noise,
            theirs.blur_mm,
        )
    assert draw_scanner(SimulationSettings(seed=1), 0).gamma != draw_scanner(pretraining, 0).gamma


def test_fractions_are_the_asked_ones_and_sites_uneven():
    settings = SimulationSettings(n_subjects=1500, patients=0.3)
    cohort = people(settings, 1500)
    assert np.mean([p.diagnosis == "patient" for p in cohort]) == pytest.approx(0.3, abs=0.04)
    assert np.mean([p.sex == "M" for p in cohort]) == pytest.approx(0.5, abs=0.04)
    shares = np.bincount([p.site for p in cohort], minlength=8) / 1500
    np.testing.assert_allclose(shares, [site.share for site in draw_sites(settings)], atol=0.01)
    assert shares.max() > 1.5 * shares.min()
    ages = np.array([p.age for p in cohort])
    assert AGE_RANGE_YEARS[0] <= ages.min()
    assert ages.max() <= AGE_RANGE_YEARS[1]
    means = [ages[[p.site == site for p in cohort]].mean() for site in range(8)]
    assert 2.0 < np.std(means) < 9.0


def test_confounding_ties_diagnosis_to_site():
    balanced = [site.patients for site in draw_sites(SimulationSettings(confounding=0.0))]
    confounded = [site.patients for site in draw_sites(SimulationSettings(confounding=3.0))]
    assert set(balanced) == {0.5}
    assert min(confounded) < 0.15
    assert max(confounded) > 0.85


def test_ventricles_grow_with_age():
    young, old = (scanned(plain(age=age), spacing_mm=4.0) for age in (22.0, 80.0))
    for place in ((-10.0, 0.0, 20.0), (14.0, -15.0, 24.0)):
        assert intensity(old, place, 4.0) < 0.95 * intensity(young, place, 4.0)


def test_a_brain_older_than_its_person_looks_older():
    np.testing.assert_array_equal(
        scanned(plain(age=60.0)), scanned(plain(age=50.0, brain_age_gap=10.0))
    )


def test_the_focal_part_acts_in_its_region_and_saturates():
    control, patient, twice = (scanned(plain(focal_loss=loss)) for loss in (0.0, 0.5, 1.0))
    lost = control - patient
    lost[:12] = 0.0  # the right half alone
    places = np.indices(lost.shape).reshape(3, -1)
    found = np.array(MNI_ORIGIN_MM) + 8.0 * (places @ lost.ravel()) / lost.sum()
    np.testing.assert_allclose(found, (26.0, -16.0, -18.0), atol=10.0)
    assert lost.max() > 0.03 * control.max()
    assert lost[:, :4].max() < 0.1 * lost.max()  # nothing at the back
    assert (control - twice).sum() < 1.9 * (control - patient).sum()


def test_only_patients_carry_the_focal_part_and_older_brains():
    settings = SimulationSettings(patient_ageing_years=6.0)
    cohort = people(settings, 800)
    controls = [p for p in cohort if p.diagnosis == "control"]
    patients = [p for p in cohort if p.diagnosis == "patient"]
    assert all(p.focal_loss == 0.0 for p in controls)
    assert np.mean([p.focal_loss for p in patients]) == pytest.approx(
        settings.focal_atrophy, rel=0.1
    )
    gap = np.mean([p.brain_age_gap for p in patients]) - np.mean(
        [p.brain_age_gap for p in controls]
    )
    assert gap == pytest.approx(6.0, abs=1.0)


def test_changing_an_effect_leaves_the_people_as_they_were():
    weak, strong = (SimulationSettings(focal_atrophy=a) for a in (0.1, 0.5))
    for one, other in zip(people(weak, 30), people(strong, 30), strict=True):
        assert (one.age, one.sex, one.site, one.diagnosis) == (
            other.age,
            other.sex,
            other.site,
            other.diagnosis,
        )


def test_scanners_leave_their_mark_where_asked():
    def difference(settings: SimulationSettings) -> float:
        seen = [render_scan(settings, plain(site=site)).astype(float) for site in (0, 1)]
        seen = [volume / volume[volume > 0].mean() for volume in seen]
        return float(np.abs(seen[0] - seen[1])[seen[0] > 0].mean())

    assert difference(SETTINGS) > 0.02
    assert difference(SETTINGS.model_copy(update={"site_effects": 0.0})) < 0.01
