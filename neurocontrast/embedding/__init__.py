"""From scans to a table of features, and the table itself, which is read without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from neurocontrast.data.columns import Where
from neurocontrast.documents.embeddings import Embeddings, read_embeddings, write_embeddings
from neurocontrast.encoders.settings import ReadOut
from neurocontrast.lazy import lazy_exports
from neurocontrast.settings import Settings

if TYPE_CHECKING:
    from neurocontrast.embedding.extract import extract_features
    from neurocontrast.embedding.scan_embedder import ScanEmbedder

__all__ = [
    "EmbeddingSettings",
    "Embeddings",
    "ScanEmbedder",
    "extract_features",
    "read_embeddings",
    "write_embeddings",
]

# Loaded when asked for: an evaluation reads the table, and needs no torch.
__getattr__ = lazy_exports(
    __name__, {"extract": ["extract_features"], "scan_embedder": ["ScanEmbedder"]}
)


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
        read_out = (
            {} if self.read_out is None else {"read_out": self.read_out.model_dump(mode="json")}
        )
        return {"precision": self.precision, "layer": self.layer, **read_out}
