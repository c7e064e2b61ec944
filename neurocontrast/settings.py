"""The base of every component's own, typed configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Settings"]


class Settings(BaseModel):
    """A frozen group of settings; an unknown key is an error, never ignored.

    Each component defines its own (``Preprocessing`` in ``data``, ``AugmentSettings`` in
    ``transforms`` …); ``config.schema`` puts them together into the file a user writes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, protected_namespaces=())
