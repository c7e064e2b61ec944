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
"""Version of the format of ``encoder.json`` that this package writes and reads."""
_MOST_CHANNELS = 1_000_000


def _file_of_same_folder(name: str) -> str:
    if Path(name).name != name:
        raise ValueError("must be a file in the same folder")
    return name


class PreprocessingRecord(Document):
    """Section ``preprocessing`` of ``encoder.json``: how samples are prepared for the encoder."""

    kind: str = "volumes"
    """Kind of the samples: ``volumes`` (the default, often absent), ``measures`` or ``images``."""
    columns: list[str] = Field(default_factory=list)
    """Columns of regional measures that the encoder reads, in the order of its inputs."""
    left_out: list[str] = Field(default_factory=list)
    """Columns of regional measures left out: missing or equal for all training people."""
    normalise: str | None = None
    smooth_mm: float = 0.0
    standardise: str | None = None
    """Standardisation of natural images: ``channels`` for each colour by mean and deviation, or
    ``none``.
    """
    transforms: list[Json] = Field(default_factory=list)
    """The user's own transforms of scans, given from Python, as JSON descriptions."""
    shape: list[int] = Field(default_factory=list)
    atlas: str | None = None
    software: str | None = None
    log_volumes: bool = False
    head_size: str | None = None
    max_missing: float | None = None
    """Largest share of regional measures that a person may lack, 0 to 1."""
    clip: float | None = None


class Samples(Document):
    """Base of descriptions of encoders: keys on the samples that an encoder reads."""

    preprocessing: PreprocessingRecord = Field(default_factory=PreprocessingRecord)
    preprocessing_2: PreprocessingRecord | None = None
    """Preprocessing of regional measures for a second encoder, trained with the encoder of
    scans.
    """
    cache_dtype: Literal["float16", "float32"] = "float32"
    """Precision of preprocessed volumes in the cache; runs of earlier versions used float32."""
    channels: list[str] = Field(default_factory=lambda: ["t1"])
    """Table columns with the files of a scan, one for each channel of the encoder's input."""

    @property
    def recorded_channels(self) -> list[str]:
        """Channels that ``encoder.json`` states; empty for early runs, which read T1 scans."""
        if self._content.get("channels") is None:
            return []
        return self.channels


class EncoderRecipe(Document):
    """Section ``encoder`` of ``encoder.json``: name of the network, and its settings as keys."""

    name: str
    stem: object = None
    """Kind of the network's first layers, for networks with a choice of them."""


def _as_recipe(encoder: object) -> object:
    """Return the key ``encoder`` of ``encoder.json`` as a mapping, also for a bare name.

    Early versions wrote the name of the network alone, which becomes ``{"name": encoder}``. Any
    other value is returned unchanged.
    """
    if isinstance(encoder, str):
        return {"name": encoder}
    return encoder


class WeightsDigest(Document):
    """SHA-256 of a run's weights, and name of their file; no file name for several encoders."""

    sha256: str | None = None
    file: str | None = None


class WeightsFile(WeightsDigest):
    """File of weights in the folder of ``encoder.json``, and the file's SHA-256."""

    sha256: str
    file: Annotated[str, AfterValidator(_file_of_same_folder)]


class ObjectiveRecord(Document):
    """Section ``objective`` of ``encoder.json``: the loss that the encoder was trained with.

    Instead of a single loss, there can be a weighted sum of losses, or the fit of a linear encoder.
    """

    loss: str | None = None
    title: str | None = None
    citation: str | None = None
    temperature: float | None = None
    objectives: dict[str, ObjectiveRecord] | None = None
    """Name of a term → the term's loss, for a sum of losses; None for a single loss."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Name of a term → the term's weight in a sum of losses; terms without a weight have 1."""
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
        """Replace a value of a wrong type by the key's default, if the loss is a user's own class.

        A user's loss, given as ``module:Class``, may have a setting of the same name as a key of
        this record, with another meaning.
        """
        try:
            return check(value)
        except ValidationError:
            if ":" not in str(info.data.get("loss")):
                raise
            return cls.model_fields[str(info.field_name)].get_default(call_default_factory=True)

    @property
    def name(self) -> str | None:
        """Title of the loss, or the loss's key in configurations if there is no title."""
        return self.title or self.loss

    @property
    def citations(self) -> list[str]:
        """References of the loss, or of all losses in a weighted sum, without repeats."""
        references = [self.citation]
        for part in (self.objectives or {}).values():
            references.append(part.citation)
        return list(dict.fromkeys(filter(None, references)))


class BesideRecord(Document):
    """Section ``beside`` of ``encoder.json``: principal components appended to network features.

    The components are of the training samples; each encoded sample gets its scores on them.
    """

    name: str
    n_components: int
    n_voxels: int = 0


