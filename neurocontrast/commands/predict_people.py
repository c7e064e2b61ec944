"""Predict age, sex … of people by weights: a trained encoder with all its probes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from neurocontrast.commands.predicting import PeoplePredictions, Request, tell_rows
from neurocontrast.data.listing import AnyTable, place_of
from neurocontrast.documents.document import Json
from neurocontrast.documents.embeddings import feature_names
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.predicted import (
    ErrorOfAge,
    PeopleCounts,
    PeoplePredictionsRecord,
    TrainingSize,
    WeightsProbeRecord,
)
from neurocontrast.evaluation.fit.stored_probe import MIN_SHOTS, fit_shifts, shift_scores
from neurocontrast.evaluation.rows import Floats
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.files import check_output_file, write_table_with_json
from neurocontrast.progress import Progress
from neurocontrast.provenance import CONTENT, describe_environment
from neurocontrast.runs.incoming import LoadedRun, record_failures
from neurocontrast.runs.labels import Labels, people_of, read_cells, truths_of
from neurocontrast.runs.outside import Reasons, find_reasons, n_missing, percentiles_of
from neurocontrast.runs.people import (
    AGE,
    Calibration,
    Predicted,
    WeightsFolder,
    WeightsProbe,
    predict_scores,
    targets_of,
)
from neurocontrast.runs.weights_at import are_embeddings

_ONE_SITE = "(one site)"
"""Site of everybody in a table without sites, so that all can be calibrated together."""
_MOST_RATIO = 6.0
"""Ratio of median stated to median predicted age at which stated ages are refused as not in years;
a ratio of 1/6 or less is refused too."""
_NARROW = 5.0
"""Age range in years of a site's labelled people, below which a warning doubts the shift."""


def _check(request: Request, probes: list[Path]) -> None:
    """Refuse, before networks are loaded, an existing output, and embeddings as input."""
    if request.out is not None:
        check_output_file(request.out, ".tsv", overwrite=request.overwrite)
        record = request.out.with_suffix(".json")
        check_output_file(record, ".json", overwrite=request.overwrite)
    if are_embeddings(request.people):
        raise ConfigError(
            f"embeddings: '{place_of(request.people)}' is a table of embeddings, for one probe. "
            f"Name it, for instance {probes[0]}, or give measures or scans."
        )


def predict_people(
    folder: Path,
    probes: list[Path],
    request: Request,
    *,
    on_scan: Callable[[Json], None] | None,
    progress: Progress,
) -> PeoplePredictions:
    """Predict people's age, sex … by the encoder and probes of weights; write and return the table.

    Weights are a folder with a trained encoder and, in subfolders, linear probes on its features.
    `folder` is that folder, and `probes` are the folders of its probes, each of which predicts one
    target. `request` has the people's measures or scans, and the table to write, if any. After all
    predictions, `on_scan` is called with each row of the table. See `neurocontrast.predict`.
    """
    _check(request, probes)
    weights = WeightsFolder.load(folder, probes)
    loaded = LoadedRun.load(folder, request.config)
    for probe in weights.probes:
        loaded.check_probe(probe.fitted)
    incoming = loaded.list_scans(request.people, images_root=request.images_root)
    warnings = incoming.warnings
    tidy = incoming.tidy
    labels = _read_labels(weights, tidy, request.calibrate)
    embedded = incoming.embed(progress)
    contents = tidy.assign(**{CONTENT: embedded.contents})
    predicted = predict_scores(weights, incoming, embedded, contents)
    zero_shot = dict(predicted.scores)
    calibrations, is_calibrated_on = _calibrate(predicted, contents, labels, warnings)
    percentiles = percentiles_of(predicted)
    reasons = find_reasons(predicted, percentiles, tidy[AGE].to_numpy(float))
    columns = _Columns(predicted, zero_shot, calibrations, is_calibrated_on, percentiles)
    table = columns.table(reasons)
    warnings = [*dict.fromkeys(warnings), *_doubts(predicted, table)]
    source = place_of(request.people).name
    record = _describe(predicted, table, reasons, calibrations, warnings, source)
    for warning in warnings:
        progress.warning(warning)
    if request.features:
        table = pd.concat([table, _features_of(predicted)], axis=1)
    if request.out is not None:
        write_table_with_json(request.out, table, record.content())
    tell_rows(table, on_scan)
    lines = _summarise(record, calibrations, weights)
    return PeoplePredictions(table, record, lines, request.out)


