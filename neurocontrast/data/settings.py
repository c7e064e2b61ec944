"""Settings of the samples of a run (scans of brains, natural images, regional measures), and of prepared images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

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
"""A configuration may give a single path, or a list of paths."""


def _columns_or_file(what: Any) -> str | None:
    return (
        "columns" if isinstance(what, list | tuple) else "file" if isinstance(what, str) else None
    )


_Vector = Annotated[
    Annotated[_Columns, Tag("columns")] | Annotated[str, Tag("file")],
    Discriminator(
        _columns_or_file,
        custom_error_type="vector",
        custom_error_message="must be a list of columns, or the path of a file (.tsv, .csv, .parquet)",
    ),
]


class _TableSettings(Settings):
    participants: Path | None = None
    """Table of scans, images or people; `pretrain` needs it. Relative to the current directory, as are other paths."""
    where: Where = Field(default_factory=dict)
    """Rows to keep: column → value, values, or ``{not: values}``."""
    vectors: dict[_Name, _Vector] = Field(default_factory=dict)
    """What kernels compare besides single columns, such as regional volumes: name → columns of the table (``vol_*``
    takes all that match), or a ``.tsv``, ``.csv`` or ``.parquet`` file with ``participant_id`` and
    numbers. Relative to the folder of the table."""
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Fraction of subjects, at each site, who are held out for validation; 0 for none."""


class DataSettings(ScanSettings, Replaceable, _TableSettings):
    """Choose scans of brains, and their preprocessing.

    The settings of the preprocessing are those of `neurocontrast.transforms.Preprocessing`.
    Transforms that lead from the path of a scan to its image can take their place, from Python:
    ``pretrain(..., transforms=Compose([...]))``.
    """

    kind: Literal["volumes"] = "volumes"
    """Says that these are scans of brains."""
    images_root: Path | None = None
    """Folder that relative image paths in the table start from; None for the table's own."""
    channels: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Columns of the table that hold the files of each scan, one a channel, for instance ``[gm, wm]``, which `index`
    and `prepare` write; ``t1`` means the column ``path``. None for ``[t1]``."""
    cache_dir: Path | None = None
    """Folder of preprocessed volumes; None for one of the user's, shared by all runs."""
    cache_dtype: Literal["float16", "float32"] = "float16"
    """Precision of the preprocessed volumes; float16 halves the disk and changes z-scored voxels by less than 0.1 %."""
    cache_shared: bool = False
    """Whether volumes in `cache_dir` that others have written are used. Only where you trust all who may write
    there."""
    n_workers: Annotated[int, Field(ge=1)] = 2
    """Processes that preprocess, and threads that read batches."""
    skip_unreadable: bool = False
    """Whether `pretrain`, `embed` and `finetune` leave out scans that are absent, damaged or unfit
    for the preprocessing, and list them in ``skipped.tsv``; by default such scans are refused."""

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
        return self


class ImageDataSettings(_TableSettings):
    """Choose natural images."""

    kind: Literal["images"]
    """Says that these are natural images, as `neurocontrast images` prepares them."""
    images_root: Path | None = None
    """Folder that relative image paths in the table start from; None for the table's own."""
    n_workers: Annotated[int, Field(ge=1)] = 2
    """Threads that read batches."""
    standardise: Literal["channels", "none"] = "channels"
    """Whether the network standardises each colour by its mean and standard deviation over the training images."""


class MeasureTableSettings(MeasureSettings):
    """Choose tables of regional measures of brains, by FreeSurfer and other programs.

    How measures are made ready is inherited from `neurocontrast.transforms.MeasureSettings`.
    """

    measures: Annotated[tuple[Path, ...], Field(min_length=1), _ONE_OR_MORE] | None = None
    """Tables of measures, and folders of them; None for the table that `index` writes next to
    `participants`: ``measures.tsv`` by ``participants.tsv``, ``a_measures.tsv`` by ``a.tsv``."""
    atlas: str = ""
    """Parcellation to take from folders, such as ``aparc``, or segmentation, such as
    ``aseg.VINN``, or both (``aparc,aseg.VINN``); "" for the first of each that is there."""
    measure: Literal["thickness", "area", "volume", "all"] = "thickness"
    """What to take of the cortex from folders."""


class MeasureDataSettings(MeasureTableSettings, _TableSettings):
    """Choose people with regional measures of their brains."""

    kind: Literal["measures"] = "measures"
    """Says that these are regional measures; follows from `measures` and need not be written."""
    images_root: None = None
    """Measures have no images."""
    n_workers: Annotated[int, Field(ge=1)] = 1
    """Threads that read batches."""
    skip_unreadable: bool = False
    """Whether `pretrain`, `embed`, `finetune` and `explain` leave out people without measures, or
    who lack more than `max_missing`, and list them in ``skipped.tsv`` (`explain` in a warning);
    by default such people are refused."""


SPLITS = ("train", "validation", "test")
"""Splits of a prepared data set of natural images."""
_Fraction = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]
_Pixels = Annotated[int, Field(ge=4, le=4096)]
_FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]


class ImagesSettings(Settings):
    """Choose which images are prepared, how they are divided, and what the table says of each; see docs/images.md."""

    dataset: Literal["digits", "cifar10", "cifar100", "mnist", "fashion-mnist", "folder"] = "digits"
    """Format of the files: a published data set, or any folder with a folder for each class."""
    source: Path | None = None
    """Folder or archive of the files; none for digits."""
    name: _FileName | None = None
    """Beginning of identifiers; None for the name of the data set, or of the source of a folder."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the split, the subset and the background."""
    size: _Pixels | tuple[_Pixels, _Pixels] | None = None
    """Height and width that images are scaled to cover, and cropped to; None keeps their size."""
    validation_fraction: _Fraction = 0.2
    """Part of the training images of each class, where the source has no such split."""
    test_fraction: _Fraction = 0.2
    """Part of all images of each class, where the source has no such split."""
    n_train: _Count | None = None
    """Images to keep, of each class alike; a smaller subset is part of a larger one."""
    n_validation: _Count | None = None
    """Images to keep for validation."""
    n_test: _Count | None = None
    """Images to keep for the test."""
    background: Literal["random"] | None = None
    """ColorMNIST: behind grey pictures one of ten colours plus noise."""
    background_sd: Annotated[float, Field(ge=0.0, le=255.0, allow_inf_nan=False)] = 40.0
    """Standard deviation of the noise of colours, which go from 0 to 255."""

    @model_validator(mode="after")
    def _check(self) -> ImagesSettings:
        if self.dataset == "digits" and self.source is not None:
            raise ValueError(
                "source is not used by dataset 'digits', which comes with scikit-learn; name the dataset."
            )
        return self


AnyDataSettings = DataSettings | ImageDataSettings | MeasureDataSettings
"""The section ``data`` of any kind."""
