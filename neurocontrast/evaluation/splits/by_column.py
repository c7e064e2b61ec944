"""The fixed design of natural images: a column says what is fitted on, what chooses the penalty, and what is tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.notices import feature_codes
from neurocontrast.evaluation.rows import cell_texts, row_names
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.splits import Split, parts_of
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError, one_of, suggestion
from neurocontrast.provenance import subject_digest

__all__ = ["PARTS", "check_fixed", "check_seen", "fixed_split", "look_at_fixed", "look_at_twins"]

Rows = npt.NDArray[np.intp]

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
    _check_values(table, column, texts)
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
    _check_subjects(parts, subjects)
    if target.kind == "continuous":
        for name in ("train", "test"):
            values = target.values[parts[name]].astype(float)
            if np.ptp(values) == 0:
                raise DataError(
                    f"target '{target.name}': does not vary in the {len(values)} rows of {name}. Correct the split "
                    "column, or choose another target."
                )
        return
    present = {name: set(target.values[rows].tolist()) for name, rows in parts.items()}
    for name in ("train", "test"):
        if len(present[name]) < 2:
            only = one_of(target.classes[int(code)] for code in present[name])
            raise DataError(
                f"target '{target.name}': the {len(parts[name])} rows of {name} have the one class {only}. Two are "
                "needed: correct the split column, or draw rows of every class."
            )
    unseen = sorted((present["validation"] | present["test"]) - present["train"])
    if unseen:
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


def check_seen(
    table: pd.DataFrame, split: Split, info: Mapping[str, Any], *, allow_overlap: bool = False
) -> tuple[dict[str, int | None], list[Notice]]:
    """Return how many rows of each part pretraining has seen, and warnings; refuse rows of test that it has seen.

    Linear evaluation fits a probe on what the encoder was trained on, so rows of train and validation may be known.
    """
    digests = info.get("pretraining_subjects")
    parts = parts_of(split)
    if digests is None:
        text = "The embeddings do not say what was in pretraining: whether it has seen rows of test is not known."
        explanation = "If some of the test images were in pretraining, the figures below may be too good."
        return dict.fromkeys(PARTS), [Notice("overlap_unknown", text, explanation)]
    seen, subjects = set(digests), table["subject_id"].to_numpy(dtype=object)
    is_seen = np.array([subject_digest(each) in seen for each in subjects], dtype=bool)
    known = {name: is_seen[rows] for name, rows in parts.items()}
    counts: dict[str, int | None] = {name: int(found.sum()) for name, found in known.items()}
    n_test, n_validation, notices = int(known["test"].sum()), int(known["validation"].sum()), []
    if n_test:
        names = row_names(table, parts["test"][known["test"]][:5])
        text = f"{n_test} of {len(split.test)} rows of test were in pretraining ({', '.join(names)}"
        text += " …)" if n_test > 5 else ")"
        if not allow_overlap:
            raise LeakageError(
                f"{text}: the encoder has seen them, and their figures would flatter it. Pretrain without them "
                "(data.where: {split: [train]}), correct the split column, or, to evaluate all the same and have the "
                "report say so, set allow_overlap=true (--allow-overlap)."
            )
        explanation = "The encoder has already seen these images, so the figures below may be too good."
        text += " (allowed on request): the figures flatter the encoder."
        notices.append(Notice("pretraining_overlap", text, explanation))
    if n_validation:
        text = (
            f"{n_validation} of {len(parts['validation'])} validation rows were in pretraining. No figure of test "
            "gains by it; but they look easier to the probe than new rows, and its penalty can be chosen too weak."
        )
        explanation = (
            "What was chosen on these images was chosen on images that the encoder knows, so the choice may not be the "
            "best for new ones. The figures of the test images are not touched by it."
        )
        notices.append(Notice("validation_pretrained", text, explanation))
    return counts, notices


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


def _check_values(table: pd.DataFrame, column: str, texts: npt.NDArray[np.object_]) -> None:
    wrong = np.flatnonzero(~np.isin(texts, PARTS))
    if not len(wrong):
        return
    shown = [f"{row_names(table, [row])[0]}: '{texts[row]}'" for row in wrong[:5]]
    kinds = sorted(set(texts[wrong]))
    raise DataError(
        f"split_column '{column}': must be train, validation or test in every row, but {len(wrong)} of {len(table)} "
        f"have something else ({', '.join(shown)}{' …' if len(wrong) > 5 else ''}). Values found: "
        f"{one_of(kinds[:10])}.{suggestion(kinds[0], PARTS)} Correct them, or leave these rows out with where."
    )


def _check_subjects(parts: Mapping[str, Rows], subjects: npt.NDArray[np.object_]) -> None:
    owners = {name: set(subjects[rows].tolist()) for name, rows in parts.items()}
    pairs: Sequence[tuple[str, str]] = (("train", "test"), ("validation", "test"), ("train", "validation"))
    for one, other in pairs:
        shared = sorted(map(str, owners[one] & owners[other]))
        if shared:
            raise LeakageError(
                f"split_column: {len(shared)} subjects are in {one} and in {other} ({', '.join(shared[:5])}"
                f"{' …' if len(shared) > 5 else ''}). Put all rows of a subject_id into one part, or leave subject_id "
                "out where every row is an image of its own."
            )
