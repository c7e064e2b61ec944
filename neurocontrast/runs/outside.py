"""Find people who are unlike the training people of an encoder, with the reasons as texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.measures import MeasuresContract
from neurocontrast.evaluation.rows import Floats
from neurocontrast.evaluation.settings import OUTSIDE_PERCENTILE
from neurocontrast.provenance import subject_label
from neurocontrast.runs.incoming import IncomingScans
from neurocontrast.runs.people import AGE, Predicted

_N_NAMED = 3
"""Number of a person's outlying measures that a reason names, the farthest from the median
first."""


@dataclass
class Reasons:
    """Texts on why each person is unlike the training people, and number of texts of each kind.

    `find_reasons` makes one for the people of a table of predictions.
    """

    texts: list[list[str]]
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def none(cls, n_people: int) -> Self:
        """Return an instance for `n_people` people, with no reasons added yet.

        A reason says why a person is unlike the training people of an encoder.
        """
        texts = list[list[str]]()
        for _ in range(n_people):
            texts.append([])
        return cls(texts)

    def add(self, row: int, kind: str, reason: str) -> None:
        """Add the text `reason` to a person's reasons, and count one more of its `kind`.

        `row` is the person's row number in the table of predictions.
        """
        self.texts[row].append(reason)
        self.counts[kind] += 1


def percentiles_of(predicted: Predicted) -> Floats | None:
    """Return how far each person's features lie from the training people, as a percentile.

    A percentile of 99 says that 99 % of training scans are nearer to the mean of their site. Each
    probe (a linear model that predicts from the features) stores the distribution of its training
    features; of several probes the largest percentile counts. NaN for people without features; None
    if no probe stores the distribution.
    """
    good = predicted.embedded.good
    features = predicted.embedded.features[good]
    of_probes = []
    for probe in predicted.weights.probes:
        if probe.fitted.distribution is not None:
            of_probes.append(probe.fitted.distribution.percentiles(features)[1])
    if not of_probes:
        return None
    percentiles = np.full(len(good), np.nan)
    percentiles[good] = np.max(of_probes, axis=0)
    return percentiles


def n_missing(incoming: IncomingScans) -> npt.NDArray[np.int64] | None:
    """Count each person's missing regional measures; None if the encoders read scans.

    The encoders read the medians of their training people in place of missing measures. The counts
    are in the order of the table of `incoming`.
    """
    columns = _columns_of(incoming.contracts)
    if incoming.cohort.measures is None or not columns:
        return None
    values = incoming.cohort.measures.values.reindex(columns=columns)
    return values.isna().sum(axis=1).to_numpy()


def _columns_of(contracts: Sequence[MeasuresContract]) -> list[str]:
    """Return the names of all regional measures that at least one of several encoders reads.

    `contracts` has, for each encoder, the standardisation of regional measures that is stored with
    the encoder, with the names of the measures.
    """
    columns = dict[str, None]()
    for contract in contracts:
        columns |= dict.fromkeys(contract.columns)
    return list(columns)


def find_reasons(predicted: Predicted, percentiles: Floats | None, ages: Floats) -> Reasons:
    """Return, as texts, all reasons why each predicted person is unlike the training people.

    The result has a list of texts for each person, empty without a reason, in the order of the
    table of predictions. `percentiles` says how far each person's features lie from the training
    people. `ages` are stated ages, NaN where none is stated; predicted ages are taken after
    calibration.
    """
    reasons = Reasons.none(len(predicted.tidy))
    _add_missing(predicted, reasons)
    if percentiles is not None:
        for row in np.flatnonzero(percentiles > OUTSIDE_PERCENTILE).tolist():
            reason = (
                f"features lie farther out than {percentiles[row]:.1f} % of the people learned from"
            )
            reasons.add(row, "features", reason)
    _add_far_measures(predicted, reasons)
    _add_versions(predicted, reasons)
    learned = predicted.weights.ages
    if learned is not None:
        _add_ages(ages, "age", learned, reasons)
        if AGE in predicted.scores:
            _add_ages(predicted.scores[AGE], "predicted age", learned, reasons)
    return reasons


def _add_missing(predicted: Predicted, reasons: Reasons) -> None:
    """Add to `reasons` a text for each person who lacks too many measures to be predicted.

    A person without any measure gets no text here.
    """
    measures = predicted.incoming.cohort.measures
    if measures is None:
        return
    lacking = dict[int, str]()
    for contract in predicted.incoming.contracts:
        lacking |= contract.lacking(measures.values.reindex(columns=list(contract.columns)))
    is_measured = measures.values.notna().any(axis=1).to_numpy()
    for row, reason in sorted(lacking.items()):
        if is_measured[row]:
            reasons.add(row, "missing", reason)


def _add_ages(ages: Floats, quantity: str, learned: tuple[float, float], reasons: Reasons) -> None:
    """Add to `reasons` a text for each person whose age is outside of the training people's ages.

    `quantity` names the age in the text: stated or predicted. `learned` is the lowest and highest
    age of the training people.
    """
    low, high = learned
    for row in np.flatnonzero((ages < low) | (ages > high)).tolist():
        reason = f"{quantity} {ages[row]:.1f} is outside of {low:g} to {high:g} years learned from"
        reasons.add(row, quantity, reason)


def _add_far_measures(predicted: Predicted, reasons: Reasons) -> None:
    """Add to `reasons` a text for each person with measures far from the median of training people.

    Such measures lie so far out that their values are clipped. The text names the farthest.
    """
    contracts = predicted.incoming.contracts
    measures = predicted.incoming.cohort.measures
    rows = np.flatnonzero(predicted.embedded.good)
    if measures is None or not contracts or not len(rows):
        return
    columns = _columns_of(contracts)
    deviations = np.full((len(contracts), len(rows), len(columns)), np.nan)
    of_rows = measures.values.iloc[rows]
    for number, contract in enumerate(contracts):
        positions = pd.Index(columns).get_indexer(pd.Index(contract.columns))
        deviations[number][:, positions] = contract.deviations(of_rows).fillna(0.0)
    middle = np.nanmedian(deviations, axis=0)
    clip = max(map(attrgetter("clip"), contracts))
    for number, row in enumerate(rows.tolist()):
        distances = np.abs(middle[number])
        far = np.flatnonzero(distances > clip)
        if not len(far):
            continue
        worst = far[np.argsort(-distances[far])][:_N_NAMED]
        shown = ", ".join(f"{columns[at]} {middle[number, at]:+.1f}" for at in worst)
        verb = "measures are"
        if len(far) == 1:
            verb = "measure is"
        reason = (
            f"{len(far)} of {len(columns)} {verb} more than {clip:g} SD from the median: {shown}"
        )
        reasons.add(row, "measures", reason)


def _add_versions(predicted: Predicted, reasons: Reasons) -> None:
    """Add to `reasons` a text for each person whose segmentation program no training person has.

    Another version of the same program counts too. Nothing is added if the table of measures, or
    the record of the training people, names no program.
    """
    measures = predicted.incoming.cohort.measures
    learned = set[str]()
    for contract in predicted.incoming.contracts:
        learned |= set(filter(None, contract.software.split("; ")))
    if measures is None or not learned:
        return
    programs = {}
    for (participant, session), program in measures.versions.items():
        programs[subject_label(participant), session] = program
    keys = predicted.tidy[["participant_id", "session"]].itertuples(index=False)
    for row, (participant, session) in enumerate(keys):
        key = (subject_label(participant), (session or "").removeprefix("ses-"))
        program = programs.get(key, programs.get((key[0], ""), ""))
        unknown = [name for name in filter(None, program.split("; ")) if not _is_of(name, learned)]
        if unknown:
            reason = f"{' and '.join(unknown)}, learned from {', '.join(sorted(learned))}"
            reasons.add(row, "version", reason)


def _is_of(program: str, learned: set[str]) -> bool:
    """Tell whether `program`, with its version, is one by which the training people were segmented.

    `learned` has the names of these programs; ``FreeSurfer 6`` there is any version 6.x.
    """
    return any(program == name or program.startswith(f"{name}.") for name in learned)
