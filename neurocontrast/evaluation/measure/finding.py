"""Define findings: questions that are answered for every evaluation.

An example is how well the site can be predicted from the features. A `Question` has a function that
takes `Inputs` and returns a `Measurement`.
"""

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
    """Results of one or several questions (`Question`) on an evaluation: records, tables, warnings.

    `records` are sections of ``evaluation.json`` by their keys. A section is None if nothing was
    measured; a text under a further key, such as ``new_site_note``, may say why. `tables` are
    written to the evaluation's folder, by the name of their file, and `notices` are the warnings.
    """

    records: dict[str, Part | str | None] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def with_further(self, further: "Measurement") -> "Measurement":
        """Return a new object with the results of both objects, this and `further`."""
        return Measurement(
            self.records | further.records,
            self.tables | further.tables,
            [*self.notices, *further.notices],
        )


@dataclass(frozen=True)
class Inputs:
    """Plan, predictions and earlier results, from which `Question.measure` computes its results.

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
        Records, tables and warnings of the questions that were measured before this one.
    """

    plan: Plan
    predictions: dict[str, OutOfFold]
    reference: Reference | str | None = None
    progress: Progress = SILENT
    earlier: Measurement = field(default_factory=Measurement)


class Question(Protocol):
    """Question that is answered for every evaluation, such as how well the site can be predicted.

    The answer is called a finding. A question has a function that refuses settings, a function that
    computes the answer, and the Pydantic class of the answer's section in ``evaluation.json``. Each
    is None if the question has none.
    """

    @property
    def measure(self) -> Callable[[Inputs], Measurement] | None:
        """Function that computes the answer from `Inputs`: plan, predictions, earlier answers."""

    @property
    def check(self) -> Callable[[Plan], None] | None:
        """Function that raises an error for a plan whose settings make an answer impossible."""

    @property
    def record(self) -> type[Part] | None:
        """Pydantic class of the answer's section in ``evaluation.json``; None without one."""

    @property
    def last(self) -> bool:
        """Whether the question is measured after all others, since its answer uses theirs."""
