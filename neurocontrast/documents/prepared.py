"""Files that `prepare` writes: ``images/{scan}.json`` next to the images, and ``prepare.json``."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment


class ScanInput(Document):
    """Section ``input`` of ``images/{scan}.json``: the files that the scan was prepared from."""

    path: str
    """Path of the image relative to the cohort's root; only the file name if outside the root."""
    place: str
    """Digest of the image's full path; empty for an imitated acquisition, made from a prepared
    brain.
    """
    sha256: list[str]
    """SHA-256 of the image, and of the brain mask if the table names one."""


class ScanMeasures(Document):
    """Section ``facts`` of ``images/{scan}.json``: methods and measures, as in ``quality.tsv``."""

    extraction: str | None = None
    """Brain extraction: ``mask_path``, ``stripped already`` or ``deepbet``."""
    registration: str | None = None
    bias: str | None = None
    brain_ml: float | None = None
    """Volume of the brain mask in mL."""
    metric: float | None = None
    """Similarity metric of the registration; None for scans whose headers already say MNI152."""
    scales: list[float] = Field(default_factory=list)
    """Size of the scan's brain over the template's along three axes; 1 without registration."""
    dice_template: float | None = None
    """Dice overlap of the registered brain with the template's brain, 0 to 1."""
    tiv: float | None = None
    """Total intracranial volume before registration, in mL; None if the scan was not registered."""
    gm_ml: float | None = None
    """Volume of grey matter before registration, in mL."""
    wm_ml: float | None = None
    """Volume of white matter before registration, in mL."""
    csf_ml: float | None = None
    """Volume of cerebrospinal fluid before registration, in mL."""
    tissue_means: list[float] = Field(default_factory=list)
    """Mean intensity of fluid, grey and white matter, as a share of the brain's median."""


class ScanRecipe(Document):
    """Options and code versions that determine prepared images, to tell outdated images."""

    recipe: int | None = None
    options: dict[str, bool | float] = Field(default_factory=dict)
    code: dict[str, str] = Field(default_factory=dict)
    """Package → version; ``none`` for a package that is not installed."""


class PreparedScan(ScanRecipe):
    """Content of ``images/{scan}.json``: input files, recipe, and prepared images with digests."""

    input: ScanInput
    facts: ScanMeasures | None = None
    files: dict[str, str] = Field(default_factory=dict)
    """File name of a prepared image → SHA-256."""

    def is_made_by(self, recipe: ScanRecipe) -> bool:
        """Tell whether the prepared images were made with a recipe's options and code versions."""
        made_by = (self.recipe, self.options, self.code)
        return made_by == (recipe.recipe, recipe.options, recipe.code)


class CohortTable(Document):
    """Section ``input`` of ``prepare.json``: the table of scans."""

    name: str
    sha256: str


class PrepareRecord(Document):
    """Content of ``prepare.json``: table of scans and options of a folder of prepared scans."""

    finished: bool
    n: int | None = None
    """Number of prepared scans; None until all scans are prepared."""
    options: dict[str, bool | float] = Field(default_factory=dict)
    input: CohortTable
    code: dict[str, str] = Field(default_factory=dict)
    environment: Environment | None = None
