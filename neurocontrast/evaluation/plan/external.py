"""Plan the external test: the probe fitted to all scans is applied once to other people."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import is_selected, levels_of, matching_rows
from neurocontrast.data.levels import (
    UnseenLevelError,
    check_spelling,
    inferred,
    level_column,
    numbers_of,
    unseen_levels,
)
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.notice import Notice
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
from neurocontrast.evaluation.probes.designs import blocks_of, check_same_blocks
from neurocontrast.evaluation.probes.members import check_same_members, members_of
from neurocontrast.evaluation.rows import (
    NO_SITE,
    check_rows,
    check_same_encoder,
    check_units_of_table,
    check_unmarked,
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
"""Columns that name people or places, whose values in one table say nothing about another."""
_WRITE_ALIKE = (
    " Write them alike in both tables, leave these scans out with evaluation.test_where, or leave "
    "the column out of covariates."
)


@dataclass(frozen=True)
class _ExternalScans:
    """Scans of the external test table that are tested: identifiers, features and target.

    `excluded` counts the scans of the table that are left out, by reason.
    """

    table: pd.DataFrame
    features: npt.NDArray[np.floating]
    target: Target
    excluded: dict[str, int]


def plan_external(
    plan: Plan,
    table: pd.DataFrame,
    features: npt.NDArray[np.floating],
    *,
    info: EmbeddingsInfo | None = None,
    training_info: EmbeddingsInfo | None = None,
) -> External:
    """Check external scans against a plan, and return the plan of a test on the external scans.

    The returned `External` holds a plan of training and external scans together, in which models
    are fitted to the training scans of `plan` and predict the external ones, and warnings. Refused
    with an error are features of other encoders than the plan's; values of covariates that cannot
    be read as in training; and, unless ``allow_overlap`` is set, people whom the probe was fitted
    on or who were in pretraining, and one image under the names of two subjects. Where a column
    names the test rows, copies of training images are allowed up to a share of the subjects,
    `ALLOWED_COPIES`.

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
    notices = _check_same_features(plan, features, info, training_info or EmbeddingsInfo())
    scans = _select_scans(plan, table, features)
    covariates, without_covariates = _choose_covariates(plan, scans.table)
    of_columns = _models_of_columns(plan)
    columns = (*covariates, *_shared_columns(of_columns, scans.table))
    scans = replace(scans, table=_read_alike(plan, scans.table, columns))
    shared, of_shared = _check_shared(plan, scans.table)
    joined = _join(plan, scans)
    with _naming_the_test_table():
        check_units_of_table(joined.table)
        choose_regional(joined)
    overlap, of_leaks = _check_leaks(plan, joined, scans.table, info)
    baseline, of_baseline = _choose_baseline(joined, covariates)
    further, of_further = _with_external_columns(of_columns, joined, scans.table)
    notices += of_shared
    notices += of_leaks
    notices += without_covariates
    notices += of_baseline
    notices += of_further
    notices += _unlike_the_plan(plan, scans.table)
    embedding = plan.models[0]
    assert isinstance(embedding, ProbeModel)
    embedding = replace(embedding, design=joined.design())
    return External(
        replace(joined, models=(embedding, baseline, *further)),
        scans.excluded,
        n_overlap=len(shared | overlap.subjects),
        overlap_by=overlap.compared,
        notices=notices,
    )


def _check_same_features(
    plan: Plan,
    features: npt.NDArray[np.floating],
    info: EmbeddingsInfo,
    training_info: EmbeddingsInfo,
) -> list[Notice]:
    """Refuse external features of other encoders than the plan's, or divided into other blocks.

    Columns are divided by joined encoder, or into a network's features and principal components.
    Return one warning if neither the external table nor the plan's embeddings name their encoder,
    else an empty list.
    """
    n_found = 0
    if features.ndim == 2:
        n_found = features.shape[1]
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
    if doubt is None:
        return []
    return [Notice.of("encoder_unknown", doubt=doubt)]


def _select_scans(
    plan: Plan, table: pd.DataFrame, features: npt.NDArray[np.floating]
) -> _ExternalScans:
    """Return the rows of the external table that `test_where` selects and that have a target."""
    with _naming_the_test_table():
        tidy = tidy_table(table)
        check_rows(tidy, features)
        where = plan.settings.test_where or {}
        kept = np.flatnonzero(matching_rows(tidy, where, place="test_where"))
    kept_table = tidy.iloc[kept].reset_index(drop=True)
    target, present = encode_target(kept_table, plan.target, parameter="test")
    rows = kept[present]
    tested = tidy.iloc[rows].reset_index(drop=True)
    tested["subject_id"] = unify_subjects(tested["subject_id"], plan.table["subject_id"])
    excluded = {}
    if len(kept) < len(tidy):
        excluded["not selected by test_where"] = len(tidy) - len(kept)
    if not present.all():
        excluded[f"{target.name} missing"] = int((~present).sum())
    return _ExternalScans(tested, np.asarray(features[rows]), target, excluded)


