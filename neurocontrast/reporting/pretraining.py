"""Pretraining as evaluations record it, typed: runs, objectives and preprocessing, of any version.

Keys that a version did not write have their defaults; `content` gives the further settings that
Methods list by name.
"""

from __future__ import annotations

from pydantic import (
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.encoder import ObjectiveRecord


class Objective(ObjectiveRecord):
    """Section ``objective``: a loss, or the sum of several, and the metadata that they use."""

    citation: str | None = None
    temperature: float | None = None
    objectives: dict[str, Objective] | None = None
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
    def citations(self) -> list[str]:
        """References of the loss and of its parts, each once."""
        references = [self.citation]
        for part in (self.objectives or {}).values():
            references.append(part.citation)
        return list(dict.fromkeys(filter(None, references)))


class Contract(Document):
    """Section ``preprocessing``: how samples are prepared before an encoder reads them."""

    kind: str | None = None
    transforms: list[Json] = Field(default_factory=list)
    """The study's own transforms, given from Python."""
    columns: list[str] = Field(default_factory=list)
    atlas: str | None = None
    software: str | None = None
    log_volumes: bool = False
    head_size: str | None = None
    max_missing: float | None = None
    clip: float | None = None
    shape: list[int] = Field(default_factory=list)


class Imported(Document):
    """Section ``imported``: the source of weights from another program."""

    title: str | None = None
    citation: str | None = None


class InitialWeights(Document):
    """Section ``init``: the weights that training began with."""

    name: str | None = None
    imported: Imported | None = None


class Components(Document):
    """Section ``beside``: components beside a network's features."""

    n_components: int | None = None


class EncoderOfRun(Document):
    """Network or linear model, and the samples that are read."""

    encoder: Json | str | None = None
    """Settings with a name; a name alone in early versions."""
    preprocessing: Contract = Field(default_factory=Contract)
    channels: list[str] = Field(default_factory=list)
    epochs: int | None = None
    n_features: int | None = None
    beside: Components | None = None

    @property
    def architecture(self) -> str:
        """Name of the network or linear model; empty where nothing is recorded."""
        if isinstance(self.encoder, dict):
            return str(self.encoder.get("name") or "")
        return self.encoder or ""

    @property
    def stem(self) -> object:
        """First layers of a network, where they are named."""
        if isinstance(self.encoder, dict):
            return self.encoder.get("stem")
        return None


class Member(Document):
    """A member of a run of several."""

    n_features: int | None = None
    left_out: list[str] | None = None
    """Sites that it was trained without; None where all members learn from everybody."""
    beside: Components | None = None


class MemberKind(EncoderOfRun):
    """Members that differ by seed and people alone, of runs that were joined."""

    runs: list[str] = Field(default_factory=list)
    n_members: int | None = None
    objective: Objective = Field(default_factory=Objective)


class FeatureBlock(Document):
    """Features of one encoder among several that were joined."""

    n_features: int | None = None
    objective: Objective = Field(default_factory=Objective)
    run: EncoderOfRun = Field(default_factory=EncoderOfRun)


class Pretraining(EncoderOfRun):
    """Section ``run``: the run that the features are from; empty for features from elsewhere."""

    blocks: dict[str, FeatureBlock] = Field(default_factory=dict)
    kinds: list[MemberKind] = Field(default_factory=list)
    members: list[Member] = Field(default_factory=list)
    n_training_scans: int | None = None
    training: Json = Field(default_factory=dict)
    augment: Json = Field(default_factory=dict)
    imported: Imported | None = None
    init: InitialWeights | None = None

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
