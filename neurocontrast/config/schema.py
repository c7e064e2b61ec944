"""Schema of configurations: sections such as ``data`` and ``encoder``, with keys and defaults."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Self

from pydantic import (
    ConfigDict,
    Field,
    PlainValidator,
    SerializeAsAny,
    ValidationInfo,
    model_validator,
)

from neurocontrast.config.extending import EXTENDS
from neurocontrast.data.settings import (
    DataSettings,
    MeasureDataSettings,
    MeasureTableSettings,
)
from neurocontrast.data.simulation import SimulationSettings
from neurocontrast.documents.document import Json
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.encoders import EncoderSettings
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.exceptions import ConfigError
from neurocontrast.explanation import ExplanationSettings
from neurocontrast.losses.registry import models_of_losses, read_objective
from neurocontrast.natural.augment import ImageAugmentSettings
from neurocontrast.natural.settings import DEFAULTS as DEFAULTS_OF_IMAGES
from neurocontrast.natural.settings import ImageDataSettings, ImagesSettings
from neurocontrast.settings import KindsInSchema, Settings, choose
from neurocontrast.training import FinetuneSettings, TrainingSettings
from neurocontrast.transforms import AugmentSettings, MeasureAugmentSettings

OBJECTIVE_AS_GIVEN = {"objective": "as given"}
"""Pydantic context with which the section ``objective`` is not validated.

Validation of the section imports the losses, and so PyTorch.
"""

OF_MEASURES = (
    frozenset(MeasureDataSettings.model_fields)
    - frozenset(DataSettings.model_fields)
    - frozenset(ImageDataSettings.model_fields)
)
"""Keys of ``data`` that only regional measures have, and that therefore tell the kind of data."""


def kind_of_section(section: Any) -> str:
    """Return the kind of data of section ``data``: its key ``kind``, else measures or volumes.

    `section` is a mapping or settings. Without the key, the kind is ``measures`` if the section has
    a key that only regional measures have (`OF_MEASURES`), and ``volumes`` if not.
    """
    if isinstance(section, Mapping):
        stated = list(map(section.get, OF_MEASURES))
        has_measures = stated.count(None) < len(stated)
        kind = section.get("kind", "measures" if has_measures else "volumes")
    else:
        kind = getattr(section, "kind", "volumes")
    return kind if isinstance(kind, str) else repr(kind)


def _of_kind(section: Any, info: ValidationInfo, *, kinds: Mapping[str, type[Settings]]) -> Any:
    """Return section ``data`` or ``augment`` as checked settings of the section's kind of data.

    `kinds` maps each kind of data to the class of its settings. The key ``kind`` of the section
    chooses the class (``volumes`` by default), of which an instance is returned.
    """
    return choose(
        section, "kind", list(kinds), kinds.get, default="volumes", from_json=info.mode == "json"
    )


def _objective(section: Any, info: ValidationInfo) -> Any:
    """Return the section ``objective`` as checked settings of its loss.

    With the context `OBJECTIVE_AS_GIVEN` the section is returned unchanged.
    """
    if info.context == OBJECTIVE_AS_GIVEN:
        return section
    return read_objective(section, from_json=info.mode == "json")


_DATA: dict[str, type[Settings]] = {
    "volumes": DataSettings,
    "images": ImageDataSettings,
    "measures": MeasureDataSettings,
}
_AUGMENT: dict[str, type[Settings]] = {
    "volumes": AugmentSettings,
    "images": ImageAugmentSettings,
    "measures": MeasureAugmentSettings,
}
_Data = Annotated[
    DataSettings | ImageDataSettings | MeasureDataSettings,
    PlainValidator(partial(_of_kind, kinds=_DATA)),
    SerializeAsAny(),
    KindsInSchema("kind", lambda: _DATA, is_required=False),
]
_Augment = Annotated[
    AugmentSettings | ImageAugmentSettings | MeasureAugmentSettings,
    PlainValidator(partial(_of_kind, kinds=_AUGMENT)),
    SerializeAsAny(),
    KindsInSchema("kind", lambda: _AUGMENT, is_required=False),
]
_Objective = Annotated[
    Any, PlainValidator(_objective), KindsInSchema("loss", models_of_losses, of_user=True)
]
DEFAULT_OBJECTIVE = {
    "loss": "yaware",
    "kernel": [
        {"type": "gaussian", "column": "age", "sigma": 5.0},
        {"type": "categorical", "column": "sex"},
    ],
}

_DEFAULTS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "images": DEFAULTS_OF_IMAGES,
    "measures": {
        "augment": {"kind": "measures"},
        "encoder": {"name": "mlp", "projection": [64]},
        "training": {
            **{"epochs": 40, "batch_size": 256, "optimizer": "adamw", "learning_rate": 1.0e-3},
            **{"weight_decay": 1.0e-2, "schedule": "cosine"},
        },
        "objective": {
            **{"loss": "conditional", "temperature": 1.0},
            "kernel": DEFAULT_OBJECTIVE["kernel"],
        },
    },
}
"""Kind of data other than volumes → section → defaults, which replace the schema's."""


