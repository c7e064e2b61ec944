from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import ndimage

from neurocontrast.data.simulation import (
    SimulationSettings,
    describe_simulation,
    draw_person,
    draw_scanner,
    render_scan,
    scans,
)
from neurocontrast.data.simulation.anatomy import ORIGIN_MM, load_anatomy
from neurocontrast.data.simulation.population import Person, draw_sites

CLEAN = SimulationSettings(
    spacing_mm=8.0, site_noise=0.0, site_bias=0.0, site_contrast=0.0, site_blur_mm=0.0, tissue_variability=0.0
)


def people(settings: SimulationSettings, n: int | None = None) -> list[Person]:
    return [draw_person(settings, index) for index in range(n or settings.n_subjects)]


def plain(**changes: object) -> Person:
    person = dataclasses.replace(
        draw_person(CLEAN, 0), ages=(45.0,), brain_age_gap=0.0, log_size=0.0, ventricle_gap=0.0, focal_loss=0.0
    )
    return dataclasses.replace(person, **changes)


def intensity(person: Person, centre_mm: tuple[float, float, float], settings: SimulationSettings = CLEAN) -> float:
    """Mean around a point, over the mean of the brain."""
    volume = render_scan(settings, person).astype(float)
    at = np.round((np.array(centre_mm) - ORIGIN_MM) / settings.spacing_mm).astype(int)
    around = volume[tuple(slice(i - 1, i + 2) for i in at)]
    return float(around.mean() / volume[volume > 0].mean())


def brain_volume_mm3(person: Person, settings: SimulationSettings) -> float:
    return float((render_scan(settings, person) > 0).sum() * settings.spacing_mm**3)


def test_a_person_is_the_same_in_a_cohort_of_any_size():
    small, large = (CLEAN.model_copy(update={"n_subjects": n}) for n in (5, 500))
    assert people(small, 5) == people(large, 5)
    np.testing.assert_array_equal(render_scan(small, draw_person(small, 4)), render_scan(large, draw_person(large, 4)))


def test_the_anatomy_does_not_depend_on_the_spacing():
    person = plain()
    volumes = [brain_volume_mm3(person, CLEAN.model_copy(update={"spacing_mm": s})) for s in (4.0, 6.0)]
    assert volumes[0] == pytest.approx(volumes[1], rel=0.05)


@pytest.mark.parametrize(("spacing_mm", "shape"), [(4.0, (46, 55, 46)), (8.0, (23, 28, 23))])
def test_the_grid_covers_the_mni_field_of_view(spacing_mm, shape):
    anatomy = load_anatomy(spacing_mm)
    assert anatomy.shape == shape
    np.testing.assert_allclose(anatomy.affine @ [0, 0, 0, 1], [*ORIGIN_MM, 1])
    volume = render_scan(CLEAN.model_copy(update={"spacing_mm": spacing_mm}), plain())
    assert volume.shape == shape
    assert volume.dtype == np.int16
    assert 1.2e6 < (volume > 0).sum() * spacing_mm**3 < 2.4e6  # mm³, a brain's


def test_two_seeds_share_nobody_and_can_share_scanners():
    pretraining, clinical = SimulationSettings(seed=1, site_seed=7), SimulationSettings(seed=11, site_seed=7)
    ids = [{person.participant_id for person in people(settings, 50)} for settings in (pretraining, clinical)]
    assert not ids[0] & ids[1]
    for site in range(3):
        ours, theirs = draw_scanner(pretraining, site), draw_scanner(clinical, site)
        assert (ours.gamma, ours.noise, ours.blur_mm) == (theirs.gamma, theirs.noise, theirs.blur_mm)
    assert draw_scanner(SimulationSettings(seed=1), 0).gamma != draw_scanner(pretraining, 0).gamma


def test_fractions_are_the_asked_ones_and_sites_uneven():
    settings = SimulationSettings(n_subjects=1500, patients=0.3, repeat_fraction=0.2)
    cohort = people(settings)
    assert np.mean([p.diagnosis == "patient" for p in cohort]) == pytest.approx(0.3, abs=0.04)
    assert np.mean([p.sex == "M" for p in cohort]) == pytest.approx(0.5, abs=0.04)
    assert np.mean([len(p.ages) == 2 for p in cohort]) == pytest.approx(0.2, abs=0.04)
    shares = np.bincount([p.site for p in cohort], minlength=8) / 1500
    np.testing.assert_allclose(shares, [site.share for site in draw_sites(settings)], atol=0.01)
    assert shares.max() > 1.5 * shares.min()


