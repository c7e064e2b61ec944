"""Which recipe to begin with: one rule, by the content of a table and how many people it has.

`check`, `doctor`, `qc` and the lines "Next" of the command line give this advice, and the tables of
the documentation say the same (docs/choosing.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

Content = Literal["images", "measures", "maps", "brains"]
"""Samples of a table: natural images, regional measures, maps of tissue, or skull-stripped brains."""

MANY_PEOPLE = 1000
"""People from which on a large network is suited."""
FEW_PEOPLE = 100
"""Fewer people than these have regional measures learned by their principal components."""
_COMPONENTS = {"measures_linear": 120, "tissue_linear": 60, "tissue_discriminants": 60}
"""Components of the linear recipes, which must be fewer than people."""
_METADATA = ("age", "sex")
_MAPS = ("gm", "wm", "csf")


@dataclass(frozen=True)
class TableContent:
    """The facts of a table that decide which recipe suits it."""

    content: Content
    n_people: int
    n_scans: int
    columns: frozenset[str]
    """Columns with a value."""

    @property
    def has_metadata(self) -> bool:
        """Whether age and sex are there, which the kernels of the recipes compare."""
        return self.columns.issuperset(_METADATA)

    @property
    def has_several_scans(self) -> bool:
        """Whether the people have three scans on average, as acquisitions and their imitations are."""
        return self.n_scans >= 3 * self.n_people


@dataclass(frozen=True)
class Rule:
    """A recipe, and the tables that it is for; the first rule that holds is the advice."""

    when: str
    """The tables, as the documentation says it."""
    recipe: str
    because: str
    holds: Callable[[TableContent], bool]


RULES = (
    Rule(
        "natural images", "natural/simclr", "no metadata are needed",
        lambda table: table.content == "images",
    ),
    Rule(
        "regional measures of fewer than 100 people, or without age or sex", "measures_linear",
        "nothing is trained, and no metadata are needed",
        lambda table: table.content == "measures"
        and (table.n_people < FEW_PEOPLE or not table.has_metadata),
    ),
    Rule(
        "regional measures with age and sex", "measures",
        "no other loss errs less at sites never seen",
        lambda table: table.content == "measures",
    ),
    Rule(
        "maps of grey matter, white matter and fluid, three scans of a person or more "
        "(`prepare --imitations 3`)", "tissue_discriminants",
        "at scanners never seen it errs least",
        lambda table: table.content == "maps"
        and table.columns.issuperset(_MAPS)
        and table.has_several_scans,
    ),
    Rule(
        "other maps of tissue", "tissue_linear",
        "maps tell the anatomy, intensities the scanner",
        lambda table: table.content == "maps",
    ),
    Rule(
        "brains without age or sex", "ntxent", "its loss needs no metadata",
        lambda table: not table.has_metadata,
    ),
    Rule(
        "brains of fewer than 1,000 people", "small", "a small network, for hundreds of scans",
        lambda table: table.n_people < MANY_PEOPLE,
    ),
    Rule(
        "brains of 1,000 people or more", "yaware", "a large network pays from a thousand on",
        lambda table: table.n_people >= MANY_PEOPLE,
    ),
)  # fmt: skip
"""The rules, in their order."""


@dataclass(frozen=True)
class Advice:
    """The recipe to begin with, and the settings that the table needs beside it."""

    recipe: str
    because: str
    settings: tuple[str, ...] = ()
    """As they follow ``--set``."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that follow ``--config``."""
        changes = (("--set", setting) for setting in self.settings)
        return (self.recipe, *(word for change in changes for word in change))


def advise(table: TableContent) -> Advice:
    """Choose the recipe to begin with: the first of `RULES` that holds, with the settings it needs."""
    rule = next(rule for rule in RULES if rule.holds(table))
    settings = []
    if rule.recipe == "tissue_linear" and "wm" not in table.columns:
        settings.append("data.channels=[gm]")
    n_components = _COMPONENTS.get(rule.recipe)
    if n_components is not None and table.n_people <= n_components:
        settings.append(f"encoder.n_components={max(1, table.n_people // 2)}")
    if rule.recipe == "ntxent":
        probed = [name for name in _METADATA if name in table.columns]
        settings.append(f"training.probe_columns=[{', '.join(probed)}]")
    return Advice(rule.recipe, rule.because, tuple(settings))


def describe_table(
    table: pd.DataFrame, *, images: bool = False, measures: bool = False
) -> TableContent:
    """Describe a cohort's table for `advise`; the caller knows whether it holds natural images or measures."""
    filled = (table.notna() & (table.astype(str) != "")).any()
    columns = frozenset(str(name) for name in table.columns[filled])
    content: Content = "maps" if "gm" in columns else "brains"
    if images or measures:
        content = "images" if images else "measures"
    owners = table["subject_id"] if "subject_id" in columns else table["participant_id"]
    return TableContent(content, int(owners.nunique()), len(table), columns)


def recipe_for(table: pd.DataFrame, *, kind: str = "volumes") -> Advice:
    """Advise on a cohort's table whose samples are of a `kind` of ``data.kind``: volumes, images or measures."""
    return advise(describe_table(table, images=kind == "images", measures=kind == "measures"))
