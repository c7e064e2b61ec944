"""Predict people by all probes in a folder of weights, after one pass over measures or scans.

A probe is a linear model that predicts one target, such as age, from the features of an encoder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.documents.expected import ExpectedErrors, read_expected
from neurocontrast.documents.predicted import ShiftRecord
from neurocontrast.documents.provenance import read_public_provenance
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.fit.stored_probe import SiteShift
from neurocontrast.evaluation.rows import Floats
from neurocontrast.exceptions import CheckpointError
from neurocontrast.provenance import CONTENT, KnownPeople, Recognised
from neurocontrast.reporting.wording import number_text
from neurocontrast.runs.incoming import EmbeddedScans, IncomingScans
from neurocontrast.runs.labels import people_of, trained_on

AGE = "age"


@dataclass(frozen=True)
class WeightsProbe:
    """Probe stored with an encoder's weights: a linear model that predicts a target, such as age.

    `expected` is its expected error at a new site; None if no error is recorded.
    """

    name: str
    """Name of the probe's folder."""
    fitted: FittedProbe
    expected: ExpectedErrors | None

    @property
    def column(self) -> str:
        """Name of the column with predicted numbers or classes, such as ``predicted_age``."""
        return f"predicted_{self.fitted.target}"

    @property
    def zero_shot(self) -> str:
        """Name of the column with predictions before calibration."""
        return f"{self.score}_zero_shot"

    @property
    def score(self) -> str:
        """Name of the column with predicted numbers, or probabilities of the positive class."""
        if self.fitted.kind == "continuous":
            return self.column
        return f"probability_{self.fitted.target}_{self.fitted.classes[-1]}"


@dataclass(frozen=True)
class WeightsFolder:
    """Folder of trained encoders, with probes that predict targets such as age from features."""

    folder: Path
    probes: tuple[WeightsProbe, ...]
    ages: tuple[float, float] | None
    """Lowest and highest age of the training people; None if the folder records no ages."""
    people: KnownPeople
    """People on whom the encoder was trained."""

    @classmethod
    def load(cls, folder: Path, probes: Sequence[Path]) -> Self:
        """Load the probes in the folders `probes`, and records of the encoder's training people.

        Each entry of `probes` is the folder of one probe. A CheckpointError refuses a probe of more
        than two classes, and two probes that predict the same target. The result has the probes,
        and the age range and identities of the people on whom the encoder in `folder` was trained.
        """
        loaded = []
        for path in probes:
            loaded.append(WeightsProbe(path.name, load_probe(path), read_expected(path)))
        for probe in loaded:
            if probe.fitted.kind == "multiclass":
                raise CheckpointError(
                    f"{folder / probe.name}: predicts several classes, which a table of people "
                    "has no columns for. Embed the people, and give this probe alone with the "
                    "table."
                )
        counts = Counter(probe.fitted.target for probe in loaded)
        target, n_probes = counts.most_common(1)[0]
        if n_probes > 1:
            raise CheckpointError(
                f"{folder}: {n_probes} of its probes predict '{target}', and a table has one "
                f"column of it. Name one: {folder / loaded[0].name}."
            )
        provenance = read_public_provenance(folder, error=CheckpointError)
        ages = provenance.cohort.people.age_range
        return cls(folder, tuple(loaded), ages, provenance.known_people())

    @property
    def fitted(self) -> dict[str, FittedProbe]:
        """Column that is predicted, such as ``age`` → the fitted probe that predicts the column."""
        of_targets = {}
        for probe in self.probes:
            of_targets[probe.fitted.target] = probe.fitted
        return of_targets

    @property
    def names_people(self) -> bool:
        """Whether the encoder, or any probe, records the identity of its training people."""
        of_probes = any(probe.fitted.trained_on for probe in self.probes)
        return of_probes or bool(self.people.subjects)


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of all probes in a folder of weights, for each scan in `incoming`, in that order.

    A probe is a linear model that predicts one target, such as age, from the features of an
    encoder.
    """

    weights: WeightsFolder
    incoming: IncomingScans
    embedded: EmbeddedScans
    scores: dict[str, Floats]
    """Predicted numbers, or probabilities of the positive class, by the column that is predicted;
    NaN where there is an error.
    """
    recognised: dict[str, Recognised]
    """People in the table on whom each probe was fitted, by the column that the probe predicts."""
    learned_from: Recognised
    """People in the table on whom the encoder was trained."""

    @property
    def tidy(self) -> pd.DataFrame:
        """Metadata of the people: identifiers, age, sex and site, as `evaluate` names them."""
        return self.incoming.tidy

    def trained_on(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the people on whom the encoder, or one of the probes, was trained."""
        is_known = trained_on(self.tidy, self.learned_from).copy()
        for people in self.recognised.values():
            is_known |= trained_on(self.tidy, people)
        return is_known

    def columns_of(self, probe: WeightsProbe, scores: Floats) -> pd.DataFrame:
        """Return the columns that a probe adds to the table of predictions, a row for each scan.

        `scores` are the probe's predictions, as in `predict_scores`. For a probe of numbers they
        are the only column. For a probe of two classes they are probabilities, and a first column
        has the class that is decided by them.
        """
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
    """Predict people by all probes from their features, and find the people who were in training.

    The result has the scores of each probe by the name of the predicted column, in the order of
    `incoming`, and the people on whom the encoder, or each of the probes, was trained. People are
    recognised by `contents`, which has the subject and the digests of the content of each scan.
    """
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


