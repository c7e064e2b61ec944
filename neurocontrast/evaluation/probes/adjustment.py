"""Choose covariates, and transformers that take covariates and sites out of features."""

from collections.abc import Sequence

import pandas as pd

from neurocontrast.data.columns import levels_of
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.probes.transformers import (
    MIN_SITE_SCANS,
    ComBat,
    Residualiser,
    SideColumnTransformer,
)
from neurocontrast.evaluation.rows import (
    IDENTIFIERS,
    check_numbers,
    check_unmarked,
    is_number,
    site_names,
)
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import (
    MIN_INNER_SITES,
    MIN_LEFT_OUT_SUBJECTS,
    site_inner_folds,
)
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion

OPTIONAL = ("tiv",)
"""Default covariates whose absence from a table is not warned about."""


def adjustments(
    table: pd.DataFrame, settings: EvaluationSettings, *, target: str, predicted: str = ""
) -> tuple[SideColumnTransformer, ...]:
    """Return the transformers of features that the settings ask for: ComBat, then `Residualiser`.

    ComBat takes out sites, `Residualiser` the linear effect of covariates. The target is never
    among the covariates whose effect ComBat keeps, nor is a column that is `predicted` in place of
    the target.
    """
    steps: list[SideColumnTransformer] = []
    if settings.harmonise == "combat":
        kept = tuple(
            name for name in kept_columns(table, settings, target=target) if name != predicted
        )
        steps.append(ComBat("site", preserve=kept, handle_unknown="ignore"))
    if settings.residualise:
        steps.append(Residualiser(settings.residualise, handle_unknown="ignore"))
    return tuple(steps)


def kept_columns(
    table: pd.DataFrame, settings: EvaluationSettings, *, target: str
) -> tuple[str, ...]:
    """Return the names of the covariates whose effect on the features ComBat keeps.

    They are the columns of the setting `harmonise_preserve` that `choose_covariates` finds usable,
    never the target or the site. The tuple is empty with ``harmonise=none``.
    """
    if settings.harmonise == "none":
        return ()
    return choose_covariates(
        table, settings.harmonise_preserve, target=target, sites_held_out=True
    )[0]


