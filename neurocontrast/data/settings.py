"""Settings of the configuration's section ``data``: scans of brains, or regional measures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import Discriminator, Field, Tag, WithJsonSchema, model_validator

from neurocontrast.data.columns import Where
from neurocontrast.settings import Settings
from neurocontrast.transforms import MeasureSettings
from neurocontrast.transforms.augment import Replaceable
from neurocontrast.transforms.preprocessing import Preprocessing, ScanSettings

_Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
_Columns = Annotated[tuple[str, ...], Field(min_length=1)]


_ONE_OR_MORE = WithJsonSchema(
    {"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1}
)
"""JSON schema of a setting that may be a single path, or a list of paths."""


def _columns_or_file(value: Any) -> str | None:
    """Return the form of an entry of the setting ``vectors``: ``columns`` for a list, or ``file``.

    A list has columns of the table of samples. Text is the path of a file with numbers for each
    participant, and gives ``file``. None for any other `value`, which is then refused.
    """
    if isinstance(value, list | tuple):
        return "columns"
    if isinstance(value, str):
        return "file"
    return None


_Vector = Annotated[
    Annotated[_Columns, Tag("columns")] | Annotated[str, Tag("file")],
    Discriminator(
        _columns_or_file,
        custom_error_type="vector",
        custom_error_message=(
            "must be a list of columns, or the path of a file (.tsv, .csv, .parquet)"
        ),
    ),
]


class TableSettings(Settings):
    """Choose a table and its rows for training."""

    participants: Path | None = None
    """Table of scans, images or people, which `pretrain` needs; a relative path starts from the
    current directory, as other paths do."""
    where: Where = Field(default_factory=dict)
    """Rows to keep: column → value, values, or ``{not: values}``."""
    vectors: dict[_Name, _Vector] = Field(default_factory=dict)
    """Vectors that kernels compare besides single columns, such as regional volumes: name → columns
    of the table (``vol_*`` takes all that match), or a ``.tsv``, ``.csv`` or ``.parquet`` file with
    ``participant_id`` and numbers, whose path is relative to the folder of the table."""
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Fraction of subjects, at each site, who are held out for validation; 0 for none."""


class DataSettings(ScanSettings, Replaceable, TableSettings):
    """Choose scans of brains, and their preprocessing.

    The preprocessing has the settings of `neurocontrast.transforms.Preprocessing`.
    From Python, transforms that lead from the path of a scan to its image can replace this
    preprocessing: ``pretrain(..., transforms=Compose([...]))``.
    """

    kind: Literal["volumes"] = "volumes"
    """Kind of the samples: scans of brains."""
    images_root: Path | None = None
    """Folder that relative image paths in the table start from; None for the folder of the
    table.
    """
    channels: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Columns of the table that hold the files of each scan, one a channel, for instance
    ``[gm, wm]``, which `index` and `prepare` write; ``t1`` means the column ``path``. None for
    ``[t1]``."""
    cache_dir: Path | None = None
    """Folder for preprocessed volumes; None for a folder in the user's cache, shared by all
    runs.
    """
    cache_dtype: Literal["float16", "float32"] = "float16"
    """Precision of the preprocessed volumes; float16 halves the disk and changes z-scored voxels by
    less than 0.1 %."""
    cache_shared: bool = False
    """Whether to use volumes in `cache_dir` that other users have written. Set to true only if
    you trust all who may write to the folder.
    """
    n_workers: Annotated[int, Field(ge=1)] = 2
    """Number of processes that preprocess scans, and of threads that read batches."""
    skip_unreadable: bool = False
    """Whether `pretrain`, `embed` and `finetune` leave out scans that are absent, damaged or unfit
    for the preprocessing, and list them in ``skipped.tsv``; by default such scans are refused."""

    @classmethod
    def replaced(cls) -> tuple[str, ...]:
        """Return the names of the settings that have no effect if Python transforms preprocess."""
        return tuple(ScanSettings.model_fields)

    @property
    def preprocessing(self) -> Preprocessing:
        """Preprocessing of each scan, if no `transforms` from Python take its place."""
        settings = {name: getattr(self, name) for name in self.replaced()}
        return Preprocessing(**settings, n_channels=len(self.channels or ("t1",)))

    @model_validator(mode="after")
    def _check(self) -> DataSettings:
        if self.channels is not None and len(set(self.channels)) < len(self.channels):
            raise ValueError(f"data.channels must name each column once, got {list(self.channels)}")
        return self


class MeasureTableSettings(MeasureSettings):
    """Choose tables of regional measures of brains, by FreeSurfer and other programs.

    The standardisation is inherited from `neurocontrast.transforms.MeasureSettings`.
    """

    measures: Annotated[tuple[Path, ...], Field(min_length=1), _ONE_OR_MORE] | None = None
    """Tables of measures, and folders of them; None for the table that `index` writes next to
    `participants`: ``measures.tsv`` by ``participants.tsv``, ``a_measures.tsv`` by ``a.tsv``."""
    atlas: str = ""
    """Atlas whose tables are read from folders of measures: a parcellation of the cortex such as
    ``aparc``, a segmentation such as ``aseg.VINN``, or both (``aparc,aseg.VINN``); "" for one of
    each that the folder has, such as ``aparc.a2009s`` before ``aparc``, and ``aseg`` first."""
    measure: Literal["thickness", "area", "volume", "all"] = "thickness"
    """Measure of the cortex to read from folders of tables."""


class MeasureDataSettings(MeasureTableSettings, TableSettings):
    """Choose people with regional measures of their brains."""

    kind: Literal["measures"] = "measures"
    """Kind of the samples: regional measures. Follows from `measures`, and need not be written."""
    images_root: None = None
    """Always None: regional measures have no images."""
    n_workers: Annotated[int, Field(ge=1)] = 1
    """Number of threads that read batches."""
    skip_unreadable: bool = False
    """Whether `pretrain`, `embed`, `finetune` and `explain` leave out people without measures, or
    who lack more than `max_missing`, and list them in ``skipped.tsv`` (`explain` in a warning);
    by default such people are refused."""


class AnyDataSettings(Protocol):
    """Interface of the section ``data`` for any kind of samples."""

    @property
    def kind(self) -> str:
        """Kind of the samples, such as ``volumes``."""

    @property
    def participants(self) -> Path | None:
        """Path of the table of samples; None if the user has set none."""

    @property
    def images_root(self) -> Path | None:
        """Folder that relative paths in the table start from; None for the table's folder."""

    @property
    def where(self) -> Where:
        """Rows of the table to keep: column → values, or ``{not: values}``."""

    @property
    def vectors(self) -> Mapping[str, str | tuple[str, ...]]:
        """Vectors that kernels compare: name → columns of the table, or a file."""

    @property
    def val_fraction(self) -> float:
        """Fraction of subjects who are held out for validation, 0 to below 1."""

    @property
    def n_workers(self) -> int:
        """Number of threads that read batches."""

    @property
    def model_fields_set(self) -> set[str]:
        """Names of the settings that the user has set."""
