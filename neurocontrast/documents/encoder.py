"""Describe encoders: ``encoder.json``, which travels with weights, and runs of several encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from neurocontrast.documents.document import Document, Json

FORMAT = 1
"""Format of ``encoder.json`` that this version writes and reads."""
_MOST_CHANNELS = 1_000_000


def _file_of_same_folder(name: str) -> str:
    if Path(name).name != name:
        raise ValueError("must be a file in the same folder")
    return name


class PreprocessingRecord(Document):
    """Section ``preprocessing``: how samples are prepared before an encoder reads them."""

    kind: str = "volumes"
    """``volumes``, ``measures`` or ``images``; volumes do not say so."""
    columns: list[str] = Field(default_factory=list)
    """Regional measures that are read, in the order of the encoder's inputs."""
    left_out: list[str] = Field(default_factory=list)
    """Measures of the tables that differ between no people learned from."""
    normalise: str | None = None
    smooth_mm: float = 0.0
    standardise: str | None = None
    """Name of the colours' means and deviations by which natural images are standardised."""


class Samples(Document):
    """Keys about the samples that an encoder reads: preprocessing, precision and channels."""

    preprocessing: PreprocessingRecord = Field(default_factory=PreprocessingRecord)
    preprocessing_2: PreprocessingRecord | None = None
    """Preprocessing of the measures that a second encoder reads."""
    cache_dtype: Literal["float16", "float32"] = "float32"
    """Precision of volumes in the cache; earlier versions kept float32."""
    channels: list[str] = Field(default_factory=lambda: ["t1"])
    """Columns of a table with the files of a scan, one a channel."""


class EncoderRecipe(Document):
    """Section ``encoder``: the network and its settings."""

    name: str


def _as_recipe(encoder: object) -> object:
    """Take a name for a recipe: early versions described a run's encoder by its name alone."""
    if isinstance(encoder, str):
        return {"name": encoder}
    return encoder


class WeightsDigest(Document):
    """Digest of weights; several encoders together have no file."""

    sha256: str | None = None
    file: str | None = None


class WeightsFile(WeightsDigest):
    """File of weights beside ``encoder.json``, and its SHA-256."""

    sha256: str
    file: Annotated[str, AfterValidator(_file_of_same_folder)]


class ObjectiveRecord(Document):
    """Section ``objective``: the loss, or how a linear encoder was fitted."""

    loss: str | None = None
    title: str | None = None

    @property
    def name(self) -> str | None:
        """Title of the loss, or its key."""
        return self.title or self.loss


class BesideRecord(Document):
    """Section ``beside``: linear components that are kept beside a network's features."""

    name: str
    n_components: int
    n_voxels: int = 0


class Start(Document):
    """Section ``init``: the weights that a run started from."""

    name: str = ""
    sha256: str | None = None
    encoder: str = ""
    """Weights of the encoder that were taken over, in words."""
    head: str = ""
    """``new``, or ``taken over``."""
    subjects_known: bool = True
    """Whether all people are known whom the weights learned from."""


class ImportedWeights(Document):
    """Section ``imported``: the file of another program that weights were taken from."""

    file: str = ""
    sha256: str | None = None
    architecture: str = ""
    title: str = ""
    citation: str = ""


class EncoderDescription(Samples):
    """Description of an encoder, with or without weights, or of several together."""

    format: int | None = None
    neurocontrast: str | None = None
    encoder: Annotated[EncoderRecipe | None, BeforeValidator(_as_recipe)] = None
    n_features: int | None = None
    n_channels: Annotated[int, Field(ge=1, le=_MOST_CHANNELS)] = 1
    n_voxels: int = 0
    """Voxels that a linear encoder reads; 0 of a network."""
    weights: WeightsDigest = Field(default_factory=WeightsDigest)
    head: WeightsFile | None = None
    """Weights of the projection head; earlier versions did not keep them."""
    beside: BesideRecord | None = None
    init: Start | None = None
    objective: ObjectiveRecord | None = None
    augment: Json | None = None
    seed: int | None = None
    epochs: int | None = None
    simulated: bool = False
    licence: str | None = None
    imported: ImportedWeights | None = None
    """None of weights that this package trained."""


class EncoderContract(EncoderDescription):
    """Content of ``encoder.json``: network, weights, and the preprocessing that they need."""

    encoder: EncoderRecipe
    n_features: int
    weights: WeightsFile
    preprocessing: PreprocessingRecord

    @property
    def sha256(self) -> str:
        """Digest of the encoder's weights."""
        return self.weights.sha256


class MemberWeights(Document):
    """Digest of the weights of a member."""

    sha256: str


class MemberDescription(Document):
    """Member of a run: an encoder, and the number of its columns in an embeddings table."""

    name: str
    n_features: int
    weights: MemberWeights
    beside: BesideRecord | None = None
    run: str | None = None
    kind: int | None = None
    """Number of the member's kind in joined runs; members of one kind share a recipe."""


class BlockDescription(Document):
    """Block of joined features: the columns that come from one table among several."""

    n_features: int
    encoder: str | None = None
    """Digest of the weights; None where the table does not say."""


class RunDescription(EncoderDescription):
    """Description of a run: its encoder as in ``encoder.json``, or the keys that several share."""

    name: str | None = None
    members: list[MemberDescription] = Field(default_factory=list)
    blocks: dict[str, BlockDescription] = Field(default_factory=dict)
    """Blocks of joined tables by name, in the order of their columns."""
