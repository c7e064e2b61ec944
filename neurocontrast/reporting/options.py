"""What the maker of a report decides."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReportOptions"]


@dataclass(frozen=True)
class ReportOptions:
    """Choices of whoever makes the report.

    Attributes
    ----------
    show_ids : bool
        Whether identifiers of participants may appear.
    """

    show_ids: bool = False
