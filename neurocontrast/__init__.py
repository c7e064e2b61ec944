"""Contrastive pretraining for 3D brain MRI with the metadata that hospitals already record.

The way through is `simulate` (or your own scans), `check`, `pretrain`, `embed`, `evaluate`, `report`.
Each is loaded when it is first asked for: importing the package is fast and imports no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.config import load_config
    from neurocontrast.stages import (
        bundle,
        check,
        compare,
        convert,
        doctor,
        embed,
        evaluate,
        explain,
        export_weights,
        finetune,
        import_weights,
        index,
        join,
        predict,
        prepare_images,
        pretrain,
        qc,
        report,
        simulate,
    )

__all__ = [
    "bundle",
    "check",
    "compare",
    "convert",
    "doctor",
    "embed",
    "evaluate",
    "explain",
    "export_weights",
    "finetune",
    "import_weights",
    "index",
    "join",
    "load_config",
    "predict",
    "prepare_images",
    "pretrain",
    "qc",
    "report",
    "simulate",
]

_MODULES = ["data", "datasets", "embedding", "encoders", "evaluation", "kernels", "losses", "training", "transforms",
            "weights"]  # fmt: skip
_STAGES = [name for name in __all__ if name != "load_config"]
_find = lazy_exports(__name__, {"config": ["load_config"], "stages": _STAGES, "provenance": ["version"]})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    return _find("version")() if name == "__version__" else _find(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
