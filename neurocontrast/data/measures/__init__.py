"""Regional measures of brains: tables out of FreeSurfer, FastSurfer, CAT12 and the like, read as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.data.measures.contract import MeasuresContract
from neurocontrast.data.measures.finding import holds_measures
from neurocontrast.data.measures.reading import join_measures, read_measures
from neurocontrast.data.measures.tables import MeasuresTable, measures_of, read_tables, rows_of
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.data.measures.dataset import MeasuresDataset

__all__ = [
    "MeasuresContract",
    "MeasuresDataset",
    "MeasuresTable",
    "holds_measures",
    "join_measures",
    "measures_of",
    "read_measures",
    "read_tables",
    "rows_of",
]

# Loaded when asked for: a configuration needs the settings, and not torch.
__getattr__ = lazy_exports(__name__, {"dataset": ["MeasuresDataset"]})
