"""Who is in the cohort and who scans them: tables of numbers, no images yet."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neurocontrast.data.simulation.simulation_settings import SimulationSettings
from neurocontrast.seeds import derive_generator

__all__ = ["Person", "Scanner", "Site", "draw_person", "draw_scanner", "draw_sites"]

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_BIAS_TERMS = 9


@dataclass(frozen=True)
class Scanner:
    """What one site's machine does to an image."""

    gamma: float
    """Exponent applied to intensities between 0 and 1."""
    white_shift: float
    """White matter's change, as a fraction of its contrast over grey matter."""
    bias: NDArray[np.float64]
    """Coefficients of the bias field's smooth terms."""
    noise: float
    """Standard deviation of the complex noise, over white matter's intensity."""
    blur_mm: float
    """Standard deviation of the point spread, in mm."""
    gain: float
    """Stored intensity of white matter."""
    fluid: float = 0.0
    """What is added to the darkest tissue's signal, over white matter's intensity."""
    stripping_mm: float = 0.0
    """How far outside the brain's border the skull-stripping cuts; inside where negative."""
    slice_mm: float = 0.0
    """Thickness of slices beyond the voxel's."""


@dataclass(frozen=True)
class Site:
    """How many people a site scans, how old they are and how many are patients."""

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
    """Age in years at each scan."""
    sex: str
    site: int
    diagnosis: str
    brain_age_gap: float
    """Years by which the brain looks older than the person, patients' part included."""
    log_size: float
    ventricle_gap: float
    focal_loss: float
    """Fraction of grey matter lost at the centre of the patients' region; 0 in controls."""


def draw_scanner(settings: SimulationSettings, site: int) -> Scanner:
    """Draw the machine of a site; it depends on the scanners' seed and the site's number alone."""
    generator = derive_generator("simulated-scanner", settings.scanner_seed, site)
    gamma, white, gain = generator.standard_normal(3)
    bias = generator.standard_normal(_BIAS_TERMS) / math.sqrt(_BIAS_TERMS)
    noise, blur = generator.uniform(0.4, 1.6, size=2)
    # Draws of their own: what was simulated before these effects existed is simulated alike.
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
    shares, shifts, odds = [], [], []
    for site in range(settings.n_sites):
        generator = derive_generator("simulated-site", settings.scanner_seed, site)
        shares.append(float(np.exp(0.6 * np.clip(generator.standard_normal(), -1.5, 1.5))))
        shifts.append(settings.age_site_shift_years * float(np.clip(generator.standard_normal(), -2.0, 2.0)))
        # Alternating signs: any two neighbouring sites are confounded with diagnosis once this is asked for.
        odds.append((1.0 if site % 2 == 0 else -1.0) * generator.uniform(0.75, 1.25))
    weights = np.asarray(shares) / np.sum(shares)
    odds_centred = np.asarray(odds) - float(weights @ odds)
    width = len(str(settings.n_sites))
    return tuple(
        Site(
            name=f"site-{site + 1:0{max(2, width)}d}",
            share=float(weights[site]),
            age_shift_years=shifts[site],
            patients=_shift_odds(settings.patients, settings.confounding * float(odds_centred[site])),
        )
        for site in range(settings.n_sites)
    )


def draw_person(settings: SimulationSettings, index: int) -> Person:
    """Draw person number `index` (from 0); nobody else's draws matter to them."""
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
    gap = settings.brain_age_sd_years * gap_years
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
        log_size=float(settings.sex_scale * (0.5 if is_male else -0.5) + settings.size_sd * np.clip(size, -3.0, 3.0)),
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


def _shift_odds(fraction: float, log_odds: float) -> float:
    if fraction in (0.0, 1.0):
        return fraction
    return 1.0 / (1.0 + math.exp(-(math.log(fraction / (1.0 - fraction)) + log_odds)))
