"""What can be chosen about a simulated cohort."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from neurocontrast.settings import Settings

__all__ = ["SimulationSettings"]

Fraction = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Strength = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class SimulationSettings(Settings):
    """The people, the effects planted in their brains, and the scanners that see them.

    Parameters
    ----------
    n_subjects : int
        Number of people. Person number i is the same whatever `n_subjects` is.
    n_sites : int
        Number of scanners, of uneven sizes.
    spacing_mm : float
        Voxel side; 4 mm gives 46×55×46 voxels, 1.5 mm gives 121×145×121.
    seed : int
        Names the people. Participant identifiers contain it, so two cohorts of different
        seeds share nobody.
    site_seed : int or None
        Names the scanners; None takes `seed`. Give two cohorts the same number to have
        both scanned at the same sites.
    patients : float
        Fraction of patients, between 0 and 1.
    repeat_fraction : float
        Fraction of people scanned a second time, one to three years later.
    age_range_years : tuple of float
        Youngest and oldest age at the first scan.
    age_site_shift_years : float
        How far the mean age of sites differs (standard deviation).
    confounding : float
        How far the odds of being a patient differ between sites (0: every site has the
        same expected fraction; 1: odds about e times higher or lower; 3: nearly single-class sites).
    ventricle_growth_mm : float
        Largest outward movement of the ventricles' walls between 20 and 80 years.
    age_atrophy : float
        Fraction of grey matter's signal lost between 20 and 80 years where it borders on fluid;
        the loss of all grey matter is about a third of it.
    age_contrast_loss : float
        Fraction of the contrast of white over grey matter lost between 20 and 80 years.
    brain_age_sd_years : float
        How far a brain's age strays from the person's.
    sex_scale : float
        Mean difference of the logarithm of the brain's linear size, men over women.
    size_sd : float
        Spread of that logarithm within a sex.
    focal_region : str
        Where patients lose grey matter: ``medial_temporal`` or ``prefrontal``.
    focal_atrophy : float
        Mean fraction of grey matter that patients lose at the region's centre.
    patient_ageing_years : float
        How much older than their age the brains of patients look on average.
    deformation_mm : float
        Standard deviation of the smooth individual displacements, along each axis.
    tissue_variability : float
        Standard deviation of the smooth individual variation of grey matter.
    site_contrast, site_bias, site_noise, site_blur_mm : float
        Mean strength of what scanners do: gamma and tissue contrast (standard deviation of the log),
        bias field (standard deviation), noise (over white matter's intensity), blur (σ in mm).
    site_fluid : float
        Spread between scanners of how bright fluid is, over white matter's intensity (standard deviation).
    site_stripping_mm : float
        Spread between sites of where their skull-stripping cuts (standard deviation): deep in the brain's
        rim, or outside it, where fluid and meninges stay.
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
    brain_age_sd_years: Strength = 3.5
    sex_scale: float = Field(0.04, ge=-0.2, le=0.2)
    size_sd: float = Field(0.02, ge=0.0, le=0.1)
    focal_region: Literal["medial_temporal", "prefrontal"] = "medial_temporal"
    focal_atrophy: Fraction = 0.4
    patient_ageing_years: float = Field(6.0, ge=0.0, le=40.0)
    deformation_mm: float = Field(1.0, ge=0.0, le=5.0)
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
        """The seed that names the scanners."""
        return self.seed if self.site_seed is None else self.site_seed
