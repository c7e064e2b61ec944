"""Define a finding, one question about an evaluation, by its inputs, measurement and results."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import pandas as pd

from neurocontrast.documents.notice import Notice
from neurocontrast.documents.section import Part
from neurocontrast.evaluation.fit.distribution import Reference
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.progress import SILENT, Progress


@dataclass(frozen=True)
class Measurement:
    """Results of a finding for the evaluation's folder: records, tables and warnings.

    `records` go into ``evaluation.json`` by their keys. A record is None if nothing was measured,
    or a text with the reason. `tables` are written by the name of their file.
    """

    records: dict[str, Part | str | None] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def with_further(self, further: "Measurement") -> "Measurement":
        """Return the results of this finding together with the results of another finding."""
        return Measurement(
            self.records | further.records,
            self.tables | further.tables,
            [*self.notices, *further.notices],
        )


@dataclass(frozen=True)
class Inputs:
    """Plan, predictions and earlier results, from which a finding is measured.

    Attributes
    ----------
    plan, predictions : Plan, dict of str to OutOfFold
        The plan, and the out-of-fold predictions of each of its models, by name.
    reference : Reference, str or None
        Distribution of the scans that the probe was fitted on; the reason why there is none; None
        if not asked for.
    progress : Progress
        Receives progress messages.
    earlier : Measurement
        Records, tables and warnings of the findings that were measured before this one.
    """

    plan: Plan
    predictions: dict[str, OutOfFold]
    reference: Reference | str | None = None
    progress: Progress = SILENT
    earlier: Measurement = field(default_factory=Measurement)


class Question(Protocol):
    """Finding of an evaluation: functions that check and measure the finding, and its record type.

    A function or record type is None where the finding has none.
    """

    @property
    def measure(self) -> Callable[[Inputs], Measurement] | None:
        """Function that measures the finding from `Inputs`: plan, predictions, earlier findings."""

    @property
    def check(self) -> Callable[[Plan], None] | None:
        """Function that refuses a plan whose settings ask for a finding that cannot be measured."""

    @property
    def record(self) -> type[Part] | None:
        """Pydantic model of the finding's record in ``evaluation.json``."""

    @property
    def last(self) -> bool:
        """Whether the finding uses results of other findings, and so is measured after them."""
