"""Read a target from a table: kind, classes, and rows with a value."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import levels_of
from neurocontrast.data.levels import check_spelling, level_column
from neurocontrast.data.people import USUAL_NAMES
from neurocontrast.evaluation.metrics import OF_PROBABILITIES, Kind, metric_names
from neurocontrast.evaluation.rows import (
    IDENTIFIERS,
    Floats,
    Labels,
    Rows,
    check_numbers,
    check_unmarked,
    is_number,
)
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion

CONTROL_NAMES = frozenset(
    {
        "control",
        "controls",
        "healthy",
        "healthy control",
        "healthy controls",
        "hc",
        "hcs",
        "cn",
        "nc",
        "cu",
        "con",
        "ctl",
        "ctrl",
        "td",
        "typical",
        "normal",
        "unaffected",
        "none",
        "no",
        "false",
        "negative",
        "0",
    }
)
"""Lower-case names of controls. If one of two classes has such a name, the other class is the
positive one."""


MAX_CLASSES = 100
"""Most classes of a target; a column with more is taken for identifiers."""
MAX_IMAGE_CLASSES = 2000
"""Most classes where a column names the test rows, as in image sets of a thousand classes."""

_LEVELS = frozenset((*USUAL_NAMES["sex"], *USUAL_NAMES["site"], *USUAL_NAMES["diagnosis"]))
"""Columns of classes, also where cells are numbers: a diagnosis of 1, 2 and 3 is no amount."""
_COLUMNS = {"site", "total"}
"""Columns of ``cohort.tsv`` besides one for each class; no class may have such a name."""
_FEATURE = re.compile(r"feature_\d+")


@dataclass(frozen=True)
class Target:
    """Values to predict, one a scan: numbers, or positions in the tuple `classes`.

    Of two classes, the positive one is last, so that its code is 1. `has_probabilities` says
    whether scores are probabilities, not decision values of a classifier.
    """

    name: str
    kind: Kind
    values: Labels
    classes: tuple[str, ...] = ()
    positive: str | None = None
    has_probabilities: bool = True

    def labels(self) -> Labels:
        """Return each scan's class name, or number of a continuous target."""
        if self.kind == "continuous":
            return self.values
        return np.array(self.classes, dtype=object)[self.values]

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the target's metrics, in the order of ``evaluation.json``."""
        names = metric_names(self.kind, len(self.classes))
        return tuple(
            name for name in names if self.has_probabilities or name not in OF_PROBABILITIES
        )

    def subset(self, rows: Rows) -> Target:
        """Return the target of the scans in `rows`, with all classes, also such without a row."""
        return replace(self, values=self.values[rows])


def read_target(
    table: pd.DataFrame,
    name: str,
    *,
    kind: str = "auto",
    positive: str | None = None,
    max_classes: int = MAX_CLASSES,
) -> tuple[Target, npt.NDArray[np.bool_]]:
    """Return a column of a table as the target of rows with a value, and the mask of such rows.

    `name` is the column.
    """
    choices = [str(column) for column in table.columns if column not in IDENTIFIERS]
    if name not in choices or _FEATURE.fullmatch(name):
        why = "there is no such column"
        if name in table:
            why = "identifies scans, or is a feature of the embedding itself"
        raise ConfigError(
            f"target '{name}': {why}.{suggestion(name, choices)} Choose of {one_of(choices)}."
        )
    texts = level_column(name, table[name]).reset_index(drop=True)
    present = texts.notna().to_numpy()
    if not present.any():
        raise DataError(
            f"target '{name}': missing in all {len(table)} scans. Choose another column."
        )
    check_unmarked(table, [name], place=f"target '{name}'")
    if kind == "auto":
        check_numbers(table, [name], place=f"target '{name}'")
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=float)
    is_named = name.lower() in _LEVELS
    numeric = is_number(table[name]) and not is_named and len(np.unique(numbers[present])) != 2
    if kind == "continuous" or (kind == "auto" and numeric):
        return _continuous(table, name, numbers, present, positive), present
    return _categorical(
        table.loc[present, "subject_id"],
        name,
        texts[present],
        positive,
        max_classes,
    ), present


def encode_target(
    table: pd.DataFrame, like: Target, *, parameter: str
) -> tuple[Target, npt.NDArray[np.bool_]]:
    """Return the target of `table` by the classes of the target `like`, and a mask of its rows.

    The mask marks rows with a value; rows without one are not in the target. A class that `like`
    lacks is refused. `parameter` names the table in messages.
    """
    if like.name not in table:
        raise DataError(
            f"{parameter}: the table has no column '{like.name}', the "
            f"target.{suggestion(like.name, table.columns)}"
        )
    texts = level_column(like.name, table[like.name]).reset_index(drop=True)
    present = texts.notna().to_numpy()
    kept = texts[present]
    if kept.empty:
        raise DataError(
            f"{parameter}: '{like.name}' is missing in all {len(table)} scans: there is nothing to "
            "test."
        )
    if like.kind == "continuous":
        check_unmarked(table, [like.name], place=parameter)
        numbers = pd.to_numeric(kept, errors="coerce").to_numpy(dtype=float)
        wrong = kept[~np.isfinite(numbers)]
        if len(wrong):
            raise DataError(
                f"{parameter}: '{like.name}' must be finite numbers, found "
                f"{one_of(sorted(set(wrong))[:5])}."
            )
        return Target(like.name, like.kind, numbers), present
    unknown = kept[~kept.isin(like.classes)].value_counts()
    if len(unknown):
        counts = ", ".join(f"'{name}' in {n} scans" for name, n in unknown.items())
        near = suggestion(str(unknown.index[0]), like.classes)
        raise DataError(
            f"{parameter}: '{like.name}' has classes that were not trained on ({counts}); the "
            f"probe knows {one_of(like.classes)}.{near} Write them alike, or leave these scans out "
            "with evaluation.test_where."
        )
    codes = pd.Categorical(kept, categories=like.classes).codes.astype(np.int64)
    return Target(like.name, like.kind, codes, like.classes, like.positive), present


