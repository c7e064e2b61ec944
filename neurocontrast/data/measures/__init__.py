"""Regional measures of brains: tables out of FreeSurfer, FastSurfer, CAT12 and the like, read as one."""

from __future__ import annotations

from neurocontrast.data.measures.tables import MeasuresTable, read_tables, rows_of

__all__ = ["MeasuresTable", "read_tables", "rows_of"]
