"""Predict all that weights have probes for, of people's measures or scans, in one pass.

A person who lies outside of the people learned from is marked, with the reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import starmap
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.measures import MeasuresContract
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.rows import Floats
from neurocontrast.evaluation.settings import OUTSIDE_PERCENTILE
from neurocontrast.exceptions import CheckpointError
from neurocontrast.page.wording import number_text
from neurocontrast.provenance import CONTENT, KnownPeople, Recognised, Record, subject_label
from neurocontrast.reading import read_json
from neurocontrast.runs.incoming import EmbeddedScans, IncomingScans
from neurocontrast.runs.labels import people_of, trained_on
from neurocontrast.weights.expected import ExpectedErrors, read_expected

AGE = "age"
_PROVENANCE = "provenance.json"
_N_NAMED = 3
"""Measures of a person that are named, those farthest out first."""


@dataclass(frozen=True)
class WeightsProbe:
    """A probe of weights, and the error to expect of it at a new site."""

    name: str
    """Name of its folder."""
    fitted: FittedProbe
    expected: ExpectedErrors | None

    @property
    def column(self) -> str:
        """Column of the predicted numbers or classes."""
        return f"predicted_{self.fitted.target}"

    @property
    def zero_shot(self) -> str:
        """Column of the prediction before calibration."""
        return f"{self.score}_zero_shot"

    @property
    def score(self) -> str:
        """Column of numbers, or of the probability of the positive class, which it names."""
        if self.fitted.kind == "continuous":
            return self.column
        return f"probability_{self.fitted.target}_{self.fitted.classes[-1]}"


@dataclass(frozen=True)
class WeightsFolder:
    """A folder of an encoder, or of members, with the probes to predict by."""

    folder: Path
    probes: tuple[WeightsProbe, ...]
    ages: tuple[float, float] | None
    """Lowest and highest age learned from, where the folder says."""
    people: KnownPeople
    """People whom the encoder learned from."""

    @classmethod
    def load(cls, folder: Path, probes: Sequence[Path]) -> Self:
        """Load probes of a folder."""
        loaded = []
        for place in probes:
            loaded.append(WeightsProbe(place.name, load_probe(place), read_expected(place)))
        for probe in loaded:
            if probe.fitted.kind == "multiclass":
                raise CheckpointError(
                    f"{folder / probe.name}: predicts several classes, which a table of people has "
                    "no columns for. Embed the people, and give this probe alone with the table."
                )
        counts = Counter(probe.fitted.target for probe in loaded)
        target, n_probes = counts.most_common(1)[0]
        if n_probes > 1:
            raise CheckpointError(
                f"{folder}: {n_probes} of its probes predict '{target}', and a table has one column "
                f"of it. Name one: {folder / loaded[0].name}."
            )
        provenance = _provenance_of(folder)
        people = KnownPeople.of_pretraining(provenance)
        return cls(folder, tuple(loaded), _learned_ages(provenance), people)

    @property
    def names_people(self) -> bool:
        """Whether the encoder, or any probe, says whom it learned from."""
        of_probes = any(probe.fitted.trained_on for probe in self.probes)
        return of_probes or bool(self.people.subjects)


def _provenance_of(folder: Path) -> Record:
    """Read ``provenance.json`` of a folder; empty where there is none."""
    if not (folder / _PROVENANCE).is_file():
        return {}
    provenance: Record = read_json(folder / _PROVENANCE)
    return provenance


def _learned_ages(provenance: Record) -> tuple[float, float] | None:
    """Return the lowest and highest age that a run has learned from."""
    cohort = provenance.get("cohort") or {}
    ages = (cohort.get("people") or {}).get("age_years")
    if not ages:
        return None
    return float(ages[0]), float(ages[-1])


@dataclass
class Reasons:
    """Reasons why each person lies outside of the people learned from, by kind."""

    texts: list[list[str]]
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def none(cls, n_people: int) -> Self:
        """Begin without a reason."""
        return cls([[] for _ in range(n_people)])

    def add(self, row: int, kind: str, text: str) -> None:
        """Add a reason of a person."""
        self.texts[row].append(text)
        self.counts[kind] += 1


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of people by the probes of weights: one row a person, as in the incoming scans."""

    weights: WeightsFolder
    incoming: IncomingScans
    embedded: EmbeddedScans
    scores: dict[str, Floats]
    """Numbers, or probabilities of the positive class, by target; NaN where there is an error."""
    recognised: dict[str, Recognised]
    """People whom each probe was fitted on, by target."""
    learned_from: Recognised
    """People whom the encoder learned from."""

    @property
    def tidy(self) -> pd.DataFrame:
        """Rows of the people, as an evaluation reads them."""
        return self.incoming.tidy

    def trained_on(self) -> npt.NDArray[np.bool_]:
        """Mask of the people whom the encoder, or any of the probes, learned from."""
        is_known = trained_on(self.tidy, self.learned_from).copy()
        for people in self.recognised.values():
            is_known |= trained_on(self.tidy, people)
        return is_known

    def columns_of(self, probe: WeightsProbe, scores: Floats) -> pd.DataFrame:
        """Return the columns of a probe's predictions."""
        columns = pd.DataFrame({probe.score: scores}, index=self.tidy.index)
        if probe.fitted.kind != "continuous":
            labels = np.array(probe.fitted.classes, dtype=object)
            decided = np.full(len(scores), None, dtype=object)
            good = ~np.isnan(scores)
            decided[good] = labels[probe.fitted.decide(scores[good])]
            columns.insert(0, probe.column, decided)
        return columns


