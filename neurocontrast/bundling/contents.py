"""The files of a bundle but its weights: configuration, description and model card from templates, and the code.

The code is modules of this package, and all that they import of it, as one flat package ``scripts``.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch

from neurocontrast.data.cohort import columns_of
from neurocontrast.data.measures import MeasuresContract
from neurocontrast.data.sources import BrainVolumes, RegionalMeasures
from neurocontrast.encoders import Encoder
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.record import Evaluation
from neurocontrast.exceptions import ConfigError
from neurocontrast.provenance import version
from neurocontrast.transforms.compose import brain_steps
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["MARKER", "MODULES", "Samples", "probe_state", "sources_of", "texts_of"]

MARKER = "configs/metadata.json"
_TEMPLATES = {
    MARKER: "metadata.json.j2",
    "configs/inference.yaml": "inference.yaml.j2",
    "docs/README.md": "README.md.j2",
}
_INTENDED_USE = "Research on groups of people. Not a medical device; no decision about a person may rest on it."
_TENSOR = {"dtype": "float32", "value_range": [], "is_patch_data": False}
_MEASURES = "configs/measures.json"
_JINJA = jinja2.Environment(
    loader=jinja2.PackageLoader("neurocontrast.bundling"), keep_trailing_newline=True, autoescape=False
)
_JINJA.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
MODULES = ("neurocontrast.bundling.inference",)
"""Modules that the configuration of every bundle names."""
_INIT = "Code of neurocontrast {} (BSD-3-Clause, docs/license.txt) that reads, prepares, encodes and predicts scans."
_ROOT = Path(__file__).resolve().parents[1]
_ALLOWED = {"torch", "monai", "numpy", "scipy", "nibabel", "isal"}
"""Packages that a bundle may need; without isal it reads compressed scans more slowly."""
_IMPORT = re.compile(r"^( *)from neurocontrast(?:\.\w+)*\.(\w+) import", re.MULTILINE)


@dataclass(frozen=True)
class Samples:
    """What a bundle's encoder is given, and how the bundle reads it, for the templates.

    `evaluator` is the class of ``scripts`` that runs, `scans` its reader with arguments, `steps` the transforms;
    `format` is for ``metadata.json``, and `named`, `unlike` are for the model card. `contract` is of measures alone.
    """

    what: str
    channels: Sequence[str]
    shape: Sequence[int]
    classes: str
    evaluator: str
    scans: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    format: Mapping[str, str]
    unlike: str
    named: str = ""
    is_resampled: bool = False
    contract: MeasuresContract | None = None

    @classmethod
    def of(cls, source: BrainVolumes | RegionalMeasures) -> Samples:
        """Return what the encoder of a run is given."""
        if isinstance(source, RegionalMeasures):
            known, place = source.known, {"contract": f"$@bundle_root + '/{_MEASURES}'"}
            return cls(
                what="regional measures of the brain",
                channels=known.columns,
                shape=(1,),
                classes=f"{len(known.columns)} measures of the atlas {known.atlas}, standardised by {_MEASURES}",
                evaluator="measures.MeasuresInference",
                scans={"_target_": "scripts.measures.list_rows", **place},
                steps=[{"_target_": "scripts.measures.StandardiseMeasuresd", **place}],
                format={"type": "tuples", "format": "raw", "modality": "n/a"},
                unlike="another scanner, sequence, version of FreeSurfer, age or disease",
                contract=known,
            )
        channels = source.channels or ("t1",)
        columns = columns_of(channels)
        return cls(
            what="brain MRI",
            channels=channels,
            shape=tuple(source.transforms.image_shape[1:]),
            classes=f"{', '.join(channels)}, on the grid and in the intensities of configs/inference.yaml",
            evaluator="inference.Inference",
            scans={"_target_": "scripts.inference.list_scans", "columns": list(columns)},
            steps=_steps(source),
            format={"type": "image", "format": "magnitude", "modality": "MR"},
            unlike="another scanner, sequence, age, disease or brain extraction",
            named="T1-weighted, skull-stripped brains" if columns == ("path",) else f"Maps: {', '.join(columns)}",
            is_resampled=bool(isinstance(source.transforms, Preprocessing) and source.transforms.spacing_mm),
        )


def _steps(source: BrainVolumes) -> list[dict[str, Any]]:
    """Return the transforms of a run as MONAI's configuration names them."""
    transforms = source.transforms
    if isinstance(transforms, DescribedTransforms):
        raise ConfigError("run: its transforms came from Python, and a bundle holds none of these.")
    return [_as_target(each, arguments) for each, arguments in brain_steps(transforms, "image")]


