"""Draw people and scanners of a simulated cohort from seeds, without images."""

import functools
import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import expit, logit

from neurocontrast.seeds import derive_generator
from neurocontrast.settings import Settings

AGE_RANGE_YEARS = (18.0, 85.0)
SEX_SCALE = 0.006
"""Difference between men and women in the mean logarithm of the brain's linear size."""
_SIZE_SD = 0.008
"""Standard deviation of the logarithm of the brain's linear size within a sex."""
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_BIAS_TERMS = 9
_BRAIN_AGE_SD_YEARS = 3.5
"""Standard deviation of a brain's apparent age around the person's age, in years."""
_SITE_AGE_SD_YEARS = 4.0
"""Standard deviation of the mean age between sites, in years."""
_OWN_BIAS = 0.025
"""Standard deviation of the change in bias field from person to person, at `site_effects` of 1."""

Fraction = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class SimulationSettings(Settings):
    """Choose the people of a simulation, the effects in patients' brains, and the scanners."""

    n_subjects: int = Field(300, ge=1, le=1_000_000)
    """Number of people. Person number i is the same whatever `n_subjects` is."""
    n_sites: int = Field(8, ge=1, le=10_000)
    """Number of scanners (sites), with uneven numbers of people."""
    spacing_mm: float = Field(4.0, ge=1.0, le=12.0, allow_inf_nan=False)
    """Side of a voxel in mm; 4 mm gives 46×55×46 voxels, 1.5 mm gives 121×145×121."""
    seed: int = Field(0, ge=0)
    """Seed of the people. Participant identifiers contain the seed, so two cohorts of different
    seeds share nobody."""
    site_seed: int | None = Field(None, ge=0)
    """Seed of the scanners; None takes `seed`. Two cohorts with the same seed of scanners are
    scanned at the same sites."""
    site_effects: float = Field(1.0, ge=0.0, le=3.0, allow_inf_nan=False)
    """Strength of differences between scanners: none at 0, about the real differences at 1."""
    patients: Fraction = 0.5
    """Fraction of patients, between 0 and 1."""
    confounding: float = Field(0.0, ge=0.0, le=10.0)
    """Difference between sites in the odds of being a patient: none at 0, about e times at 1; at 3
    most sites nearly have a single class."""
    focal_atrophy: Fraction = 0.4
    """Mean strength of the loss of grey matter in the medial temporal region of patients, 0 to
    1.
    """
    patient_ageing_years: float = Field(6.0, ge=0.0, le=40.0)
    """Years by which the brains of patients look older than their age, on average."""

    @property
    def scanner_seed(self) -> int:
        """Seed of the scanners: `site_seed`, or `seed` if `site_seed` is None."""
        if self.site_seed is None:
            return self.seed
        return self.site_seed


@dataclass(frozen=True)
class Scanner:
    """Scanner of a simulated site; signal and noise are relative to the signal of white matter.

    Drawn by `draw_scanner`.
    """

    gain: float = 700.0
    """Stored intensity of white matter."""
    gamma: float = 1.0
    white_shift: float = 0.0
    """Change of white matter's signal, as a fraction of its contrast over grey matter."""
    bias: NDArray[np.float64] | tuple[float, ...] = (0.0,) * _BIAS_TERMS
    """Coefficients of the smooth terms of the bias field."""
    own_bias: float = 0.0
    """Standard deviation of the change in bias field from person to person."""
    noise: float = 0.0
    blur_mm: float = 0.0
    fluid: float = 0.0
    """Signal added to the darkest tissue, cerebrospinal fluid."""
    stripping_mm: float = 0.0
    """Distance in mm of skull-stripping's cut from the brain's border; negative cuts inside."""
    slice_mm: float = 0.0
    """Blur in mm from foot to head, by slices thicker than a voxel."""


@dataclass(frozen=True)
class Site:
    """Site of a simulated cohort: share of all people, shift of ages, and share of patients.

    Drawn by `draw_sites`.
    """

    name: str
    share: float
    age_shift_years: float
    patients: float


@dataclass(frozen=True)
class Person:
    """Simulated person: age, sex, site, diagnosis, and strengths of the effects in the brain.

    Drawn by `draw_person`; `site` is the number of the person's site, from 0.
    """

    index: int
    participant_id: str
    age: float
    sex: str
    site: int
    diagnosis: str
    brain_age_gap: float
    """Years by which the brain looks older than the person."""
    log_size: float
    ventricle_gap: float
    """Size of the ventricles relative to the brain's age, in standard deviations."""
    focal_loss: float
    """Strength of the grey-matter loss in the patients' region; 0 in controls."""


