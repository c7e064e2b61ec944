"""The configuration: one section a component, each component's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, PlainValidator, Tag, ValidationInfo, model_validator

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
from neurocontrast.training import FinetuneSettings, TrainingSettings
from neurocontrast.transforms import AugmentSettings, ImageAugmentSettings, MeasureAugmentSettings, MeasureSettings
from neurocontrast.transforms.description import Replaceable
from neurocontrast.transforms.preprocessing import Preprocessing, ScanSettings

__all__ = [
    "DEFAULT_OBJECTIVE",
    "OBJECTIVE_AS_GIVEN",
    "AnyDataSettings",
    "Config",
    "DataSettings",
    "ImageDataSettings",
    "MeasureDataSettings",
    "kind_of_section",
    "with_defaults_of_kind",
]

_Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
_Columns = Annotated[tuple[str, ...], Field(min_length=1)]


def _columns_or_file(what: Any) -> str | None:
    return "columns" if isinstance(what, list | tuple) else "file" if isinstance(what, str) else None


_Vector = Annotated[
    Annotated[_Columns, Tag("columns")] | Annotated[str, Tag("file")],
    Discriminator(
        _columns_or_file,
        custom_error_type="vector",
        custom_error_message="must be a list of columns, or the path of a file (.tsv, .csv, .parquet)",
    ),
]


class DataSettings(ScanSettings, Replaceable):
    """Choose scans of brains, and their preprocessing.

    Parameters
    ----------
    kind : {'volumes'}
        Says that these are scans of brains.
    participants : path or None
        Table of scans; `pretrain` needs it. Relative to the current directory, as are
        `images_root` and `cache_dir`.
    images_root : path or None
        Folder that relative image paths in the table start from; None for the table's own.
    images_pattern : str or None
        Path of every image, with columns in braces, where the table has no column ``path``.
    channels : list of str or None
        Columns of the table that hold the files of each scan, one a channel, for instance ``[gm, wm]``, which `index`
        and `prepare` write; ``t1`` means the column ``path``. None for ``[t1]``.
    maps : list of str
        Columns with maps of the tissues of each scan, on its grid, for instance ``[gm, wm, csf]``: views are
        synthesised from them (``augment.synthesise``). The network, and what follows training, need none.
    where : mapping
        Rows to keep: column → allowed values.
    vectors : mapping
        What kernels compare besides single columns, such as regional volumes: name → columns of the table (``vol_*``
        takes all that match), or a ``.tsv``, ``.csv`` or ``.parquet`` file with ``participant_id`` and numbers.
        Relative to the folder of the table.
    spacing_mm, shape, normalise, percentiles, erode_mm, smooth_mm
        See `neurocontrast.transforms.Preprocessing`.
    transforms : list of mapping or None
        Transforms of MONAI or of this package that lead from the path of a scan to its image, each a mapping with a
        ``_target_``, in place of the settings of preprocessing above (`neurocontrast.transforms.build_transforms`).
        ``[{_target_: python}]`` means transforms that `pretrain` was given as objects.
    cache_dir : path or None
        Folder of preprocessed volumes; None for one of the user's, shared by all runs.
    cache_dtype : {'float16', 'float32'}
        How they are kept; float16 halves the disk and changes z-scored voxels by less than 0.1 %.
    cache_shared : bool
        Whether volumes in `cache_dir` that others have written are used. Only where you trust all who may write there.
    n_workers : int
        Processes that preprocess, and threads that read batches.
    val_fraction : float
        Fraction of subjects, at each site, that only measure; 0 for none.
    """

    section: ClassVar[str] = "data"
    kind: Literal["volumes"] = "volumes"
    participants: Path | None = None
    images_root: Path | None = None
    images_pattern: str | None = None
    channels: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    maps: tuple[str, ...] = ()
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    vectors: dict[_Name, _Vector] = Field(default_factory=dict)
    cache_dir: Path | None = None
    cache_dtype: Literal["float16", "float32"] = "float16"
    cache_shared: bool = False
    n_workers: Annotated[int, Field(ge=1)] = 2
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1

    @classmethod
    def replaced(cls) -> tuple[str, ...]:
        """Return the settings of the preprocessing."""
        return tuple(ScanSettings.model_fields)

    @property
    def preprocessing(self) -> Preprocessing:
        """What is done to each scan where `transforms` is None, before anything is fitted."""
        settings = {name: getattr(self, name) for name in self.replaced()}
        return Preprocessing(**settings, n_channels=len(self.channels or ("t1",)))

    @model_validator(mode="after")
    def _check(self) -> DataSettings:
        if self.channels is not None and len(set(self.channels)) < len(self.channels):
            raise ValueError(f"data.channels must name each column once, got {list(self.channels)}")
        if self.maps and (len(self.channels or ("t1",)) > 1 or self.transforms is not None):
            raise ValueError(
                "data.maps needs scans of one channel and the settings of preprocessing, got several data.channels, or "
                "data.transforms"
            )
        if len({*self.maps, *(self.channels or ("t1",))}) <= len(self.maps) or len(set(self.maps)) < len(self.maps):
            raise ValueError(f"data.maps must name each column once, and none of data.channels, got {list(self.maps)}")
        return self


class ImageDataSettings(Settings):
    """Choose natural images.

    Parameters
    ----------
    kind : {'images'}
        Says that these are natural images, as `neurocontrast images` prepares them.
    participants : path or None
        Table of images; `pretrain` needs it. Relative to the current directory, as is `images_root`.
    images_root : path or None
        Folder that relative image paths in the table start from; None for the table's own.
    where : mapping
        Rows to keep: column → allowed values.
    vectors : mapping
        What kernels compare besides single columns: name → columns of the table (``attr_*`` takes all that match), or
        a ``.parquet``, ``.tsv`` or ``.csv`` file with ``participant_id`` and numbers. Relative to the table's folder.
    n_workers : int
        Threads that read batches.
    val_fraction : float
        Fraction of the images that only measure; 0 for none.
    standardise : {'channels', 'none'}
        Whether the network standardises each colour by its mean and standard deviation over the training images.
    """

    kind: Literal["images"]
    participants: Path | None = None
    images_root: Path | None = None
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    vectors: dict[_Name, _Vector] = Field(default_factory=dict)
    n_workers: Annotated[int, Field(ge=1)] = 2
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    standardise: Literal["channels", "none"] = "channels"


class MeasureDataSettings(MeasureSettings):
    """Choose people with regional measures of their brains, out of FreeSurfer and the like.

    Parameters
    ----------
    kind : {'measures'}
        Says that these are regional measures; follows from `measures` and need not be written.
    participants : path or None
        Table of people; `pretrain` needs it. Relative to the current directory, as is `measures`.
    measures : list of path or None
        Tables of measures, and folders of them; None for ``measures.tsv`` beside `participants`, which `index` writes.
    atlas : str
        Parcellation to take from folders, such as ``aparc``; "" for the first that is there.
    measure : {'thickness', 'area', 'volume', 'all'}
        What to take of the cortex from folders.
    images_root : None
        Measures have no images.
    where : mapping
        Rows to keep: column → allowed values.
    vectors : mapping
        What kernels compare besides single columns; see `DataSettings`.
    n_workers : int
        Threads that read batches.
    val_fraction : float
        Fraction of subjects, at each site, that only measure; 0 for none.
    log_volumes, head_size, max_missing, clip
        See `neurocontrast.transforms.MeasureSettings`.
    """

    kind: Literal["measures"] = "measures"
    participants: Path | None = None
    measures: Annotated[tuple[Path, ...], Field(min_length=1)] | None = None
    atlas: str = ""
    measure: Literal["thickness", "area", "volume", "all"] = "thickness"
    images_root: None = None
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    vectors: dict[_Name, _Vector] = Field(default_factory=dict)
    n_workers: Annotated[int, Field(ge=1)] = 1
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1


AnyDataSettings = DataSettings | ImageDataSettings | MeasureDataSettings
"""The section ``data`` of any kind."""

OBJECTIVE_AS_GIVEN = {"objective": "as given"}
"""Context of a validation that leaves the section ``objective`` as it is: to check it, PyTorch has to be imported."""


def kind_of_section(section: Any) -> str:
    """Return the kind that a section states, or that its tables of measures say; volumes, where nothing does."""
    if isinstance(section, Mapping):
        kind = section.get("kind", "volumes" if section.get("measures") is None else "measures")
    else:
        kind = getattr(section, "kind", "volumes")
    return kind if isinstance(kind, str) else repr(kind)


def _of_kind(given: Any, info: ValidationInfo, *, kinds: Mapping[str, type[Settings]]) -> Any:
    return choose(given, "kind", list(kinds), kinds.get, default="volumes", from_json=info.mode == "json")


def _objective(given: Any, info: ValidationInfo) -> Any:
    return given if info.context == OBJECTIVE_AS_GIVEN else read_objective(given, from_json=info.mode == "json")


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
DEFAULT_OBJECTIVE = {
    "loss": "yaware",
    "kernel": [
        {"type": "gaussian", "column": "age", "sigma": 5.0},
        {"type": "categorical", "column": "sex"},
    ],
}

_DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "images": {
        "augment": {"kind": "images"},
        "encoder": {"name": "resnet18"},
        "training": {"probe_columns": ["label"]},
        "objective": {"loss": "ntxent"},
    },
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
"""What a kind of data other than volumes takes in place of the schema's defaults, key by key."""


