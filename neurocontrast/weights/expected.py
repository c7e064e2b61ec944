"""Error to expect of a probe at a new site, by the number of labelled people: ``expected.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from neurocontrast.exceptions import CheckpointError
from neurocontrast.reading import read_json

FILE = "expected.json"
"""File beside ``probe.json``; a probe without it states no error."""


class ErrorOfShots(BaseModel):
    """Error at new sites after the shift that some labelled people of each gave."""

    model_config = ConfigDict(frozen=True)

    n_people: Annotated[StrictInt, Field(ge=0)]
    """Labelled people of a site; 0 for predictions as they are."""
    error: FiniteFloat
    """Mean over sites, in the metric of the file."""
    low: FiniteFloat
    high: FiniteFloat
    """Error at the 10th and at the 90th percentile of the sites."""
    unlabelled: FiniteFloat
    """Mean error at the same sites without labelled people."""
    n_sites: Annotated[StrictInt, Field(ge=1)]
    """Sites with enough people to measure it."""


class ExpectedErrors(BaseModel):
    """Content of ``expected.json``: errors measured at sites that were not learned from."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1]
    target: StrictStr
    metric: StrictStr
    """Such as ``mean absolute error in years``."""
    measured_by: StrictStr
    """Script that measured the errors, and on whom."""
    by_n_people: Annotated[tuple[ErrorOfShots, ...], Field(min_length=1)]

    def of(self, n_people: int) -> ErrorOfShots | None:
        """Return the error for the largest number of labelled people that a site has at least."""
        reached = None
        for shots in self.by_n_people:
            if shots.n_people <= n_people and (
                reached is None or shots.n_people > reached.n_people
            ):
                reached = shots
        return reached

    def sentence(self, n_people: int) -> str:
        """Say in one sentence which error to expect, or ""."""
        shots = self.of(n_people)
        if shots is None:
            return ""
        error = f"expect a {self.metric} of about {shots.error:.1f}"
        sites = f"{shots.n_sites} sites that were not learned from"
        if shots.n_sites == 1:
            sites = "1 site that was not learned from"
        measured = f"measured at {sites}, eight of ten between {shots.low:.1f} and {shots.high:.1f}"
        if not shots.n_people:
            return f"{error} without labelled people ({measured})"
        return (
            f"{error} after {shots.n_people} labelled people, and {shots.unlabelled:.1f} without "
            f"({measured})"
        )


def read_expected(probe: Path) -> ExpectedErrors | None:
    """Read ``expected.json`` in the folder of a probe; None for a probe without."""
    path = probe / FILE
    if not path.is_file():
        return None
    content = read_json(path, error=CheckpointError, remedy="Install the weights again.")
    try:
        return ExpectedErrors.model_validate(content)
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise CheckpointError(
            f"{path}: '{key}' missing or damaged. Install the weights again."
        ) from None
