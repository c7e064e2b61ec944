"""A stored probe applied to other embeddings."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.commands.written import Written
from neurocontrast.config import Config, as_config
from neurocontrast.data.cells import is_missing
from neurocontrast.data.columns import levels_of, no_column, number_in
from neurocontrast.data.listing import AnyTable, place_of, read_table
from neurocontrast.data.people import read_people
from neurocontrast.data.problems import Problems, shown
from neurocontrast.data.sexes import as_sex
from neurocontrast.data.unmarked import unmarked_missing
from neurocontrast.display import as_progress
from neurocontrast.embedding.table import embeddings_file, read_embeddings
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.designs import (
    blocks_of,
    check_same_blocks,
)
from neurocontrast.evaluation.distribution import count_outside
from neurocontrast.evaluation.members import check_same_members, members_of
from neurocontrast.evaluation.rows import Floats, check_rows, encoder_digest, tidy_table
from neurocontrast.evaluation.settings import OUTSIDE_PERCENTILE
from neurocontrast.evaluation.stored_probe import MIN_SHOTS, fit_shifts, shift_scores
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.files import check_output_file, digest_of_file, write_table_with_json
from neurocontrast.page.wording import count_text, number_text
from neurocontrast.progress import Progress
from neurocontrast.provenance import CONTENT, Recognised, describe_environment, subject_label
from neurocontrast.reading import read_json
from neurocontrast.torch_state import in_default_torch_state

_IDENTIFIERS = ["participant_id", "session", "site"]


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


def describe_calibration(about: dict[str, Any]) -> list[str]:
    """List by how much `calibrate` moved each site, and from how many people.

    `about` is the content of the JSON file beside the predictions.
    """
    lines = []
    for site, shift in (about.get("calibration") or {}).get("by_site", {}).items():
        people = f"{shift['n_subjects']} labelled people"
        if shift["shift"] is None:
            lines.append(f"not calibrated: site {site}, {people} are not enough")
            continue
        size = number_text(shift["shift"], signed=True)
        if about["kind"] != "continuous":
            size += " in log-odds"
        lines.append(f"calibrated: site {site} moved by {size}, learned from {people}")
    return lines


@in_default_torch_state
def predict(
    probe: str | os.PathLike[str],
    embeddings: str | os.PathLike[str] | pd.DataFrame,
    *,
    out: str | os.PathLike[str],
    run: str | os.PathLike[str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    calibrate: AnyTable | None = None,
    overwrite: bool = False,
    on_scan: Callable[[dict[str, Any]], None] | None = None,
    progress: Progress | bool | None = None,
) -> Predictions:
    """Apply the probe of an evaluation to embeddings of the same encoder, or to scans; return the predictions.

    Scans are embedded first, as `neurocontrast.embed` does; a scan that cannot be read stops no
    other. For very many scans `embed` them, which continues after a kill, and predict from the
    table.

    Parameters
    ----------
    probe : path
        Evaluation directory, or its folder ``probe``.
    embeddings : path or DataFrame
        Table written by `embed`, or a DataFrame like that, with the run whose embeddings the probe
        was fitted on. With `run`: a scan (NIfTI, FreeSurfer), a folder of scans at any depth, or a
        table with one row per scan. With a `run` of regional measures: a table or a folder of
        these, or the table of people to whom those of ``data.measures`` belong.
    out : path
        Table to write, ending in ``.tsv``: identifiers, site, ``y_score`` (probability of the
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
        more.
    overwrite : bool
        Whether an `out` that exists is replaced.
    on_scan : callable, optional
        Called with each row of the table as a JSON object.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.

    Returns
    -------
    Predictions
        The table's path; a notebook shows what was predicted and moved, ``predictions.table`` reads
        it.
    """
    progress = as_progress(progress)
    if run is None and images_root is not None:
        raise ConfigError("images_root: is for scans. Say which run embeds them: run=RUN.")
    target = Path(out)
    check_output_file(target, ".tsv", overwrite=overwrite)
    check_output_file(target.with_suffix(".json"), ".json", overwrite=overwrite)
    fitted = load_probe(probe)
    if run is None:
        with tempfile.TemporaryDirectory() as scratch:
            path = embeddings_file(embeddings, Path(scratch))
            tidy, features, origin, doubts = _read_features(fitted, path, config)
        read = tidy
        labels = _read_labels(fitted, tidy, calibrate)
        people = _people_of(fitted, read)
        truths = _truths(fitted, tidy, labels, people)
        table = _predictions(fitted, read, features, people)
    else:
        from neurocontrast.runs.incoming import open_scans

        scans = open_scans(
            Path(run), embeddings, fitted, images_root=images_root, config=config
        )
        tidy = scans.tidy
        doubts = list(scans.cohort.warnings)
        labels = _read_labels(fitted, tidy, calibrate)
        _ = _truths(fitted, tidy, labels, _people_of(fitted, tidy))  # before any scan is read
        embedded = scans.embed(progress)
        good = embedded.good
        features = embedded.features
        read = tidy.assign(**{CONTENT: embedded.contents})[good]
        people = _people_of(fitted, read)
        truths = _truths(fitted, tidy, labels, people)
        predicted = _predictions(fitted, read, features[good], people)
        table = predicted.reindex(tidy.index)  # empty cells for bad scans
        table = table.assign(**tidy[_IDENTIFIERS]).join(embedded.notes(tidy.index))
        origin = scans.origin(table)
    calibration = None
    if labels is not None and truths is not None:
        calibration = _calibrated(fitted, tidy, table, truths, labels.source)
    outside: dict[str, Any] | None = None
    if fitted.distribution is not None:
        outside, far = count_outside(
            tidy, table["mahalanobis_percentile"], reference="probe", threshold=OUTSIDE_PERCENTILE
        )
        outside["message"] = far[0].message if far else None
    doubts += _doubts(fitted, table, outside, calibration)
    doubts += _doubts_of_people(fitted, read, people)
    for message in doubts:
        progress.warning(message)
    about = _origin(fitted, table) | origin | {"outlyingness": outside, "calibration": calibration}
    write_table_with_json(target, table, about)
    if on_scan is not None:
        for record in json.loads(table.to_json(orient="records", double_precision=15)):
            on_scan(record)
    return Predictions(target)


def _read_features(
    fitted: FittedProbe,
    path: Path,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None,
) -> tuple[pd.DataFrame, npt.NDArray[np.floating], dict[str, Any], list[str]]:
    """Return the rows and features of an embeddings table, what is recorded of it, and doubts about how it is read."""
    if path.is_dir() or path.name.lower().endswith((".tsv", ".csv", ".nii", ".nii.gz", ".mgz")):
        raise ConfigError(
            f"embeddings: '{path}' are scans or measures. Say which run embeds them: run=RUN."
        )
    read = read_embeddings(path)
    if not len(read.table):
        raise DataError(
            f"{path.name}: the table has no rows, and there is nothing to predict without a scan."
        )
    n_features = read.features.shape[1]
    check_same_members(fitted.members, members_of(read.info, n_features), parameter=path.name)
    check_same_blocks(fitted.blocks, blocks_of(read.info, n_features), parameter=path.name)
    doubts = [
        fitted.check_encoder(encoder_digest(read.info), read.features.shape[1], place=path.name)
    ]
    if config is not None:
        as_config(config)  # refuses wrong keys
        doubts.append(
            "The configuration is for scans: embeddings, without a run, are taken as they are."
        )
    tidy = tidy_table(read.table)
    check_rows(tidy, read.features)
    of_file = {"file": path.name, "digest": digest_of_file(path)}
    origin = {"embeddings": of_file, "simulated": bool(read.info.get("simulated", False))}
    return tidy, read.features, origin, list(filter(None, doubts))


def _origin(fitted: FittedProbe, table: pd.DataFrame) -> dict[str, Any]:
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


def _people_of(fitted: FittedProbe, tidy: pd.DataFrame) -> Recognised:
    """Recognise the subjects of the training of a probe."""
    return fitted.people.find(tidy["subject_id"], tidy[CONTENT])


def _trained_on(tidy: pd.DataFrame, people: Recognised) -> npt.NDArray[np.bool_]:
    """Return which rows are of subjects that the probe was fitted on, under any identifier."""
    return tidy["subject_id"].isin(people.subjects).to_numpy()


def _n_known(table: pd.DataFrame) -> int:
    return int(table["trained_on"].eq(True).sum())


def _calibrated(
    fitted: FittedProbe, tidy: pd.DataFrame, table: pd.DataFrame, truths: Floats, file: str
) -> dict[str, Any]:
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


@dataclass(frozen=True)
class _Labels:
    """A table of true labels as text, and its name."""

    cells: pd.DataFrame
    source: str


def _read_labels(
    fitted: FittedProbe, tidy: pd.DataFrame, calibrate: AnyTable | None
) -> _Labels | None:
    """Read the table to calibrate with, if there is one; refuse where no bias can be learned."""
    if calibrate is None:
        return None
    if fitted.kind == "multiclass":
        raise ConfigError(
            "calibrate: is for numbers and for two classes; this probe predicts several classes."
        )
    if tidy["site"].isna().all():
        raise DataError(
            "calibrate: no scan has a site, and a bias is that of a site. Give a column 'site' to the "
            "table of the scans: predict from the table (participant_id, path, site) in place of a "
            "folder, or embed it again, for embeddings. Scans of one site have the same word there."
        )
    source = place_of(calibrate).name
    cells = _read_cells(calibrate, fitted.target)
    for column in ("participant_id", fitted.target):
        if column not in cells:
            raise DataError(no_column(source, column, cells))
    return _Labels(cells, source)


def _truths(
    fitted: FittedProbe, tidy: pd.DataFrame, labels: _Labels | None, people: Recognised
) -> Floats | None:
    """Return the truth of each labelled scan as a number, and NaN for the unlabelled."""
    if labels is None:
        return None
    problems = Problems(labels.source)
    truth_of = _truth_by_cell(fitted, labels.cells[fitted.target])
    truths = np.full(len(tidy), np.nan)
    rows = tidy.groupby(tidy["participant_id"].map(subject_label)).indices
    trained_on = _trained_on(tidy, people)
    line_of: dict[int, tuple[int, str]] = {}
    for line, row in zip(labels.cells.index, labels.cells.to_dict("records"), strict=True):
        name = row["participant_id"]
        cell = row[fitted.target]
        where: dict[str, Any] = {"line": line, "name": name}
        of_scan = rows.get(subject_label(name), np.array([], dtype=int))
        if "session" in row:
            session = "" if is_missing(row["session"]) else row["session"]
            of_scan = of_scan[(tidy["session"].fillna("").iloc[of_scan] == session).to_numpy()]
        value = truth_of[cell]
        if not len(of_scan):
            problems.add("no scan belongs to this participant", column="participant_id", **where)
        elif value is None:
            allowed = "a number" if fitted.kind == "continuous" else one_of(fitted.classes)
            rule = f"must be {allowed}{suggestion(cell, fitted.classes)}"
            problems.add(f"found {shown(cell)}; {rule}", column=fitted.target, **where)
        elif trained_on[of_scan].any():
            problems.add(
                "the probe was fitted on this subject, who cannot calibrate a new site", **where
            )
        elif earlier := next(
            (line_of[scan] for scan in of_scan if scan in line_of and truths[scan] != value), None
        ):
            problems.add(
                f"is {shown(earlier[1])} in line {earlier[0]}, and {shown(cell)} here",
                column=fitted.target,
                **where,
            )
        else:
            truths[of_scan] = value
            line_of |= dict.fromkeys(of_scan, (line, cell))
    problems.raise_if_any()
    return truths


def _read_cells(table: AnyTable, target: str) -> pd.DataFrame:
    """Read a table of true labels as text, decoded by its JSON file; refuse unexplained ones."""
    people = read_people(table, ("participant_id", "session"))
    problems = Problems(place_of(table).name)
    for row, refusal in people.refused.get(target, {}).items():
        label = people.cells[target].iloc[row]
        is_clear = number_in(target, label) is not None or isinstance(as_sex(label), str)
        if is_clear:
            line = int(people.cells.index[row])
            problems.add(f"found {shown(label)}; {refusal.rule}", column=target, line=line)
    problems.raise_if_any()
    return people.cells


def _truth_by_cell(fitted: FittedProbe, cells: pd.Series) -> dict[str, float | None]:
    """Return the truth of each cell as a number, and None where the cell holds no truth.

    A probe of an earlier version can have classes as its table wrote them.
    """
    written = cells.unique().tolist()
    if fitted.kind == "continuous":
        codes = unmarked_missing(fitted.target, cells)
        numbers: dict[str, float | None] = dict.fromkeys(codes)
        for cell in written:
            numbers.setdefault(cell, number_in(fitted.target, cell))
        return numbers
    classes = list(fitted.classes)
    levels = levels_of(fitted.target, classes)
    truths: dict[str, float | None] = {}
    for cell, level in zip(
        written, levels_of(fitted.target, written, learned=classes), strict=True
    ):
        truths[cell] = None
        if level in classes:
            truths[cell] = float(classes.index(level))
        elif level in levels:
            truths[cell] = float(levels.index(level))
    return truths


def _doubts(
    fitted: FittedProbe,
    table: pd.DataFrame,
    outside: dict[str, Any] | None,
    calibration: dict[str, Any] | None,
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
        n_scans = _trained_on(tidy, people).sum()
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
    table["trained_on"] = _trained_on(tidy, people) if fitted.trained_on else None
    if fitted.distribution is not None:
        table["mahalanobis"], table["mahalanobis_percentile"] = fitted.distribution.percentiles(
            features
        )
        table["outside"] = table["mahalanobis_percentile"] > OUTSIDE_PERCENTILE
    return table
