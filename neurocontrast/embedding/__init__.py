"""Embed scans with a frozen encoder, and read tables of embeddings, without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from neurocontrast.data.columns import Where
from neurocontrast.documents.document import Json
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
    """Settings of `embed`: rows, layer and precision; preprocessing is the run's."""

    where: Where = Field(default_factory=dict)
    """Rows of the table to embed: column → value, values, or ``{not: values}``."""
    layer: Literal["encoder", "head"] = "encoder"
    """Layer whose output is written: the encoder's features, or the output of the projection head,
    not normalised, as the loss saw it."""
    read_out: ReadOut | None = None
    """Blocks and grid to read features out at, in place of the encoder's (``encoder.read_out``)."""
    batch_size: int = Field(16, ge=1)
    """Scans a batch; the features do not depend on it."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """bf16-mixed is faster on some devices and changes the features: on real brains, features of a
    DenseNet121 had a cosine of 0.98 to the features in float32."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""

    def reading(self) -> Json:
        """Return precision, layer and read-out as the description of a table records them."""
        keys: Json = {"precision": self.precision, "layer": self.layer}
        if self.read_out is not None:
            keys["read_out"] = self.read_out.model_dump(mode="json")
        return keys
