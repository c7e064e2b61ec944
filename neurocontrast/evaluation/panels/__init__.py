"""What an evaluation says beside its metrics, one file a panel.

A module of this folder that holds a `Panel` called ``PANEL`` takes part in every evaluation.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from neurocontrast.evaluation.schema import Notice
from neurocontrast.progress import SILENT, Progress

if TYPE_CHECKING:  # a study asks the panels what they refuse
    from neurocontrast.evaluation.distances import TrainingDistribution
    from neurocontrast.evaluation.fitting import OutOfFold
    from neurocontrast.evaluation.panels.external import External
    from neurocontrast.evaluation.planning import Study

__all__ = ["Findings", "Panel", "PanelInputs", "check_panels", "find_panels", "run_panels"]


@dataclass(frozen=True)
class Findings:
    """What a panel found: keys of ``evaluation.json``, tables by file name, and warnings."""

    summary: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)


@dataclass(frozen=True)
class PanelInputs:
    """What a panel can look at: the study, its out-of-fold predictions, and what earlier panels found."""

    study: Study
    models: dict[str, OutOfFold]
    external: External | None = None
    distribution: TrainingDistribution | str | None = None
    progress: Progress = SILENT
    found: Findings = field(default_factory=Findings)


@dataclass(frozen=True)
class Panel:
    """A question that is put to every evaluation; panels run in their order, and can use what earlier ones found."""

    order: int
    run: Callable[[PanelInputs], Findings]
    check: Callable[[Study], object] | None = None
    """Raises where the settings of a planned study ask for what the panel cannot give."""


def find_panels() -> list[Panel]:
    """Return the panels of this folder, in order."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return sorted((module.PANEL for module in modules if hasattr(module, "PANEL")), key=lambda panel: panel.order)


def check_panels(study: Study) -> None:
    """Refuse a study of which a panel cannot give what the settings ask for."""
    for panel in find_panels():
        if panel.check is not None:
            panel.check(study)


def run_panels(inputs: PanelInputs) -> Findings:
    """Return what all panels found."""
    for panel in find_panels():
        new = panel.run(inputs)
        inputs.found.summary.update(new.summary)
        inputs.found.tables.update(new.tables)
        inputs.found.notices.extend(new.notices)
    return inputs.found
