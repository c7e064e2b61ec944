"""The configuration: one section a component, each component's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, ValidationInfo, model_validator

from neurocontrast.config.data import DataSettings, ImageDataSettings
from neurocontrast.data.natural import ImagesSettings
from neurocontrast.data.simulation import SimulationSettings
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.encoders import EncoderSettings
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.exceptions import ConfigError
from neurocontrast.explanation import ExplanationSettings
from neurocontrast.losses.registry import read_objective
from neurocontrast.reporting import ReportOptions
from neurocontrast.settings import Settings, choose
from neurocontrast.training import TrainingSettings
from neurocontrast.transforms import AugmentSettings, ImageAugmentSettings

__all__ = ["DEFAULT_OBJECTIVE", "OBJECTIVE_AS_GIVEN", "Config", "kind_of_section", "with_defaults_of_kind"]

OBJECTIVE_AS_GIVEN = {"objective": "as given"}
"""Context of a validation that leaves the section ``objective`` as it is: to check it, PyTorch has to be imported."""


def kind_of_section(section: Any) -> str:
    """Return the kind that a section states; volumes, where it states none."""
    kind = section.get("kind", "volumes") if isinstance(section, Mapping) else getattr(section, "kind", "volumes")
    return kind if isinstance(kind, str) else repr(kind)


def _of_kind(given: Any, info: ValidationInfo, *, kinds: Mapping[str, type[Settings]]) -> Any:
    return choose(given, "kind", list(kinds), kinds.get, default="volumes", from_json=info.mode == "json")


def _objective(given: Any, info: ValidationInfo) -> Any:
    return given if info.context == OBJECTIVE_AS_GIVEN else read_objective(given, from_json=info.mode == "json")


_DATA: dict[str, type[Settings]] = {"volumes": DataSettings, "images": ImageDataSettings}
_AUGMENT: dict[str, type[Settings]] = {"volumes": AugmentSettings, "images": ImageAugmentSettings}
DEFAULT_OBJECTIVE = {
    "loss": "yaware",
    "kernel": [
        {"type": "gaussian", "column": "age", "sigma": 5.0},
        {"type": "categorical", "column": "sex"},
    ],
}


def with_defaults_of_kind(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return sections of a configuration with what follows from ``data.kind: images`` where nothing is said of it.

    The views are those of images; the network is a ResNet18, the loss that of SimCLR, and what the probe predicts on
    the way the ``label``: the defaults of the schema are for brains, and could not be used.
    """
    filled, kind = dict(content), kind_of_section(content.get("data"))
    augment = filled.get("augment")
    stated = augment.get("kind", kind) if isinstance(augment, Mapping) else kind
    if stated != kind:
        raise ConfigError(
            f"augment.kind: must be that of the images, '{kind}' (data.kind), found '{stated}'. Leave it out: it "
            "follows."
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
        given = filled.get(section, {})
        if isinstance(given, Mapping):
            filled[section] = {**keys, **given}
    filled.setdefault("objective", {"loss": "ntxent"})
    return filled


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
    data: Annotated[Any, PlainValidator(partial(_of_kind, kinds=_DATA))] = DataSettings()
    augment: Annotated[Any, PlainValidator(partial(_of_kind, kinds=_AUGMENT))] = AugmentSettings()
    encoder: EncoderSettings = EncoderSettings()
    objective: Annotated[Any, PlainValidator(_objective)] = Field(default=DEFAULT_OBJECTIVE)
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