@dataclass(frozen=True)
class Calibration:
    """Numbers added to the predictions of one target, one for each site, to remove the site's bias.

    `predict` makes an instance for each probe whose target has labels. `probe` is the linear model
    that predicts the target. `by_site` has for each site the added number (the shift), and the
    number of labelled people from whom the shift was learned; the shift is None with too few of
    them.
    """

    probe: WeightsProbe
    by_site: Mapping[str, SiteShift]

    @property
    def target(self) -> str:
        """Column that `probe`, the calibrated linear model, predicts, such as ``age``."""
        return self.probe.fitted.target

    def record(self) -> dict[str, ShiftRecord]:
        """Return for each site the number of labelled people, and the shift learned from them.

        The shift is the number that calibration adds to the predictions of the site, None with too
        few labelled people. The result, by site, is part of the JSON file that is written with the
        predictions.
        """
        by_site = {}
        for site, shift in self.by_site.items():
            by_site[site] = ShiftRecord(n_subjects=shift.n_subjects, shift=shift.shift)
        return by_site

    def moved_sites(self) -> list[str]:
        """List the sites whose predictions were shifted by calibration."""
        moved = []
        for site, shift in self.by_site.items():
            if shift.shift is not None:
                moved.append(site)
        return moved

    def lines(self) -> list[str]:
        """Return a line of text for each site, on the number added to the site's predictions.

        A line ends with the expected error of predictions at a new site, if the probe states one.
        """
        return list(starmap(self._line, self.by_site.items()))

    def _line(self, site: str, shift: SiteShift) -> str:
        """Describe in one line the number added to a site's predictions, and their expected error.

        The number is the shift that calibration learned from labelled people of the site, to remove
        the bias of its predictions; a site with too few labelled people has none, as the line says.
        The error was measured at sites that the encoder and the probe were not trained on.
        """
        n_people = shift.n_subjects
        if shift.shift is None:
            return (
                f"{self.target}, site {site}: not calibrated, {n_people} labelled people are not "
                "enough"
            )
        unit = ""
        if self.probe.fitted.kind != "continuous":
            unit = " in log-odds"
        moved_by = (
            f"{self.target}, site {site}: moved by {number_text(shift.shift, signed=True)}{unit}, "
            f"learned from {n_people} labelled people"
        )
        expected = self.probe.expected
        sentence = ""
        if expected is not None:
            sentence = expected.sentence(n_people)
        return "; ".join(filter(None, [moved_by, sentence]))


def targets_of(calibrations: Sequence[Calibration]) -> set[str]:
    """Return the targets for which `calibrations` have labelled people.

    A target counts even if no site had enough labelled people to shift the site's predictions.
    """
    targets = set[str]()
    for calibration in calibrations:
        targets.add(calibration.target)
    return targets
