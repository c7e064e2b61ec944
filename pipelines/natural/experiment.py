"""Settings of the papers' experiments: an experiment's YAML file, and what the command line sets over it."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from neurocontrast.config.bases import read_config
from neurocontrast.config.parsing import read_yaml
from neurocontrast.exceptions import ConfigError, one_of, suggestion
from neurocontrast.settings import Settings, settings_from
from pipelines.natural.annotation import AnnotationSettings
from pipelines.workflow import Name, parse_given

__all__ = [
    "MEASURES",
    "Experiment",
    "Measure",
    "NaturalSettings",
    "Ordering",
    "Variant",
    "load_experiment",
    "load_natural",
]


class Measure(NamedTuple):
    """A column of the table of results: its names, its decimals, and where its value is found.

    `keys` are its place in ``evaluation.json``; `features` are those that `probing` measures it on.
    """

    name: str
    short: str
    digits: int = 3
    percent: bool = False
    lowest: float = 0.0
    keys: tuple[str, ...] = ()
    features: Literal["", "encoder", "head"] = ""

    @property
    def scale(self) -> float:
        """Factor between a stored value and a shown value."""
        return 100.0 if self.percent else 1.0

    @property
    def highest(self) -> float:
        """Largest possible shown value."""
        return 100.0 if self.percent else inf

    @property
    def axis(self) -> str:
        """Label of an axis."""
        return f"{self.name} (%)" if self.percent else self.name


MEASURES = {
    "accuracy": Measure("Top-1 accuracy on test images", "Top-1", 1, percent=True),
    "top5_accuracy": Measure("Top-5 accuracy on test images", "Top-5", 1, percent=True),
    "balanced_accuracy": Measure(
        "Balanced accuracy on test images", "Balanced accuracy", 1, percent=True
    ),
    "auc": Measure("AUC on held-out subjects", "AUC"),
    "sensitive_r2": Measure(
        "R² of the sensitive variables, read from the features", "Sensitive R²", lowest=-inf
    ),
    "sgd_accuracy": Measure(
        "Top-1 accuracy of the SGD classifier on test images",
        "Top-1, SGD",
        1,
        percent=True,
        features="encoder",
    ),
    "sgd_top5_accuracy": Measure(
        "Top-5 accuracy of the SGD classifier on test images",
        "Top-5, SGD",
        1,
        percent=True,
        features="encoder",
    ),
    "colour_mse": Measure(
        "Squared error of the background's colour (0 to 255)", "MSE", 1, features="encoder"
    ),
    "within_cosine": Measure(
        "Cosine of test images of one class", "Cosine within", lowest=-1.0, features="head"
    ),
    "between_cosine": Measure(
        "Cosine of test images of two classes", "Cosine between", lowest=-1.0, features="head"
    ),
    "initial_loss": Measure("Loss of the first epoch", "Initial loss", lowest=-inf),
    "final_loss": Measure("Loss of the last epoch", "Final loss", lowest=-inf),
    "minutes": Measure("Minutes of pretraining, wall time", "Minutes", 1),
}
"""Measures of a table of results; one without keys is a metric of the probe, or computed in `results`."""

Figure = Literal["variants", "epochs", "series", "tradeoff", "cosines", "histograms", "operator"]
_FIGURES_OF_HEAD = {"cosines", "histograms"}
AnyMeasure = Literal[*MEASURES]
Layer = Literal["encoder", "head"]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class Variant(Settings):
    """One loss, or one way to set a loss.

    Parameters
    ----------
    label : str
        Name in tables and figures.
    recipe : str or None
        YAML recipe; None takes the experiment's recipe.
    settings : mapping of str to value
        Dotted keys set over the recipe, as by ``--set``.
    series, at : str, float or None
        The figure ``series`` draws variants of one series as a line over the number `at`.
    published : mapping of str to mapping
        Values that the paper reports, as printed there: data set → measure → value.
    """

    label: Annotated[str, Field(min_length=1)]
    recipe: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    series: str | None = None
    at: float | None = None
    published: dict[str, dict[AnyMeasure, float]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _a_place_in_its_series(self) -> Self:
        if self.series is not None and self.at is None:
            raise ValueError("series: a variant of a series needs its place in it: give at.")
        return self


class Ordering(Settings):
    """One ordering that a paper reports: the variant `higher` above the variant `lower` in a measure.

    `source` names the table or figure.
    """

    higher: str
    lower: str
    measure: AnyMeasure = "accuracy"
    source: str


class Experiment(Settings):
    """Variants × seeds, with the measures and figures of the results.

    Parameters
    ----------
    title, question : str
        Head of the table of results.
    recipe : str or None
        Recipe of variants without a recipe; its section ``images`` is prepared.
    images : mapping of str to value
        Keys set over the section ``images`` of the recipe.
    annotation : AnnotationSettings or None
        Simulated attributes, added to the images.
    variants : mapping of str to Variant
        Variants by the name of their folder.
    reference : str
        Variant that every other variant is compared with.
    seeds : tuple of int
        Seeds of weights, order and views; images and split are the same for all seeds.
    settings : mapping of str to value
        Dotted keys set over every recipe.
    layers : tuple of {'encoder', 'head'}
        Evaluated features: before the projection head, after the projection head.
    measures : tuple of str
        Columns of the table, from `MEASURES`.
    orderings : tuple of Ordering
        What the paper says is above what; the page of results says whether it appears.
    milestones : tuple of int
        Epochs after which test images are classified, for the figure ``epochs``. Training goes on
        from one to the next, which a cosine schedule does not allow.
    target_class : str or None
        Class of the figure ``histograms``; None for the last in alphabetical order.
    series_label : str
        Label of the axis of the numbers `at`.
    figures : tuple of str
        ``variants``: means with intervals; ``epochs``: test accuracy after each of the
        `milestones`; ``series``: means over a number; ``tradeoff``: accuracy against R² of the
        sensitive variables; ``cosines``: mean cosine of each two classes; ``histograms``: cosines
        of a class with itself and with the others; ``operator``: K and (K + λI)⁻¹K of some images,
        for the first variant of CCL-K.
    """

    title: str
    question: str
    recipe: str | None = None
    images: dict[str, Any] = Field(default_factory=dict)
    annotation: AnnotationSettings | None = None
    variants: dict[Name, Variant] = Field(min_length=1)
    reference: Name
    seeds: Seeds = (0, 1, 2)
    settings: dict[str, Any] = Field(default_factory=dict)
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)] = ("encoder",)
    measures: Annotated[tuple[AnyMeasure, ...], Field(min_length=1)] = ("accuracy",)
    orderings: tuple[Ordering, ...] = ()
    milestones: tuple[Annotated[int, Field(ge=1)], ...] = ()
    target_class: str | None = None
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
        if self.milestones != tuple(sorted(set(self.milestones))):
            raise ValueError(
                f"milestones must be different epochs in ascending order, got {list(self.milestones)}."
            )
        if "epochs" in self.figures and not self.milestones:
            raise ValueError(
                "milestones: the figure 'epochs' needs the epochs after which test images are classified."
            )
        compared = {name for each in self.orderings for name in (each.higher, each.lower)}
        if compared - set(self.variants):
            raise ValueError(
                f"orderings must be of variants; there is no {one_of(sorted(compared - set(self.variants)))}."
            )
        bare = [
            name
            for name, variant in self.variants.items()
            if variant.recipe is None and self.recipe is None
        ]
        if bare:
            raise ValueError(
                f"recipe: variants without one need the experiment's own: {one_of(bare)}."
            )
        paths = {self.recipe_of(name) for name in self.variants} | (
            {self.recipe} if self.recipe else set()
        )
        missing = sorted(path for path in paths if not Path(path).is_file())
        if missing:
            raise ValueError(
                f"recipes must be files that exist (relative to the current folder): {one_of(missing)}."
            )
        return self

    def recipe_of(self, variant: str) -> str:
        """Return the recipe of a variant."""
        return self.variants[variant].recipe or str(self.recipe)

    def settings_of(self, variant: str) -> dict[str, Any]:
        """Return the dotted keys set over the recipe of a variant."""
        return self.settings | self.variants[variant].settings

    @property
    def embedded_layers(self) -> tuple[str, ...]:
        """Features that are embedded: those evaluated, and those that measures and figures need."""
        needed = {MEASURES[name].features for name in self.measures} - {""}
        needed |= {"head"} if _FIGURES_OF_HEAD & set(self.figures) else set()
        return (*self.layers, *sorted(needed - set(self.layers)))

    @property
    def labels(self) -> dict[str, str]:
        """Label of each variant."""
        return {name: variant.label for name, variant in self.variants.items()}

    @property
    def estimates(self) -> str:
        """What points and bars of a figure are."""
        return "mean over seeds, 95 % interval"

    @property
    def prepared_images(self) -> dict[str, Any]:
        """Section ``images`` of the experiment's recipe, or else of the reference's recipe, the same for all."""
        section = (
            read_config(Path(self.recipe or self.recipe_of(self.reference))).get("images") or {}
        )
        return {**section, **self.images}


EXPERIMENTS = tuple(
    sorted(path.stem.removesuffix("_full") for path in Path(__file__).parent.glob("*_full.yaml"))
)
"""Experiments that are shipped, each at two sizes."""


class NaturalSettings(Settings):
    """Keys of ``snakemake --config`` for ``pipelines/natural.smk``; ``pipelines/README.md`` explains them."""

    experiment: Literal[*EXPERIMENTS] | None = None
    size: Literal["small", "full"] = "small"
    file: str | None = None
    out: str = "results"
    source: str | None = None
    dataset: str | None = None
    images: dict[str, Any] = Field(default_factory=dict)
    seeds: Seeds | None = None
    variants: tuple[str, ...] | None = None
    milestones: tuple[int, ...] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_experiment(self) -> Self:
        if (self.experiment is None) == (self.file is None):
            raise ValueError(
                f"experiment: give one of {one_of(EXPERIMENTS)}, or file, an experiment of your own: "
                "--config experiment=linear size=small"
            )
        return self

    @property
    def path(self) -> Path:
        """The experiment's YAML file."""
        if self.file is not None:
            return Path(self.file)
        return Path(__file__).with_name(f"{self.experiment}_{self.size}.yaml")

    @property
    def folder(self) -> str:
        """Folder of results, with the data set in its name where that is not the recipe's."""
        return f"{self.out}/{self.path.stem}" + (f"-{self.dataset}" if self.dataset else "")


