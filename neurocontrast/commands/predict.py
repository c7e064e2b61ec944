"""Predictions of people by weights, and a stored probe applied to other embeddings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.commands.predicting import (
    PeoplePredictions,
    Request,
    describe_calibration,
    tell_rows,
)
from neurocontrast.commands.written import Written
from neurocontrast.config import AnyConfig, as_config
from neurocontrast.data.listing import AnyTable, read_table
from neurocontrast.display import as_progress
from neurocontrast.documents.embeddings import AnyEmbeddings, Embeddings
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.fit.distribution import count_outside
from neurocontrast.evaluation.fit.stored_probe import MIN_SHOTS, fit_shifts, shift_scores
from neurocontrast.evaluation.probes.designs import (
    blocks_of,
    check_same_blocks,
)
from neurocontrast.evaluation.probes.members import check_same_members, members_of
from neurocontrast.evaluation.rows import Floats, check_rows, tidy_table
from neurocontrast.evaluation.settings import OUTSIDE_PERCENTILE
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import check_output_file, write_table_with_json
from neurocontrast.progress import Progress
from neurocontrast.provenance import CONTENT, Description, Recognised, describe_environment
from neurocontrast.reading import read_json
from neurocontrast.reporting.wording import count_text
from neurocontrast.runs.labels import Labels, people_of, read_labels, trained_on, truths_of
from neurocontrast.runs.weights_at import are_embeddings, probes_of
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.weights import folder_of

_IDENTIFIERS = ["participant_id", "session", "site"]
_SCANS = (".tsv", ".csv", ".nii", ".nii.gz", ".mgz")
"""Endings of files of scans, or of measures."""


class Predictions(Written):
    """The table of predictions, which `table` reads."""

    @property
    def table(self) -> pd.DataFrame:
        """The predictions, one row a scan."""
        return read_table(self.location, na_values=["", "n/a"])

    def summary(self) -> str:
        """Describe how many scans were predicted, lie outside, and failed."""
        about = read_json(self.location.with_suffix(".json"))
        n_failed = (about.get("scans") or {}).get("n_failed", 0)
        n_predicted = about["n"]["scans"] - n_failed
        title = f"{about['target']} predicted for {count_text(n_predicted, 'scan')}"
        if about.get("outlyingness"):
            n_outside = about["outlyingness"]["n_outside"]
            title += f", {n_outside:,} of them outside the training distribution"
        lines = [title, *describe_calibration(about)]
        if n_failed:
            lines.append(f"failed: {count_text(n_failed, 'scan')}")
        return "\n".join(lines)


@in_default_torch_state
def predict(
    probe: str | os.PathLike[str],
    embeddings: str | os.PathLike[str] | pd.DataFrame,
    *,
    out: str | os.PathLike[str] | None = None,
    run: str | os.PathLike[str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    config: AnyConfig | None = None,
    calibrate: AnyTable | None = None,
    features: bool = False,
    overwrite: bool = False,
    on_scan: Callable[[Description], None] | None = None,
    progress: Progress | bool | None = None,
) -> Predictions | PeoplePredictions:
    """Predict people by weights, or apply the probe of an evaluation to embeddings or scans.

    **By weights**, ``predict("measures", "freesurfer")``: measures or scans are read and embedded,
    and all probes of the weights applied, in one pass. The table has a row a person: identifiers,
    site and age where they are known; ``predicted_age``; ``predicted_sex`` and
    ``probability_sex_M``, named with the sex that the probability is of; ``outside`` and
    ``why_outside``, the reasons why a person lies outside of the people learned from: features or
    measures that are far out, another version of FreeSurfer, an age that nobody had, too much that
    is missing; ``trained_on``, ``warnings`` and ``error``. No site and no age is needed.

    **By an evaluation**, ``predict("evaluation", "embeddings.parquet")``.

    Scans are embedded first, as `neurocontrast.embed` does; a scan that cannot be read stops no
    other. For very many scans `embed` them, which continues after a kill, and predict from the
    table.

    Parameters
    ----------
    probe : str or path
        Name of weights (`neurocontrast.weights.names`), or of weights and one of their probes such
        as ``measures/age``, or the path of a folder like that; or an evaluation directory, or its
        folder ``probe``. A folder of a run that has the name of weights is refused.
    embeddings : path or DataFrame
        With weights of measures: tables of FreeSurfer, a folder of subjects, any table that
        `index` reads, or a DataFrame with identifiers and measures; with weights of scans what
        `run` takes. With an evaluation: table written by `embed`, or a DataFrame like that, with
        the run whose embeddings the probe was fitted on. With `run`: a scan (NIfTI, FreeSurfer), a
        folder of scans at any depth, or a table with one row per scan. With a `run` of regional
        measures: a table or a folder of these, or the table of people to whom those of
        ``data.measures`` belong.
    out : path, optional
        Table to write, ending in ``.tsv``; with weights it may be left out, and the table is that
        of the result. With an evaluation: identifiers, site, ``y_score`` (probability of the
        positive class, or number; of several classes ``score_<class>``), ``y_pred``, ``trained_on``
        (subjects that the probe was fitted on), ``mahalanobis``, ``mahalanobis_percentile`` and
        ``outside``; of scans also ``warnings`` and ``error``. A ``.json`` file next to it says
        where it came from.
    run : path, optional
        Run directory whose encoder embeds the scans.
    images_root : path, optional
        Folder that relative paths in the table of scans start from.
    config : Config, mapping or path of a YAML file, optional
        Sections `embedding` and `data`, for scans. Without ``data.cache_dir`` no copy of a scan is
        kept.
    calibrate : path or DataFrame, optional
        Table with ``participant_id`` (and ``session``) and the target of some of these scans, ten
        or twenty of each new site: the bias of every site with at least five such subjects is taken
        out of its predictions (an intercept alone). ``y_score`` is then calibrated,
        ``y_score_zero_shot`` as before, and ``calibrated_on`` marks scans that are no test any
        more. With weights ages and sexes of any people of the site, in columns of these names;
        where nobody has a site, all are of one.
    features : bool
        With weights, whether the table has the features too, as ``feature_0000`` and so on.
    overwrite : bool
        Whether an `out` that exists is replaced.
    on_scan : callable, optional
        Called with each row of the table as a JSON object.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.

    Returns
    -------
    Predictions or PeoplePredictions
        The table's path; a notebook shows what was predicted and moved, ``predictions.table`` reads
        it.
    """
    progress = as_progress(progress)
    probe = folder_of(probe)
    weights = _weights_at(probe, embeddings, run)
    if run is not None:
        run = folder_of(run)
    table = None
    if out is not None:
        table = Path(out)
    request = Request(embeddings, table, run, images_root, config, calibrate, features, overwrite)
    if weights is None:
        return _apply_probe(probe, request, on_scan=on_scan, progress=progress)
    # The probe of an evaluation is applied to embeddings without torch.
    from neurocontrast.commands.predict_people import predict_people

    return predict_people(*weights, request, on_scan=on_scan, progress=progress)


@dataclass(frozen=True, eq=False)
class _Applied:
    """Predictions of a probe, and the rows, labels and people that they are of."""

    tidy: pd.DataFrame
    """All rows."""
    read: pd.DataFrame
    """Rows with features; scans that cannot be read have none."""
    table: pd.DataFrame
    labels: Labels | None
    truths: Floats | None
    people: Recognised
    doubts: Sequence[str]
    origin: Description


def _apply_to_embeddings(fitted: FittedProbe, request: Request) -> _Applied:
    """Apply a probe to a table of embeddings."""
    tidy, features, origin, doubts = _read_features(fitted, request.people, request.config)
    labels = read_labels(fitted, tidy, request.calibrate)
    people = people_of(fitted, tidy)
    truths = truths_of(fitted, tidy, labels, people)
    table = _predictions(fitted, tidy, features, people)
    return _Applied(tidy, tidy, table, labels, truths, people, doubts, origin)


def _apply_to_scans(
    fitted: FittedProbe, run: Path, request: Request, progress: Progress
) -> _Applied:
    """Embed scans by a run, and apply a probe to the features of those that can be read."""
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
    """Refuse arguments that the probe of an evaluation does not read; return the table to write."""
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
) -> Description | None:
    """Count the scans outside of the probe's training scans; None for a probe that cannot say."""
    if fitted.distribution is None:
        return None
    outside, notices = count_outside(
        tidy, table["mahalanobis_percentile"], reference="probe", threshold=OUTSIDE_PERCENTILE
    )
    outside["message"] = None
    if notices:
        outside["message"] = notices[0].message
    return outside