def _features_of(predicted: Predicted) -> pd.DataFrame:
    """Return the encoder's features of all people as a table, one row a person.

    Its columns are ``feature_0000``, ``feature_0001`` and so on.
    """
    features = predicted.embedded.features
    columns = feature_names(features.shape[1])
    return pd.DataFrame(features, index=predicted.tidy.index, columns=columns)


def _read_labels(
    weights: WeightsFolder, tidy: pd.DataFrame, calibrate: AnyTable | None
) -> dict[str, Labels]:
    """Return target → table of true labels as text, read from `calibrate`; empty if that is None.

    `tidy` is the table of the people to predict. Before the first scan is embedded, labels are
    refused that are no value of their target, and people who are not in `tidy` or who trained a
    probe.
    """
    if calibrate is None:
        return {}
    source = place_of(calibrate).name
    fitted = weights.fitted
    cells = read_cells(calibrate, [])
    if "participant_id" not in cells:
        hint = suggestion("participant_id", map(str, cells))
        raise DataError(
            f"{source}: column 'participant_id' is needed.{hint} It has: {one_of(map(str, cells))}."
        )
    targets = list(filter(cells.__contains__, fitted))
    if not targets:
        raise DataError(
            f"{source}: no column is a target of these weights ({one_of(fitted)}). "
            f"It has: {one_of(map(str, cells))}."
        )
    cells = read_cells(calibrate, targets)
    labels = {}
    for target in targets:
        labels[target] = Labels(cells, source, gaps=len(targets) > 1)
        # Names, numbers and doubles are refused before any scan is read.
        truths_of(fitted[target], tidy, labels[target], people_of(fitted[target], tidy))
    return labels


def _calibrate(
    predicted: Predicted, tidy: pd.DataFrame, labels: dict[str, Labels], warnings: list[str]
) -> tuple[list[Calibration], pd.Series]:
    """Shift the predictions at each site by a constant learned from the site's labelled people.

    `labels` has a table of true labels for each target, and `tidy` the metadata of all people. The
    scores in `predicted` are replaced, and `warnings` are added to. Return a `Calibration` (shifts
    by site) for each target with labels, and one mask of the people of whom a label of any target
    was used: their predictions are no test any more.
    """
    is_used = pd.Series(False, tidy.index)
    if not labels:
        return [], is_used
    sites = tidy["site"]
    if sites.isna().all():
        sites = sites.fillna(_ONE_SITE)
        warnings.append(
            f"calibrate: nobody has a site, and all {len(tidy)} rows count as one site. Where they "
            "are of several, give a column 'site'."
        )
    calibrations = []
    for probe in predicted.weights.probes:
        target = probe.fitted.target
        if target not in labels:
            continue
        scores = predicted.scores[target]
        truths = truths_of(probe.fitted, tidy, labels[target], predicted.recognised[target])
        assert truths is not None
        is_labelled = ~np.isnan(truths) & ~np.isnan(scores) & sites.notna().to_numpy()
        if target == AGE:
            _check_ages(truths, scores, is_labelled, sites, labels[target].source, warnings)
        shifts = fit_shifts(
            scores[is_labelled],
            truths[is_labelled],
            sites[is_labelled],
            tidy["subject_id"][is_labelled],
            probe.fitted.kind,
        )
        predicted.scores[target] = shift_scores(scores, sites, shifts, probe.fitted.kind)
        calibration = Calibration(probe, shifts)
        moved = calibration.moved_sites()
        people = sites.astype(str) + "\0" + tidy["subject_id"].astype(str)
        is_used |= sites.isin(moved) & people.isin(people[is_labelled])
        calibrations.append(calibration)
        _warn_of_unmoved(target, sites, moved, warnings)
    return calibrations, is_used


def _warn_of_unmoved(target: str, sites: pd.Series, moved: list[str], warnings: list[str]) -> None:
    """Add to `warnings` that sites are not calibrated, since too few of their people are labelled.

    `target` is the predicted column, and `moved` are the sites that are calibrated.
    """
    unmoved = sorted(set(sites.dropna()) - set(moved))
    if unmoved:
        warnings.append(
            f"calibrate: {target} at {one_of(unmoved)} is not calibrated: a shift takes at least "
            f"{MIN_SHOTS} labelled people of the site, of both classes where there are two."
        )


