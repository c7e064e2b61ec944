"""What the command line and the Python API both call: one function a stage.

Each is imported when it is first asked for, so that `evaluate` and `report` work without PyTorch.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.stages.bundle import bundle
    from neurocontrast.stages.check import check
    from neurocontrast.stages.convert import convert
    from neurocontrast.stages.doctor import doctor
    from neurocontrast.stages.embed import embed
    from neurocontrast.stages.evaluate import evaluate
    from neurocontrast.stages.explain import explain
    from neurocontrast.stages.finetune import finetune
    from neurocontrast.stages.join import join
    from neurocontrast.stages.make_data import index, prepare_images, simulate
    from neurocontrast.stages.predict import predict
    from neurocontrast.stages.prepare import prepare
    from neurocontrast.stages.pretrain import pretrain
    from neurocontrast.stages.qc import qc
    from neurocontrast.stages.report import compare, report
    from neurocontrast.stages.weights import export_weights, import_weights

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
    "predict",
    "prepare",
    "prepare_images",
    "pretrain",
    "qc",
    "report",
    "simulate",
]


_ELSEWHERE = {
    "make_data": ["index", "prepare_images", "simulate"],
    "report": ["compare", "report"],
    "weights": ["export_weights", "import_weights"],
}

__getattr__ = lazy_exports(__name__, {name: [name] for name in __all__} | _ELSEWHERE)


class _Stages(ModuleType):
    """Keeps functions such as ``stages.embed`` when the module of the same name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Stages
