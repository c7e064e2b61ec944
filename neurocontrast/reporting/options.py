"""What the maker of a report decides."""

from __future__ import annotations

from neurocontrast.settings import Settings

__all__ = ["ReportOptions"]


class ReportOptions(Settings):
    """Choices of whoever makes the report.

    Parameters
    ----------
    show_ids : bool
        Whether identifiers of participants may appear.
    """

    show_ids: bool = False
