"""Features without what site or covariates explain of them: estimated in training folds, applied to test folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.covariates import choose_covariates
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.table import IDENTIFIERS, cell_texts, is_number
from neurocontrast.evaluation.transformers import ComBat, Residualiser
from neurocontrast.evaluation.transformers.combat import MIN_SITE_SCANS
from neurocontrast.evaluation.transformers.side_columns import SideColumnTransformer
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion

__all__ = ["AdjustedDesign", "check_adjustment", "choose_preserved"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class AdjustedDesign:
    """Matrices of an embedding, harmonised between sites and freed of covariates on request.

    Everything is estimated on the training rows alone, in inner folds too; test rows get
    what was learned of their site and of their covariates. No label is ever looked at.

    Attributes
    ----------
    features : array (n, p)
        Of all scans.
    table : DataFrame
        Their metadata.
    harmonise : {"none", "combat"}
        Whether ComBat comes first.
    preserve, residuals_of : tuple of str
        Columns whose effect ComBat keeps; columns whose linear effect is taken out afterwards.
    """

    features: npt.NDArray[np.floating]
    table: pd.DataFrame
    harmonise: str = "none"
    preserve: tuple[str, ...] = ()
    residuals_of: tuple[str, ...] = ()

    def transformers(self) -> list[SideColumnTransformer]:
        """Return the steps, not fitted yet."""
        steps: list[SideColumnTransformer] = []
        if self.harmonise == "combat":
            steps.append(ComBat("site", preserve=self.preserve, handle_unknown="ignore"))
        if self.residuals_of:
            steps.append(Residualiser(self.residuals_of))
        return steps

    def __call__(self, train: Rows, test: Rows) -> tuple[Floats, Floats]:
        """Return the matrices of training and test rows."""
        x_train, x_test = (self.features[rows].astype(np.float64) for rows in (train, test))
        train_side, test_side = self.table.iloc[train], self.table.iloc[test]
        for step in self.transformers():
            known = step.encode(train_side, learn=True)
            step.estimate(x_train, *known)
            x_train = step.adjust(x_train, *known)
            x_test = step.adjust(x_test, *step.encode(test_side, learn=False))
        return x_train, x_test


def choose_preserved(table: pd.DataFrame, settings: EvaluationSettings, *, target: str) -> tuple[str, ...]:
    """Return the covariates whose effect ComBat keeps: those that are there and vary, never the target."""
    if settings.harmonise == "none":
        return ()
    return choose_covariates(table, settings.harmonise_preserve, target=target, sites_held_out=True)[0]


def check_adjustment(
    table: pd.DataFrame, settings: EvaluationSettings, splits: Sequence[Split], *, target: str
) -> None:
    """Refuse what cannot be adjusted for inside folds.

    Raises
    ------
    ConfigError, DataError
        For an unseen or missing site, a column that is absent, and anything that would take the
        target itself out of the features.
    """
    if settings.test is not None and (settings.harmonise != "none" or settings.residualise):
        raise ConfigError(
            "test: what harmonise and residualise estimate belongs to the scans of the evaluation and is not applied "
            "to an external test set. Leave test out, or set harmonise=none and residualise=[]."
        )
    if settings.harmonise == "combat":
        _check_sites(table, splits, target)
        for name in settings.harmonise_preserve:
            _check_column(table, name, "harmonise_preserve")
    for name in settings.residualise:
        if name == target:
            raise ConfigError(f"residualise: '{name}' is the target; nothing of it would be left to predict.")
        _check_column(table, name, "residualise")
        if name == "site" and any(split.held_out_site is not None for split in splits):
            raise ConfigError(
                "residualise: the effect of a site that is held out cannot be estimated. Leave 'site' out of "
                "residualise, or use splits=stratified."
            )


def _check_column(table: pd.DataFrame, name: str, option: str) -> None:
    if name in IDENTIFIERS or name not in table:
        choices = [str(column) for column in table.columns if column not in IDENTIFIERS]
        raise ConfigError(
            f"{option}: '{name}' is no column that features could depend on.{suggestion(name, choices)} "
            f"Choose of {one_of(choices[:30])}."
        )
    n_values = len({text for text in cell_texts(table[name]) if text is not None})
    if not is_number(table[name]) and 2 * n_values > table["subject_id"].nunique():
        raise ConfigError(
            f"{option}: '{name}' has {n_values} different values in {table['subject_id'].nunique()} subjects, and an "
            "effect of each cannot be estimated. Leave it out."
        )


def _check_sites(table: pd.DataFrame, splits: Sequence[Split], target: str) -> None:
    if target == "site":
        raise ConfigError("harmonise: 'combat' takes out what target=site would be predicted from. Use harmonise=none.")
    missing = int(table["site"].isna().sum())
    if missing:
        raise DataError(
            f"harmonise: {missing} of {len(table)} scans have no site, and 'combat' needs one for each. Fill in their "
            "site, drop them with where, or use harmonise=none."
        )
    sites = table["site"].to_numpy(dtype=object)
    if len(set(sites)) < 2:
        raise DataError(f"harmonise: all scans are of the site '{sites[0]}'; there is nothing to harmonise.")
    short: dict[str, int] = {}
    for split in splits:
        for site in set(sites[split.test]):
            n = int((sites[split.train] == site).sum())
            if n < MIN_SITE_SCANS:
                short[site] = min(n, short.get(site, n))
    if short:
        held_out = any(split.held_out_site is not None for split in splits)
        listed = ", ".join(f"'{site}' {n}" for site, n in sorted(short.items())[:8])
        instead = "splits=stratified" if held_out else "where to drop these sites"
        raise ConfigError(
            f"harmonise: 'combat' learns a site from at least {MIN_SITE_SCANS} training scans of it, and an unseen "
            f"site cannot be harmonised. While tested, some have fewer in training: {listed}. Use {instead}, or "
            "harmonise=none."
        )
