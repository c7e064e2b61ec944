"""Networks that turn a volume into a representation, their projection heads, and their weight files."""

from neurocontrast.encoders.encoder import Encoder, build_encoder, check_shape
from neurocontrast.encoders.heads import ContrastiveModel, ProjectionHead, build_model
from neurocontrast.encoders.settings import EncoderSettings
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