def test_ages_stay_in_range_and_differ_between_sites_as_asked():
    settings = SimulationSettings(n_subjects=2000, age_range_years=(30.0, 60.0), age_site_shift_years=6.0)
    cohort = people(settings)
    first = np.array([p.ages[0] for p in cohort])
    assert first.min() >= 30.0
    assert first.max() <= 60.0
    sites = np.array([p.site for p in cohort])
    same = people(settings.model_copy(update={"age_site_shift_years": 0.0}))
    spread = np.std([first[sites == s].mean() for s in range(8)])
    assert spread > 2 * np.std([np.mean([p.ages[0] for p in same if p.site == s]) for s in range(8)])


def test_confounding_ties_diagnosis_to_site():
    balanced = [site.patients for site in draw_sites(SimulationSettings(confounding=0.0))]
    confounded = [site.patients for site in draw_sites(SimulationSettings(confounding=3.0))]
    assert set(balanced) == {0.5}
    assert min(confounded) < 0.15
    assert max(confounded) > 0.85


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_one_class_is_possible(fraction):
    cohort = people(SimulationSettings(patients=fraction, confounding=2.0), 40)
    assert {p.diagnosis for p in cohort} == ({"patient"} if fraction else {"control"})


def test_ventricles_grow_with_age():
    settings = CLEAN.model_copy(update={"spacing_mm": 4.0})
    young, old = plain(ages=(22.0,)), plain(ages=(80.0,))
    for place in ((-10.0, 0.0, 20.0), (14.0, -15.0, 24.0)):
        assert intensity(old, place, settings) < 0.92 * intensity(young, place, settings)


@pytest.mark.parametrize("lost", ["age_atrophy", "age_contrast_loss"])
def test_each_part_of_ageing_takes_signal(lost):
    alone = {"age_atrophy": 0.0, "age_contrast_loss": 0.0, "ventricle_growth_mm": 0.0} | {lost: 0.5}
    settings = CLEAN.model_copy(update=alone)
    young, old = (render_scan(settings, plain(ages=(age,))).astype(float) for age in (22.0, 80.0))
    assert old.sum() < 0.97 * young.sum()
    unaffected = settings.model_copy(update={lost: 0.0})
    np.testing.assert_array_equal(
        render_scan(unaffected, plain(ages=(22.0,))), render_scan(unaffected, plain(ages=(80.0,)))
    )


def test_a_brain_older_than_its_person_looks_older():
    np.testing.assert_array_equal(
        render_scan(CLEAN, plain(ages=(60.0,))), render_scan(CLEAN, plain(ages=(50.0,), brain_age_gap=10.0))
    )


def test_size_scales_the_brain():
    ratio = brain_volume_mm3(plain(log_size=0.04), CLEAN) / brain_volume_mm3(plain(), CLEAN)
    assert ratio == pytest.approx(np.exp(0.12), rel=0.04)


def test_the_focal_part_acts_in_its_region_alone():
    control, patient = (render_scan(CLEAN, plain(focal_loss=loss)).astype(float) for loss in (0.0, 0.5))
    lost = control - patient
    lost[:12] = 0.0  # the right half alone
    places = np.indices(lost.shape).reshape(3, -1)
    found = np.array(ORIGIN_MM) + 8.0 * (places @ lost.ravel()) / lost.sum()
    np.testing.assert_allclose(found, (26.0, -16.0, -18.0), atol=10.0)
    assert lost.max() > 0.03 * control.max()
    assert lost[:, :4].max() < 0.1 * lost.max()  # nothing at the back


def test_only_patients_carry_the_focal_part_and_older_brains():
    settings = SimulationSettings(n_subjects=800, patient_ageing_years=6.0)
    cohort = people(settings)
    controls = [p for p in cohort if p.diagnosis == "control"]
    patients = [p for p in cohort if p.diagnosis == "patient"]
    assert all(p.focal_loss == 0.0 for p in controls)
    assert np.mean([p.focal_loss for p in patients]) == pytest.approx(settings.focal_atrophy, rel=0.1)
    gap = np.mean([p.brain_age_gap for p in patients]) - np.mean([p.brain_age_gap for p in controls])
    assert gap == pytest.approx(6.0, abs=1.0)


def test_changing_an_effect_leaves_the_people_as_they_were():
    weak, strong = (SimulationSettings(focal_atrophy=a) for a in (0.1, 0.5))
    for one, other in zip(people(weak, 30), people(strong, 30), strict=True):
        assert (one.ages, one.sex, one.site, one.diagnosis) == (other.ages, other.sex, other.site, other.diagnosis)


def test_scanners_leave_their_mark():
    settings = CLEAN.model_copy(
        update={"site_noise": 0.05, "site_bias": 0.1, "site_contrast": 0.1, "site_blur_mm": 4.0}
    )
    seen = [render_scan(settings, plain(site=site)).astype(float) for site in (0, 1)]
    seen = [volume / volume[volume > 0].mean() for volume in seen]
    assert np.abs(seen[0] - seen[1])[seen[0] > 0].mean() > 0.02
    clean = [render_scan(CLEAN, plain(site=site)).astype(float) for site in (0, 1)]
    clean = [volume / volume[volume > 0].mean() for volume in clean]
    np.testing.assert_allclose(*clean, atol=0.01)


