"""Embed scans with a trained encoder, and read tables of embeddings, which needs no PyTorch."""

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
    """Settings of `embed`: rows of the table, layer of the network, precision and device.

    Scans are preprocessed as in pretraining.
    """

    where: Where = Field(default_factory=dict)
    """Rows of the table to embed, by column: a value, a list of values, or ``{not: values}``."""
    layer: Literal["encoder", "head"] = "encoder"
    """Layer whose output is written: ``encoder`` for the encoder's features, ``head`` for the
    output of the projection head, which the loss compares, not normalised."""
    read_out: ReadOut | None = None
    """Blocks and grid of the features, in place of the encoder's setting ``encoder.read_out``."""
    batch_size: int = Field(16, ge=1)
    """Number of scans in a batch; features do not depend on the number."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """Precision of the network. ``bf16-mixed`` is faster on some devices and changes the features:
    on real brains, features of a DenseNet121 had a cosine similarity of 0.98 to the features in
    float32."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """Device. ``auto`` uses a GPU if there is one."""

    def reading(self) -> Json:
        """Return the settings that change features, as a dictionary for the embeddings table.

        The keys are ``precision`` and ``layer``, and ``read_out`` if it is set. ``read_out`` is a
        dictionary with the keys ``blocks``, the blocks of the network whose feature maps become
        features, and ``grid``, the numbers of grid cells over which the maps are averaged.
        """
        keys: Json = {"precision": self.precision, "layer": self.layer}
        if self.read_out is not None:
            keys["read_out"] = self.read_out.model_dump(mode="json")
        return keys
