"""Settings of figure 3 of Dufumier et al. 2021: an experiment's YAML file, and what the command line sets over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from neurocontrast.config.parsing import read_yaml
from neurocontrast.data.simulation import SimulationSettings
from neurocontrast.exceptions import ConfigError, one_of, suggestion
from neurocontrast.settings import Settings, settings_from
from pipelines.brain.cohort import column_of, draw_subjects, read_participants
from pipelines.natural.experiment import Experiment, Ordering, Seeds, Variant
from pipelines.workflow import Name, parse_given

__all__ = ["BrainExperiment", "BrainSettings", "BrainVariant", "load_brain", "load_experiment"]

Sizes = tuple[Annotated[int, Field(ge=10)], ...]
_COHORTS = ("pretraining", "clinical")


class BrainVariant(Variant):
    """One way to pretrain, or none.

    `from_scratch` is the variant whose network, with new random weights, is trained end to end in
    every training fold (`neurocontrast finetune --from-scratch`) where nothing is pretrained.
    """

    from_scratch: Name | None = None


class AucOrdering(Ordering):
    """One ordering of AUCs that a paper reports."""

    measure: Literal["auc"] = "auc"


class BrainExperiment(Experiment):
    """Variants × seeds × sizes of the clinical cohort.

    Parameters
    ----------
    variants : mapping of str to BrainVariant
        Variants by the name of their folder.
    simulate : mapping of str to mapping
        Cohorts ``pretraining`` and ``clinical`` to simulate where no tables are given: keys of
        ``simulation``.
    target : str
        Column of two classes that is predicted.
    subjects : tuple of int
        Numbers of clinical subjects, each cross-validated on its own; none for all subjects.
    orderings : tuple of AucOrdering
        What the papers say is above what; the page of results says whether it appears.
    published : tuple of str
        Published figures, with the data set they are of.
    """

    variants: dict[Name, BrainVariant] = Field(min_length=1)
    simulate: dict[Literal[*_COHORTS], dict[str, Any]] = Field(default_factory=dict)
    target: Name = "diagnosis"
    subjects: Sizes = ()
    measures: tuple[Literal["auc"], ...] = ("auc",)
    orderings: tuple[AucOrdering, ...] = ()
    published: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _known_variants(self) -> Self:
        if self.images or self.annotation or self.milestones or self.layers != ("encoder",):
            raise ValueError(
                "images, annotation, milestones and layers belong to natural images; remove them"
            )
        named = {each.from_scratch for each in self.variants.values() if each.from_scratch}
        if unknown := sorted(named - set(self.variants)):
            raise ValueError(
                f"from_scratch must name a variant, {one_of(self.variants)}, got {one_of(unknown)}."
                f"{suggestion(unknown[0], self.variants)}"
            )
        if chained := [
            n for n, v in self.variants.items() if v.from_scratch and self.scratch(v.from_scratch)
        ]:
            raise ValueError(
                f"from_scratch must name a variant that is pretrained, got another for {one_of(chained)}"
            )
        for name, keys in self.simulate.items():
            settings_from(SimulationSettings, keys, source=f"simulate.{name}")
        if tuple(sorted(set(self.subjects))) != self.subjects:
            raise ValueError(
                f"subjects must be different numbers in rising order, got {list(self.subjects)}"
            )
        return self

    def scratch(self, variant: str) -> str | None:
        """Return the variant whose network is trained from scratch; None for a variant that is pretrained."""
        return self.variants[variant].from_scratch

    @property
    def estimates(self) -> str:
        """What points and bars of a figure are."""
        return "mean over folds and seeds, 95 % interval"

    @property
    def pretrained(self) -> list[str]:
        """Variants with an encoder of their own."""
        return [name for name in self.variants if self.scratch(name) is None]

    @property
    def sizes(self) -> list[str]:
        """Folders of the sizes: ``all``, or numbers of subjects."""
        return [str(size) for size in self.subjects] or ["all"]

    def rows_of(self, size: str, seed: int) -> dict[str, list[str]]:
        """Return the selection of the clinical table at a size and seed, as ``evaluation.where``."""
        return {} if size == "all" else {column_of(int(size), seed): ["yes"]}


class BrainSettings(Settings):
    """Keys of ``snakemake --config`` for ``pipelines/brain.smk``; ``pipelines/README.md`` explains them."""

    figure: Literal["uniformity", "subjects"] | None = None
    size: Literal["small", "full"] = "small"
    file: str | None = None
    out: str = "results"
    pretraining: str | None = None
    clinical: str | None = None
    images_root: str | None = None
    target: str | None = None
    subjects: Sizes | None = None
    seeds: Seeds | None = None
    variants: tuple[str, ...] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_figure(self) -> Self:
        if (self.figure is None) == (self.file is None):
            raise ValueError(
                "figure: give uniformity (figure 3, left) or subjects (right), or file, an experiment of your own: "
                "--config figure=subjects size=small"
            )
        if (self.pretraining is None) != (self.clinical is None):
            raise ValueError(
                "give two tables, pretraining=… of healthy people and clinical=…, or none"
            )
        for name in _COHORTS:
            if (table := getattr(self, name)) is not None and not Path(
                table
            ).expanduser().is_file():
                raise ValueError(f"{name}: there is no table '{table}'")
        return self

    @property
    def path(self) -> Path:
        """The experiment's YAML file; its stem names the folder of results."""
        if self.file is not None:
            return Path(self.file)
        return Path(__file__).with_name(f"{self.figure}_{self.size}.yaml")

    def table(self, cohort: str) -> str:
        """Return the table of a cohort, given or simulated."""
        return (
            getattr(self, cohort)
            or f"{self.out}/cohorts/{self.path.stem}/{cohort}/participants.tsv"
        )

    def images_of(self, cohort: str) -> str:
        """Return the folder that relative paths of a cohort's images start from."""
        return self.images_root or str(Path(self.table(cohort)).parent)