def with_defaults_of_kind(content: Mapping[str, object]) -> Json:
    """Return sections of a configuration with the defaults of its kind of data added.

    The kind is that of section ``data``. Only defaults that differ from the schema's own are added:
    the schema's are for volumes, `_DEFAULTS` has others for natural images and for measures. Keys
    that are set stay.
    """
    filled = _with_lists_of_measures(content)
    kind = kind_of_section(content.get("data"))
    data = filled.get("data")
    if kind == "measures" and isinstance(data, Mapping):
        filled["data"] = {**data, "kind": kind}
    encoder_2 = filled.get("encoder_2")
    if isinstance(encoder_2, Mapping):
        filled["encoder_2"] = {"name": "mlp", **encoder_2}
    augment = filled.get("augment")
    if isinstance(augment, Mapping):
        filled["augment"] = _without_kind(augment, kind)
    for name, defaults in _DEFAULTS.get(kind, {}).items():
        section = filled.get(name, {})
        if name == "objective":
            filled.setdefault(name, defaults)
        elif isinstance(section, Mapping):
            filled[name] = {**defaults, **section}
    return filled


def _with_lists_of_measures(content: Mapping[str, object]) -> Json:
    """Return sections of a configuration, with a single table of measures as a list of one path."""
    listed = dict(content)
    for name in ("data", "data_2"):
        section = listed.get(name)
        if isinstance(section, Mapping) and isinstance(section.get("measures"), str):
            listed[name] = {**section, "measures": [section["measures"]]}
    return listed


def _without_kind(augment: Mapping[str, object], kind: str) -> Json:
    """Return section ``augment`` without its key ``kind``, which must be equal to `kind`.

    `kind` is the kind of data of the same configuration, ``data.kind``. Another value in
    ``augment`` raises ConfigError.
    """
    stated = augment.get("kind", kind)
    if stated != kind:
        raise ConfigError(
            f"augment.kind: must be that of the images, '{kind}' (data.kind), found '{stated}'. "
            "Leave it out: it follows."
        )
    keys = dict(augment)
    keys.pop("kind", None)
    return keys


class ReportOptions(Settings):
    """Section ``report``: options of the report of an evaluation."""

    show_ids: bool = False
    """Whether identifiers of participants may appear in the report."""


def _add_extends(schema: dict[str, Any]) -> None:
    """Add the key ``extends`` to the JSON schema of configurations.

    The key names another configuration, whose keys are merged in before validation, so that
    `Config` has no such field.
    """
    schema["properties"][EXTENDS] = {
        "type": "string",
        "title": "Extends",
        "description": "Name of a recipe, or a YAML file beside this one, whose keys hold where "
        "this file has none; the section objective is replaced whole.",
    }


