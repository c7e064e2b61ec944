"""Advise which recipe to begin with, by the content of a table and its number of people.

A recipe is a configuration of training that comes with the package, such as ``measures_linear``;
``--config`` takes its name. `check`, `doctor`, `qc` and the lines "Next" of the command line give
this advice, and the tables of the documentation say the same (docs/choosing.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

Content = Literal["images", "measures", "maps", "brains"]
"""Content of a table: natural images, regional measures, maps of tissue, or intensities of
brains.
"""

MANY_PEOPLE = 1000
"""Smallest number of people for which a large network is advised."""
FEW_PEOPLE = 100
"""Number of people below which regional measures are reduced to principal components."""
MANY_SITES = 5
"""Smallest number of sites for which five encoders are advised, each trained without some sites."""
FEWEST_PEOPLE = 10
"""Number of people below which no number of components is advised: there is too little to learn."""
_COMPONENTS = {"measures_linear": 120, "tissue_linear": 60, "tissue_discriminants": 60}
"""Linear recipe → number of its principal components or discriminants.

A recipe is advised only for tables with more people than components.
"""
_METADATA = ("age", "sex")
_MAPS = ("gm", "wm", "csf")


@dataclass(frozen=True)
class TableContent:
    """Facts of a table of scans or people, by which `advise` chooses a recipe.

    A recipe is a configuration of training that comes with the package. Made by `recipe_for` from
    the table of a cohort.
    """

    content: Content
    n_people: int
    n_scans: int
    columns: frozenset[str]
    """Columns of the table with a value in some row."""
    n_sites: int = 0
    """Number of sites; 0 if the table names no site."""

    @property
    def has_metadata(self) -> bool:
        """Whether age and sex are filled in some rows; kernels of the recipes compare them."""
        return self.columns.issuperset(_METADATA)

    @property
    def is_enough_for_measures(self) -> bool:
        """Whether the table is large and full enough to train a network on regional measures.

        Needed are `FEW_PEOPLE` people (100) or more, and columns of age and sex that are filled in
        some rows.
        """
        return self.has_metadata and self.n_people >= FEW_PEOPLE

    @property
    def has_imitations(self) -> bool:
        """Whether the table has tissue maps and, per person, three or more scans on average.

        ``imitations.tsv`` of `prepare --imitations 3` is such a table: beside each real scan there
        are three imitated ones, the same brain as other scanners would have shown it.
        """
        return self.columns.issuperset(_MAPS) and self.n_scans >= 3 * self.n_people


@dataclass(frozen=True)
class Rule:
    """Rule of advice: a recipe, and a function that tells whether a table suits the recipe.

    A recipe is a configuration of training that comes with the package; `recipe` is its name, as
    ``--config`` takes it. Rules are tried in order, and the first rule whose function `holds`
    returns True for a table gives the advice. `because` is the reason in words.
    """

    when: str
    """Description of the tables that the recipe is for, as in the documentation."""
    recipe: str
    because: str
    holds: Callable[[TableContent], bool]


RULES = (
    Rule(
        "natural images",
        "natural/simclr",
        "no metadata are needed",
        lambda table: table.content == "images",
    ),
    Rule(
        "regional measures of fewer than 100 people, or without age or sex",
        "measures_linear",
        "nothing is trained, and no metadata are needed",
        lambda table: table.content == "measures" and not table.is_enough_for_measures,
    ),
    Rule(
        "regional measures with age and sex, of five sites or more",
        "measures_members",
        "five encoders and linear components lose nothing in sex, and less in age than one",
        lambda table: table.content == "measures" and table.n_sites >= MANY_SITES,
    ),
    Rule(
        "regional measures with age and sex, of fewer sites",
        "measures",
        "one encoder, with linear components beside the network",
        lambda table: table.content == "measures",
    ),
    Rule(
        "grey matter, white matter and fluid, three scans a person (`prepare --imitations 3`)",
        "tissue_discriminants",
        "at scanners never seen it errs least",
        lambda table: table.content == "maps" and table.has_imitations,
    ),
    Rule(
        "other maps of tissue",
        "tissue_linear",
        "maps tell the anatomy, intensities the scanner",
        lambda table: table.content == "maps",
    ),
    Rule(
        "brains without age or sex",
        "ntxent",
        "its loss needs no metadata",
        lambda table: not table.has_metadata,
    ),
    Rule(
        "brains of fewer than 1,000 people",
        "small",
        "a small network, for hundreds of scans",
        lambda table: table.n_people < MANY_PEOPLE,
    ),
    Rule(
        "brains of 1,000 people or more",
        "yaware",
        "a large network pays from a thousand on",
        lambda table: table.n_people >= MANY_PEOPLE,
    ),
)
"""Rules of advice, in the order in which they are tried."""


@dataclass(frozen=True)
class Advice:
    """Advice on a user's table: recipe to begin with, the reason, and settings to add.

    Made by `advise` for a table of scans or people. `recipe` is the name of a configuration of
    training that comes with the package, as ``--config`` takes it, and `because` is the reason in
    words.
    """

    recipe: str
    because: str
    settings: tuple[str, ...] = ()
    """Settings in addition to the recipe, as ``--set`` takes them: ``key=value``."""

    @property
    def words(self) -> tuple[str, ...]:
        """Words to type after ``--config``: name of the recipe, and ``--set`` before each setting.

        The recipe is a configuration of training that comes with the package.
        """
        words = [self.recipe]
        for setting in self.settings:
            words += ["--set", setting]
        return tuple(words)


def advise(table: TableContent) -> Advice:
    """Return an `Advice`: the recipe of the first rule that `table` passes, and settings to add.

    A recipe is a configuration of training that comes with the package, given by name. Each rule of
    `RULES` has a recipe and a test of a table's content, such as images or regional measures, and
    its number of people.

    The settings fit the recipe to the table, as fewer components for few people, or only the tissue
    maps and metadata that the table has.
    """
    rule = next(filter(lambda rule: rule.holds(table), RULES))
    settings = []
    if rule.recipe == "tissue_linear" and "wm" not in table.columns:
        settings.append("data.channels=[gm]")
    n_components = _COMPONENTS.get(rule.recipe)
    if n_components is not None and FEWEST_PEOPLE <= table.n_people <= n_components:
        settings.append(f"encoder.n_components={table.n_people // 2}")
    if rule.recipe == "ntxent":
        probed = sorted(table.columns.intersection(_METADATA))
        settings.append(f"training.probe_columns=[{', '.join(probed)}]")
    return Advice(rule.recipe, rule.because, tuple(settings))


def recipe_for(table: pd.DataFrame, *, kind: str = "volumes") -> Advice:
    """Return an `Advice` of the recipe that suits a cohort's table, with reason and settings.

    A recipe is a configuration of training that comes with the package, given by its name for
    ``--config``. `kind` is the setting ``data.kind``.
    """
    filled = (table.notna() & (table.astype(str) != "")).any()
    columns = frozenset(table.columns[filled].astype(str))
    n_people = int(table["subject_id"].nunique())
    n_sites = 0
    if "site" in columns:
        n_sites = int(table["site"].replace("", None).nunique())
    content = _content_of(kind, columns)
    return advise(TableContent(content, n_people, len(table), columns, n_sites))


def _content_of(kind: str, columns: frozenset[str]) -> Content:
    """Return the `Content` of a table by `kind`, the setting ``data.kind``, and `columns`.

    For the kinds ``images`` and ``measures`` the content has the same name. For any other kind, a
    column named ``gm`` means maps of tissue, and a table without ``gm`` intensities of brains.
    """
    if kind == "images":
        return "images"
    if kind == "measures":
        return "measures"
    if "gm" in columns:
        return "maps"
    return "brains"
