"""The result on people from elsewhere."""

# ruff: noqa: RUF012 - pydantic copies the defaults of its models

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import StrictFloat, StrictInt

from neurocontrast.data.columns import is_selected, levels_of, matching_rows
from neurocontrast.data.levels import (
    UnseenLevelError,
    check_spelling,
    inferred,
    level_column,
    numbers_of,
    unseen_levels,
)
from neurocontrast.documents.figures import Increment, Interval
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import Counts
from neurocontrast.documents.section import Part, ResultSection
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, gather
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.outside import Outlyingness, measure_rows
from neurocontrast.evaluation.measure.sites import site_table
from neurocontrast.evaluation.measure.subgroups import resample
from neurocontrast.evaluation.measure.tables import prediction_table
from neurocontrast.evaluation.metrics import (
    POOLED_ONLY,
    explain_undefined,
    explain_value,
    finite_or_none,
)
from neurocontrast.evaluation.plan.leakage import (
    ALLOWED_COPIES,
    Overlap,
    check_duplicates,
    check_overlap,
)
from neurocontrast.evaluation.plan.models import Model, ProbeModel
from neurocontrast.evaluation.plan.models.covariates import (
    CovariateDesign,
    with_covariates,
    with_estimator,
)
from neurocontrast.evaluation.plan.models.kernel import MeasureDesign
from neurocontrast.evaluation.plan.models.regional import choose_regional
from neurocontrast.evaluation.plan.plan import External, Plan
from neurocontrast.evaluation.plan.units import Units
from neurocontrast.evaluation.probes.designs import (
    blocks_of,
    check_same_blocks,
)
from neurocontrast.evaluation.probes.fitting import Prediction
from neurocontrast.evaluation.probes.members import check_same_members, members_of
from neurocontrast.evaluation.rows import (
    NO_SITE,
    check_rows,
    check_same_encoder,
    check_units_of_table,
    is_number,
    listed,
    row_names,
    tidy_table,
)
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.given import look_at_twins
from neurocontrast.evaluation.target import Target, encode_target
from neurocontrast.exceptions import DataError, LeakageError, one_of, suggestion
from neurocontrast.provenance import CONTENT, KnownPeople, unify_subjects

_OF_ONE_TABLE = ("participant_id", "subject_id", "session", "site", "path")
"""Columns whose values name people or places, and so are other ones in an external test set."""


class ExternalMetric(ResultSection):
    """A metric of the external test set."""

    value: StrictFloat | None = None
    interval: Interval = None
    reason: str | None = None


class ExternalRival(ResultSection):
    """A model without an encoder on the external test set, and the embedding minus it."""

    metrics: dict[str, ExternalMetric] = {}
    increment: dict[str, Increment] = {}


class ExternalTest(Part):
    """Who was tested, the metrics of embedding and baseline, and the scans outside."""

    key = "external"

    file: str | None = None
    digest: str | None = None
    n: Counts = Counts()
    sites: list[str] = []
    n_train: StrictInt | None = None
    strength: StrictFloat | None = None
    threshold: StrictFloat | None = None
    weight: StrictFloat | None = None
    """Weight of the network's block beside the components; None for features of one block."""
    metrics: dict[str, ExternalMetric] = {}
    baseline: dict[str, ExternalMetric] = {}
    baseline_covariates: list[str] = []
    increment: dict[str, Increment] = {}
    rivals: dict[str, ExternalRival] = {}
    """Models of the regional measures by name; images of external scans are not read."""
    n_overlap: StrictInt = 0
    overlap_by: list[str] | None = None
    outlyingness: Outlyingness | None = None