def _check_ages(
    truths: Floats,
    scores: Floats,
    is_labelled: np.ndarray,
    sites: pd.Series,
    source: str,
    warnings: list[str],
) -> None:
    """Refuse true ages in another unit than years, or all alike at a site; warn of a narrow range.

    `truths` are the true ages, read from the file `source`, by which the predicted ages `scores`
    are calibrated at each site. A narrow range of ages at a site is added to `warnings`.
    """
    labelled = truths[is_labelled]
    if len(labelled) < MIN_SHOTS:
        return
    ratio = float(np.median(labelled) / max(float(np.median(scores[is_labelled])), 1.0))
    if not 1 / _MOST_RATIO < ratio < _MOST_RATIO:
        raise DataError(
            f"{source}: column 'age': the median is {np.median(labelled):g}, and the same people "
            f"are predicted as {np.median(scores[is_labelled]):.0f} years. Give ages in years."
        )
    for site in sorted(set(sites[is_labelled])):
        of_site = truths[is_labelled & (sites == site).to_numpy()]
        span = float(np.ptp(of_site))
        if len(of_site) >= MIN_SHOTS and span == 0:
            raise DataError(
                f"{source}: all {len(of_site)} labelled people of site {site} are {of_site[0]:g} "
                "years old, and a shift learned at one age holds at no other. Label people of "
                "several ages."
            )
        if len(of_site) >= MIN_SHOTS and span < _NARROW:
            warnings.append(
                f"calibrate: the labelled people of site {site} are of {of_site.min():g} to "
                f"{of_site.max():g} years, and the shift may not hold at other ages."
            )


@dataclass(frozen=True, eq=False)
class _Columns:
    """Predictions of people by the probes of weights, from which `table` makes one table.

    A calibration is a shift of the predictions at a site, learned from labelled people of the site.
    `zero_shot` has, by target, the predictions before calibration, and `predicted` those after.
    `is_calibrated_on` is a mask of the people whose labels were used. `percentiles` has the
    percentile of each person's distance from the training features, or is None.
    """

    predicted: Predicted
    zero_shot: dict[str, Floats]
    calibrations: list[Calibration]
    is_calibrated_on: pd.Series
    percentiles: Floats | None

    def _identifiers(self) -> pd.DataFrame:
        """Return a table of the predicted people's identifiers, with their site and age.

        The column ``site`` or ``age`` is left out if all people lack it.
        """
        tidy = self.predicted.tidy
        identifiers = ["participant_id", "session"]
        for column in ("site", AGE):
            if tidy[column].notna().any():
                identifiers.append(column)
        return tidy[identifiers].copy()

    def table(self, reasons: Reasons) -> pd.DataFrame:
        """Return the table of predictions, one row a person, ready to write.

        `reasons` has for each person the texts on why the person is unlike the training people of
        the weights; joined, they are the column ``why_outside``.
        """
        tidy = self.predicted.tidy
        table = self._identifiers()
        calibrated = targets_of(self.calibrations)
        for probe in self.predicted.weights.probes:
            target = probe.fitted.target
            columns = self.predicted.columns_of(probe, self.predicted.scores[target])
            if target in calibrated:
                columns[probe.zero_shot] = self.zero_shot[target]
            table = pd.concat([table, columns], axis=1)
        if self.calibrations:
            table["calibrated_on"] = self.is_calibrated_on
        table["trained_on"] = None
        if self.predicted.weights.names_people:
            table["trained_on"] = self.predicted.trained_on()
        if self.percentiles is not None:
            table["mahalanobis_percentile"] = self.percentiles
        missing = n_missing(self.predicted.incoming)
        if missing is not None:
            table["measures_missing"] = missing
        table["outside"] = list(map(bool, reasons.texts))
        table["why_outside"] = list(map("; ".join, reasons.texts))
        notes = self.predicted.embedded.notes(tidy.index)
        table["why_outside"] = table["why_outside"].replace("", None)
        return pd.concat([table, notes], axis=1)


