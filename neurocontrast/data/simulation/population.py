"""The people of a simulated cohort and the scanners that see them: settings and draws, no images yet."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.special import expit, logit

from neurocontrast.seeds import derive_generator
from neurocontrast.settings import Settings

__all__ = ["Person", "Scanner", "SimulationSettings", "Site", "draw_person", "draw_scanner", "draw_sites"]

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_BIAS_TERMS = 9
_BRAIN_AGE_SD_YEARS = 3.5  # of a brain's age about its person's
SEX_SCALE, _SIZE_SD = 0.04, 0.02  # of the logarithm of the brain's linear size: men over women, and within a sex

Fraction = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class SimulationSettings(Settings):
    """Choose the people, the effects planted in their brains, and the scanners that see them.

    Parameters
    ----------
    n_subjects : int
        Number of people. Person number i is the same whatever `n_subjects` is.
    n_sites : int
        Number of scanners, of uneven sizes.
    spacing_mm : float
        Voxel side; 4 mm gives 46×55×46 voxels, 1.5 mm gives 121×145×121.
    seed : int
        Names the people. Participant identifiers contain it, so two cohorts of different seeds share nobody.
    site_seed : int or None
        Names the scanners; None takes `seed`. Two cohorts with the same number are scanned at the same sites.
    patients : float
        Fraction of patients, between 0 and 1.
    repeat_fraction : float
        Fraction of people scanned a second time, one to three years later.
    age_range_years : tuple of float
        Youngest and oldest age at the first scan.
    age_site_shift_years : float
        Standard deviation of the mean age between sites.
    confounding : float
        How far the odds of being a patient differ between sites: not at 0, about e times at 1; at 3 sites nearly have
        a single class.
    ventricle_growth_mm : float
        Largest outward movement of the ventricles' walls between 20 and 80 years.
    age_atrophy : float
        Fraction of grey matter's signal lost between 20 and 80 years where it borders on fluid.
    age_contrast_loss : float
        Fraction of the contrast of white over grey matter lost between 20 and 80 years.
    focal_atrophy : float
        Mean fraction of grey matter that patients lose at the centre of the medial temporal region.
    patient_ageing_years : float
        How much older than their age the brains of patients look on average.
    tissue_variability : float
        Standard deviation of the smooth individual variation of grey matter.
    site_contrast, site_bias, site_noise, site_blur_mm : float
        Mean strength of gamma and tissue contrast (standard deviation of the log), of the bias field (standard
        deviation), of noise (over white matter's intensity) and of blur (σ in mm).
    site_fluid : float
        Standard deviation between scanners of how bright fluid is, over white matter's intensity.
    site_stripping_mm : float
        Standard deviation between sites of where skull-stripping cuts, inside the brain's rim or outside it.
    site_slice_mm : float
        Largest thickness of slices beyond the voxel's, from foot to head; a site has between none and all of it.
    """

    n_subjects: int = Field(300, ge=1, le=1_000_000)
    n_sites: int = Field(8, ge=1, le=10_000)
    spacing_mm: float = Field(4.0, ge=1.0, le=12.0, allow_inf_nan=False)
    seed: int = Field(0, ge=0)
    site_seed: int | None = Field(None, ge=0)
    patients: Fraction = 0.5
    repeat_fraction: Fraction = 0.0
    age_range_years: tuple[float, float] = (18.0, 85.0)
    age_site_shift_years: float = Field(4.0, ge=0.0, le=20.0)
    confounding: float = Field(0.0, ge=0.0, le=10.0)

    ventricle_growth_mm: float = Field(7.0, ge=0.0, le=15.0)
    age_atrophy: Fraction = 0.7
    age_contrast_loss: Fraction = 0.4
    focal_atrophy: Fraction = 0.4
    patient_ageing_years: float = Field(6.0, ge=0.0, le=40.0)
    tissue_variability: float = Field(0.07, ge=0.0, le=0.5)

    site_contrast: float = Field(0.05, ge=0.0, le=1.0)
    site_bias: float = Field(0.06, ge=0.0, le=0.5)
    site_noise: float = Field(0.03, ge=0.0, le=0.5)
    site_blur_mm: float = Field(1.2, ge=0.0, le=10.0)
    site_fluid: float = Field(0.0, ge=0.0, le=0.5)
    site_stripping_mm: float = Field(0.0, ge=0.0, le=4.0)
    site_slice_mm: float = Field(0.0, ge=0.0, le=10.0)

    @model_validator(mode="after")
    def _check_age_range(self) -> Self:
        youngest, oldest = self.age_range_years
        if not 0.0 <= youngest < oldest <= 110.0:
            raise ValueError(
                f"age_range_years must be two ages, 0 <= youngest < oldest <= 110. Got [{youngest:g}, {oldest:g}]."
            )
        return self

    @property
    def scanner_seed(self) -> int:
        """Seed that names the scanners."""
        return self.seed if self.site_seed is None else self.site_seed


@dataclass(frozen=True)
class Scanner:
    """The machine of a site; intensities and noise are over white matter's intensity."""

    gamma: float
    white_shift: float
    """Change of white matter, as a fraction of its contrast over grey matter."""
    bias: NDArray[np.float64]
    """Coefficients of the bias field's smooth terms."""
    noise: float
    blur_mm: float
    gain: float
    """Stored intensity of white matter."""
    fluid: float = 0.0
    """Added to the darkest tissue's signal."""
    stripping_mm: float = 0.0
    """How far outside the brain's border the skull-stripping cuts; inside where negative."""
    slice_mm: float = 0.0


@dataclass(frozen=True)
class Site:
    """The share of people that a site scans, how much older they are, and its fraction of patients."""

    name: str
    share: float
    age_shift_years: float
    patients: float


@dataclass(frozen=True)
class Person:
    """One simulated person, and the strengths of what was planted in the brain."""

    index: int
    participant_id: str
    ages: tuple[float, ...]
    sex: str
    site: int
    diagnosis: str
    brain_age_gap: float
    """Years by which the brain looks older than the person."""
    log_size: float
    ventricle_gap: float
    focal_loss: float
    """Fraction of grey matter lost at the centre of the patients' region; 0 in controls."""


def draw_scanner(settings: SimulationSettings, site: int) -> Scanner:
    """Draw the machine of a site, from the seed of the scanners and the number of the site alone."""
    generator = derive_generator("simulated-scanner", settings.scanner_seed, site)
    gamma, white, gain = generator.standard_normal(3)
    bias = generator.standard_normal(_BIAS_TERMS) / math.sqrt(_BIAS_TERMS)
    noise, blur = generator.uniform(0.4, 1.6, size=2)
    # Draws of their own: the other draws are those of versions without these effects.
    later = derive_generator("simulated-scanner-input", settings.scanner_seed, site)
    fluid, stripping = np.clip(later.standard_normal(2), -2.0, 2.0)
    return Scanner(
        gamma=float(np.exp(settings.site_contrast * np.clip(gamma, -2.5, 2.5))),
        white_shift=float(settings.site_contrast * white),
        bias=settings.site_bias * bias,
        noise=float(settings.site_noise * noise),
        blur_mm=float(settings.site_blur_mm * blur),
        gain=float(700.0 * np.exp(0.4 * np.clip(gain, -2.0, 2.0))),
        fluid=float(settings.site_fluid * fluid),
        stripping_mm=float(settings.site_stripping_mm * stripping),
        slice_mm=float(settings.site_slice_mm * later.random()),
    )


@functools.lru_cache(maxsize=8)
def draw_sites(settings: SimulationSettings) -> tuple[Site, ...]:
    """Draw the sizes of sites, their ages and their fractions of patients."""
    shares, shifts, odds = np.empty((3, settings.n_sites))
    for site in range(settings.n_sites):
        generator = derive_generator("simulated-site", settings.scanner_seed, site)
        shares[site] = np.exp(0.6 * np.clip(generator.standard_normal(), -1.5, 1.5))
        shifts[site] = settings.age_site_shift_years * np.clip(generator.standard_normal(), -2.0, 2.0)
        # Alternating signs: any two neighbouring sites are confounded with diagnosis once this is asked for.
        odds[site] = (1.0 if site % 2 == 0 else -1.0) * generator.uniform(0.75, 1.25)
    shares /= shares.sum()
    patients = expit(logit(settings.patients) + settings.confounding * (odds - shares @ odds))
    width = max(2, len(str(settings.n_sites)))
    found = zip(shares.tolist(), shifts.tolist(), patients.tolist(), strict=True)
    return tuple(Site(f"site-{site:0{width}d}", *values) for site, values in enumerate(found, start=1))


def draw_person(settings: SimulationSettings, index: int) -> Person:
    """Draw person number `index` (from 0), independently of all other people."""
    site = _site_of(settings, index)
    place = draw_sites(settings)[site]
    # All draws are made for everybody, in one order: changing an effect leaves the other draws as they were.
    generator = derive_generator("simulated-person", settings.seed, index)
    is_male = bool(generator.random() < 0.5)
    is_patient = bool(generator.random() < place.patients)
    is_repeated = bool(generator.random() < settings.repeat_fraction)
    gap_years, size, ventricles, severity, patient_gap = generator.standard_normal(5)
    later_years = float(generator.uniform(1.0, 3.0))
    age = _draw_age(settings, place, generator)
    gap = _BRAIN_AGE_SD_YEARS * gap_years
    if is_patient:
        gap += settings.patient_ageing_years * (1.0 + 0.5 * patient_gap)
    return Person(
        index=index,
        participant_id=f"sub-sim{settings.seed}x{index + 1:04d}",
        ages=(age, round(age + later_years, 2)) if is_repeated else (age,),
        sex="M" if is_male else "F",
        site=site,
        diagnosis="patient" if is_patient else "control",
        brain_age_gap=float(gap),
        log_size=float(SEX_SCALE * (0.5 if is_male else -0.5) + _SIZE_SD * np.clip(size, -3.0, 3.0)),
        ventricle_gap=float(np.clip(ventricles, -2.5, 2.5)),
        focal_loss=float(settings.focal_atrophy * np.clip(1.0 + 0.4 * severity, 0.0, 2.0)) if is_patient else 0.0,
    )


def _site_of(settings: SimulationSettings, index: int) -> int:
    # A golden-ratio sequence fills the sites in proportion at any n_subjects, yet each person's place is fixed.
    start = derive_generator("simulated-site-order", settings.seed).random()
    bounds = np.cumsum([site.share for site in draw_sites(settings)])
    return min(int(np.searchsorted(bounds, (start + index * _GOLDEN) % 1.0, side="right")), settings.n_sites - 1)


def _draw_age(settings: SimulationSettings, site: Site, generator: np.random.Generator) -> float:
    youngest, oldest = settings.age_range_years
    mean = float(np.clip(0.46 + site.age_shift_years / (oldest - youngest), 0.15, 0.85))
    return round(float(youngest + (oldest - youngest) * generator.beta(2.6 * mean, 2.6 * (1.0 - mean))), 2)