def plan_external(
    plan: Plan,
    table: pd.DataFrame,
    features: npt.NDArray[np.floating],
    *,
    info: EmbeddingsInfo | None = None,
    training_info: EmbeddingsInfo | None = None,
) -> External:
    """Check an external test set against the plan whose probe is to be applied to it.

    Parameters
    ----------
    plan : Plan
        As `plan_evaluation` returned it.
    table, features : DataFrame, array (n, p)
        Identifiers and metadata of the external scans, and their embeddings.
    info, training_info : EmbeddingsInfo, optional
        Descriptions of the external embeddings, and of those of the plan.
    """
    info = info or EmbeddingsInfo()
    training_info = training_info or EmbeddingsInfo()
    n_found = features.shape[1] if features.ndim == 2 else 0
    check_same_members(plan.members, members_of(info, n_found), parameter="test")
    check_same_blocks(plan.blocks, blocks_of(info, n_found), parameter="test")
    doubt = check_same_encoder(
        training_info.encoder_digest,
        info.encoder_digest,
        n_expected=plan.features.shape[1],
        n_found=n_found,
        parameter="test",
        what="the probe",
    )
    notices = [] if doubt is None else [Notice.of("encoder_unknown", doubt=doubt)]
    with _naming_the_test_table():
        tidy = tidy_table(table)
        check_rows(tidy, features)
        where = plan.settings.test_where or {}
        kept = np.flatnonzero(matching_rows(tidy, where, place="test_where"))
    target, present = encode_target(
        tidy.iloc[kept].reset_index(drop=True), plan.target, parameter="test"
    )
    rows = kept[present]
    chosen = tidy.iloc[rows].reset_index(drop=True)
    chosen["subject_id"] = unify_subjects(chosen["subject_id"], plan.table["subject_id"])
    names, dropped = _covariates(plan, chosen)
    fitted = _regional_rivals(plan)
    chosen = _read_alike(plan, chosen, (*names, *_measures_among(fitted, chosen)))
    shared, found = _check_shared(plan, chosen)
    joined = _join(plan, chosen, np.asarray(features[rows]), target)
    with _naming_the_test_table():
        check_units_of_table(joined.table)
        choose_regional(joined)
    overlap, leaks = _check_leaks(plan, joined, chosen, info)
    without = [Notice.of("external_baseline", name=each) for each in dropped]
    baseline, unfit = _fit_baseline(joined, names)
    of_both, absent = _rivals_of_both(fitted, joined, chosen)
    notices += [*found, *leaks, *without, *unfit, *absent, *_unlike_the_plan(plan, chosen)]
    excluded = {
        "not selected by test_where": len(tidy) - len(kept),
        f"{target.name} missing": int((~present).sum()),
    }
    excluded = {why: n for why, n in excluded.items() if n}
    tested = plan.models[0]
    assert isinstance(tested, ProbeModel)
    models = (
        replace(tested, design=joined.design()),
        baseline,
        *of_both,
    )
    return External(
        replace(joined, models=models),
        excluded,
        n_overlap=len(shared | overlap.subjects),
        overlap_by=overlap.compared,
        notices=notices,
    )


def _regional_rivals(plan: Plan) -> list[ProbeModel]:
    """Return the models of the plan that need columns of the table alone."""
    rivals_of_columns = []
    for model in plan.models[2:]:
        if isinstance(model, ProbeModel) and _columns_of(model):
            rivals_of_columns.append(model)
    return rivals_of_columns


def _columns_of(model: ProbeModel) -> tuple[str, ...]:
    """Return the columns of the table needed by a model; none where images or features are needed."""
    if isinstance(model.design, CovariateDesign | MeasureDesign):
        return tuple(model.design.names)
    return ()


def _measures_among(models: Sequence[ProbeModel], chosen: pd.DataFrame) -> tuple[str, ...]:
    """Return the measures of models that the external scans have."""
    names = dict.fromkeys(itertools.chain.from_iterable(map(_columns_of, models)))
    return tuple(filter(chosen.columns.__contains__, names))


def _rivals_of_both(
    models: Sequence[ProbeModel], joined: Plan, chosen: pd.DataFrame
) -> tuple[list[Model], list[Notice]]:
    """Return models of regional measures with the measures of the external scans.

    A model whose measures the test table lacks is left out with a notice.
    """
    of_both: list[Model] = []
    notices = []
    for model in models:
        empty = chosen.reindex(columns=list(_columns_of(model))).isna().all()
        lacking = empty.index[empty].tolist()
        if lacking:
            text = f"{model.name}, since the test table lacks {one_of(lacking[:5])}"
            notices.append(Notice.of("external_rival", text=text))
        elif isinstance(model.design, CovariateDesign | MeasureDesign):
            of_both.append(replace(model, design=replace(model.design, table=joined.table)))
    return of_both, notices


def _fit_baseline(joined: Plan, names: Sequence[str]) -> tuple[Model, list[Notice]]:
    """Return the baseline of covariates of both tables, and a warning if its estimator had to change."""
    model = with_covariates(joined.models[1], joined.table, names)
    if not isinstance(model, ProbeModel) or model.estimator is None:
        return model, []
    fitting = with_estimator(replace(model, notices=()), joined, names, joined.splits[0].train)
    notices = []
    for notice in fitting.notices:
        code = f"external_{notice.code}"
        notices.append(Notice(code, f"test: {notice.message}", notice.explanation))
    return fitting, notices


