"""What a user can say about embedding."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from neurocontrast.settings import Settings

__all__ = ["EmbeddingSettings"]


class EmbeddingSettings(Settings):
    """How scans are embedded; preprocessing is the run's and cannot be chosen here.

    Parameters
    ----------
    where : mapping
        Rows of the table to embed: column → allowed values.
    batch_size : int
        Scans a batch; the features do not depend on it.
    precision : {'auto', '32-true', 'bf16-mixed'}
        ``auto`` is bf16-mixed on a GPU that has it, and 32-true elsewhere.
    accelerator : {'auto', 'cpu', 'cuda'}
        ``auto`` takes a GPU where there is one.
    """

    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    batch_size: Annotated[int, Field(ge=1)] = 16
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto"
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
