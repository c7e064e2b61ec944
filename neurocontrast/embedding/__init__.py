"""From scans to a table of features, and the table itself, which is read without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neurocontrast.embedding.settings import EmbeddingSettings
from neurocontrast.embedding.table import Embeddings, read_embeddings, write_embeddings

if TYPE_CHECKING:
    from neurocontrast.embedding.extract import extract_features

__all__ = ["EmbeddingSettings", "Embeddings", "extract_features", "read_embeddings", "write_embeddings"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: an evaluation reads the table, and needs no torch.
    if name == "extract_features":
        from neurocontrast.embedding.extract import extract_features

        return extract_features
    raise AttributeError(f"module 'neurocontrast.embedding' has no attribute '{name}'")
