"""The fixed design of natural images: a column says what is fitted on, what chooses the penalty, and what is tested."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.notices import feature_codes
from neurocontrast.evaluation.record import Notice
from neurocontrast.evaluation.rows import cell_texts, row_names
from neurocontrast.evaluation.splits import Split, parts_of
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError, one_of, suggestion

PARTS = ("train", "validation", "test")
"""What a split column may hold; validation may be absent."""


def fixed_split(table: pd.DataFrame, column: str) -> Split:
    """Return the one split that a column of train, validation and test describes; `train` holds the first two."""
    if column not in table:
        raise ConfigError(
            f"split_column: there is no column '{column}'.{suggestion(column, table.columns)} "
            f"Columns: {one_of(list(table.columns)[:30])}."
        )
    texts = np.array([text or "n/a" for text in cell_texts(table[column])], dtype=object)
    wrong = np.flatnonzero(~np.isin(texts, PARTS))
    if len(wrong):
        found = ", ".join(f"{row_names(table, [row])[0]}: '{texts[row]}'" for row in wrong[:5])
        raise DataError(
            f"split_column '{column}': must be train, validation or test in every row, but {len(wrong)} of "
            f"{len(table)} have something else ({found}).{suggestion(texts[wrong[0]], PARTS)} Correct them, or leave "
            "these rows out with where."
        )
    empty = [name for name in ("train", "test") if not (texts == name).any()]
    if empty:
        raise DataError(
            f"split_column '{column}': no row is of {one_of(empty)} (of {len(table)} rows with a target that `where` "
            "keeps). Both are needed; validation may be absent."
        )
    train, validation, test = (np.flatnonzero(texts == name) for name in PARTS)
    return Split(0, 0, np.sort(np.concatenate([train, validation])), test, validation=validation)


def check_fixed(split: Split, target: Target, subjects: npt.NDArray[np.object_]) -> None:
    """Refuse parts that share a subject, and parts from which the target cannot be learned or measured."""
    parts = parts_of(split)
    for one, other in combinations(PARTS, 2):
        shared = sorted(map(str, set(subjects[parts[one]]) & set(subjects[parts[other]])))
        if shared:
            raise LeakageError(
                f"split_column: {len(shared)} subjects are in {one} and in {other} ({', '.join(shared[:5])}"
                f"{' …' if len(shared) > 5 else ''}). Put all rows of a subject_id into one part, or leave subject_id "
                "out where every row is an image of its own."
            )
    present = {name: set(target.values[rows].tolist()) for name, rows in parts.items()}
    for name in ("train", "test"):
        if len(present[name]) < 2:
            (only,) = present[name]
            what = f"value {only:g}" if target.kind == "continuous" else f"class '{target.classes[int(only)]}'"
            raise DataError(
                f"target '{target.name}': the {len(parts[name])} rows of {name} have the one {what}. Two are needed: "
                "correct the split column, or draw other rows."
            )
    unseen = sorted((present["validation"] | present["test"]) - present["train"])
    if unseen and target.kind != "continuous":
        raise DataError(
            f"target '{target.name}': no row of train has {one_of(target.classes[int(code)] for code in unseen[:10])}"
            f"{' …' if len(unseen) > 10 else ''}, which validation or test has: it could not be learned. Put some of "
            f"its rows into train, or leave the class out with where={{'{target.name}': [...]}}."
        )


def look_at_fixed(split: Split, target: Target) -> Iterator[Notice]:
    """Yield warnings about classes that are not tested, and about no validation."""
    tested = set(target.values[split.test].tolist())
    lacking = [name for code, name in enumerate(target.classes) if code not in tested]
    if lacking:
        names = one_of(lacking[:10]) + (" …" if len(lacking) > 10 else "")
        text = f"No row of test has {names}: nothing is known of how well it is told."
        yield Notice("class_untested", text, "Nothing is known of these classes; balanced accuracy is of the others.")
    if split.validation is None or not len(split.validation):
        yield Notice(
            "no_validation",
            "There are no validation rows: a fifth of the rows of train, drawn at random, takes their place to "
            "choose the penalty.",
            "The strength of the probe's penalty was chosen within the training images instead.",
        )


def look_at_twins(features: npt.NDArray[np.floating], split: Split) -> tuple[int, list[Notice]]:
    """Return how many rows of test have the features of a fitted row to the last bit, and a warning.

    They are not refused: official sets hold some images twice, and every published figure has them.
    """
    codes = feature_codes(features)
    twins = split.test[np.isin(codes[split.test], codes[split.train])]
    if not len(twins):
        return 0, []
    text = (
        f"{len(twins)} of {len(split.test)} rows of test have the features of a row of train or validation to the last "
        "bit: one image is in both. Official sets have a few; many would flatter every figure."
    )
    explanation = "The same image on both sides is learned by heart, not recognised: the figures below may be too good."
    return len(twins), [Notice("duplicate_overlap", text, explanation)]
