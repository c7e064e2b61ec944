"""The files of a bundle but its weights: configuration, description and model card from templates, and the code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import jinja2
import numpy as np
import torch

from neurocontrast.bundling.scripts import MODULES, as_target, sources_of
from neurocontrast.data.cohort import columns_of
from neurocontrast.data.measures import MeasuresContract
from neurocontrast.data.sources import BrainVolumes, RegionalMeasures
from neurocontrast.encoders import Encoder
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.record import Evaluation
from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms.compose import brain_steps
from neurocontrast.transforms.described import DescribedTransforms, transform_class
from neurocontrast.transforms.description import TARGET
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["MARKER", "Samples", "probe_state", "texts_of"]

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
    if not isinstance(transforms, DescribedTransforms):
        return [as_target(each, arguments) for each, arguments in brain_steps(transforms, "image")]
    if transforms.targets is None:
        raise ConfigError("run: its transforms came from Python, and a bundle holds none of these.")
    named = [(transform_class(str(step[TARGET])), step) for step in transforms.targets]
    return [as_target(each, {key: step[key] for key in step if key != TARGET}) for each, step in named]


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

    Parameters
    ----------
    samples : Samples
        What the encoder is given.
    encoder : Encoder
        The encoder, whose settings are written down with their defaults.
    contract, provenance : mapping
        Contents of ``encoder.json`` and ``provenance.json``; the second may be empty.
    probe, evaluation : FittedProbe, Evaluation, or None
        What predicts from features, and how well it did.
    outside_percentile : float
        Percentile of training scans' distances beyond which a scan is outside.
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