def draw_scanner(settings: SimulationSettings, site: int) -> Scanner:
    """Return a `Scanner` with random noise, blur, bias field and contrast, for a simulated site.

    `site`, the number of the site from 0, and ``settings.scanner_seed`` determine the random
    numbers.
    """
    generator = derive_generator("simulated-scanner", settings.scanner_seed, site)
    gamma, white, gain, fluid, stripping = np.clip(generator.standard_normal(5), -2.0, 2.0)
    bias = generator.standard_normal(_BIAS_TERMS) / math.sqrt(_BIAS_TERMS)
    noise, blur, thickness = generator.uniform(0.0, 1.0, size=3)
    strength = settings.site_effects
    return Scanner(
        gain=float(700.0 * np.exp(0.4 * gain)),
        gamma=float(np.exp(0.25 * strength * gamma)),
        white_shift=float(0.25 * strength * white),
        bias=0.08 * strength * bias,
        own_bias=_OWN_BIAS * strength,
        noise=float(strength * (0.01 + 0.03 * noise)),
        blur_mm=float(strength * (0.4 + 1.6 * blur)),
        fluid=float(0.15 * strength * fluid),
        stripping_mm=float(2.0 * strength * stripping),
        slice_mm=float(4.0 * strength * thickness),
    )


@functools.lru_cache(maxsize=8)
def draw_sites(settings: SimulationSettings) -> tuple[Site, ...]:
    """Return a `Site` for each of the ``settings.n_sites`` sites, with randomly drawn values.

    Drawn are the site's share of all people, the shift in years of the mean age of the site's
    people, and the share of patients among them. ``settings.scanner_seed`` is the seed.
    """
    shares = np.empty(settings.n_sites)
    shifts = np.empty(settings.n_sites)
    odds = np.empty(settings.n_sites)
    for site in range(settings.n_sites):
        generator = derive_generator("simulated-site", settings.scanner_seed, site)
        shares[site] = np.exp(0.6 * np.clip(generator.standard_normal(), -1.5, 1.5))
        shifts[site] = _SITE_AGE_SD_YEARS * np.clip(generator.standard_normal(), -2.0, 2.0)
        # Alternating signs: any two neighbouring sites are confounded with diagnosis once this is
        # asked for.
        sign = (-1.0) ** site
        odds[site] = sign * generator.uniform(0.75, 1.25)
    shares /= shares.sum()
    patients = expit(logit(settings.patients) + settings.confounding * (odds - shares @ odds))
    width = max(2, len(str(settings.n_sites)))
    sites = []
    for site in range(settings.n_sites):
        name = f"site-{site + 1:0{width}d}"
        sites.append(Site(name, float(shares[site]), float(shifts[site]), float(patients[site])))
    return tuple(sites)


def draw_person(settings: SimulationSettings, index: int) -> Person:
    """Return the randomly drawn `Person` number `index` (from 0) of a simulated cohort.

    The same `settings` and `index` give the same person, however many people are drawn.
    """
    sites = draw_sites(settings)
    # A golden-ratio sequence fills the sites in proportion at any n_subjects, yet each person's
    # place is fixed.
    start = derive_generator("simulated-site-order", settings.seed).random()
    bounds = np.cumsum([site.share for site in sites])
    position = int(np.searchsorted(bounds, (start + index * _GOLDEN) % 1.0, side="right"))
    number = min(position, len(sites) - 1)
    site = sites[number]
    # All draws are made for everybody, in one order: changing an effect leaves the other draws as
    # they were.
    generator = derive_generator("simulated-person", settings.seed, index)
    is_male = bool(generator.random() < 0.5)
    is_patient = bool(generator.random() < site.patients)
    gap, size, ventricles, severity, patient_gap = np.clip(generator.standard_normal(5), -3.0, 3.0)
    gap_years = _BRAIN_AGE_SD_YEARS * gap
    if is_patient:
        gap_years += settings.patient_ageing_years * (1.0 + 0.5 * patient_gap)
    youngest, oldest = AGE_RANGE_YEARS
    mean = float(np.clip(0.46 + site.age_shift_years / (oldest - youngest), 0.15, 0.85))
    relative_age = generator.beta(2.6 * mean, 2.6 * (1.0 - mean))
    sex = "F"
    size_of_sex = -0.5
    if is_male:
        sex = "M"
        size_of_sex = 0.5
    diagnosis = "control"
    focal_loss = 0.0
    if is_patient:
        diagnosis = "patient"
        focal_loss = float(settings.focal_atrophy * np.clip(1.0 + 0.4 * severity, 0.0, 2.0))
    return Person(
        index=index,
        participant_id=f"sub-sim{settings.seed}x{index + 1:04d}",
        age=round(float(youngest + (oldest - youngest) * relative_age), 2),
        sex=sex,
        site=number,
        diagnosis=diagnosis,
        brain_age_gap=float(gap_years),
        log_size=float(SEX_SCALE * size_of_sex + _SIZE_SD * size),
        ventricle_gap=float(ventricles),
        focal_loss=focal_loss,
    )