class Start(Document):
    """Section ``init`` of ``encoder.json``: earlier or imported weights where training started."""

    name: str = ""
    sha256: str | None = None
    encoder: str = ""
    """Statement, in words, of which weights of the encoder were taken over at the start."""
    head: str = ""
    """Start of the projection head: ``new``, or ``taken over`` from the earlier weights."""
    imported: ImportedWeights | None = None
    subjects_known: bool = True
    """Whether everyone is known whom the weights at the start had been trained on."""


class ImportedWeights(Document):
    """Section ``imported`` of ``encoder.json``: origin of weights from another program's file."""

    file: str = ""
    sha256: str | None = None
    architecture: str = ""
    title: str = ""
    citation: str = ""


class EncoderDescription(Samples):
    """Description of one encoder, with or without weights, or of several encoders together."""

    format: int | None = None
    neurocontrast: str | None = None
    encoder: Annotated[EncoderRecipe | None, BeforeValidator(_as_recipe)] = None
    n_features: int | None = None
    n_channels: Annotated[int, Field(ge=1, le=_MOST_CHANNELS)] = 1
    n_voxels: int = 0
    """Number of voxels that a linear encoder reads; 0 for a network."""
    weights: WeightsDigest = Field(default_factory=WeightsDigest)
    head: WeightsFile | None = None
    """Weights of the projection head; None in runs of earlier versions, which did not keep them."""
    beside: BesideRecord | None = None
    init: Start | None = None
    objective: ObjectiveRecord | None = None
    augment: Json | None = None
    seed: int | None = None
    epochs: int | None = None
    simulated: bool = False
    licence: str | None = None
    imported: ImportedWeights | None = None
    """Origin of weights from another program; None for weights that this package trained."""

    @property
    def architecture(self) -> str:
        """Name of the network or linear model; empty if the file names none."""
        if self.encoder is None:
            return ""
        return self.encoder.name


class EncoderContract(EncoderDescription):
    """Content of ``encoder.json``: network, file of weights, and preprocessing of the input."""

    encoder: EncoderRecipe
    n_features: int
    weights: WeightsFile
    preprocessing: PreprocessingRecord

    @property
    def sha256(self) -> str:
        """SHA-256 of the encoder's weights."""
        return self.weights.sha256


class MemberWeights(Document):
    """SHA-256 of the weights of one encoder (member) in a run of several."""

    sha256: str


class MemberDescription(Document):
    """Encoder in a run of several (a member), and its number of columns in an embeddings table."""

    name: str
    n_features: int
    weights: MemberWeights
    beside: BesideRecord | None = None
    run: str | None = None
    kind: int | None = None
    """Number of the encoder's group (kind) in a joined run; a group shares one recipe."""
    left_out: list[str] | None = None
    """Sites that the encoder was trained without; None if all encoders learned from everybody."""


class MemberKind(EncoderDescription):
    """Settings shared by a group of encoders in a run that `join` made of several runs.

    The encoders of a group (a kind) differ only in seed and training people. `n_members` is their
    number, and `runs` names the joined runs that they come from.
    """

    runs: list[str] = Field(default_factory=list)
    n_members: int | None = None
    objective: ObjectiveRecord = Field(default_factory=ObjectiveRecord)


class BlockDescription(Document):
    """Columns of joined embeddings (a block) that come from one of the joined tables."""

    n_features: int
    encoder: str | None = None
    """SHA-256 of the weights that made the columns; None if the table does not state the digest."""
    objective: ObjectiveRecord = Field(default_factory=ObjectiveRecord)
    run: EncoderDescription = Field(default_factory=EncoderDescription)


class RunDescription(EncoderDescription):
    """Description of a run: its one encoder as in ``encoder.json``, or all of its encoders.

    Of several encoders, only values that are equal for all are kept under the keys of
    ``encoder.json``, and `members` describes each encoder. For a run that `join` made of several
    runs, `kinds` describes groups of encoders that differ only in seed and training people. For a
    joined embeddings table, `blocks` describes the columns that come from each of the joined
    tables.
    """

    name: str | None = None
    members: list[MemberDescription] = Field(default_factory=list)
    blocks: dict[str, BlockDescription] = Field(default_factory=dict)
    """Name of a joined table → its columns of features (a block), in the order of the columns."""
    kinds: list[MemberKind] = Field(default_factory=list)
    n_training_scans: int | None = None
    training: Json = Field(default_factory=dict)

    @property
    def component_counts(self) -> list[int]:
        """Numbers of principal components appended to the network features of the run's encoders.

        Encoders with equal numbers are listed once, in the order of the encoders; empty for a run
        without components.
        """
        besides = [member.beside for member in self.members]
        if not self.members:
            besides = [self.beside]
        counts = []
        for beside in besides:
            if beside is not None and beside.n_components is not None:
                counts.append(beside.n_components)
        return list(dict.fromkeys(counts))
