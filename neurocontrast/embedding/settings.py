"""What a user can say about embedding."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from neurocontrast.data.columns import Where
from neurocontrast.encoders.settings import ReadOut
from neurocontrast.settings import Settings


class EmbeddingSettings(Settings):
    """How scans are embedded; preprocessing is the run's and cannot be chosen here."""

    where: Where = Field(default_factory=dict)
    """Rows of the table to embed: column → value, values, or ``{not: values}``."""
    layer: Literal["encoder", "head"] = "encoder"
    """What is embedded: the encoder's features, or what the projection head makes of them, which is what the loss saw
    (not normalised)."""
    read_out: ReadOut | None = None
    """Blocks and grid to read features out at, in place of the encoder's own (``encoder.read_out``)."""
    batch_size: int = Field(16, ge=1)
    """Scans a batch; the features do not depend on it."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """bf16-mixed is faster on some devices, and gives other features: on real brains a DenseNet121's were at a cosine
    of 0.98 to those of float32."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""

    def reading(self) -> dict[str, Any]:
        """Return the part of the stored description that says how features were read out of the network."""
        read_out = {} if self.read_out is None else {"read_out": self.read_out.model_dump(mode="json")}
        return {"precision": self.precision, "layer": self.layer, **read_out}
