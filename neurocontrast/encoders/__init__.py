"""Networks that encode brain volumes, natural images or regional measures, and files of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.encoders.building import (
        TwoEncoders,
        build_encoder,
        build_model,
        load_encoder,
        load_model,
    )
    from neurocontrast.encoders.encoder import (
        ContrastiveModel,
        Encoder,
        ProjectionHead,
        check_shape,
    )
    from neurocontrast.encoders.settings import Beside, EncoderSettings, ReadOut
    from neurocontrast.encoders.weights import read_contract, save_encoder

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
_PLACES = {
    "building": ["TwoEncoders", "build_encoder", "build_model", "load_encoder", "load_model"],
    "encoder": ["ContrastiveModel", "Encoder", "ProjectionHead", "check_shape"],
    "settings": ["Beside", "EncoderSettings", "ReadOut"],
    "weights": ["read_contract", "save_encoder"],
}
__all__ = sorted(set().union(*_PLACES.values()))
__getattr__ = lazy_exports(__name__, _PLACES)