def choose_covariates(
    table: pd.DataFrame, names: Sequence[str], *, target: str, sites_held_out: bool
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the covariates in `names` that can be used, and the reason for each that cannot.

    Absent `OPTIONAL` columns are left out without a reason.
    """
    used = []
    dropped = {}
    for name in dict.fromkeys(names):
        if name == target:
            dropped[name] = "is the target"
        elif name == "site" and sites_held_out:
            dropped[name] = "is held out"
        elif name not in table:
            if name not in OPTIONAL:
                near = suggestion(name, table.columns).strip()
                dropped[name] = "is not in the table" + (f" ({near})" if near else "")
        elif (
            len(values := {level for level in levels_of(name, table[name]) if level is not None})
            < 2
        ):
            dropped[name] = "has fewer than two values"
        elif name != "site" and not is_number(table[name]) and _tells_people(table, name):
            dropped[name] = (
                f"is text of {len(values)} different values, most of them of one subject alone"
            )
        else:
            used.append(name)
    check_unmarked(table, used, place="covariates")
    check_numbers(table, used, place="covariates")
    return tuple(used), dropped


def _tells_people(table: pd.DataFrame, name: str) -> bool:
    """Tell whether most subjects have a value in column `name` that no other subject has."""
    pairs = table[["subject_id", name]].dropna().drop_duplicates()
    alone = pairs[~pairs[name].duplicated(keep=False)]
    return 2 * alone["subject_id"].nunique() > pairs["subject_id"].nunique()


def check_adjustment(
    table: pd.DataFrame, settings: EvaluationSettings, splits: Sequence[Split], *, target: str
) -> None:
    """Refuse adjustments for which a table lacks sites or columns, or that take out the target.

    Adjustments are the settings `harmonise` and `residualise`. They are refused with an external
    test set too, and if they need a site that is held out.
    """
    if settings.test is not None and (settings.harmonise != "none" or settings.residualise):
        raise ConfigError(
            "test: what harmonise and residualise estimate belongs to the scans of the evaluation "
            "and is not applied "
            "to an external test set. Leave test out, or set harmonise=none and residualise=[]."
        )
    if settings.harmonise == "combat":
        _check_combat(table, splits, target)
        for name in settings.harmonise_preserve:
            _check_column(table, name, "harmonise_preserve")
    for name in settings.residualise:
        if name == target:
            raise ConfigError(
                f"residualise: '{name}' is the target; nothing of it would be left to predict."
            )
        _check_column(table, name, "residualise")
        if name == "site" and any(split.held_out_site is not None for split in splits):
            raise ConfigError(
                "residualise: the effect of a site that is held out cannot be estimated. Leave "
                "'site' out of "
                "residualise, or use splits=stratified."
            )
    if settings.inner_splits == "leave-site-out" and target == "site":
        raise ConfigError(
            "inner_splits: a site that is left out cannot be predicted. Use "
            "inner_splits=stratified."
        )


def _check_column(table: pd.DataFrame, name: str, option: str) -> None:
    """Refuse a covariate that the table lacks, and text with very many different values.

    Very many are more than half the number of subjects. `name` is the covariate, and `option` the
    setting that names it.
    """
    if name in IDENTIFIERS or name not in table:
        choices = [str(column) for column in table.columns if column not in IDENTIFIERS]
        raise ConfigError(
            f"{option}: there is no covariate '{name}'.{suggestion(name, choices)} Choose of "
            f"{one_of(choices[:30])}."
        )
    check_unmarked(table, [name], place=option)
    check_numbers(table, [name], place=option)
    n_values = table[name].nunique()
    n_subjects = table["subject_id"].nunique()
    if not is_number(table[name]) and 2 * n_values > n_subjects:
        raise ConfigError(
            f"{option}: '{name}' has {n_values} different values in {n_subjects} subjects, and an "
            "effect of each "
            "cannot be estimated. Leave it out."
        )


def _check_combat(table: pd.DataFrame, splits: Sequence[Split], target: str) -> None:
    """Refuse ComBat without sites, for one site, and for sites with few training scans."""
    if target == "site":
        raise ConfigError(
            "harmonise: 'combat' takes out what target=site would be predicted from. Use "
            "harmonise=none."
        )
    missing = int(table["site"].isna().sum())
    if missing:
        raise DataError(
            f"harmonise: {missing} of {len(table)} scans have no site, and 'combat' needs one for "
            "each. Fill in their "
            "site, drop them with where, or use harmonise=none."
        )
    sites = table["site"].to_numpy(dtype=object)
    if len(set(sites)) < 2:
        raise DataError(
            f"harmonise: all scans are of the site '{sites[0]}'; there is nothing to harmonise."
        )
    fewest = dict[str, int]()
    for split in splits:
        for site in set(sites[split.test]):
            n_train = int((sites[split.train] == site).sum())
            fewest[site] = min(n_train, fewest.get(site, n_train))
    short = {site: n for site, n in fewest.items() if n < MIN_SITE_SCANS}
    if short:
        listed = ", ".join(f"'{site}' {n}" for site, n in sorted(short.items())[:8])
        raise ConfigError(
            f"harmonise: 'combat' learns a site from at least {MIN_SITE_SCANS} training scans of "
            "it, and an unseen "
            f"site cannot be harmonised. While tested, some have fewer in training: {listed}. Use "
            "splits=stratified, "
            "where to drop these sites, or harmonise=none."
        )


def look_at_inner_folds(
    table: pd.DataFrame, target: Target, splits: Sequence[Split], settings: EvaluationSettings
) -> list[Notice]:
    """Warn of training folds with too few sites or subjects for inner folds that leave sites out.

    The warning is returned in a list, which is empty if all training folds have enough, or if the
    settings ask for stratified inner folds.
    """
    if settings.inner_splits == "stratified":
        return []
    subjects = table["subject_id"].to_numpy(dtype=object)
    sites = site_names(table["site"])
    short = sum(not site_inner_folds(target, split.train, subjects, sites) for split in splits)
    least = {"least_sites": MIN_INNER_SITES, "least_subjects": MIN_LEFT_OUT_SUBJECTS}
    return [Notice.of("inner_splits_dealt", n=short, n_all=len(splits), **least)] if short else []
