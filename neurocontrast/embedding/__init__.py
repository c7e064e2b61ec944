"""From scans to a table of features, and the table itself, which is read without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.embedding.settings import EmbeddingSettings
from neurocontrast.embedding.table import Embeddings, read_embeddings, write_embeddings
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.embedding.extract import extract_features
    from neurocontrast.embedding.scan_embedder import ScanEmbedder

__all__ = ["EmbeddingSettings", "Embeddings", "ScanEmbedder", "extract_features", "read_embeddings", "write_embeddings"]

# Loaded when asked for: an evaluation reads the table, and needs no torch.
__getattr__ = lazy_exports(__name__, {"extract": ["extract_features"], "scan_embedder": ["ScanEmbedder"]})