def choose_positive(classes: tuple[str, ...] | list[str]) -> str:
    """Return the positive one of two classes: the class whose name is not in `CONTROL_NAMES`.

    `CONTROL_NAMES` holds names of controls, such as ``healthy``. If both classes or neither have
    such a name, the class whose name is last by alphabet is returned.
    """
    others = [name for name in classes if not _is_control(name)]
    if len(others) == 1:
        return others[0]
    return sorted(classes)[-1]


def _is_control(label: str) -> bool:
    """Tell whether the name of a class is one of `CONTROL_NAMES`, in any case."""
    return label.lower().replace("_", " ").replace("-", " ") in CONTROL_NAMES


def _continuous(
    table: pd.DataFrame,
    name: str,
    numbers: Floats,
    present: npt.NDArray[np.bool_],
    positive: str | None,
) -> Target:
    """Return a target of numbers; refuse cells that are no finite numbers, and a constant.

    `numbers` has a value for each row of the table, and `present` marks rows whose cell is not
    empty. The setting `positive` is refused.
    """
    if positive is not None:
        raise ConfigError(
            f"positive: target '{name}' is continuous and has no classes. Leave positive out, or "
            "set kind=categorical."
        )
    wrong = np.flatnonzero(present & ~np.isfinite(numbers))
    if len(wrong):
        examples = ", ".join(
            f"{table['participant_id'].iloc[row]}: '{table[name].iloc[row]}'" for row in wrong[:5]
        )
        raise DataError(
            f"target '{name}': must be finite numbers to be continuous, but {len(wrong)} scans "
            f"have none ({examples}). "
            "Correct them, or set kind=categorical."
        )
    values = numbers[present]
    if np.ptp(values) == 0:
        raise DataError(
            f"target '{name}': has the one value {values[0]:g} in all {len(values)} scans. "
            f"{_CONSTANT}"
        )
    return Target(name, "continuous", values)


def _categorical(
    subjects: pd.Series, name: str, texts: pd.Series, positive: str | None, max_classes: int
) -> Target:
    """Return a target of classes; refuse a single class, too many, and unusable class names.

    `texts` has the class, and `subjects` the subject, of each scan. No class may be called like a
    column of ``cohort.tsv``. Two names may not differ in case, accents, spaces, hyphens or leading
    zeros alone; they may if `max_classes` is not `MAX_CLASSES`, as where a column of the table
    names the test rows: image sets have classes that differ in case alone.
    """
    classes = sorted(set(texts))
    if max_classes == MAX_CLASSES:  # image sets have classes that differ in case alone
        check_spelling(classes, place=f"target '{name}'", unit="classes")
    taken = sorted(set(classes) & _COLUMNS)
    if taken:
        raise DataError(
            f"target '{name}': a class is called '{taken[0]}', as a column of cohort.tsv is. Call "
            "the class otherwise."
        )
    if len(classes) == 1:
        raise DataError(
            f"target '{name}': has the one value '{classes[0]}' in all {len(texts)} scans. "
            f"{_CONSTANT}"
        )
    if len(classes) > max_classes or (len(classes) > 2 and 2 * len(classes) > subjects.nunique()):
        raise DataError(
            f"target '{name}': has {len(classes)} different values in {subjects.nunique()} "
            "subjects "
            f"({one_of(classes[:3])} …), which looks like an identifier. Choose a column with "
            "fewer classes, or set "
            "kind=continuous if these are numbers."
        )
    if len(classes) > 2:
        if positive is not None:
            raise ConfigError(
                f"positive: target '{name}' has {len(classes)} classes ({one_of(classes)}). Leave "
                "positive out, or "
                f"keep two of them with where={{'{name}': [...]}}."
            )
        classes.sort(key=lambda label: not _is_control(label))  # stable: controls first
        kind: Kind = "multiclass"
    else:
        positive = _class_named(name, positive, classes)
        if positive is not None and positive not in classes:
            raise ConfigError(
                f"positive: '{positive}' is not a class of "
                f"'{name}'.{suggestion(positive, classes)} "
                f"Classes: {one_of(classes)}."
            )
        positive = positive or choose_positive(classes)
        classes.sort(key=lambda label: label == positive)
        kind = "binary"
    codes = pd.Categorical(texts, categories=classes).codes.astype(np.int64)
    return Target(name, kind, codes, tuple(classes), positive)


def _class_named(name: str, positive: str | None, classes: list[str]) -> str | None:
    """Return the class that `positive` names in any spelling; `positive` itself if none fits."""
    if positive is None or positive in classes:
        return positive
    levels = levels_of(name, [positive])
    if levels[0] in classes:
        return levels[0]
    return positive


_CONSTANT = "There is nothing to predict: choose another column, or widen the selection."
