"""A stored probe applied to other embeddings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import is_missing, no_column, number_of
from neurocontrast.data.layouts.table import read_text_table
from neurocontrast.data.problems import Problems, shown
from neurocontrast.embedding.table import read_embeddings
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.blocks import blocks_of, check_same_blocks
from neurocontrast.evaluation.designs import FEW_SUBJECTS
from neurocontrast.evaluation.few_shot import MIN_SHOTS, fit_shifts, shift_scores
from neurocontrast.evaluation.panels.outlyingness import count_outside, outside_message
from neurocontrast.evaluation.rows import check_rows, check_same_encoder, encoder_digest, tidy_table
from neurocontrast.evaluation.transformers.sites import recentre_table
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.files import check_output_file, digest_of_file, write_json, write_table
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment, subject_digest

__all__ = ["predict"]


def predict(
    probe: str | os.PathLike[str],
    embeddings: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    calibrate: str | os.PathLike[str] | None = None,
    outside_percentile: float = 97.5,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Apply the probe of an evaluation to embeddings of the same encoder, and return the path of the predictions.

    A probe of recentred features gets these recentred: training sites by what was learned of them, others by their
    own scans in this table (transductive).

    Parameters
    ----------
    probe : path
        Evaluation directory, or its folder ``probe``.
    embeddings : path
        Table written by `embed`, with the run whose embeddings the probe was fitted on.
    out : path
        Table to write, ending in ``.tsv``: identifiers, site, ``y_score`` (probability of the positive class, or
        number; of several classes ``score_<class>``), ``y_pred``, ``trained_on`` (subjects that the probe was fitted
        on), ``mahalanobis``, ``mahalanobis_percentile`` and ``outside``. A ``.json`` beside it says where it came from.
    calibrate : path, optional
        Table with ``participant_id`` (and ``session``) and the target of some of these scans, ten or twenty of each new
        site: the bias of every site with at least five such subjects is taken out of its predictions (an intercept
        alone). ``y_score`` is then calibrated, ``y_score_zero_shot`` as before, and ``calibrated_on`` marks scans that
        are no test any more.
    outside_percentile : float, default=97.5
        Percentile of the training scans' own distances beyond which a scan is called outside.
    overwrite : bool
        Whether an `out` that exists is replaced.
    progress : Progress
        Receives warnings.
    """
    if not 50 <= outside_percentile < 100:
        raise ConfigError(f"outside_percentile: must be from 50 to below 100, got {outside_percentile}.")
    target = Path(out)
    check_output_file(target, ".tsv", overwrite=overwrite)
    check_output_file(target.with_suffix(".json"), ".json", overwrite=overwrite)
    fitted, read = load_probe(probe), read_embeddings(embeddings)
    blocks = blocks_of(read.info, read.features.shape[1])
    check_same_blocks(fitted.blocks, blocks, parameter=Path(embeddings).name)
    doubt = check_same_encoder(
        fitted.encoder,
        encoder_digest(read.info),
        n_expected=fitted.n_features,
        n_found=read.features.shape[1],
        parameter=Path(embeddings).name,
        what="the probe",
    )
    tidy = tidy_table(read.table)
    check_rows(tidy, read.features)
    recentred = _recentred(fitted, tidy)
    table = _predictions(fitted, tidy, read.features, outside_percentile)
    calibration = None if calibrate is None else _calibrated(fitted, tidy, table, Path(calibrate))
    outside = None
    if fitted.distribution is not None:
        percentiles = table["mahalanobis_percentile"]
        outside = count_outside(tidy, percentiles, reference="probe", threshold=outside_percentile)
        outside["message"] = outside_message(outside)
    for message in (doubt, *_doubts(fitted, table, recentred, outside, calibration)):
        if message is not None:
            progress.warning(message)
    about = _origin(fitted, Path(embeddings), read.info, table)
    about |= {"recentred": recentred, "outlyingness": outside, "calibration": calibration}
    write_json(target.with_suffix(".json"), about)
    write_table(target, table)
    return target


def _origin(fitted: FittedProbe, embeddings: Path, info: dict[str, Any], table: pd.DataFrame) -> dict[str, Any]:
    return {
        "format": 1,
        "target": fitted.target,
        "kind": fitted.kind,
        "classes": list(fitted.classes),
        "probe": {"name": fitted.name, "strength": fitted.strength, "threshold": fitted.threshold},
        "n_trained_on": {"scans": fitted.n_scans, "subjects": len(fitted.trained_on)},
        "n": {"scans": len(table), "of_trained_subjects": int(table["trained_on"].sum())},
        "encoder": fitted.encoder,
        "embeddings": {"file": embeddings.name, "digest": digest_of_file(embeddings)},
        "simulated": bool(info.get("simulated", False)),
        "environment": describe_environment(),
    }


def _calibrated(fitted: FittedProbe, tidy: pd.DataFrame, table: pd.DataFrame, path: Path) -> dict[str, Any]:
    """Take each site's bias out of the predictions in `table`; return what was taken out."""
    if fitted.kind == "multiclass":
        raise ConfigError("calibrate: is for numbers and for two classes; this probe tells several classes apart.")
    if tidy["site"].isna().all():
        raise DataError("calibrate: no scan of the embeddings has a site, and a bias is that of a site.")
    truths = _truths(fitted, tidy, path)
    labelled = ~np.isnan(truths) & tidy["site"].notna().to_numpy()
    scores, sites = table["y_score"].to_numpy(dtype=float), tidy["site"]
    shifts = fit_shifts(scores[labelled], truths[labelled], sites[labelled], tidy["subject_id"][labelled], fitted.kind)
    shifted = shift_scores(scores, sites, shifts, fitted.kind)
    if fitted.kind == "continuous" and fitted.limits is not None:
        shifted = np.clip(shifted, *fitted.limits)
    table.insert(list(table.columns).index("y_score") + 1, "y_score_zero_shot", scores)
    table["y_score"] = shifted
    labels = np.array(fitted.classes, dtype=object)
    table["y_pred"] = shifted if fitted.kind == "continuous" else labels[fitted.decide(shifted)]
    table["calibrated_on"] = labelled
    return {"file": path.name, "by_site": {site: asdict(shift) for site, shift in shifts.items()}}


