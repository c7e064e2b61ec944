"""Contrastive pretraining for 3D brain MRI with the metadata that hospitals already record.

The way through is `simulate` (or your own scans), `check`, `pretrain`, `embed`, `evaluate`, `report`.
Each is loaded when it is first asked for: importing the package is fast and imports no PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neurocontrast.config import load_config
    from neurocontrast.stages import check, embed, evaluate, pretrain, report, simulate

__all__ = ["check", "embed", "evaluate", "load_config", "pretrain", "report", "simulate"]


def __getattr__(name: str) -> Any:
    if name == "load_config":
        from neurocontrast.config import load_config

        return load_config
    if name in __all__:
        from neurocontrast import stages

        return getattr(stages, name)
    if name == "__version__":
        from neurocontrast.provenance import version

        return version()
    raise AttributeError(f"module 'neurocontrast' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__"]
