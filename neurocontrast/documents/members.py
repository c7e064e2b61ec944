"""``members.json``, by which several encoders in one folder are used as one run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr


class JoinedMember(BaseModel):
    """Origin and recipe of a member that was trained as a run of its own."""

    model_config = ConfigDict(frozen=True)

    run: StrictStr
    """Name of the run that was joined; several members of one run share it."""
    kind: StrictInt
    """Number of its kind: members of one kind differ by seed and people alone."""
    samples: StrictStr
    """``volumes`` or ``measures``, which the encoder reads."""
    encoder: StrictStr
    """Name of the network or linear model."""
    objective: StrictStr | None = None
    """Title of the loss; None where the run does not say."""


class MembersRecord(BaseModel):
    """Content of ``members.json``: seed, people and weights of each member."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1, 2] = 1
    neurocontrast: StrictStr
    """Version that wrote the file."""
    seeds: Annotated[tuple[StrictInt | None, ...], Field(min_length=2)]
    """Seed of each member; None of joined weights whose seed is unknown."""
    left_out: tuple[tuple[StrictStr, ...], ...] | None = None
    """Sites that each member is trained without; None where all members learn from all people."""
    weights: tuple[StrictStr, ...] | None = None
    """SHA-256 of the weights of each member; None until all are trained."""
    joined: tuple[JoinedMember, ...] | None = None
    """Origin of each member of joined runs; None where one configuration trained all members."""