def with_defaults_of_kind(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return sections of a configuration with what follows from ``data.kind`` where nothing is said of it.

    The defaults of the schema are for volumes. Of images, the network is a ResNet18, the loss that of SimCLR, and what
    the probe predicts on the way the ``label``. Of measures, the network is an MLP, the loss conditional A + U.
    """
    filled, kind = dict(content), kind_of_section(content.get("data"))
    if kind == "measures" and isinstance(filled.get("data"), Mapping):
        filled["data"] = {**filled["data"], "kind": kind}
        if isinstance(given := filled["data"].get("measures"), str):
            filled["data"]["measures"] = [given]
    augment = filled.get("augment")
    stated = augment.get("kind", kind) if isinstance(augment, Mapping) else kind
    if stated != kind:
        raise ConfigError(
            f"augment.kind: must be that of the images, '{kind}' (data.kind), found '{stated}'. Leave it out: it "
            "follows."
        )
    if isinstance(augment, Mapping):
        filled["augment"] = {key: value for key, value in augment.items() if key != "kind"}
    if kind not in _DEFAULTS:
        return filled
    for section, keys in _DEFAULTS[kind].items():
        given = filled.get(section, {})
        if section == "objective":
            filled.setdefault(section, keys)
        elif isinstance(given, Mapping):
            filled[section] = {**keys, **given}
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
    simulation, images, embedding, evaluation, finetune, explanation, report
        What `simulate`, `images`, `embed`, `evaluate`, `finetune`, `explain` and `report` read.
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
    finetune: FinetuneSettings = FinetuneSettings()
    explanation: ExplanationSettings = ExplanationSettings()
    report: ReportOptions = ReportOptions()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.training.init is not None and self.encoder.is_linear:
            raise ValueError(
                f"training.init: encoder '{self.encoder.name}' is fitted in one pass and starts from nothing. Leave it "
                "out, or choose a network"
            )
        if self.augment.kind != self.data.kind:
            raise ValueError(
                f"augment must be for the kind of images that data.kind says, '{self.data.kind}', and is for "
                f"'{self.augment.kind}'. Leave augment.kind out, or change data.kind"
            )
        if getattr(self.data, "maps", ()):
            if self.encoder.is_linear or (self.augment.synthesise is None and self.augment.transforms is None):
                raise ValueError("data.maps are for augment.synthesise and a network, got one without the other")
        elif getattr(self.augment, "synthesise", None) is not None:
            raise ValueError("augment.synthesise needs the maps of tissue of each scan (data.maps), got none")
        return self
