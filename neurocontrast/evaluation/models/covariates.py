"""The baseline: what age, sex, site and other covariates say without the scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from neurocontrast.data.levels import UnseenLevelError, inferred, level_column, unseen_levels
from neurocontrast.evaluation.adjustment import choose_covariates
from neurocontrast.evaluation.encoding import covariate_encoder, new_levels_allowed
from neurocontrast.evaluation.estimators import EstimatorError
from neurocontrast.evaluation.models.model import ConstantModel, Model, ProbeModel, fit_probe
from neurocontrast.evaluation.notices import look_at_covariates
from neurocontrast.evaluation.record import Notice
from neurocontrast.evaluation.rows import Floats, Rows, is_number, row_names

if TYPE_CHECKING:
    from neurocontrast.evaluation.study import Study


@dataclass(frozen=True)
class CovariateDesign:
    """Covariates as numbers; without any, one constant column, from which a probe learns the average."""

    table: pd.DataFrame
    names: tuple[str, ...]

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        if not self.names:
            return np.zeros((len(train), 1)), np.zeros((len(test), 1))
        table = self.table[list(self.names)]
        encoder = covariate_encoder(handle_unknown="ignore")
        with new_levels_allowed():
            return encoder.fit_transform(table.iloc[train]), encoder.transform(table.iloc[test])


def make_baseline(study: Study) -> Model:
    """Return the covariates of the settings that can be used, with the estimator of the embedding where it fits them.

    Images that no covariate is known of have the shares of the classes as their baseline.
    """
    settings, target = study.settings, study.target
    leaving = any(split.held_out_site is not None for split in study.splits)
    names, dropped = choose_covariates(
        study.table, settings.covariates, target=target.name, sites_held_out=leaving
    )
    usual = settings.covariates in ((), type(settings).model_fields["covariates"].default)
    has_new_sites = study.fixed and _has_new_sites(study, names)
    if has_new_sites:
        names = names[: names.index("site")] + names[names.index("site") + 1 :]
        dropped["site"] = "has values in test that train lacks"
    is_silent = study.fixed and usual and not has_new_sites
    found = [] if is_silent else look_at_covariates(names, dropped)
    about = {"baseline_covariates": list(names)}
    if study.fixed and not names and target.kind != "continuous":
        return ConstantModel("baseline", about=about, notices=tuple(found))
    why_not = _try(study, names)
    estimator = None if why_not else study.estimator
    design = CovariateDesign(study.table, names)
    return ProbeModel("baseline", design, estimator, about=about, notices=(*found, *why_not))


def _has_new_sites(study: Study, names: Sequence[str]) -> bool:
    """Return whether test has a site that train lacks; refuse new levels of other columns."""
    split = study.splits[0]
    scans = row_names(study.table, split.test)
    for name in names:
        if is_number(inferred(study.table[name])):
            continue
        levels = level_column(name, study.table[name])
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
    """Return a baseline of other covariates, or of another table."""
    about = {"baseline_covariates": list(names)}
    if not isinstance(model, ProbeModel):
        return replace(model, about=about)
    return replace(model, design=CovariateDesign(table, tuple(names)), about=about)


def _try(study: Study, names: Sequence[str]) -> list[Notice]:
    """Fit the user's estimator to one fold without the site, as at new sites; return a warning where that fails."""
    if study.estimator is None:
        return []
    rows, settings = study.splits[0].train, study.settings
    names = tuple(name for name in names if name != "site")
    try:
        fit_probe(CovariateDesign(study.table, names), study.target, rows, rows[:1], subjects=study.subjects,
                  settings=settings, seed=settings.seed, estimator=study.estimator, pairs=[])  # fmt: skip
    except EstimatorError as error:
        return [Notice.of("baseline_default", n=len(names), error=error)]
    return []