def _unlike_the_plan(plan: Plan, chosen: pd.DataFrame) -> list[Notice]:
    """Warn of external scans that the study's `where` would leave out, sites and names apart."""
    if plan.settings.test_where is not None:
        return []
    notices = []
    for column, choice in plan.settings.where.items():
        if column in _OF_ONE_TABLE or column not in chosen:
            continue
        n_unlike = int((~is_selected(chosen[column], choice, column=column)).sum())
        if n_unlike:
            counts = {"n": n_unlike, "n_all": len(chosen), "column": column}
            notices.append(Notice.of("external_not_selected", **counts))
    return notices


@contextmanager
def _naming_the_test_table(hint: str = "") -> Iterator[None]:
    """Name the table of the external test set in errors, and add a remedy."""
    try:
        yield
    except (DataError, LeakageError) as error:
        raise type(error)(f"test: {error}{hint}") from None


def _check_shared(plan: Plan, chosen: pd.DataFrame) -> tuple[frozenset[str], list[Notice]]:
    """Refuse people whom the probe was fitted on, or return them with a warning where allowed.

    They are found by their identifiers, and by the content of their scans under another name.
    """
    fitted = plan.table.iloc[plan.fitted_rows]
    trained = KnownPeople.of_rows(fitted["subject_id"], fitted[CONTENT])
    people = trained.find(chosen["subject_id"], chosen[CONTENT])
    n_all = chosen["subject_id"].nunique()
    if plan.fixed and len(people.renamed) <= ALLOWED_COPIES * n_all:
        people = replace(people, renamed=frozenset())  # counted as twins
    if not people.subjects:
        return people.subjects, []
    n_shared = len(people.subjects)
    shown = listed(sorted(people.subjects))
    text = f"test: {n_shared} of {n_all} subjects are in the training table too"
    text += f"{people.renamed_text} ({shown})"
    if not plan.settings.allow_overlap:
        raise LeakageError(
            f"{text}: the probe would be tested on people it was fitted on. Leave them out with evaluation.test_where, "
            "or of the study with where; to test on them all the same, and have the report say so, "
            "set allow_overlap=True."
        )
    return people.subjects, [Notice.of("external_shared_subjects", text=text)]


def _join(
    plan: Plan, chosen: pd.DataFrame, features: npt.NDArray[np.floating], target: Target
) -> Plan:
    n = len(plan.table)
    n_test = len(chosen)
    both = pd.concat([plan.table, chosen], ignore_index=True)
    joined = replace(plan.target, values=np.concatenate([plan.target.values, target.values]))
    split = Split(
        0, 0, plan.fitted_rows, np.arange(n, n + n_test), validation=plan.splits[0].validation
    )
    people = both["subject_id"].to_numpy(dtype=object)
    units = Units("subject", people)
    together = np.concatenate([plan.features, features])
    return replace(plan, table=both, features=together, target=joined, splits=[split], units=units)


def _check_leaks(
    plan: Plan, joined: Plan, chosen: pd.DataFrame, info: EmbeddingsInfo
) -> tuple[Overlap, list[Notice]]:
    """Refuse people of pretraining and images under two names, or return both where allowed."""
    allowed = plan.settings.allow_overlap
    copies = ALLOWED_COPIES if plan.fixed else 0.0
    known = set[str]()
    with _naming_the_test_table():
        overlap = check_overlap(chosen, info, allow_overlap=allowed, allowed_copies=copies)
        if plan.fixed:
            twins = look_at_twins(joined.features, joined.table[CONTENT], joined.splits[0])[1]
        else:
            twins = check_duplicates(joined.table, joined.features, allow_overlap=allowed)
            known = {notice.message for notice in plan.notices}
    notices = [
        Notice(f"external_{seen.code}", f"test: {seen.message}", seen.explanation)
        for seen in overlap.notices
    ]
    notices += [
        Notice.of("external_duplicates", text=twin.message)
        for twin in twins
        if twin.message not in known
    ]
    return overlap, notices


def _covariates(plan: Plan, chosen: pd.DataFrame) -> tuple[tuple[str, ...], list[str]]:
    """Return the covariates of the baseline that external scans have too, and why the others are left out."""
    used = []
    dropped = []
    learned = set(plan.sites[plan.fitted_rows]) - {NO_SITE}
    new = sorted(set(chosen["site"].dropna()) - learned)
    check_spelling([*learned, *new], place="test", unit="sites")
    for name in plan.covariates:
        if name not in chosen or chosen[name].isna().all():
            dropped.append(f"{name}, which the test table lacks")
        elif name == "site" and new:
            near = suggestion(new[0], learned)
            dropped.append(f"site, since {one_of(new[:5])} was never seen{near.removesuffix('?')}")
        else:
            used.append(name)
    return tuple(used), dropped