def _models_of_columns(plan: Plan) -> list[ProbeModel]:
    """Return the plan's models that read columns of its table, such as that of regional measures.

    The first two models of the plan, embedding and covariates, are not among them.
    """
    models = []
    for model in plan.models[2:]:
        if isinstance(model, ProbeModel) and _columns_of(model):
            models.append(model)
    return models


def _columns_of(model: ProbeModel) -> tuple[str, ...]:
    """Return the names of the table's columns that `model` reads, such as regional measures.

    The tuple is empty for a model of features, images or arrays.
    """
    if isinstance(model.design, CovariateDesign | MeasureDesign):
        return tuple(model.design.names)
    return ()


def _shared_columns(models: Sequence[ProbeModel], tested: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that any of `models` reads and that the external table `tested` has."""
    names = dict.fromkeys(itertools.chain.from_iterable(map(_columns_of, models)))
    return tuple(filter(tested.columns.__contains__, names))


def _with_external_columns(
    models: Sequence[ProbeModel], joined: Plan, tested: pd.DataFrame
) -> tuple[list[Model], list[Notice]]:
    """Return models of columns, changed to read training and external scans, and warnings.

    The changed models read the table of `joined`, the plan of training and external scans together.
    A model of `models` is left out, with a warning, if one of its columns is absent, or empty, in
    the external table `tested`.
    """
    tested_models: list[Model] = []
    notices = []
    for model in models:
        empty = tested.reindex(columns=list(_columns_of(model))).isna().all()
        lacking = empty.index[empty].tolist()
        if lacking:
            reason = f"{model.name}, since the test table lacks {one_of(lacking[:5])}"
            notices.append(Notice.of("external_baseline_left_out", text=reason))
        elif isinstance(model.design, CovariateDesign | MeasureDesign):
            design = replace(model.design, table=joined.table)
            tested_models.append(replace(model, design=design))
    return tested_models, notices


def warn_of_untested(plan: Plan) -> Plan:
    """Return the plan with a warning of models that are not tested on its external scans.

    Models of images and of arrays are not tested, since only columns of the external table are
    read. For a model whose columns the table lacks, `plan_external` has given a warning already.
    """
    if plan.external is None:
        return plan
    tested_or_named = {model.name for model in plan.external.plan.models}
    tested_or_named |= {model.name for model in _models_of_columns(plan)}
    names = []
    for model in plan.models:
        if model.name in tested_or_named:
            continue
        name = model.name
        if model.baseline is not None:
            name = model.baseline.name
        names.append(name)
    if not names:
        return plan
    notice = Notice.of("external_untested", models=", ".join(names))
    notices = [*plan.external.notices, notice]
    return plan.with_external(replace(plan.external, notices=notices))


def _choose_baseline(joined: Plan, covariates: Sequence[str]) -> tuple[Model, list[Notice]]:
    """Return the baseline of covariates for training and external scans together, and warnings.

    `joined` is the plan of training and external scans; the tables of both have the `covariates`. A
    warning says that the user's estimator cannot fit the covariates, so that the baseline has the
    default probe.
    """
    model = with_covariates(joined.models[1], joined.table, covariates)
    if not isinstance(model, ProbeModel) or model.estimator is None:
        return model, []
    model = with_estimator(replace(model, notices=()), joined, covariates, joined.splits[0].train)
    return model, [notice.of_external_test() for notice in model.notices]


def _unlike_the_plan(plan: Plan, tested: pd.DataFrame) -> list[Notice]:
    """Return warnings of external scans that the plan's setting `where` would leave out.

    There is one warning for each column of `where`. If the setting `test_where` selects external
    scans, the list is empty. Columns of names and sites are not compared.
    """
    if plan.settings.test_where is not None:
        return []
    notices = []
    for column, choice in plan.settings.where.items():
        if column in _OF_ONE_TABLE or column not in tested:
            continue
        n_unlike = int((~is_selected(tested[column], choice, column=column)).sum())
        if n_unlike:
            counts = {"n": n_unlike, "n_all": len(tested), "column": column}
            notices.append(Notice.of("external_not_selected", **counts))
    return notices


@contextmanager
def _naming_the_test_table(hint: str = "") -> Iterator[None]:
    """Put ``test:`` before the message of an error raised in the context, and `hint` behind."""
    try:
        yield
    except (DataError, LeakageError) as error:
        raise type(error)(f"test: {error}{hint}") from None


def _check_shared(plan: Plan, tested: pd.DataFrame) -> tuple[frozenset[str], list[Notice]]:
    """Refuse external people whom the probe was fitted on; return them with ``allow_overlap``.

    The second returned value is a list of one warning; both are empty if there are no such people.
    People are found by their identifiers, and by the content of their scans under another name.
    """
    fitted = plan.table.iloc[plan.fitted_rows]
    trained = KnownPeople.of_rows(fitted["subject_id"], fitted[CONTENT])
    people = trained.find(tested["subject_id"], tested[CONTENT])
    n_all = tested["subject_id"].nunique()
    if plan.fixed and len(people.renamed) <= ALLOWED_COPIES * n_all:
        people = replace(people, renamed=frozenset())  # counted as twins
    if not people.subjects:
        return people.subjects, []
    n_shared = len(people.subjects)
    shown = listed(sorted(people.subjects))
    sentence = f"test: {n_shared} of {n_all} subjects are in the training table too"
    sentence += f"{people.renamed_text} ({shown})"
    if not plan.settings.allow_overlap:
        raise LeakageError(
            f"{sentence}: the probe would be tested on people it was fitted on. Leave them out "
            "with evaluation.test_where, or of the study with where; to test on them all the same, "
            "and have the report say so, set allow_overlap=True."
        )
    return people.subjects, [Notice.of("external_shared_subjects", text=sentence)]


def _join(plan: Plan, scans: _ExternalScans) -> Plan:
    """Return a plan of training and external scans, whose one split tests the external scans."""
    both = pd.concat([plan.table, scans.table], ignore_index=True)
    values = np.concatenate([plan.target.values, scans.target.values])
    tested = np.arange(len(plan.table), len(both))
    validation = plan.splits[0].validation
    return replace(
        plan,
        table=both,
        features=np.concatenate([plan.features, scans.features]),
        target=replace(plan.target, values=values),
        splits=[Split(0, 0, plan.fitted_rows, tested, validation=validation)],
        units=Units("subject", both["subject_id"].to_numpy(dtype=object)),
    )


def _check_leaks(
    plan: Plan, joined: Plan, tested: pd.DataFrame, info: EmbeddingsInfo
) -> tuple[Overlap, list[Notice]]:
    """Refuse external people who were in pretraining, and one image under two subjects' names.

    The two subjects are among external and training scans together. With ``allow_overlap`` both are
    warned about instead. Return an `Overlap`, with the people who were in pretraining, and the
    warnings. `tested` is the table of external scans, and `info` describes their embeddings.
    """
    allowed = plan.settings.allow_overlap
    copies = 0.0
    if plan.fixed:
        copies = ALLOWED_COPIES
    announced = set[str]()
    with _naming_the_test_table():
        overlap = check_overlap(tested, info, allow_overlap=allowed, allowed_copies=copies)
        if plan.fixed:
            twins = look_at_twins(joined.features, joined.table[CONTENT], joined.splits[0])[1]
        else:
            twins = check_duplicates(joined.table, joined.features, allow_overlap=allowed)
            announced = {notice.message for notice in plan.notices}
    notices = [notice.of_external_test() for notice in overlap.notices]
    for twin in twins:
        if twin.message not in announced:
            notices.append(Notice.of("external_duplicates", text=twin.message))
    return overlap, notices


def _choose_covariates(plan: Plan, tested: pd.DataFrame) -> tuple[tuple[str, ...], list[Notice]]:
    """Return baseline covariates that the external table `tested` has, and warnings of all others.

    The site is left out if an external scan is of a site without training scans.
    """
    used = []
    notices = []
    learned = set(plan.sites[plan.fitted_rows]) - {NO_SITE}
    new = sorted(set(tested["site"].dropna()) - learned)
    check_spelling([*learned, *new], place="test", unit="sites")
    for name in plan.covariates:
        if name not in tested or tested[name].isna().all():
            reason = f"{name}, which the test table lacks"
            notices.append(Notice.of("external_baseline", name=reason))
        elif name == "site" and new:
            near = suggestion(new[0], learned).removesuffix("?")
            reason = f"site, since {one_of(new[:5])} was never seen{near}"
            notices.append(Notice.of("external_baseline", name=reason))
        else:
            used.append(name)
    return tuple(used), notices


def _read_alike(plan: Plan, tested: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return external scans with the columns `names` read as in training: as numbers or categories.

    A category that training lacks, and text in a column of numbers, are refused with the scans'
    names.
    """
    check_unmarked(tested, names, place="test")
    scans = row_names(tested, np.arange(len(tested)))
    trained = plan.table.iloc[plan.fitted_rows]
    columns: dict[str, pd.Series] = {}
    for name in names:
        if is_number(inferred(trained[name])):
            with _naming_the_test_table(_WRITE_ALIKE):
                columns[name] = numbers_of(name, tested[name], names=scans)
            continue
        learned = set(levels_of(name, trained[name]))
        levels = level_column(name, tested[name], learned=learned)
        unseen = unseen_levels(name, levels.tolist(), learned, names=scans)
        if unseen:
            raise UnseenLevelError(f"test: {unseen.text()}{_WRITE_ALIKE}")
        columns[name] = levels
    return tested.assign(**columns)
