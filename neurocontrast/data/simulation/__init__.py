"""A simulated multi-site cohort from the MNI152 templates, with effects that are known because they were planted."""

from neurocontrast.data.simulation.population import Person, Scanner, SimulationSettings, draw_person, draw_scanner
from neurocontrast.data.simulation.scans import describe_simulation, render_scan, write_cohort

__all__ = [
    "Person",
    "Scanner",
    "SimulationSettings",
    "describe_simulation",
    "draw_person",
    "draw_scanner",
    "render_scan",
    "write_cohort",
]