def texts_of(
    samples: Samples,
    encoder: Encoder,
    contract: Mapping[str, Any],
    provenance: Mapping[str, Any],
    *,
    probe: FittedProbe | None,
    evaluation: Evaluation | None,
    outside_percentile: float,
) -> dict[str, str]:
    """Return the text of each file of a bundle, by its name.

    `contract` and `provenance` are the contents of ``encoder.json`` and ``provenance.json``, which may be empty.
    """
    found = {} if evaluation is None else evaluation.metrics
    metrics = {name: each.value for name, each in found.items()}
    steps = list(samples.steps)
    # Half precision is what the encoder was trained on, where the run's cache had it.
    if contract.get("cache_dtype", "float32") == "float16":
        steps.append({"_target_": "CastToTyped", "keys": "image", "dtype": "$__import__('torch').float16"})
    given = {
        **{"samples": samples, "contract": contract, "probe": probe, "evaluation": evaluation, "steps": steps},
        "provenance": {"cohort": {}, **provenance},
        "settings": encoder.settings.model_dump(mode="json", exclude={"projection", "projection_norm"}),
        "n_channels": encoder.n_channels,
        "outside_percentile": outside_percentile,
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "simulated": contract.get("simulated") or (evaluation is not None and evaluation.simulated),
        "versions": {name: metadata.version(name) for name in ("monai", "numpy", "nibabel", "scipy")}
        | {"torch": torch.__version__.partition("+")[0]},
        "features": [f"feature {number}" for number in range(int(contract["n_features"]))],
        "numbered": lambda names: {str(number): name for number, name in enumerate(names)},
        **{"tensor": _TENSOR, "intended_use": _INTENDED_USE},
    }
    modules = {f"neurocontrast.bundling.{samples.evaluator.partition('.')[0]}", *MODULES}
    for place in {str(step["_target_"]).rpartition(".")[0] for step in samples.steps} - {"scripts.measures"}:
        if place.startswith("scripts."):
            modules.add(f"neurocontrast.transforms.{place.partition('.')[2]}")
    texts = {f"scripts/{name}": text for name, text in sources_of(sorted(modules)).items()}
    texts |= {name: _JINJA.get_template(template).render(given) for name, template in _TEMPLATES.items()}
    if samples.contract is not None:
        texts[_MEASURES] = json.dumps(samples.contract.as_json(), indent=1) + "\n"
    return texts


def probe_state(probe: FittedProbe) -> dict[str, torch.Tensor]:
    """Return the numbers of a probe: standardisation and coefficients as one linear layer."""
    weights = probe.coefficients / probe.scale[:, None]
    bias = probe.intercept - probe.mean @ weights
    state = {"linear.weight": torch.from_numpy(weights.T.copy()), "linear.bias": torch.from_numpy(bias)}
    state["shares"] = torch.from_numpy(np.asarray(probe.shares, dtype=np.float64))
    if probe.distribution is not None:
        names = ("centres", "scale", "axes", "variances", "remainder", "usual")
        arrays = {name: np.asarray(getattr(probe.distribution, name), dtype=np.float64) for name in names}
        state |= {f"inside_{name}": torch.from_numpy(values.copy()) for name, values in arrays.items()}
    return state


def sources_of(modules: Iterable[str]) -> dict[str, str]:
    """Return the text of each file of ``scripts`` by its name: some modules, and what they import of this package.

    A module that needs a package that a bundle does without is a `ConfigError`.
    """
    waiting, found = list(modules), {"__init__.py": f'"""{_INIT.format(version())}"""\n'}
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        text = (_ROOT / Path(*name.split(".")[1:])).with_suffix(".py").read_text(encoding="utf-8")
        for imported in _imports(ast.parse(text)):
            if imported.startswith("neurocontrast."):
                waiting += [] if imported in seen else [imported]
                seen.add(imported)
            elif imported.partition(".")[0] not in _ALLOWED | sys.stdlib_module_names:
                raise ConfigError(f"run: it cannot be bundled: {name} needs {imported}, which a bundle does without.")
        found[f"{name.rpartition('.')[2]}.py"] = _IMPORT.sub(r"\1from scripts.\2 import", text)
    return dict(sorted(found.items()))


def _as_target(transform: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a transform as a configuration of MONAI names it; one of this package is one of ``scripts``."""
    module = transform.__module__
    place = f"scripts.{module.rpartition('.')[2]}" if module.startswith("neurocontrast.") else "monai.transforms"
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in arguments.items()}
    return {"_target_": f"{place}.{transform.__name__}", **plain}


def _imports(node: ast.AST) -> Iterator[str]:
    """Give the modules that a file imports at its top, except for type checking."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module or ""
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        elif not isinstance(child, ast.FunctionDef):
            yield from _imports(child)