def _describe(
    predicted: Predicted,
    table: pd.DataFrame,
    reasons: Reasons,
    calibrations: list[Calibration],
    warnings: list[str],
    source: str,
) -> PeoplePredictionsRecord:
    """Return the content of the JSON file that is written beside the people's table of predictions.

    `source` is the name of the input, `reasons` counts why people are unlike the training people,
    and `calibrations` has for each target the shifts of its predictions at sites.
    """
    probes = {}
    for probe in predicted.weights.probes:
        probes[probe.fitted.target] = _describe_probe(probe)
    shifts = {}
    for calibration in calibrations:
        shifts[calibration.target] = calibration.record()
    failures = record_failures(source, table)
    incoming = predicted.incoming
    ages = None
    if predicted.weights.ages is not None:
        ages = list(predicted.weights.ages)
    return PeoplePredictionsRecord(
        format=1,
        weights=predicted.weights.folder.name,
        probes=probes,
        n=PeopleCounts(
            people=len(table), failed=failures.n_failed, outside=int(table["outside"].sum())
        ),
        reasons=dict(reasons.counts),
        scans=failures,
        ages_learned_from=ages,
        calibration=shifts or None,
        error_of_age=_error_of_age(predicted, table),
        simulated=incoming.cohort.simulated,
        environment=Environment.model_validate(describe_environment()),
        licence=incoming.info.run.licence,
        encoder=incoming.info.encoder_digest,
        warnings=warnings,
    )


def _describe_probe(probe: WeightsProbe) -> WeightsProbeRecord:
    """Return a record of a probe: classes, numbers of training scans and people, error to expect.

    The probe is a linear model stored in the folder of the weights. Nothing is written here: the
    caller puts the record under ``probes`` into the JSON file beside the predictions.
    """
    fitted = probe.fitted
    return WeightsProbeRecord(
        kind=fitted.kind,
        classes=list(fitted.classes),
        name=fitted.name,
        strength=fitted.strength,
        threshold=fitted.threshold,
        n_trained_on=TrainingSize(scans=fitted.n_scans, subjects=len(fitted.trained_on) or None),
        expected=probe.expected,
    )


def _error_of_age(predicted: Predicted, table: pd.DataFrame) -> ErrorOfAge | None:
    """Return the mean absolute error of predicted ages, in years, after any calibration.

    People are left out on whom the weights were trained, or whose labels calibrated the
    predictions. None if no true age of the others is known, or if age is not predicted.
    """
    if AGE not in table or AGE not in predicted.scores:
        return None
    errors = (table[f"predicted_{AGE}"] - table[AGE]).abs()
    is_test = errors.notna() & ~predicted.trained_on()
    if "calibrated_on" in table:
        is_test &= ~table["calibrated_on"]
    if not is_test.any():
        return None
    mean = float(errors[is_test].mean())
    return ErrorOfAge(n_people=int(is_test.sum()), mean_absolute=mean)


def _doubts(predicted: Predicted, table: pd.DataFrame) -> list[str]:
    """Return a list of up to two warnings on whether predicted people trained the weights.

    One counts the rows of training people. The other says that the weights do not record their
    training people.
    """
    doubts = []
    n_known = int(predicted.trained_on().sum())
    if n_known:
        doubts.append(
            f"{n_known} of {len(table)} rows are of people that the weights were learned from "
            "(trained_on): their predictions flatter the weights."
        )
    if not predicted.weights.names_people:
        doubts.append(
            "The weights do not say whom they were learned from: trained_on is empty, not false."
        )
    return doubts


def _people(n_people: int) -> str:
    """Return a number of people as text: "1 person", "1,200 people"."""
    if n_people == 1:
        return "1 person"
    return f"{n_people:,} people"


def _summarise(
    record: PeoplePredictionsRecord, calibrations: list[Calibration], weights: WeightsFolder
) -> list[str]:
    """Return lines of text on predictions: numbers of people, calibrated sites, errors of age.

    A calibration shifts the predictions of one target at each site by a constant, learned from the
    site's labelled people; `calibrations` has one for each calibrated target. The error of age is
    of people with a known age who neither trained the weights nor calibrated predictions. For a
    target without calibration, the error to expect at a new site is stated if the weights record
    one.
    """
    n_predicted = record.n.people - record.n.failed
    targets = " and ".join(record.probes)
    title = f"{targets} predicted for {_people(n_predicted)}"
    title += f"; {record.n.outside:,} lie outside of the people learned from (why_outside)"
    lines = [title]
    for calibration in calibrations:
        lines += calibration.lines()
    calibrated = targets_of(calibrations)
    for probe in weights.probes:
        if probe.fitted.target not in calibrated and probe.expected is not None:
            sentence = probe.expected.sentence(0)
            if sentence:
                lines.append(f"{probe.fitted.target}: {sentence}")
    measured = record.error_of_age
    if measured is not None:
        lines.append(
            f"age of {_people(measured.n_people)} here who gave no label and were not learned "
            f"from: mean absolute error {measured.mean_absolute:.1f} years"
        )
    return lines
