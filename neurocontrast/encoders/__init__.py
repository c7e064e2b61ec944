"""Networks that turn a volume into a representation, their projection heads, and their weight files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.encoders.settings import EncoderSettings
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.encoders.encoder import Encoder, build_encoder, check_shape
    from neurocontrast.encoders.heads import ContrastiveModel, ProjectionHead, build_model
    from neurocontrast.encoders.weights import load_encoder, read_contract, save_encoder

__all__ = [
    "ContrastiveModel",
    "Encoder",
    "EncoderSettings",
    "ProjectionHead",
    "build_encoder",
    "build_model",
    "check_shape",
    "load_encoder",
    "read_contract",
    "save_encoder",
]

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(
    __name__,
    {
        "encoder": ["Encoder", "build_encoder", "check_shape"],
        "heads": ["ContrastiveModel", "ProjectionHead", "build_model"],
        "weights": ["load_encoder", "read_contract", "save_encoder"],
    },
)
