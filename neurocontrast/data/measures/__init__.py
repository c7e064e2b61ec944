"""Read regional measures of FreeSurfer, FastSurfer, CAT12 and other programs as one table."""

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.data.measures.contract import MeasuresContract
    from neurocontrast.data.measures.finding import holds_measures
    from neurocontrast.data.measures.joining import (
        add_measures,
        join_measures,
        read_measures,
        rows_of,
    )
    from neurocontrast.data.measures.tables import MeasuresTable, measures_of, read_tables

__all__ = [
    "MeasuresContract",
    "MeasuresTable",
    "add_measures",
    "holds_measures",
    "join_measures",
    "measures_of",
    "read_measures",
    "read_tables",
    "rows_of",
]

# Loaded when asked for: an evaluation needs the units, and not the settings of transforms.
__getattr__ = lazy_exports(
    __name__,
    {
        "contract": ["MeasuresContract"],
        "finding": ["holds_measures"],
        "joining": ["add_measures", "join_measures", "read_measures", "rows_of"],
        "tables": ["MeasuresTable", "measures_of", "read_tables"],
    },
)
