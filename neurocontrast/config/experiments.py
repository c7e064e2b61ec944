"""What an experiment of several losses over several seeds may say: its file, and the workflow's own keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from neurocontrast.config.messages import settings_from
from neurocontrast.config.workflow import Name
from neurocontrast.config.yaml_file import parse_value, read_yaml
from neurocontrast.exceptions import ConfigError, one_of, suggestion
from neurocontrast.settings import Settings

__all__ = ["AnnotationSettings", "Experiment", "NaturalSettings", "Variant", "load_experiment", "load_natural"]

Measure = Literal[
    "accuracy",
    "top5_accuracy",
    "balanced_accuracy",
    "sensitive_mse",
    "target_cosine",
    "noise_cosine",
    "cosine_difference",
    "class_separation",
    "own_class_nearest",
    "initial_loss",
    "final_loss",
    "minutes",
]
"""What a table of results may hold; see `neurocontrast.stages.experiments`."""
Figure = Literal["variants", "epochs", "series", "tradeoff", "classes", "cosines"]
Layer = Literal["encoder", "head"]
Seed = Annotated[int, Field(ge=0)]


class AnnotationSettings(Settings):
    """Weak annotation simulated from the class: binary attributes, some of them wrong.

    Parameters
    ----------
    columns : tuple of str
        Names of the attributes, each beginning with ``attr_``.
    classes : mapping of str to tuple of {0, 1}
        Each class's attributes, in the order of `columns`.
    flip : float
        Probability with which an attribute of an image is given wrongly.
    seed : int
        Of what is wrong.
    """

    columns: tuple[Annotated[str, Field(pattern="^attr_[a-z0-9_]+$")], ...] = Field(min_length=1)
    classes: dict[str, tuple[Literal[0, 1], ...]] = Field(min_length=2)
    flip: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    seed: Seed = 0

    @model_validator(mode="after")
    def _one_value_a_column(self) -> Self:
        wrong = [name for name, values in self.classes.items() if len(values) != len(self.columns)]
        if wrong:
            raise ValueError(
                f"classes must have {len(self.columns)} values each, one a column. Not so: {one_of(wrong)}."
            )
        return self


class Variant(Settings):
    """One loss, or one way to set it.

    Parameters
    ----------
    label : str
        What it is called in tables and figures.
    recipe : str or None
        Its YAML recipe; None takes the experiment's.
    settings : mapping of str to value
        Dotted keys set over the recipe, as ``--set`` does.
    series, at : str, float or None
        Variants of one series are joined by a line in the figure ``series``, over the number `at`.
    published : float or None
        The accuracy that the paper or its code reports for these settings.
    """

    label: Annotated[str, Field(min_length=1)]
    recipe: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    series: str | None = None
    at: float | None = None
    published: Annotated[float, Field(ge=0, le=1)] | None = None

    @model_validator(mode="after")
    def _a_place_in_its_series(self) -> Self:
        if self.series is not None and self.at is None:
            raise ValueError("series: a variant of a series needs its place in it: give at.")
        return self


class Experiment(Settings):
    """Variants × seeds, what is measured of each, and what is drawn.

    Parameters
    ----------
    title, question : str
        Head of the table of results.
    recipe : str or None
        Recipe of variants that have none of their own; its section ``images`` says what is prepared.
    images : mapping of str to value
        Keys set over the section ``images`` of that recipe.
    annotation : AnnotationSettings or None
        Simulated attributes, added to the images.
    variants : mapping of str to Variant
        Each under the name of its folder.
    reference : str
        The variant that the others are compared with.
    seeds : tuple of int
        Of the weights, the order and the views; the images and their split are the same for all.
    settings : mapping of str to value
        Dotted keys set over every recipe.
    layers : tuple of {'encoder', 'head'}
        What is evaluated: features before the projection head, or the embeddings after it.
    measures : tuple of str
        Columns of the table, the first leading.
    series_label : str
        What the numbers `at` of a series are.
    figures : tuple of str
        ``variants``: each with its interval; ``epochs``: the linear probe while training; ``series``: over a number;
        ``tradeoff``: accuracy against the error of the sensitive variable; ``classes`` and ``cosines``: similarity.
    """

    title: str
    question: str
    recipe: str | None = None
    images: dict[str, Any] = Field(default_factory=dict)
    annotation: AnnotationSettings | None = None
    variants: dict[Name, Variant] = Field(min_length=1)
    reference: Name
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0, 1, 2)
    settings: dict[str, Any] = Field(default_factory=dict)
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)] = ("encoder",)
    measures: Annotated[tuple[Measure, ...], Field(min_length=1)] = ("accuracy",)
    series_label: str = ""
    figures: tuple[Figure, ...] = ("variants",)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.reference not in self.variants:
            raise ValueError(
                f"reference must be one of the variants, {one_of(self.variants)}, got '{self.reference}'."
                f"{suggestion(self.reference, self.variants)}"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be different numbers, got {list(self.seeds)}.")
        bare = [name for name, variant in self.variants.items() if variant.recipe is None and self.recipe is None]
        if bare:
            raise ValueError(f"recipe: variants without one need the experiment's own: {one_of(bare)}.")
        paths = {self.recipe_of(name) for name in self.variants} | ({self.recipe} if self.recipe else set())
        missing = sorted(path for path in paths if not Path(path).is_file())
        if missing:
            raise ValueError(f"recipes must be files that exist (relative to the current folder): {one_of(missing)}.")
        return self

    def recipe_of(self, variant: str) -> str:
        """Return the recipe of a variant."""
        return self.variants[variant].recipe or str(self.recipe)

    def settings_of(self, variant: str) -> dict[str, Any]:
        """Return the dotted keys that are set over the recipe of a variant."""
        return self.settings | self.variants[variant].settings

    @property
    def labels(self) -> dict[str, str]:
        """What each variant is called, in their order."""
        return {name: variant.label for name, variant in self.variants.items()}

    @property
    def prepared_images(self) -> dict[str, Any]:
        """The section ``images``, of the experiment's recipe or else the reference's: the same images for all."""
        section = read_yaml(Path(self.recipe or self.recipe_of(self.reference))).get("images") or {}
        return {**section, **self.images}


class NaturalSettings(Settings):
    """What ``snakemake --config`` says of a run of ``pipelines/natural.smk``.

    Parameters
    ----------
    experiment : {'linear', 'sincere', 'cclk', 'fair', 'hard'} or None
        Which of the papers' experiments.
    size : {'small', 'full'}
        On two cores in minutes, or at the published settings.
    file : str or None
        An experiment of one's own instead of both.
    out : str
        Folder that everything is written below.
    source : str or None
        Files of the data set (``images.source``).
    dataset : str or None
        Another data set than the recipe's (``images.dataset``).
    images : mapping of str to value
        Other keys of the section ``images``; real ``attributes`` take the place of simulated ones.
    seeds : tuple of int or None
        Other seeds than the experiment's.
    variants : tuple of str or None
        Some of the variants; the reference is always among them.
    settings : mapping of str to value
        Dotted keys set over every recipe.
    """

    experiment: Literal["linear", "sincere", "cclk", "fair", "hard"] | None = None
    size: Literal["small", "full"] = "small"
    file: str | None = None
    out: str = "results"
    source: str | None = None
    dataset: str | None = None
    images: dict[str, Any] = Field(default_factory=dict)
    seeds: tuple[Seed, ...] | None = None
    variants: tuple[str, ...] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_experiment(self) -> Self:
        if (self.experiment is None) == (self.file is None):
            raise ValueError(
                "experiment: give one of linear, sincere, cclk, fair and hard, or file, an experiment of your own: "
                "--config experiment=linear size=small"
            )
        return self

    @property
    def name(self) -> str:
        """Folder of the experiment."""
        return f"{self.experiment}_{self.size}" if self.file is None else Path(self.file).stem


def load_experiment(path: str | Path) -> Experiment:
    """Return the experiment of a YAML file, or say everything that is wrong with it.

    Raises
    ------
    ConfigError
        With every unknown key and wrong value, and what is allowed.
    """
    return settings_from(Experiment, read_yaml(Path(path)), source=str(path))


def load_natural(
    config: Mapping[str, Any], *, folder: str | Path = "pipelines/natural"
) -> tuple[NaturalSettings, Experiment]:
    """Return what the command line says, and the experiment with it set over the file's own.

    Parameters
    ----------
    config : mapping
        Snakemake's ``config``.
    folder : path
        Where the experiments' files are.

    Raises
    ------
    ConfigError
        With every unknown key and wrong value, and what is allowed.
    """
    asked = settings_from(NaturalSettings, _plain(config), source="workflow configuration")
    path = Path(asked.file) if asked.file is not None else Path(folder) / f"{asked.name}.yaml"
    content = read_yaml(path)
    content["images"] = {**(content.get("images") or {}), **_asked_images(asked)}
    content["settings"] = {**(content.get("settings") or {}), **asked.settings}
    if asked.seeds is not None:
        content["seeds"] = asked.seeds
    if asked.images.get("attributes"):
        content["annotation"] = None
    experiment = settings_from(Experiment, content, source=str(path))
    _check_source(experiment.prepared_images)
    return asked, experiment if asked.variants is None else _only(experiment, asked.variants)


def _check_source(images: Mapping[str, Any]) -> None:
    """Refuse before any job what the first of them would."""
    dataset, source = images.get("dataset", "digits"), images.get("source")
    if dataset != "digits" and not source:
        raise ConfigError(
            f"workflow configuration: source: the files of {dataset} are needed (a folder or archive): --config "
            "source=…; dataset=digits needs none."
        )
    for key in ("source", "attributes"):
        if images.get(key) and not Path(str(images[key])).expanduser().exists():
            raise ConfigError(f"workflow configuration: {key}: there is nothing at '{images[key]}'.")


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return Snakemake's configuration with numbers for text: ``--config settings='{a: 1}'`` gives ``{"a": "1"}``."""
    content = dict(config)
    for key in ("settings", "images"):
        if isinstance(content.get(key), Mapping):
            content[key] = {
                name: parse_value(value, place=f"{key}.{name}") if isinstance(value, str) else value
                for name, value in content[key].items()
            }
    return content


def _asked_images(asked: NaturalSettings) -> dict[str, Any]:
    # The subset of one data set may be more than there is of another.
    whole = dict.fromkeys(("n_train", "n_validation", "n_test")) if asked.dataset is not None else {}
    named = {key: value for key, value in (("dataset", asked.dataset), ("source", asked.source)) if value is not None}
    return {**whole, **named, **asked.images}


def _only(experiment: Experiment, names: tuple[str, ...]) -> Experiment:
    unknown = [name for name in names if name not in experiment.variants]
    if unknown:
        raise ConfigError(
            f"workflow configuration: variants must be some of {one_of(experiment.variants)}, got {one_of(unknown)}."
            f"{suggestion(unknown[0], experiment.variants)}"
        )
    kept = {name: each for name, each in experiment.variants.items() if name in names or name == experiment.reference}
    return experiment.model_copy(update={"variants": kept})