def _read_alike(plan: Plan, chosen: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return external scans with covariates as in training: numbers, or levels that were learned.

    What is neither is refused, with the names of its scans.
    """
    scans = row_names(chosen, np.arange(len(chosen)))
    trained = plan.table.iloc[plan.fitted_rows]
    columns: dict[str, pd.Series] = {}
    for name in names:
        if is_number(inferred(trained[name])):
            with _naming_the_test_table(_WRITE_ALIKE):
                columns[name] = numbers_of(name, chosen[name], names=scans)
            continue
        learned = set(levels_of(name, trained[name]))
        levels = level_column(name, chosen[name], learned=learned)
        unseen = unseen_levels(name, levels.tolist(), learned, names=scans)
        if unseen:
            raise UnseenLevelError(f"test: {unseen.text()}{_WRITE_ALIKE}")
        columns[name] = levels
    return chosen.assign(**columns)


_WRITE_ALIKE = (
    " Write them alike in both tables, leave these scans out with evaluation.test_where, or leave "
    "the column out of covariates."
)


def measure_external_test(inputs: Inputs) -> Measurement:
    """Apply the probe of all scans to the external test set, and measure how far its scans lie from those."""
    external = inputs.plan.external
    if external is None:
        return Measurement({"external": None})
    plan = external.plan
    split = plan.splits[0]
    models = dict[str, OutOfFold]()
    with inputs.progress.task("Testing on the external scans", len(plan.models), "model") as task:
        for model in plan.models:
            decided = model.predict(plan.target, split, replace(plan.context, seed=plan.final_seed))
            models[model.name] = gather(plan.target, [split], [decided])
            task.advance()
    outlying = measure_rows(plan, split.test, inputs.reference, "probe")
    notices = [
        Notice(f"external_{each.code}", f"test: {each.message}", each.explanation)
        for each in outlying.notices
    ]
    tables = {
        "external_predictions": prediction_table(plan.table, plan.target, models),
        "external_sites": site_table(plan, models),
        **{f"external_{name}": table for name, table in outlying.tables.items()},
    }
    return Measurement({"external": _summary(external, models) | outlying.summary}, tables, notices)


def _summary(external: External, models: dict[str, OutOfFold]) -> dict[str, Any]:
    plan = external.plan
    split = external.plan.splits[0]
    level = external.plan.settings.confidence_level
    rows = split.test
    names = [name for name in plan.target.metric_names if name not in POOLED_ONLY]
    drawn = resample(plan, models, rows, names, plan.subjects, "external-intervals")
    for key in list(models)[1:]:
        gain = "increment" if key == "baseline" else f"{key}_increment"
        drawn[gain] = {name: drawn["embedding"][name] - drawn[key][name] for name in names}
    why = explain_undefined(plan.target.kind, plan.target.values[rows], plan.target.classes)
    figures: dict[str, dict[str, Any]] = {model: {} for model in drawn}
    for model, name in itertools.product(drawn, names):
        value, *ends = drawn[model][name].figure(level=level).values()
        key = "difference" if model.endswith("increment") else "value"
        figure = {key: value, "interval": None if ends[0] is None else ends}
        reason = {"reason": explain_value(name, why)} if value is None and model in models else {}
        figures[model][name] = figure | reason
    tested = plan.table.iloc[rows]
    n_tested = {
        "scans": len(rows),
        "subjects": tested["subject_id"].nunique(),
        "sites": tested["site"].nunique(),
    }
    return {
        "file": external.origin.file,
        "digest": external.origin.digest,
        "n": n_tested | {"excluded": external.excluded},
        "sites": sorted(tested["site"].dropna().unique()),
        "n_train": len(split.train),
        "strength": finite_or_none(models["embedding"].fits[0].strength),
        "threshold": models["embedding"].fits[0].threshold,
        **_weight_of(models["embedding"].fits[0]),
        "metrics": figures["embedding"],
        "baseline": figures["baseline"],
        "baseline_covariates": list(plan.covariates),
        "increment": figures["increment"],
        "rivals": {
            key: {"metrics": figures[key], "increment": figures[f"{key}_increment"]}
            for key in list(models)[2:]
        },
        "n_overlap": external.n_overlap,
        "overlap_by": list(external.overlap_by),
    }


def _weight_of(fit: Prediction) -> dict[str, float]:
    """Return the weight of the network's block; nothing for features of one block."""
    if fit.weight is None:
        return {}
    return {"weight": fit.weight}
