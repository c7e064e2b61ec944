"""Apply the probe of an evaluation to embeddings, or to scans that a run embeds first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.commands.predicting import Predictions, Request, tell_rows
from neurocontrast.config import AnyConfig, as_config
from neurocontrast.documents.document import Json
from neurocontrast.documents.embeddings import AnyEmbeddings, Embeddings
from neurocontrast.documents.predicted import (
    CalibrationRecord,
    EmbeddingsFile,
    OutsideRecord,
    PredictionsOrigin,
    ProbeDescription,
    ProbePredictionsRecord,
    ScanCounts,
    ShiftRecord,
    TrainingSize,
)
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.fit.distribution import count_outside
from neurocontrast.evaluation.fit.stored_probe import MIN_SHOTS, fit_shifts, shift_scores
from neurocontrast.evaluation.probes.designs import blocks_of, check_same_blocks
from neurocontrast.evaluation.probes.members import check_same_members, members_of
from neurocontrast.evaluation.rows import Floats, check_rows, tidy_table
from neurocontrast.evaluation.settings import OUTSIDE_PERCENTILE
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import check_output_file, write_table_with_json
from neurocontrast.progress import Progress
from neurocontrast.provenance import CONTENT, Recognised, describe_environment
from neurocontrast.runs.labels import Labels, people_of, read_labels, trained_on, truths_of

_IDENTIFIERS = ["participant_id", "session", "site"]
_SCANS = (".tsv", ".csv", ".nii", ".nii.gz", ".mgz")
"""Endings of files with scans or measures, which a probe takes only with a run that embeds them."""


@dataclass(frozen=True, eq=False)
class _Applied:
    """Predictions of scans by the probe of an evaluation, with the scans and their true labels."""

    tidy: pd.DataFrame
    """Metadata of all scans, one row a scan."""
    read: pd.DataFrame
    """Metadata of the scans with features, without scans that cannot be read."""
    table: pd.DataFrame
    """Table of predictions, one row a scan; empty cells for a scan that cannot be read."""
    labels: Labels | None
    """True labels from the table that calibrates predictions; None if not given."""
    truths: Floats | None
    """True label of each scan in `tidy` as a number, NaN if unknown; None without `labels`."""
    people: Recognised
    """Subjects of the scans on whom the probe was fitted, found by identifier or by content."""
    doubts: Sequence[str]
    """Warnings for the user, about the embeddings or the scans."""
    origin: PredictionsOrigin
    """Name and digest of the embeddings table, or the scans that were embedded."""


def _apply_to_embeddings(fitted: FittedProbe, request: Request) -> _Applied:
    """Read the table of embeddings `request.people`, and predict its scans by the probe `fitted`.

    Return an `_Applied` with the predictions before calibration; nothing is written.
    """
    tidy, features, origin, doubts = _read_features(fitted, request.people, request.config)
    labels = read_labels(fitted, tidy, request.calibrate)
    people = people_of(fitted, tidy)
    truths = truths_of(fitted, tidy, labels, people)
    table = _predictions(fitted, tidy, features, people)
    return _Applied(tidy, tidy, table, labels, truths, people, doubts, origin)


def _apply_to_scans(
    fitted: FittedProbe, run: Path, request: Request, progress: Progress
) -> _Applied:
    """Embed the scans of `request.people` by the encoder of `run`, and predict them by the probe.

    Return an `_Applied`, in whose table scans that cannot be read have a row without predictions.
    """
    from neurocontrast.runs.incoming import open_scans

    scans = open_scans(
        run, request.people, fitted, images_root=request.images_root, config=request.config
    )
    tidy = scans.tidy
    labels = read_labels(fitted, tidy, request.calibrate)
    _ = truths_of(fitted, tidy, labels, people_of(fitted, tidy))  # before any scan is read
    embedded = scans.embed(progress)
    good = embedded.good
    read = tidy.assign(**{CONTENT: embedded.contents})[good]
    people = people_of(fitted, read)
    truths = truths_of(fitted, tidy, labels, people)
    predicted = _predictions(fitted, read, embedded.features[good], people)
    table = predicted.reindex(tidy.index)  # empty cells for bad scans
    table = table.assign(**tidy[_IDENTIFIERS]).join(embedded.notes(tidy.index))
    origin = scans.origin(table)
    return _Applied(tidy, read, table, labels, truths, people, scans.cohort.warnings, origin)


def _check_request(request: Request) -> Path:
    """Return the path of the table to write; refuse options that an evaluation's probe cannot use.

    Refused are a call without `out`; `features`, which only weights with probes can write;
    `images_root` without a `run` that embeds scans; and a table or JSON file that exists, unless
    overwriting is allowed.
    """
    if request.out is None:
        raise ConfigError("out: missing. Name the table to write, for instance out='people.tsv'.")
    if request.features:
        raise ConfigError("features: is for weights; embed gives those of a run. Leave it out.")
    if request.run is None and request.images_root is not None:
        raise ConfigError("images_root: is for scans. Say which run embeds them: run=RUN.")
    check_output_file(request.out, ".tsv", overwrite=request.overwrite)
    check_output_file(request.out.with_suffix(".json"), ".json", overwrite=request.overwrite)
    return request.out


def _describe_outside(
    fitted: FittedProbe, tidy: pd.DataFrame, table: pd.DataFrame
) -> OutsideRecord | None:
    """Count the scans whose features lie far from the training features of the probe.

    The record has the counts of all scans and of each site. Its ``message`` is a warning as text if
    more scans lie outside than by chance, else None. For a probe that does not store the
    distribution of its training features, None is returned in place of a record.
    """
    if fitted.distribution is None:
        return None
    counts, notices = count_outside(
        tidy, table["mahalanobis_percentile"], reference="probe", threshold=OUTSIDE_PERCENTILE
    )
    message = None
    if notices:
        message = notices[0].message
    return OutsideRecord.model_validate({**counts, "message": message})


def apply_probe(
    probe: Path,
    request: Request,
    *,
    on_scan: Callable[[Json], None] | None,
    progress: Progress,
) -> Predictions:
    """Apply the probe of an evaluation to embeddings, or to scans that a run embeds first.

    Write the table of predictions, and a JSON file on how they were made; return the path of the
    table, as `Predictions`.
    """
    target = _check_request(request)
    fitted = load_probe(probe)
    if request.run is None:
        applied = _apply_to_embeddings(fitted, request)
    else:
        applied = _apply_to_scans(fitted, request.run, request, progress)
    tidy = applied.tidy
    table = applied.table
    calibration = None
    if applied.labels is not None and applied.truths is not None:
        calibration = _calibrated(fitted, tidy, table, applied.truths, applied.labels.source)
    outside = _describe_outside(fitted, tidy, table)
    doubts = [*applied.doubts, *_doubts(fitted, table, outside, calibration)]
    doubts += _doubts_of_people(fitted, applied.read, applied.people)
    for message in doubts:
        progress.warning(message)
    record = _describe(fitted, applied, outside, calibration)
    write_table_with_json(target, table, record.content())
    tell_rows(table, on_scan)
    return Predictions(target)


def _read_features(
    fitted: FittedProbe,
    people: AnyEmbeddings,
    config: AnyConfig | None,
) -> tuple[pd.DataFrame, npt.NDArray[np.floating], PredictionsOrigin, list[str]]:
    """Read embeddings for a probe; return metadata, features, origin, and warnings.

    The origin is a `PredictionsOrigin` with name and digest of the embeddings' file. The warnings
    are sentences for the user. Embeddings are refused that another encoder made than the one on
    whose features the probe was fitted.
    """
    if not isinstance(people, pd.DataFrame) and _is_of_scans(Path(people)):
        raise ConfigError(
            f"embeddings: '{people}' are scans or measures. Say which run embeds them: run=RUN."
        )
    read = Embeddings.of(people)
    name = read.path.name
    if not len(read.table):
        raise DataError(
            f"{name}: the table has no rows, and there is nothing to predict without a scan."
        )
    n_features = read.features.shape[1]
    check_same_members(fitted.members, members_of(read.info, n_features), parameter=name)
    check_same_blocks(fitted.blocks, blocks_of(read.info, n_features), parameter=name)
    doubts = [fitted.check_encoder(read.info.encoder_digest, read.features.shape[1], place=name)]
    if config is not None:
        as_config(config)  # refuses wrong keys
        doubts.append(
            "The configuration is for scans: embeddings, without a run, are taken as they are."
        )
    tidy = tidy_table(read.table)
    check_rows(tidy, read.features)
    origin = PredictionsOrigin(
        embeddings=EmbeddingsFile(file=name, digest=read.digest()), simulated=read.info.simulated
    )
    return tidy, read.features, origin, list(filter(None, doubts))


def _is_of_scans(path: Path) -> bool:
    """Tell whether a path is a folder or file of scans or measures, not of embeddings."""
    return path.is_dir() or path.name.lower().endswith(_SCANS)


def _describe(
    fitted: FittedProbe,
    applied: _Applied,
    outside: OutsideRecord | None,
    calibration: CalibrationRecord | None,
) -> ProbePredictionsRecord:
    """Return the content of the JSON file beside the table of predictions in `applied`.

    The argument `outside` counts scans far from the training features, and the argument
    `calibration` has the shifts of predictions at sites; each is None if there is none.
    """
    of_trained_subjects = None
    if fitted.trained_on:
        of_trained_subjects = int(applied.table["trained_on"].eq(True).sum())
    n_subjects = len(fitted.trained_on) or None
    content: Json = {
        "format": 1,
        "target": fitted.target,
        "kind": fitted.kind,
        "classes": fitted.classes,
        "probe": ProbeDescription(
            name=fitted.name, strength=fitted.strength, threshold=fitted.threshold
        ),
        "n_trained_on": TrainingSize(scans=fitted.n_scans, subjects=n_subjects),
        "n": ScanCounts(scans=len(applied.table), of_trained_subjects=of_trained_subjects),
        "encoder": fitted.encoder,
        "environment": describe_environment(),
    }
    if fitted.members:
        content["n_members"] = len(fitted.members)
    content |= applied.origin.content()
    content["outlyingness"] = outside
    content["calibration"] = calibration
    return ProbePredictionsRecord.model_validate(content)


def _calibrated(
    fitted: FittedProbe, tidy: pd.DataFrame, table: pd.DataFrame, truths: Floats, file: str
) -> CalibrationRecord:
    """Shift the predictions in `table` at each site; return the shift of each site as a record.

    `tidy` has the site of each scan, and `truths` the true label as a number, NaN if unknown, from
    the user's `file`. A shift is learned from the labelled scans of a site. In `table`, ``y_score``
    and ``y_pred`` are replaced, ``y_score_zero_shot`` gets the scores before the shift, and
    ``calibrated_on`` marks all scans of the labelled people at sites that are shifted.
    """
    scores = table["y_score"].to_numpy(dtype=float)
    sites = tidy["site"]
    labelled = ~np.isnan(truths) & ~np.isnan(scores) & tidy["site"].notna().to_numpy()
    shifts = fit_shifts(
        scores[labelled],
        truths[labelled],
        sites[labelled],
        tidy["subject_id"][labelled],
        fitted.kind,
    )
    shifted = shift_scores(scores, sites, shifts, fitted.kind)
    table.insert(list(table.columns).index("y_score") + 1, "y_score_zero_shot", scores)
    table["y_score"] = shifted
    table["y_pred"] = _decided(fitted, shifted)
    table.loc[np.isnan(scores), "y_pred"] = None
    by_site = {}
    shifted_sites = []
    for site, shift in shifts.items():
        by_site[site] = ShiftRecord(**asdict(shift))
        if shift.shift is not None:
            shifted_sites.append(site)
    # Other scans of labelled people are no test either.
    people = tidy["site"].astype(str) + "\0" + tidy["subject_id"].astype(str)
    table["calibrated_on"] = sites.isin(shifted_sites) & people.isin(people[labelled])
    return CalibrationRecord(file=file, by_site=by_site)


def _doubts(
    fitted: FittedProbe,
    table: pd.DataFrame,
    outside: OutsideRecord | None,
    calibration: CalibrationRecord | None,
) -> Iterator[str]:
    """Yield warnings on outlying scans, sites without calibration, and facts that the probe lacks.

    A calibration shifts the predictions at a site, by the true labels of some people there; without
    enough labelled people a site keeps its predictions. A probe may lack its training people, and
    the distribution of its training features.
    """
    if not fitted.trained_on:
        yield (
            "The probe does not say whom it was fitted on (a bundle names nobody): trained_on is "
            "empty, not false."
        )
    if fitted.distribution is None:
        yield (
            "The probe has no distribution of its training scans, so scans outside of it cannot be "
            "found."
        )
    if outside is not None and outside.message is not None:
        yield outside.message
    if calibration is None:
        return
    unshifted = _sites_without_shift(table, calibration)
    if unshifted:
        yield (
            "calibrate: these sites keep their predictions, because a shift takes at least "
            f"{MIN_SHOTS} labelled subjects, of both classes where there are two: "
            f"{', '.join(unshifted)}."
        )


def _sites_without_shift(table: pd.DataFrame, calibration: CalibrationRecord) -> list[str]:
    """List the sites in `table` without calibration, each with its number of labelled people.

    An entry is text such as ``Site A (3)``. A calibration adds a shift to all predictions at a
    site, learned from people there whose true label the user has given.
    """
    sites = []
    for site, shift in calibration.by_site.items():
        if shift.shift is None:
            sites.append(f"{site} ({shift.n_subjects})")
    for site in table["site"].dropna().unique():
        if site not in calibration.by_site:
            sites.append(f"{site} (0)")
    return sites


def _doubts_of_people(fitted: FittedProbe, tidy: pd.DataFrame, people: Recognised) -> Iterator[str]:
    """Yield warnings that predicted people were in the training of the probe, or may have been.

    `people` are those found there by their identifiers or by the content of their scans.
    """
    n_subjects = tidy["subject_id"].nunique()
    if people.subjects:
        n_scans = trained_on(tidy, people).sum()
        yield (
            f"{n_scans} of {len(tidy)} scans are of subjects that the probe was fitted on "
            f"(trained_on): {len(people.subjects)} of {n_subjects} subjects{people.renamed_text}. "
            "These predictions do not test the probe."
        )
    if fitted.trained_on and people.n_not_compared:
        yield (
            f"Of {people.n_not_compared} of {n_subjects} subjects only the identifier could "
            "be compared with the people that the probe was fitted on, not the content: trained_on "
            "misses people with another identifier."
        )


def _predictions(
    fitted: FittedProbe,
    tidy: pd.DataFrame,
    features: npt.NDArray[np.floating],
    people: Recognised,
) -> pd.DataFrame:
    """Return a table with scores, predicted classes, and distances from the training features.

    `tidy` is the table of the scans' metadata, and `features` has the features of the same scans.
    The returned table has one row for each. Distances are there if the probe stores the
    distribution of its training features.
    """
    table = tidy[_IDENTIFIERS].copy()
    scores = fitted.predict(features)
    if fitted.kind == "multiclass":
        for code, name in enumerate(fitted.classes):
            table[f"score_{name}"] = scores[:, code]
    else:
        table["y_score"] = scores
    table["y_pred"] = _decided(fitted, scores)
    table["trained_on"] = None
    if fitted.trained_on:
        table["trained_on"] = trained_on(tidy, people)
    if fitted.distribution is not None:
        distances, percentiles = fitted.distribution.percentiles(features)
        table["mahalanobis"] = distances
        table["mahalanobis_percentile"] = percentiles
        table["outside"] = percentiles > OUTSIDE_PERCENTILE
    return table


def _decided(fitted: FittedProbe, scores: Floats) -> npt.NDArray[np.object_] | Floats:
    """Return the class that `scores` predict for each scan; for a continuous target, the scores."""
    if fitted.kind == "continuous":
        return scores
    labels = np.array(fitted.classes, dtype=object)
    return labels[fitted.decide(scores)]
