"""Baseline of age, sex, site and other covariates, without the scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from neurocontrast.data.levels import UnseenLevelError, inferred, level_column, unseen_levels
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.models.model import ConstantModel, Model, ProbeModel
from neurocontrast.evaluation.plan.models.own import why_unfit
from neurocontrast.evaluation.plan.notices import look_at_covariates
from neurocontrast.evaluation.probes.adjustment import choose_covariates
from neurocontrast.evaluation.probes.encoding import covariate_encoder, new_levels_allowed
from neurocontrast.evaluation.rows import Floats, Rows, is_number, row_names

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan


@dataclass(frozen=True)
class CovariateDesign:
    """Function that gives covariates of a table as numbers, for a baseline that reads no scan.

    Categories become columns by `covariate_encoder`, fitted to the training rows. Without any
    covariate the matrix is one constant column, from which a probe learns the average.
    """

    table: pd.DataFrame
    names: tuple[str, ...]

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the covariates of training rows and of test rows as two matrices of numbers."""
        if not self.names:
            return np.zeros((len(train), 1)), np.zeros((len(test), 1))
        table = self.table[list(self.names)]
        encoder = covariate_encoder(handle_unknown="ignore")
        with new_levels_allowed():
            return encoder.fit_transform(table.iloc[train]), encoder.transform(table.iloc[test])


def make_baseline(plan: Plan) -> Model:
    """Return a model of the settings' covariates alone, with the embedding's estimator if possible.

    Where the user's estimator cannot fit the covariates, the model has the default probe and a
    warning. If a column names the test rows, as for sets of natural images, and no covariate can be
    used, classes are predicted by their shares in training.
    """
    settings = plan.settings
    target = plan.target
    leaving = any(split.held_out_site is not None for split in plan.splits)
    names, dropped = choose_covariates(
        plan.table, settings.covariates, target=target.name, sites_held_out=leaving
    )
    usual = settings.covariates in ((), type(settings).model_fields["covariates"].default)
    has_new_sites = plan.fixed and _has_new_sites(plan, names)
    if has_new_sites:
        names = names[: names.index("site")] + names[names.index("site") + 1 :]
        dropped["site"] = "has values in test that train lacks"
    is_silent = plan.fixed and usual and not has_new_sites
    notices = list[Notice]()
    if not is_silent:
        notices = look_at_covariates(names, dropped)
    if plan.fixed and not names and target.kind != "continuous":
        return ConstantModel("baseline", notices=tuple(notices))
    design = CovariateDesign(plan.table, names)
    model = ProbeModel("baseline", design, covariates=names, notices=tuple(notices))
    # At new sites the same model goes without the site.
    tried = tuple(name for name in names if name != "site")
    return with_estimator(model, plan, tried, plan.splits[0].train)


def with_estimator(model: ProbeModel, plan: Plan, names: Sequence[str], rows: Rows) -> ProbeModel:
    """Return the covariates' baseline with the user's estimator, if the estimator can fit them.

    The estimator is tried on the columns `names` in the training rows `rows`. If it fails, the
    baseline has the default probe and a warning. Without a covariate the baseline predicts the
    target's average over the training rows; this is left to the default probe, without a warning.
    """
    columns = CovariateDesign(plan.table, tuple(names))
    n_covariates = len(model.covariates)
    if plan.estimator is None or not n_covariates:
        return replace(model, estimator=None)
    why = None
    if names:
        why = why_unfit(plan, columns, rows)
    if why is None:
        return replace(model, estimator=plan.estimator)
    notice = Notice.of("baseline_default", n=n_covariates, error=why)
    return replace(model, estimator=None, notices=(*model.notices, notice))


def _has_new_sites(plan: Plan, names: Sequence[str]) -> bool:
    """Tell whether a test row of the plan is of a site without training rows.

    A new category in any other of the columns `names` is refused.
    """
    split = plan.splits[0]
    scans = row_names(plan.table, split.test)
    for name in names:
        if is_number(inferred(plan.table[name])):
            continue
        levels = level_column(name, plan.table[name])
        tested = levels.iloc[split.test].tolist()
        unseen = unseen_levels(name, tested, set(levels.iloc[split.train]), names=scans)
        if unseen and name == "site":
            return True
        if unseen:
            raise UnseenLevelError(
                f"split_column: {unseen.text()} Put some of its rows into train, leave them out "
                "with where, or leave the column out of covariates."
            )
    return False


def with_covariates(model: Model, table: pd.DataFrame, names: Sequence[str]) -> Model:
    """Return a copy of the baseline `model` that reads the columns `names` of `table`; not fitted.

    The table may be another than before, such as that of training and external scans together.
    """
    covariates = tuple(names)
    if not isinstance(model, ProbeModel):
        return replace(model, covariates=covariates)
    changed = replace(model, design=CovariateDesign(table, covariates), covariates=covariates)
    if names:
        return changed
    return replace(changed, estimator=None)
