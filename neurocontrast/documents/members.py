"""``members.json``, by which several encoders (members) in one folder are used as one run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr


class JoinedMember(BaseModel):
    """Origin and settings of one encoder (member) in a run that `join` made of several runs."""

    model_config = ConfigDict(frozen=True)

    run: StrictStr
    """Name of the joined run that the encoder comes from, the same for all encoders of that run."""
    kind: StrictInt
    """Number of the recipe: encoders with the same number differ only in seed and training
    people.
    """
    samples: StrictStr
    """Kind of samples that the encoder reads: ``volumes`` or ``measures``."""
    encoder: StrictStr
    """Name of the encoder's network or linear model."""
    objective: StrictStr | None = None
    """Title of the loss; None if the joined run does not state the loss."""


class MembersRecord(BaseModel):
    """Content of ``members.json``: seed, sites left out, and weights of each encoder of the run."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1, 2] = 1
    neurocontrast: StrictStr
    """Version of neurocontrast that wrote the file."""
    seeds: Annotated[tuple[StrictInt | None, ...], Field(min_length=2)]
    """Seed of each encoder; None for joined weights whose seed is unknown."""
    left_out: tuple[tuple[StrictStr, ...], ...] | None = None
    """Sites left out of each encoder's training; None if all encoders learn from all people."""
    weights: tuple[StrictStr, ...] | None = None
    """SHA-256 of each encoder's weights; None until all encoders are trained."""
    joined: tuple[JoinedMember, ...] | None = None
    """Origin of each encoder of joined runs; None if one configuration trained all encoders."""