def predict_scores(
    weights: WeightsFolder, incoming: IncomingScans, embedded: EmbeddedScans, contents: pd.DataFrame
) -> Predicted:
    """Apply all probes to the features of people."""
    good = embedded.good
    scores = {}
    recognised = {}
    for probe in weights.probes:
        of_probe = np.full(len(good), np.nan)
        of_probe[good] = probe.fitted.predict(embedded.features[good])
        scores[probe.fitted.target] = of_probe
        recognised[probe.fitted.target] = people_of(probe.fitted, contents)
    learned_from = weights.people.find(contents["subject_id"], contents[CONTENT])
    return Predicted(weights, incoming, embedded, scores, recognised, learned_from)


def percentiles_of(predicted: Predicted) -> Floats | None:
    """Return how far the features of people lie out, as percentiles of the people learned from.

    Of several probes the largest counts; None where no probe says.
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
    """Count the measures of each person that medians stand for; None of scans."""
    columns = _columns_of(incoming.contracts)
    if incoming.cohort.measures is None or not columns:
        return None
    values = incoming.cohort.measures.values.reindex(columns=columns)
    return values.isna().sum(axis=1).to_numpy()


def _columns_of(contracts: Sequence[MeasuresContract]) -> list[str]:
    columns = dict[str, None]()
    for contract in contracts:
        columns |= dict.fromkeys(contract.columns)
    return list(columns)


def find_reasons(predicted: Predicted, percentiles: Floats | None, ages: Floats) -> Reasons:
    """Say why people lie outside of the people learned from.

    `ages` are known ages, NaN where one is not known; predicted ages are after calibration.
    """
    reasons = Reasons.none(len(predicted.tidy))
    _add_missing(predicted, reasons)
    if percentiles is not None:
        for row in np.flatnonzero(percentiles > OUTSIDE_PERCENTILE).tolist():
            text = (
                f"features lie farther out than {percentiles[row]:.1f} % of the people learned from"
            )
            reasons.add(row, "features", text)
    _add_far_measures(predicted, reasons)
    _add_versions(predicted, reasons)
    learned = predicted.weights.ages
    if learned is not None:
        _add_ages(ages, "age", learned, reasons)
        if AGE in predicted.scores:
            _add_ages(predicted.scores[AGE], "predicted age", learned, reasons)
    return reasons


def _add_missing(predicted: Predicted, reasons: Reasons) -> None:
    """Add people who lack too many measures to be predicted, but not all."""
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
    """Add people whose age is outside of the ages learned from."""
    low, high = learned
    for row in np.flatnonzero((ages < low) | (ages > high)).tolist():
        text = f"{quantity} {ages[row]:.1f} is outside of {low:g} to {high:g} years learned from"
        reasons.add(row, quantity, text)


def _add_far_measures(predicted: Predicted, reasons: Reasons) -> None:
    """Add people with measures that are cut, since they lie too far from those learned from."""
    contracts = predicted.incoming.contracts
    measures = predicted.incoming.cohort.measures
    rows = np.flatnonzero(predicted.embedded.good)
    if measures is None or not contracts or not len(rows):
        return
    columns = _columns_of(contracts)
    deviations = np.full((len(contracts), len(rows), len(columns)), np.nan)
    of_rows = measures.values.iloc[rows]
    for number, contract in enumerate(contracts):
        places = pd.Index(columns).get_indexer(pd.Index(contract.columns))
        deviations[number][:, places] = contract.deviations(of_rows).fillna(0.0)
    middle = np.nanmedian(deviations, axis=0)
    clip = max(contract.clip for contract in contracts)
    for number, row in enumerate(rows.tolist()):
        distances = np.abs(middle[number])
        far = np.flatnonzero(distances > clip)
        if not len(far):
            continue
        worst = far[np.argsort(-distances[far])][:_N_NAMED]
        shown = ", ".join(f"{columns[at]} {middle[number, at]:+.1f}" for at in worst)
        verb = "measure is" if len(far) == 1 else "measures are"
        text = f"{len(far)} of {len(columns)} {verb} more than {clip:g} SD from the median: {shown}"
        reasons.add(row, "measures", text)


def _add_versions(predicted: Predicted, reasons: Reasons) -> None:
    """Add people whose tables name another program, or version, than those learned from."""
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
            text = f"{' and '.join(unknown)}, learned from {', '.join(sorted(learned))}"
            reasons.add(row, "version", text)


def _is_of(program: str, learned: set[str]) -> bool:
    """Tell whether a program is one of those learned from; ``FreeSurfer 6`` is every 6.x."""
    return any(program == name or program.startswith(f"{name}.") for name in learned)


@dataclass(frozen=True)
class Calibration:
    """Shift of each site of a target, and how many people gave it."""

    probe: WeightsProbe
    by_site: dict[str, tuple[int, float | None]]
    """Labelled people and shift of each site; None where they cannot tell it."""

    def lines(self) -> list[str]:
        """Say by how much each site was moved, and which error to expect."""
        return list(starmap(self._line, self.by_site.items()))

    def _line(self, site: str, moved: tuple[int, float | None]) -> str:
        n_people, shift = moved
        target = self.probe.fitted.target
        if shift is None:
            return (
                f"{target}, site {site}: not calibrated, {n_people} labelled people are not enough"
            )
        unit = "" if self.probe.fitted.kind == "continuous" else " in log-odds"
        text = (
            f"{target}, site {site}: moved by {number_text(shift, signed=True)}{unit}, learned from "
            f"{n_people} labelled people"
        )
        expected = self.probe.expected
        sentence = "" if expected is None else expected.sentence(n_people)
        return f"{text}; {sentence}" if sentence else text