def load_experiment(path: str | Path) -> Experiment:
    """Return the experiment of a YAML file, or raise ConfigError with every problem."""
    return settings_from(Experiment, _read_experiment(Path(path)), source=str(path))


def _read_experiment(path: Path) -> dict[str, Any]:
    """Read an experiment; its keys stand over those of the file `base` beside it."""
    content = read_yaml(path)
    base = content.pop("base", None)
    return content if base is None else {**read_yaml(path.with_name(str(base))), **content}


def load_natural(config: Mapping[str, Any]) -> tuple[NaturalSettings, Experiment]:
    """Return the keys of the command line, and the experiment with those keys set over its file.

    Parameters
    ----------
    config : mapping
        Snakemake's ``config``.

    Raises
    ------
    ConfigError
        With every unknown key and wrong value, and what is allowed.
    """
    texts = {
        key: parse_given(config[key], place=key) for key in ("settings", "images") if key in config
    }
    asked = settings_from(NaturalSettings, {**config, **texts}, source="workflow configuration")
    content = _read_experiment(asked.path)
    # The subset of one data set may be more than there is of another.
    whole = (
        dict.fromkeys(("n_train", "n_validation", "n_test")) if asked.dataset is not None else {}
    )
    named = {
        key: value for key in ("dataset", "source") if (value := getattr(asked, key)) is not None
    }
    content["images"] = {**(content.get("images") or {}), **whole, **named, **asked.images}
    content["settings"] = {**(content.get("settings") or {}), **asked.settings}
    content |= {
        key: value for key in ("seeds", "milestones") if (value := getattr(asked, key)) is not None
    }
    if asked.images.get("attributes"):
        content["annotation"] = None
    experiment = settings_from(Experiment, content, source=str(asked.path))
    _check_source(experiment.prepared_images)
    return asked, experiment if asked.variants is None else _only(experiment, asked.variants)


