"""``simulation.json``, which `simulate` writes beside a cohort: settings and planted effects."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.environment import Environment


class SimulatedSite(Document):
    """Scanner of a simulated cohort."""

    name: str
    share: float
    """Share of the cohort's people who are scanned here."""
    patients: float
    """Share of patients among them."""


class SimulationRecord(Document):
    """Content of ``simulation.json``: settings, planted effects and sites of a simulation."""

    format: int = 1
    simulated: bool = True
    statement: str = ""
    """Sentence for reports: nobody was scanned."""
    settings: Json = Field(default_factory=dict)
    """Section ``simulation`` of the configuration."""
    planted: dict[str, str] = Field(default_factory=dict)
    """Source of differences between brains → effect, in words."""
    sites: list[SimulatedSite] = Field(default_factory=list)
    environment: Environment | None = None
