"""Types of the numbers that operations' settings hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

__all__ = ["Axes", "Probability", "SideRange", "SigmaRange", "ordered"]


def ordered(limits: tuple[float, float]) -> tuple[float, float]:
    """Return a range as it is; refuse one whose ends are swapped."""
    low, high = limits
    if low > high:
        raise ValueError(f"a range is [lowest, highest]. Got [{low:g}, {high:g}]; swap the two numbers.")
    return limits


def _distinct(axes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes must be distinct. Got {list(axes)}.")
    return axes


Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
_Sigma = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False)]
_Side = Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)]
SigmaRange = Annotated[tuple[_Sigma, _Sigma], AfterValidator(ordered)]
SideRange = Annotated[tuple[_Side, _Side], AfterValidator(ordered)]
Axes = Annotated[tuple[Literal[0, 1, 2], ...], Field(min_length=1), AfterValidator(_distinct)]
