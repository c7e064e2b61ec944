"""Files that `prepare` writes: ``images/{scan}.json`` beside images, and ``prepare.json``."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document
from neurocontrast.documents.environment import Environment


class ScanInput(Document):
    """Section ``input``: the files that a scan was prepared from."""

    path: str
    """Path below the root of the cohort, or the name of a file elsewhere."""
    place: str
    """Digest of the whole path; empty of a simulated head, whose brain lies beside the head."""
    sha256: list[str]
    """SHA-256 of the image, then of the mask if the table has one."""


class ScanMeasures(Document):
    """Section ``facts``: how a scan was prepared and measured; a row of ``quality.tsv``."""

    extraction: str | None = None
    """``mask_path``, ``stripped already`` or ``deepbet``."""
    registration: str | None = None
    bias: str | None = None
    brain_ml: float | None = None
    """Volume of the brain mask in mL."""
    metric: float | None = None
    """Metric of the registration; None of scans that their headers put in MNI152."""
    scales: list[float] = Field(default_factory=list)
    """Scales of the affine registration along three axes."""
    dice_template: float | None = None
    """Dice overlap of the registered brain with the template's, 0 to 1."""
    tiv: float | None = None
    """Native total intracranial volume in mL; None without a registration."""
    gm_ml: float | None = None
    """Native volume of grey matter in mL."""
    wm_ml: float | None = None
    """Native volume of white matter in mL."""
    csf_ml: float | None = None
    """Native volume of cerebrospinal fluid in mL."""
    tissue_means: list[float] = Field(default_factory=list)
    """Mean intensities of the tissues."""


class ScanRecipe(Document):
    """All that decides how images are made: options, and versions of the code."""

    recipe: int | None = None
    options: dict[str, bool | float] = Field(default_factory=dict)
    code: dict[str, str] = Field(default_factory=dict)
    """Package → version, ``none`` of one that is not installed."""


class PreparedScan(ScanRecipe):
    """Content of ``images/{scan}.json``: files that images were made from, and their digests."""

    input: ScanInput
    facts: ScanMeasures | None = None
    files: dict[str, str] = Field(default_factory=dict)
    """Name of an image → SHA-256."""

    def is_made_by(self, recipe: ScanRecipe) -> bool:
        """Tell whether the images were made by a recipe."""
        made_by = (self.recipe, self.options, self.code)
        return made_by == (recipe.recipe, recipe.options, recipe.code)


class CohortTable(Document):
    """Section ``input`` of ``prepare.json``: the table of scans."""

    name: str
    sha256: str


class PrepareRecord(Document):
    """Content of ``prepare.json``: the table and the options of a folder of prepared scans."""

    finished: bool
    n: int | None = None
    """Number of prepared scans; None until all are done."""
    options: dict[str, bool | float] = Field(default_factory=dict)
    input: CohortTable
    code: dict[str, str] = Field(default_factory=dict)
    environment: Environment | None = None
