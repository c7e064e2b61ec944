"""Weak annotation simulated from the class of an image: binary attributes, some of them wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import write_table
from neurocontrast.seeds import derive_generator
from neurocontrast.settings import Settings

__all__ = ["AnnotationSettings", "annotate", "simulate_attributes"]


class AnnotationSettings(Settings):
    """Attributes of each class, and how often an image's attribute is wrong.

    Parameters
    ----------
    columns : tuple of str
        Names of the attributes, each beginning with ``attr_``.
    classes : mapping of str to tuple of {0, 1}
        Attributes of each class, in the order of `columns`.
    flip : float
        Probability of a wrong attribute.
    seed : int
        Seed of the wrong attributes.
    """

    columns: tuple[Annotated[str, Field(pattern="^attr_[a-z0-9_]+$")], ...] = Field(min_length=1)
    classes: dict[str, tuple[Literal[0, 1], ...]] = Field(min_length=2)
    flip: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _one_value_a_column(self) -> Self:
        wrong = [name for name, values in self.classes.items() if len(values) != len(self.columns)]
        if wrong:
            raise ValueError(
                f"classes must have {len(self.columns)} values each, one a column. Not so: {one_of(wrong)}."
            )
        return self


def simulate_attributes(labels: Sequence[str], settings: AnnotationSettings) -> pd.DataFrame:
    """Return the attributes, 0 or 1, of images of the given classes: one row an image, one column an attribute.

    Raises
    ------
    DataError
        Where a class has no attributes.
    """
    unknown = sorted(set(labels) - set(settings.classes))
    if unknown:
        raise DataError(
            f"annotation.classes: has no attributes for {one_of(unknown)}; it has them for {one_of(settings.classes)}."
        )
    true = np.array([settings.classes[label] for label in labels])
    wrong = derive_generator("annotation", settings.seed).random(true.shape) < settings.flip
    return pd.DataFrame(true ^ wrong, columns=list(settings.columns)).astype(int)


def annotate(participants: str, *, settings: AnnotationSettings, out: str) -> None:
    """Write a table of simulated attributes for the images of a prepared data set.

    Parameters
    ----------
    participants : path
        ``participants.tsv`` with ``participant_id`` and ``label``.
    settings : AnnotationSettings
        Attributes of the classes.
    out : path
        Table to write: ``participant_id`` and the attributes.
    """
    table = pd.read_csv(participants, sep="\t", dtype=str, keep_default_na=False)
    attributes = simulate_attributes(list(table["label"]), settings)
    write_table(out, pd.concat([table[["participant_id"]], attributes], axis=1))
