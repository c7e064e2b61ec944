"""``expected.json``: error of a probe at a new site, by number of labelled people there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, FiniteFloat

from neurocontrast.documents.document import Document
from neurocontrast.exceptions import CheckpointError
from neurocontrast.reading import read_json

FILE = "expected.json"
"""Name of the file next to ``probe.json``; for a probe without the file, no error is stated."""
_REMEDY = "Install the weights again."


class ErrorOfShots(Document):
    """Error of a probe at new sites, after calibration on one number of labelled people a site.

    Calibration adds a constant to the predictions at a site, learned from the site's labelled
    people.
    """

    n_people: Annotated[int, Field(ge=0)]
    """Number of labelled people of a site; 0 for predictions without calibration."""
    error: FiniteFloat
    """Mean error over sites after calibration, in the unit of `ExpectedErrors.metric`."""
    low: FiniteFloat
    high: FiniteFloat
    """Error after calibration at the 90th percentile of the sites; `low` is at the 10th."""
    unlabelled: FiniteFloat
    """Mean error at the same sites without calibration."""
    n_sites: Annotated[int, Field(ge=1)]
    """Number of sites with enough people to measure the error."""


def _with_an_error(errors: list[ErrorOfShots]) -> list[ErrorOfShots]:
    if not errors:
        raise ValueError("must hold one error or more")
    return errors


class ExpectedErrors(Document):
    """Content of ``expected.json``: a probe's errors at sites that were not trained on."""

    format: Literal[1]
    target: str
    metric: str
    """Error and unit, in words, such as ``mean absolute error in years``."""
    measured_by: str
    """Name of the script that measured the errors, and the people measured."""
    by_n_people: Annotated[list[ErrorOfShots], AfterValidator(_with_an_error)]

    def of_people(self, n_people: int) -> ErrorOfShots | None:
        """Return the error of the probe at new sites after calibration on up to `n_people` people.

        The record is the one measured with `n_people` labelled people a site or, if there is none,
        with the next smaller number. None if the error was only measured with more people.
        """
        reached = None
        for shots in self.by_n_people:
            if shots.n_people <= n_people and (
                reached is None or shots.n_people > reached.n_people
            ):
                reached = shots
        return reached

    def sentence(self, n_people: int) -> str:
        """Return a sentence on the probe's error to expect at a site without training people.

        `n_people` is the number of labelled people at the site, on whom predictions are calibrated.
        "" if the error was only measured with more people.
        """
        shots = self.of_people(n_people)
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
    """Read ``expected.json``, the errors to expect of a probe at a new site; None if absent.

    `probe` is the folder of the probe. The `ExpectedErrors` has an error for each of several
    numbers of labelled people at the site.
    """
    path = probe / FILE
    if not path.is_file():
        return None
    content = read_json(path, error=CheckpointError, remedy=_REMEDY)
    return ExpectedErrors.of(content, path, error=CheckpointError, remedy=_REMEDY)
