"""Contrastive pretraining for 3D brain MRI with the metadata that hospitals already record.

A project runs through `simulate` (or real scans), `check`, `pretrain`, `embed`, `evaluate` and
`report`. Functions are loaded at their first use: importing the package is fast, and does not
import PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neurocontrast.lazy import lazy_exports
from neurocontrast.natural.registration import register_natural_images

if TYPE_CHECKING:
    from neurocontrast.commands.bundle import bundle
    from neurocontrast.commands.check import check
    from neurocontrast.commands.doctor import doctor
    from neurocontrast.commands.embed import embed
    from neurocontrast.commands.evaluate import evaluate
    from neurocontrast.commands.explain import explain
    from neurocontrast.commands.finetune import finetune
    from neurocontrast.commands.images import prepare_images
    from neurocontrast.commands.index import index
    from neurocontrast.commands.join import join
    from neurocontrast.commands.predict import predict
    from neurocontrast.commands.pretrain import pretrain
    from neurocontrast.commands.qc import qc
    from neurocontrast.commands.report import compare, report
    from neurocontrast.commands.simulate import simulate
    from neurocontrast.commands.verify_weights import verify_weights
    from neurocontrast.commands.weights import export_weights, import_weights
    from neurocontrast.config import load_config

_MODULES = [
    "data",
    "datasets",
    "embedding",
    "encoders",
    "evaluation",
    "kernels",
    "losses",
    "natural",
    "training",
    "transforms",
    "weights",
]
_PLACES = {
    "config": ["load_config"],
    "provenance": ["version"],
    "commands.check": ["check"],
    "commands.images": ["prepare_images"],
    "commands.index": ["index"],
    "commands.predict": ["predict"],
    "commands.qc": ["qc"],
    "commands.report": ["compare", "report"],
    "commands.bundle": ["bundle"],
    "commands.simulate": ["simulate"],
    "commands.embed": ["embed"],
    "commands.evaluate": ["evaluate"],
    "commands.explain": ["explain"],
    "commands.finetune": ["finetune"],
    "commands.join": ["join"],
    "commands.doctor": ["doctor"],
    "commands.pretrain": ["pretrain"],
    "commands.verify_weights": ["verify_weights"],
    "commands.weights": ["export_weights", "import_weights"],
}
register_natural_images()  # a kind of samples beside brains

__all__ = sorted(set().union(*_PLACES.values()) - {"version"})
_find = lazy_exports(__name__, _PLACES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "__version__":
        return _find("version")()
    return _find(name)


def __dir__() -> list[str]:
    special = [name for name in globals() if name.startswith("__")]
    return sorted({*__all__, *_MODULES, *special})
