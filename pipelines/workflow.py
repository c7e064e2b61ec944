"""What a Snakemake workflow may say, checked by the same rules as every other configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from neurocontrast.config.parsing import parse_value
from neurocontrast.settings import Settings, settings_from

__all__ = [
    "Name",
    "WorkflowSettings",
    "load_workflow",
    "markdown_table",
    "parse_given",
    "set_options",
]

Splits = Literal["stratified", "leave-site-out"]


def _plain_name(name: str) -> str:
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(
            f"names of cohorts and recipes become folders: letters, digits, '-' and '_' only. Got {name!r}."
        )
    return name


Name = Annotated[str, AfterValidator(_plain_name)]


def parse_given(given: Any, *, place: str) -> Any:
    """Return a value of Snakemake's ``--config`` with its text parsed: ``settings='{a: [1]}'`` is ``{"a": ["1"]}``."""
    if isinstance(given, Mapping):
        return {key: parse_given(value, place=f"{place}.{key}") for key, value in given.items()}
    if isinstance(given, list):
        return [parse_given(each, place=place) for each in given]
    return parse_value(given, source=place) if isinstance(given, str) else given


class WorkflowSettings(Settings):
    """One sweep: recipes × targets × splits, on one pretraining and one evaluation cohort.

    Parameters
    ----------
    out : str
        Folder that everything is written below.
    simulate : mapping of str to mapping
        Cohorts to simulate first: a name, and keys of the ``simulation`` section.
    pretraining, evaluation : str
        A ``participants.tsv``, or the name of a simulated cohort.
    images_root : str or None
        Folder that relative image paths start from; None is each table's own folder.
    recipes : mapping of str to str
        YAML recipes to pretrain with, each under a name.
    settings : mapping of str to value
        Dotted keys set over every recipe, as ``--set`` does.
    targets : tuple of str
        Columns to predict.
    splits : tuple of {'stratified', 'leave-site-out'}
        How each target is cross-validated.
    """

    out: str = "results"
    simulate: dict[Name, dict[str, Any]] = Field(default_factory=dict)
    pretraining: str
    evaluation: str
    images_root: str | None = None
    recipes: dict[Name, str] = Field(min_length=1)
    settings: dict[str, Any] = Field(default_factory=dict)
    targets: tuple[Name, ...] = Field(("diagnosis",), min_length=1)
    splits: tuple[Splits, ...] = Field(("stratified",), min_length=1)

    @model_validator(mode="after")
    def _cohorts_exist(self) -> Self:
        for key in ("pretraining", "evaluation"):
            cohort = getattr(self, key)
            if cohort not in self.simulate and not Path(cohort).is_file():
                known = ", ".join(f"'{name}'" for name in self.simulate) or "none"
                raise ValueError(
                    f"{key} must be a participants.tsv that exists or a simulated cohort ({known}). Got '{cohort}'."
                )
        missing = [
            f"{name}: {path}" for name, path in self.recipes.items() if not Path(path).is_file()
        ]
        if missing:
            raise ValueError(f"recipes must be files that exist. Not found: {'; '.join(missing)}.")
        return self

    def participants(self, cohort: str) -> str:
        """Return the table of a cohort, simulated or given."""
        return (
            f"{self.out}/cohorts/{cohort}/participants.tsv" if cohort in self.simulate else cohort
        )


def set_options(settings: Mapping[str, Any]) -> str:
    """Return dotted keys as ``--set`` options of a shell; JSON is YAML, so every type survives it."""
    return " ".join(
        f"--set {quote(f'{key}={json.dumps(value)}')}" for key, value in settings.items()
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown, whose columns but the first are aligned to the right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    ruler = ["---", *("---:" for _ in header[1:])]
    return [f"| {' | '.join(row)} |" for row in (cells[0], ruler, *cells[1:])]


def load_workflow(config: Mapping[str, Any]) -> WorkflowSettings:
    """Return the workflow's settings, or say everything that is wrong with them.

    Snakemake accepts unknown keys of ``--config`` silently; this does not.

    Raises
    ------
    ConfigError
        With every unknown key and wrong value, and what is allowed.
    """
    return settings_from(WorkflowSettings, config, source="workflow configuration")
