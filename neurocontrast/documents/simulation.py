"""``simulation.json``, which `simulate` writes next to a cohort: settings and planted effects."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.environment import Environment


class SimulatedSite(Document):
    """Scanner (site) of a simulated cohort, its share of all people, and share of patients."""

    name: str
    share: float
    """Share of the cohort's people who are scanned at the site, 0 to 1."""
    patients: float
    """Share of patients among the people of the site, 0 to 1."""


class SimulationRecord(Document):
    """Content of ``simulation.json``: settings, planted effects and sites of a simulation."""

    format: int = 1
    simulated: bool = True
    statement: str = ""
    """Sentence for reports that says that nobody was scanned."""
    settings: Json = Field(default_factory=dict)
    """Section ``simulation`` of the configuration, as keys and values."""
    planted: dict[str, str] = Field(default_factory=dict)
    """Source of differences between simulated brains → the planted effect, in words."""
    sites: list[SimulatedSite] = Field(default_factory=list)
    environment: Environment | None = None
