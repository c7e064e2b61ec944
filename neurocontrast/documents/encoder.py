"""Describe encoders: ``encoder.json``, which travels with weights, and runs of several encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

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
    transforms: list[Json] = Field(default_factory=list)
    """The study's own transforms, given from Python."""
    shape: list[int] = Field(default_factory=list)
    atlas: str | None = None
    software: str | None = None
    log_volumes: bool = False
    head_size: str | None = None
    max_missing: float | None = None
    """Largest share of measures that a person may lack."""
    clip: float | None = None


class Samples(Document):
    """Keys about the samples that an encoder reads: preprocessing, precision and channels."""

    preprocessing: PreprocessingRecord = Field(default_factory=PreprocessingRecord)
    preprocessing_2: PreprocessingRecord | None = None
    """Preprocessing of the measures that a second encoder reads."""
    cache_dtype: Literal["float16", "float32"] = "float32"
    """Precision of volumes in the cache; earlier versions kept float32."""
    channels: list[str] = Field(default_factory=lambda: ["t1"])
    """Columns of a table with the files of a scan, one a channel."""

    @property
    def recorded_channels(self) -> list[str]:
        """The channels, as far as they were written down; early runs, which read t1, have none."""
        if self._content.get("channels") is None:
            return []
        return self.channels


class EncoderRecipe(Document):
    """Section ``encoder``: the network and its settings."""

    name: str
    stem: object = None
    """First layers of a network, where they are named."""


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
    """Section ``objective``: a loss or a sum of several, or how a linear encoder was fitted."""

    loss: str | None = None
    title: str | None = None
    citation: str | None = None
    temperature: float | None = None
    objectives: dict[str, ObjectiveRecord] | None = None
    """Parts of a sum, by name."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weights of the parts of a sum; 1 for parts that are absent."""
    kernel: list[Json] = Field(default_factory=list)
    negatives: list[Json] = Field(default_factory=list)
    column: object = None
    label: object = None
    cluster: object = None

    @field_validator("temperature", "weights", "kernel", "negatives", mode="wrap")
    @classmethod
    def _pass_over_keys_of_a_users_loss(
        cls, value: object, check: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        """Pass over a key by which a user's own loss, ``module:Class``, means another thing."""
        try:
            return check(value)
        except ValidationError:
            if ":" not in str(info.data.get("loss")):
                raise
            return cls.model_fields[str(info.field_name)].get_default(call_default_factory=True)

    @property
    def name(self) -> str | None:
        """Title of the loss, or its key."""
        return self.title or self.loss

    @property
    def citations(self) -> list[str]:
        """References of the loss and of its parts, each once."""
        references = [self.citation]
        for part in (self.objectives or {}).values():
            references.append(part.citation)
        return list(dict.fromkeys(filter(None, references)))


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
    imported: ImportedWeights | None = None
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

    @property
    def architecture(self) -> str:
        """Name of the network or linear model; empty where nothing is recorded."""
        if self.encoder is None:
            return ""
        return self.encoder.name


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
    left_out: list[str] | None = None
    """Sites that the member was trained without; None where all members learn from everybody."""


class MemberKind(EncoderDescription):
    """Describe members that differ by seed and people alone, of runs that were joined."""

    runs: list[str] = Field(default_factory=list)
    n_members: int | None = None
    objective: ObjectiveRecord = Field(default_factory=ObjectiveRecord)


class BlockDescription(Document):
    """Block of joined features: the columns that come from one table among several."""

    n_features: int
    encoder: str | None = None
    """Digest of the weights; None where the table does not say."""
    objective: ObjectiveRecord = Field(default_factory=ObjectiveRecord)
    run: EncoderDescription = Field(default_factory=EncoderDescription)


class RunDescription(EncoderDescription):
    """Description of a run: its encoder as in ``encoder.json``, or the keys that several share."""

    name: str | None = None
    members: list[MemberDescription] = Field(default_factory=list)
    blocks: dict[str, BlockDescription] = Field(default_factory=dict)
    """Blocks of joined tables by name, in the order of their columns."""
    kinds: list[MemberKind] = Field(default_factory=list)
    n_training_scans: int | None = None
    training: Json = Field(default_factory=dict)

    @property
    def component_counts(self) -> list[int]:
        """Numbers of components beside the network, of each member or of the run; each once."""
        besides = [member.beside for member in self.members]
        if not self.members:
            besides = [self.beside]
        counts = []
        for beside in besides:
            if beside is not None and beside.n_components is not None:
                counts.append(beside.n_components)
        return list(dict.fromkeys(counts))
