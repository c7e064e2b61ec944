"""The configuration: one section a component, each component's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from neurocontrast.config.data import DataSettings, ImageDataSettings
from neurocontrast.config.objectives import CategoricalFactor, GaussianFactor, ObjectiveSettings, YAwareSettings
from neurocontrast.data.natural import ImagesSettings
from neurocontrast.data.simulation import SimulationSettings
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.encoders import EncoderSettings
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.exceptions import ConfigError
from neurocontrast.explanation import ExplanationSettings
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.settings import Settings
from neurocontrast.training import TrainingSettings
from neurocontrast.transforms import AugmentSettings, ImageAugmentSettings

__all__ = ["Config", "kind_of_section", "with_defaults_of_kind"]


def kind_of_section(section: Any) -> str:
    """Return the kind a section says it is of; volumes, where it says nothing."""
    said = section.get("kind", "volumes") if isinstance(section, Mapping) else getattr(section, "kind", "volumes")
    return said if isinstance(said, str) else repr(said)


_Data = Annotated[
    Annotated[DataSettings, Tag("volumes")] | Annotated[ImageDataSettings, Tag("images")],
    Discriminator(kind_of_section),
]
_Augment = Annotated[
    Annotated[AugmentSettings, Tag("volumes")] | Annotated[ImageAugmentSettings, Tag("images")],
    Discriminator(kind_of_section),
]


def with_defaults_of_kind(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return sections of a configuration with what follows from ``data.kind: images`` where nothing is said of it.

    The views are those of images; the network is a ResNet18, the loss that of SimCLR, and what the probe predicts on
    the way the ``label``: the defaults of the schema are for brains, and could not be used.

    Raises
    ------
    ConfigError
        Where `augment` says that it is for another kind.
    """
    filled, kind = dict(content), kind_of_section(content.get("data"))
    augment = filled.get("augment")
    said = augment.get("kind", kind) if isinstance(augment, Mapping) else kind
    if said != kind:
        raise ConfigError(
            f"augment.kind: must be that of the images, '{kind}' (data.kind), found '{said}'. Leave it out: it follows."
        )
    if isinstance(augment, Mapping):
        filled["augment"] = {key: value for key, value in augment.items() if key != "kind"}
    if kind != "images":
        return filled
    defaults: dict[str, dict[str, Any]] = {
        "augment": {"kind": "images"},
        "encoder": {"name": "resnet18"},
        "training": {"probe_columns": ["label"]},
    }
    for section, keys in defaults.items():
        said = filled.get(section, {})
        if isinstance(said, Mapping):
            filled[section] = {**keys, **said}
    filled.setdefault("objective", {"loss": "ntxent"})
    return filled


def _default_objective() -> YAwareSettings:
    age = GaussianFactor(type="gaussian", column="age", sigma=5.0)
    return YAwareSettings(loss="yaware", kernel=(age, CategoricalFactor(type="categorical", column="sex")))


class Config(Settings):
    """Everything a user can say; each command reads the sections it needs.

    Parameters
    ----------
    seed : int
        Of the weights, the validation split, the order of scans and the views. `simulation`
        and `evaluation` have their own.
    data, augment, encoder, objective, training
        What `pretrain` reads; `data` and `augment` of one kind.
    simulation, images, embedding, evaluation, explanation, report
        What `simulate`, `images`, `embed`, `evaluate`, `explain` and `report` read.
    """

    seed: Annotated[int, Field(ge=0)] = 0
    data: _Data = DataSettings()
    augment: _Augment = AugmentSettings()
    encoder: EncoderSettings = EncoderSettings()
    objective: ObjectiveSettings = Field(default_factory=_default_objective)
    training: TrainingSettings = TrainingSettings()
    simulation: SimulationSettings = SimulationSettings()
    images: ImagesSettings = ImagesSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    explanation: ExplanationSettings = ExplanationSettings()
    report: ReportOptions = ReportOptions()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.augment.kind != self.data.kind:
            raise ValueError(
                f"augment must be for the kind of images that data.kind says, '{self.data.kind}', and is for "
                f"'{self.augment.kind}'. Leave augment.kind out, or change data.kind"
            )
        return self
