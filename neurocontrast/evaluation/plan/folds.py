"""Make the splits that the settings or the user's splitter ask for, and describe them."""

from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.result import FixedSplit
from neurocontrast.evaluation.plan.leakage import pretrained
from neurocontrast.evaluation.plan.plan import SplitDesign
from neurocontrast.evaluation.plan.scans import Scans
from neurocontrast.evaluation.rows import row_names, site_names
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import (
    Split,
    check_class_sizes,
    check_splits,
    leave_site_out,
    parts_of,
    stratified,
)
from neurocontrast.evaluation.splits.given import (
    check_fixed,
    describe_splitter,
    fixed_split,
    read_split_file,
    splits_from_cv,
    splits_from_table,
)
from neurocontrast.exceptions import ConfigError


def check_one_design(settings: EvaluationSettings, cv: Any) -> None:
    """Refuse settings that make folds if the user gave a splitter `cv`, which makes all folds."""
    if cv is None:
        return
    others = {
        "split_file": settings.split_file is not None,
        "split_column": settings.split_column is not None,
        f"splits={settings.splits}": settings.splits != "stratified",
        "n_repeats": settings.n_repeats > 1,
    }
    stated = [name for name, is_stated in others.items() if is_stated]
    if stated:
        raise ConfigError(
            f"cv: a splitter makes all folds, and {' and '.join(stated)} would too. Leave out "
            "either."
        )


def make_splits(scans: Scans, settings: EvaluationSettings, cv: Any) -> list[Split]:
    """Return the splits of the evaluated scans that the settings or the user's splitter ask for.

    The first that is given counts: a column of train, validation and test; a file of folds; the
    splitter `cv`; sites to hold out; or random folds with the same shares of classes and sites.

    A split is refused if a subject is on both sides, or if a continuous target does not vary in the
    training rows, or if the training rows have fewer than two classes, or only one subject of a
    class (`check_splits`). A split by a column is refused if a subject is in two parts, if train or
    test has a single class or number, or if train lacks a class of validation or test
    (`check_fixed`).
    """
    table = scans.table
    target = scans.target
    subjects = table["subject_id"].to_numpy(dtype=object)
    if settings.split_column is not None:
        splits = [fixed_split(table, settings.split_column)]
        check_fixed(splits[0], target, subjects)
        return splits
    if settings.split_file is not None:
        splits = splits_from_table(read_split_file(settings.split_file), table)
    elif cv is not None:
        splits = splits_from_cv(
            cv, features=scans.features, target=target, subjects=subjects, sites=table["site"]
        )
    elif settings.splits == "leave-site-out":
        _check_sites_can_be_left_out(settings)
        splits = leave_site_out(
            site_names(table["site"]), subjects, names=row_names(table, np.arange(len(table)))
        )
    else:
        check_class_sizes(target, subjects, settings.n_folds)
        splits = stratified(
            target,
            site_names(table["site"]),
            subjects,
            n_folds=settings.n_folds,
            n_repeats=settings.n_repeats,
            seed=settings.seed,
        )
    check_splits(splits, target, subjects)
    return splits


def _check_sites_can_be_left_out(settings: EvaluationSettings) -> None:
    """Refuse to leave sites out where the site is the target, or with more than one repeat."""
    if settings.target == "site":
        raise ConfigError(
            "splits: a site that is held out cannot be predicted. Use splits=stratified."
        )
    if settings.n_repeats > 1:
        raise ConfigError(
            f"n_repeats: each site is left out once, so it must be 1, got {settings.n_repeats}."
        )


def describe_splits(
    splits: list[Split],
    scans: Scans,
    settings: EvaluationSettings,
    cv: Any,
    info: EmbeddingsInfo,
    *,
    n_twins: int,
) -> SplitDesign:
    """Return a `SplitDesign`, which says in ``evaluation.json`` how the splits were made.

    `n_twins` is the number of test rows that are copies of training rows. Only the record of a
    split by a column of ``train`` and ``test`` has this number.
    """
    if settings.split_column is not None:
        parts = _describe_fixed(settings.split_column, splits[0], scans.table, info, n_twins)
        return SplitDesign("fixed", fixed=parts)
    if settings.split_file is not None:
        return SplitDesign("file")
    if cv is None:
        return SplitDesign(settings.splits)
    name = "custom"
    if splits[0].held_out_site is not None:
        name = "leave-site-out"
    return SplitDesign(name, splitter=describe_splitter(cv))


def _describe_fixed(
    column: str, split: Split, table: pd.DataFrame, info: EmbeddingsInfo, n_twins: int
) -> FixedSplit:
    """Describe the fixed split that a column gives: size and use of train, validation and test.

    The description is for ``evaluation.json``; `n_twins` test rows are copies of training rows.
    """
    parts = parts_of(split)
    sizes = {}
    n_pretrained: dict[str, int | None] = dict.fromkeys(parts)
    for name, rows in parts.items():
        sizes[name] = len(rows)
    if info.pretraining_subjects is not None:
        is_pretrained = pretrained(table, info)
        for name, rows in parts.items():
            n_pretrained[name] = int(is_pretrained[rows].sum())
    chosen_on = "a fifth of train"
    refit_on = ["train"]
    if len(parts["validation"]):
        chosen_on = "validation"
        refit_on.append("validation")
    return FixedSplit(
        column=column,
        n=sizes,
        chosen_on=chosen_on,
        refit_on=refit_on,
        n_fitted=len(split.train),
        n_pretrained=n_pretrained,
        n_duplicates={"test": n_twins},
    )


def why_untested(settings: EvaluationSettings, cv: Any) -> str:
    """Return the reason why some evaluated scans are in no test fold, as text.

    The text is for the table ``flow.tsv`` of the scans that each step keeps and leaves out. It
    depends on where folds come from: a split column, the user's splitter `cv`, or a split file.
    """
    if settings.split_column is not None:
        return "fitted on (train and validation)"
    if cv is None:
        return "never tested, by the split file"
    return "never tested, by the splitter"