def _apply_probe(
    probe: Path,
    request: Request,
    *,
    on_scan: Callable[[Description], None] | None,
    progress: Progress,
) -> Predictions:
    """Apply the probe of an evaluation to embeddings, or to scans that a run embeds first."""
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
    about = _origin(fitted, table) | applied.origin
    about |= {"outlyingness": outside, "calibration": calibration}
    write_table_with_json(target, table, about)
    tell_rows(table, on_scan)
    return Predictions(target)


def _weights_at(
    path: Path, embeddings: str | os.PathLike[str] | pd.DataFrame, run: object
) -> tuple[Path, list[Path]] | None:
    """Return the folder of weights and its probes to predict people by; None for an evaluation.

    One probe of weights is applied to embeddings, or to scans of a run that is named, as that of an
    evaluation is.
    """
    weights = probes_of(path)
    if weights is None:
        return None
    folder, probes = weights
    is_one = folder != path
    if is_one and (run is not None or are_embeddings(embeddings)):
        return None
    if run is not None:
        raise ConfigError(
            f"run: '{folder.name}' are weights, which have an encoder of their own. Leave it out, or "
            f"name one probe, for instance {probes[0]}."
        )
    return folder, probes


def _read_features(
    fitted: FittedProbe,
    people: AnyEmbeddings,
    config: AnyConfig | None,
) -> tuple[pd.DataFrame, npt.NDArray[np.floating], Description, list[str]]:
    """Return the rows and features of an embeddings table, what is recorded of it, and doubts about how it is read."""
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
    of_file = {"file": name, "digest": read.digest()}
    origin = {"embeddings": of_file, "simulated": read.info.simulated}
    return tidy, read.features, origin, list(filter(None, doubts))