def load_experiment(path: str | Path, changes: Mapping[str, Any] | None = None) -> BrainExperiment:
    """Return the experiment of a YAML file, with changes; its keys stand over those of the files ``base`` beside it."""
    own = read_yaml(Path(path))
    bases = own.pop("base", [])
    below = [
        read_yaml(Path(path).with_name(str(name)))
        for name in ([bases] if isinstance(bases, str) else bases)
    ]
    content: dict[str, Any] = {}
    for layer in (*below, own, changes or {}):
        settings = {**content.get("settings", {}), **layer.get("settings", {})}
        content = {**content, **layer, "settings": settings}
    return settings_from(BrainExperiment, content, source=str(path))


def load_brain(config: Mapping[str, Any]) -> tuple[BrainSettings, BrainExperiment]:
    """Return the keys of the command line, and the experiment with those keys set over its file.

    Raises
    ------
    ConfigError, DataError
        With every unknown key and wrong value, and what is allowed; where a table lacks the target
        or subjects.
    """
    texts = {key: parse_given(config[key], place=key) for key in ("settings",) if key in config}
    asked = settings_from(BrainSettings, {**config, **texts}, source="workflow configuration")
    named = ("target", "subjects", "seeds", "settings")
    experiment = load_experiment(
        asked.path, {key: v for key in named if (v := getattr(asked, key)) is not None}
    )
    if asked.clinical is None and set(experiment.simulate) != set(_COHORTS):
        raise ConfigError(
            f"workflow configuration: {asked.path.name} is for your own scans: give two tables, --config "
            "pretraining=HEALTHY.tsv clinical=CLINICAL.tsv; size=small simulates its own."
        )
    if asked.clinical is not None:
        table = read_participants(asked.clinical, target=experiment.target)
        draw_subjects(table, target=experiment.target, sizes=experiment.subjects, seed=0)
    return asked, experiment if asked.variants is None else _only(experiment, asked.variants)


def _only(experiment: BrainExperiment, names: tuple[str, ...]) -> BrainExperiment:
    """Return the experiment with some of its variants, the reference, and what these need."""
    if unknown := [name for name in names if name not in experiment.variants]:
        raise ConfigError(
            f"workflow configuration: variants must be some of {one_of(experiment.variants)}, got {one_of(unknown)}."
            f"{suggestion(unknown[0], experiment.variants)}"
        )
    wanted = {experiment.reference, *names}
    wanted |= {needed for name in wanted if (needed := experiment.scratch(name))}
    variants = {name: each for name, each in experiment.variants.items() if name in wanted}
    orderings = tuple(each for each in experiment.orderings if {each.higher, each.lower} <= wanted)
    return experiment.model_copy(update={"variants": variants, "orderings": orderings})