def scanned(**scanner: float) -> np.ndarray:
    """One person's scan at a site whose scanner is clean but for what is given."""
    with pytest.MonkeyPatch.context() as patch:
        clean = draw_scanner(CLEAN, 0)
        patch.setattr(scans, "draw_scanner", lambda settings, site: dataclasses.replace(clean, **scanner))
        return render_scan(CLEAN, plain()).astype(float)


def test_a_site_strips_skulls_tightly_or_loosely():
    clean, tight, loose = (scanned(stripping_mm=mm) for mm in (0.0, -10.0, 10.0))
    assert (tight > 0).sum() < 0.9 * (clean > 0).sum()
    assert (loose > 0).sum() > 1.1 * (clean > 0).sum()
    assert not (tight > 0)[clean == 0].any()
    deep = ndimage.binary_erosion(clean > 0, iterations=4)
    np.testing.assert_array_equal(tight[deep], clean[deep])
    np.testing.assert_array_equal(loose[deep], clean[deep])


def test_a_scanner_shows_fluid_brighter_and_leaves_white_matter():
    clean, bright = scanned(), scanned(fluid=0.2)
    white = clean > 0.95 * np.percentile(clean, 99.5)
    np.testing.assert_array_equal(bright[white], clean[white])
    dark = (clean > 0) & (clean < 0.5 * np.percentile(clean, 99.5))
    assert (bright - clean)[dark].min() > 0
    assert ((bright > 0) == (clean > 0)).all()


def test_thick_slices_blur_from_foot_to_head_alone():
    clean, thick = scanned(), scanned(slice_mm=30.0)
    middle = tuple(slice(n // 3, -(n // 3)) for n in clean.shape)  # away from the border, which stays sharp
    roughness = [[np.abs(np.diff(v[middle], axis=axis)).mean() for axis in range(3)] for v in (clean, thick)]
    kept = np.divide(roughness[1], roughness[0])
    assert kept[2] < 0.9 * min(kept[:2])


def test_sites_differ_in_input_only_where_asked():
    clean = [draw_scanner(CLEAN, site) for site in range(3)]
    assert {(s.fluid, s.stripping_mm, s.slice_mm) for s in clean} == {(0, 0, 0)}
    settings = CLEAN.model_copy(update={"site_fluid": 0.1, "site_stripping_mm": 2.0, "site_slice_mm": 4.0})
    drawn = [draw_scanner(settings, site) for site in range(200)]
    assert np.std([s.fluid for s in drawn]) == pytest.approx(0.1, rel=0.25)
    assert np.std([s.stripping_mm for s in drawn]) == pytest.approx(2.0, rel=0.25)
    assert np.mean([s.slice_mm for s in drawn]) == pytest.approx(2.0, rel=0.25)
    clean = [draw_scanner(CLEAN, site) for site in range(3)]
    assert {(s.fluid, s.stripping_mm, s.slice_mm) for s in clean} == {(0, 0, 0)}
    before = [dataclasses.replace(s, fluid=0.0, stripping_mm=0.0, slice_mm=0.0) for s in drawn[:3]]
    for one, other in zip(before, clean, strict=True):
        assert (one.gamma, one.noise, one.gain) == (other.gamma, other.noise, other.gain)


def test_two_sessions_share_the_anatomy_and_not_the_noise():
    settings = CLEAN.model_copy(update={"site_noise": 0.03, "repeat_fraction": 1.0})
    person = dataclasses.replace(plain(), ages=(45.0, 45.0))
    first, second = (render_scan(settings, person, session=s).astype(float) for s in (0, 1))
    assert (first != second).any()
    assert np.corrcoef(first.ravel(), second.ravel())[0, 1] > 0.99
    repeated = draw_person(settings, 3)
    assert 1.0 <= repeated.ages[1] - repeated.ages[0] <= 3.0


def test_the_record_says_what_was_planted():
    record = describe_simulation(SimulationSettings(focal_atrophy=0.3, confounding=1.5))
    assert record["simulated"] is True
    assert record["settings"]["focal_atrophy"] == 0.3
    assert "30% of medial temporal grey matter" in record["planted"]["patients, focal"]
    assert "confounded" in record["planted"]["sites"]
    assert record["environment"]["neurocontrast"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patients": 1.2}, "less than or equal to 1"),
        ({"n_subjects": 0}, "greater than or equal to 1"),
        ({"spacing_mm": 0.2}, "greater than or equal to 1"),
        ({"age_range_years": (60, 20)}, r"youngest < oldest .* Got \[60, 20\]"),
        ({"n_subject": 3}, "Extra inputs"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        SimulationSettings(**changes)