def _is_of_scans(path: Path) -> bool:
    """Tell whether a path is a folder or file of scans or measures, not of embeddings."""
    return path.is_dir() or path.name.lower().endswith(_SCANS)


def _origin(fitted: FittedProbe, table: pd.DataFrame) -> Description:
    origin = {
        "format": 1,
        "target": fitted.target,
        "kind": fitted.kind,
        "classes": list(fitted.classes),
        "probe": {"name": fitted.name, "strength": fitted.strength, "threshold": fitted.threshold},
        "n_trained_on": {"scans": fitted.n_scans, "subjects": len(fitted.trained_on) or None},
        "n": {
            "scans": len(table),
            "of_trained_subjects": _n_known(table) if fitted.trained_on else None,
        },
        "encoder": fitted.encoder,
        "environment": describe_environment(),
    }
    if fitted.members:
        origin["n_members"] = len(fitted.members)
    return origin


def _n_known(table: pd.DataFrame) -> int:
    return int(table["trained_on"].eq(True).sum())


def _calibrated(
    fitted: FittedProbe, tidy: pd.DataFrame, table: pd.DataFrame, truths: Floats, file: str
) -> Description:
    """Take each site's bias out of the predictions in `table`; return what was taken out."""
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
    labels = np.array(fitted.classes, dtype=object)
    table["y_pred"] = shifted if fitted.kind == "continuous" else labels[fitted.decide(shifted)]
    table.loc[np.isnan(scores), "y_pred"] = None
    used = (
        tidy["site"].map({site: shift.shift is not None for site, shift in shifts.items()}).eq(True)
    )
    people = (
        tidy["site"].astype(str) + "\0" + tidy["subject_id"].astype(str)
    )  # also their other scans are no test
    table["calibrated_on"] = used & people.isin(people[labelled])
    return {"file": file, "by_site": {site: asdict(shift) for site, shift in shifts.items()}}


def _doubts(
    fitted: FittedProbe,
    table: pd.DataFrame,
    outside: Description | None,
    calibration: Description | None,
) -> Iterator[str]:
    """Yield warnings about scans whose predictions are no test of the probe, or not to be trusted."""
    if not fitted.trained_on:
        yield "The probe does not say whom it was fitted on (a bundle names nobody): trained_on is empty, not false."
    if fitted.distribution is None:
        yield "The probe has no distribution of its training scans, so scans outside of it cannot be found."
    if outside is not None and outside["message"] is not None:
        yield outside["message"]
    by_site = {} if calibration is None else calibration["by_site"]
    n_of = {site: shift["n_subjects"] for site, shift in by_site.items() if shift["shift"] is None}
    n_of |= (
        {}
        if calibration is None
        else {site: 0 for site in table["site"].dropna() if site not in by_site}
    )
    unshifted = [f"{site} ({n})" for site, n in n_of.items()]
    if unshifted:
        yield (
            f"calibrate: these sites keep their predictions, because a shift takes at least {MIN_SHOTS} labelled "
            f"subjects, of both classes where there are two: {', '.join(unshifted)}."
        )


def _doubts_of_people(fitted: FittedProbe, tidy: pd.DataFrame, people: Recognised) -> Iterator[str]:
    """Warn of people whom the probe was fitted on, and of contents that cannot be compared."""
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
    """Return the predictions of scans, with what is known of each."""
    table = tidy[_IDENTIFIERS].copy()
    scores = fitted.predict(features)
    if fitted.kind == "multiclass":
        for code, name in enumerate(fitted.classes):
            table[f"score_{name}"] = scores[:, code]
    else:
        table["y_score"] = scores
    labels = np.array(fitted.classes, dtype=object)
    table["y_pred"] = scores if fitted.kind == "continuous" else labels[fitted.decide(scores)]
    table["trained_on"] = trained_on(tidy, people) if fitted.trained_on else None
    if fitted.distribution is not None:
        table["mahalanobis"], table["mahalanobis_percentile"] = fitted.distribution.percentiles(
            features
        )
        table["outside"] = table["mahalanobis_percentile"] > OUTSIDE_PERCENTILE
    return table