def _check_source(images: Mapping[str, Any]) -> None:
    """Refuse missing files before any job starts."""
    dataset, source = images.get("dataset", "digits"), images.get("source")
    if dataset != "digits" and not source:
        raise ConfigError(
            f"workflow configuration: source: the files of {dataset} are needed (a folder or archive): --config "
            "source=…; dataset=digits needs none."
        )
    for key in ("source", "attributes"):
        if images.get(key) and not Path(str(images[key])).expanduser().exists():
            raise ConfigError(
                f"workflow configuration: {key}: there is nothing at '{images[key]}'."
            )


def _only(experiment: Experiment, names: tuple[str, ...]) -> Experiment:
    """Return the experiment with some of its variants and the reference."""
    unknown = [name for name in names if name not in experiment.variants]
    if unknown:
        raise ConfigError(
            f"workflow configuration: variants must be some of {one_of(experiment.variants)}, got {one_of(unknown)}."
            f"{suggestion(unknown[0], experiment.variants)}"
        )
    kept = {
        name: each
        for name, each in experiment.variants.items()
        if name in names or name == experiment.reference
    }
    orderings = tuple(
        each for each in experiment.orderings if {each.higher, each.lower} <= set(kept)
    )
    return experiment.model_copy(update={"variants": kept, "orderings": orderings})