class Config(Settings):
    """Every key of a configuration; each command reads the sections of its own work."""

    model_config = ConfigDict(json_schema_extra=_add_extends)

    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of a run: initial weights, validation split, order of training scans, random views.

    The sections `simulation`, `images`, `evaluation` and `explanation` have a `seed` of their own.
    """
    data: _Data = DataSettings()
    augment: _Augment = AugmentSettings()
    encoder: EncoderSettings = EncoderSettings()
    data_2: MeasureTableSettings | None = None
    augment_2: MeasureAugmentSettings | None = None
    encoder_2: EncoderSettings | None = None
    """A second encoder of `pretrain`, of regional measures of the scans.

    `data_2` and `augment_2` are its tables and
    views. Participants and everything else are those of `data`."""
    objective: _Objective = Field(default=DEFAULT_OBJECTIVE)
    training: TrainingSettings = TrainingSettings()
    simulation: SimulationSettings = SimulationSettings()
    images: ImagesSettings = ImagesSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    finetune: FinetuneSettings = FinetuneSettings()
    explanation: ExplanationSettings = ExplanationSettings()
    report: ReportOptions = ReportOptions()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        """Refuse ``training.init`` with a linear encoder, and ``augment`` for another kind of data.

        A linear encoder (``encoder.name``) is fitted in one pass, and cannot start from the weights
        of ``training.init``. The kind of ``augment`` must be ``data.kind``.
        """
        if self.training.init is not None and self.encoder.is_linear:
            raise ValueError(
                f"training.init: encoder '{self.encoder.name}' is fitted in one pass and starts "
                "from nothing. Leave it out, or choose a network"
            )
        if self.augment.kind != self.data.kind:
            raise ValueError(
                "augment must be for the kind of images that data.kind says, "
                f"'{self.data.kind}', and is for '{self.augment.kind}'. "
                "Leave augment.kind out, or change data.kind"
            )
        return self

    @model_validator(mode="after")
    def _second_sections_have_an_encoder(self) -> Self:
        """Refuse ``data_2`` and ``augment_2`` without the second encoder, ``encoder_2``."""
        if self.encoder_2 is not None:
            return self
        for section in ("data_2", "augment_2"):
            if getattr(self, section) is not None:
                raise ValueError(
                    f"{section} is for a second encoder. Add encoder_2, or leave {section} out"
                )
        return self

    @model_validator(mode="after")
    def _two_encoders(self) -> Self:
        """Refuse a second encoder, ``encoder_2``, that cannot share one loss with the first.

        The first must be a network for scans, the second the network ``mlp`` for regional measures,
        both with projection heads that end in the same size. Components that are appended to a
        network's features (``beside``) are refused in both.
        """
        first = self.encoder
        second = self.encoder_2
        if second is None:
            return self
        if first.beside or second.beside:
            raise ValueError(
                "encoder.beside keeps components beside one network, and there are two encoders. "
                "Leave it out, or leave encoder_2 out"
            )
        if self.data.kind != "volumes":
            raise ValueError(
                "encoder_2 reads measures next to scans (data.kind: volumes), "
                f"found '{self.data.kind}'"
            )
        if second.name != "mlp":
            raise ValueError(f"encoder_2.name must be mlp, found '{second.name}'")
        if first.is_linear:
            raise ValueError(f"encoder.name: '{first.name}' has no loss to share")
        if not first.projection or first.projection[-1:] != second.projection[-1:]:
            raise ValueError(
                "two encoders embed into one space: "
                f"encoder.projection {list(first.projection)} and "
                f"encoder_2.projection {list(second.projection)} must end in the same size"
            )
        return self

    @model_validator(mode="after")
    def _one_encoder_a_member(self) -> Self:
        """Refuse ``training.members`` with a second encoder, or if all members would be equal.

        Members are several encoders that one run trains, each with another seed. A linear encoder
        has no random part, so that its members would be equal unless each leaves out other sites
        (``training.members_leave``).
        """
        training = self.training
        if training.members < 2:
            return self
        if self.encoder_2 is not None:
            raise ValueError(
                "training.members: members have one encoder each, and encoder_2 is a second one. "
                "Leave either out"
            )
        if self.encoder.is_linear and training.members_leave is None:
            raise ValueError(
                f"training.members: encoder '{self.encoder.name}' is fitted without chance, and "
                "members with the same scans would be the same. Add training.members_leave=sites"
            )
        return self

    @property
    def encoders(self) -> tuple[EncoderSettings, ...]:
        """Settings of the encoders: `encoder` and, if set, `encoder_2`."""
        return (self.encoder,) if self.encoder_2 is None else (self.encoder, self.encoder_2)

    @property
    def second(self) -> tuple[MeasureTableSettings, MeasureAugmentSettings] | None:
        """Settings of the second encoder, as a pair: tables of measures, and views of measures.

        Absent sections ``data_2`` and ``augment_2`` have their defaults. None for a configuration
        with one encoder.
        """
        if self.encoder_2 is None:
            return None
        return self.data_2 or MeasureTableSettings(), self.augment_2 or MeasureAugmentSettings()