def _truths(fitted: FittedProbe, tidy: pd.DataFrame, path: Path) -> npt.NDArray[np.float64]:
    """Return the truth of each scan that a table gives one of, as a number, and NaN for the others."""
    listing = read_text_table(path)
    cells, problems = listing.columns, Problems(path.name)
    codes = {name: float(code) for code, name in enumerate(fitted.classes)}
    for column in ("participant_id", fitted.target):
        if column not in cells:
            raise DataError(no_column(path.name, column, cells))
    truths, rows = np.full(len(tidy), np.nan), tidy.groupby("participant_id").indices
    for position, (name, cell) in enumerate(zip(cells["participant_id"], cells[fitted.target], strict=True)):
        where: dict[str, Any] = {"line": listing.lines[position], "name": name}
        of_scan = rows.get(name, np.array([], dtype=int))
        if "session" in cells:
            session = "" if is_missing(cells["session"][position]) else cells["session"][position]
            of_scan = of_scan[(tidy["session"].fillna("").iloc[of_scan] == session).to_numpy()]
        value = number_of(cell) if fitted.kind == "continuous" else codes.get(cell)
        if not len(of_scan):
            problems.add("no scan of the embeddings is of this participant", column="participant_id", **where)
        elif value is None:
            allowed = "a number" if fitted.kind == "continuous" else one_of(fitted.classes)
            problems.add(f"found {shown(cell)}; must be {allowed}", column=fitted.target, **where)
        elif subject_digest(str(tidy["subject_id"].iloc[of_scan[0]])) in fitted.trained_on:
            problems.add("the probe was fitted on this subject, who says nothing of a new site", **where)
        else:
            truths[of_scan] = value
    problems.raise_if_any()
    return truths


def _doubts(
    fitted: FittedProbe,
    table: pd.DataFrame,
    recentred: list[dict[str, Any]] | None,
    outside: dict[str, Any] | None,
    calibration: dict[str, Any] | None,
) -> Iterator[str | None]:
    """Yield warnings about scans whose predictions are no test of the probe, or not to be trusted."""
    n_known = int(table["trained_on"].sum())
    if n_known:
        yield (
            f"{n_known} of {len(table)} scans are of subjects that the probe was fitted on (trained_on). What it says "
            "of them is no test of it."
        )
    few = [each for each in recentred or [] if each["by"] == "own scans" and each["n_subjects"] < FEW_SUBJECTS]
    if few:
        listed = ", ".join(f"{each['site']} {each['n_subjects']}" for each in few[:8])
        yield (
            f"{len(few)} sites that the probe has not seen have fewer than {FEW_SUBJECTS} subjects here ({listed}): "
            "what is taken out as the site is mostly these people, and predictions are drawn to the training mean. "
            "Give more of their scans, which need no label."
        )
    if fitted.distribution is None:
        yield "The probe does not say where its training scans lie, so nothing tells which of these scans lie outside."
    yield None if outside is None else outside["message"]
    by_site = {} if calibration is None else calibration["by_site"]
    unshifted = [f"{site} ({shift['n_subjects']})" for site, shift in by_site.items() if shift["shift"] is None]
    if unshifted:
        yield (
            f"calibrate: these sites keep their predictions, because a shift takes at least {MIN_SHOTS} labelled "
            f"subjects, of both classes where there are two: {', '.join(unshifted)}."
        )


def _recentred(fitted: FittedProbe, tidy: pd.DataFrame) -> list[dict[str, Any]] | None:
    """Return the origin of each site's mean; None for a probe of features that are not recentred."""
    if fitted.recentring is None:
        return None
    missing = int(tidy["site"].isna().sum())
    if missing:
        raise DataError(
            f"embeddings: {missing} of {len(tidy)} scans have no site, and this probe needs features recentred by site "
            "(its evaluation had recentre=site). Fill in their site, or leave them out."
        )
    counts, known = tidy.groupby("site")["subject_id"].nunique(), set(fitted.recentring.sites_)
    return [{"site": site, "n_subjects": int(n), "by": "training" if site in known else "own scans"}
            for site, n in counts.items()]  # fmt: skip


def _predictions(
    fitted: FittedProbe, tidy: pd.DataFrame, features: npt.NDArray[np.floating], threshold: float
) -> pd.DataFrame:
    table = tidy[["participant_id", "session", "site"]].copy()
    if fitted.recentring is not None:
        features = recentre_table(fitted.recentring, features, tidy)
    scores = fitted.predict(features)
    if fitted.kind == "multiclass":
        for code, name in enumerate(fitted.classes):
            table[f"score_{name}"] = scores[:, code]
    else:
        table["y_score"] = scores
    labels = np.array(fitted.classes, dtype=object)
    table["y_pred"] = scores if fitted.kind == "continuous" else labels[fitted.decide(scores)]
    table["trained_on"] = [subject_digest(subject) in fitted.trained_on for subject in tidy["subject_id"]]
    if fitted.distribution is not None:
        table["mahalanobis"], table["mahalanobis_percentile"] = fitted.distribution.percentiles(features)
        table["outside"] = table["mahalanobis_percentile"] > threshold
    return table
