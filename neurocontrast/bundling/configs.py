"""What a bundle says of itself: ``metadata.json``, ``inference.yaml`` and the numbers of its probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import monai
import nibabel
import numpy as np
import scipy
import torch

from neurocontrast.encoders import Encoder
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.schema import Evaluation

__all__ = ["INTENDED_USE", "Samples", "describe_inference", "describe_network", "probe_state"]

SCHEMA = "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/meta_schema_20240725.json"
INTENDED_USE = "Research on groups of people. Not a medical device; no decision about a person may rest on it."
_KINDS = {"binary": "probabilities", "multiclass": "probabilities", "continuous": "numbers"}


@dataclass(frozen=True)
class Samples:
    """What a bundle's encoder is given, and how the bundle reads it.

    Parameters
    ----------
    what : str
        Their name, such as ``brain MRI``.
    channels, shape : sequence of str, sequence of int
        What the channels of a sample are, and its places along each axis.
    classes : str
        What a sample is, for ``metadata.json``.
    module : str
        Module of ``scripts`` with the reader, whose name is in `scans`, and the evaluator.
    evaluator : str
        Class of the module that runs.
    scans : dict
        Arguments of the reader besides ``place``, and its ``_target_``.
    steps : sequence of mapping
        Transforms, as `neurocontrast.bundling.scripts.as_target` describes them.
    prepared, use, unlike : str
        Sections of the model card about what samples must be and how the bundle is run, and what may differ in others.
    files : dict of str to str
        Further files of the bundle, by name.
    format : dict
        Type, format and modality of a sample, for ``metadata.json``.
    """

    what: str
    channels: Sequence[str]
    shape: Sequence[int]
    classes: str
    module: str
    evaluator: str
    scans: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    prepared: str
    use: str
    unlike: str
    format: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)


def describe_network(
    contract: Mapping[str, Any],
    samples: Samples,
    *,
    probe: FittedProbe | None,
    evaluation: Evaluation | None,
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of ``metadata.json`` by MONAI's bundle specification.

    Parameters
    ----------
    contract : mapping
        Content of ``encoder.json``.
    samples : Samples
        What the encoder is given.
    probe, evaluation : FittedProbe, Evaluation, or None
        What predicts from features, and how well it did.
    provenance : mapping
        Content of ``provenance.json``; may be empty.
    """
    n_features, what = int(contract["n_features"]), "" if probe is None else f", and its probe of {probe.target}"
    scores = "" if probe is None else f"; {_KINDS[probe.kind]} of {probe.target}"
    channels = list(samples.channels)
    image = {**samples.format, "num_channels": len(channels), "spatial_shape": list(samples.shape),
             "dtype": "float32", "value_range": [], "is_patch_data": False,
             "channel_def": dict(zip(map(str, range(len(channels))), channels, strict=True))}  # fmt: skip
    features = {"type": "tuples", "format": "latent", "modality": "n/a", "num_channels": n_features,
                "spatial_shape": [], "dtype": "float32", "value_range": [], "is_patch_data": False,
                "channel_def": {str(number): f"feature {number}" for number in range(n_features)}}  # fmt: skip
    return {
        "schema": SCHEMA,
        "version": "0.1.0",
        "changelog": {"0.1.0": f"bundled by neurocontrast {contract['neurocontrast']}"},
        "monai_version": monai.__version__,
        "pytorch_version": str(torch.__version__).partition("+")[0],
        "numpy_version": np.__version__,
        "required_packages_version": {"nibabel": nibabel.__version__, "scipy": scipy.__version__},
        "task": f"Features of {samples.what}" if probe is None else f"{probe.target} from {samples.what}",
        "description": f"A frozen encoder of {samples.what} ({contract['encoder']['name']}) by neurocontrast{what}.",
        "authors": "the makers of the run",
        "copyright": "see docs/license.txt",
        "data_source": str(provenance.get("cohort", {}).get("source", "not recorded")),
        "data_type": "nibabel" if len(samples.shape) == 3 else "table",
        "image_classes": samples.classes,
        "pred_classes": f"{n_features} features{scores}",
        "eval_metrics": {} if evaluation is None else _metrics(evaluation),
        "intended_use": INTENDED_USE,
        "references": ["Dufumier et al. (2021), Contrastive learning with continuous proxy meta-data for 3D MRI "
                       "classification. MICCAI."],
        "network_data_format": {"inputs": {"image": image}, "outputs": {"pred": features}},
    }  # fmt: skip


def _metrics(evaluation: Evaluation) -> dict[str, float]:
    """Return the cross-validated metrics of the probe."""
    found = {name: each.mean if each.pooled is None else each.pooled for name, each in evaluation.metrics.items()}
    return {name: value for name, value in found.items() if value is not None}


def describe_inference(
    contract: Mapping[str, Any],
    encoder: Encoder,
    samples: Samples,
    *,
    probe: FittedProbe | None,
    outside_percentile: float,
) -> dict[str, Any]:
    """Return the content of ``inference.yaml``.

    Parameters
    ----------
    contract : mapping
        Content of ``encoder.json``.
    encoder : Encoder
        The encoder, whose settings are written down with their defaults.
    samples : Samples
        What the encoder is given.
    probe : FittedProbe or None
        What predicts from features.
    outside_percentile : float
        Percentile of training scans' distances beyond which a scan is outside.
    """
    network = {
        "_target_": "scripts.network.build_encoder",
        "settings": encoder.settings.model_dump(mode="json", exclude={"projection", "projection_norm"}),
        "weights": "$@bundle_root + '/models/model.pt'",
        "n_channels": encoder.n_channels,
        "n_voxels": int(contract.get("n_voxels", 0)),
    }
    steps = list(samples.steps)
    # Half precision is what the encoder was trained on, where the run's cache had it.
    if contract.get("cache_dtype", "float32") == "float16":
        steps = [*steps, {"_target_": "CastToTyped", "keys": "image", "dtype": "$__import__('torch').float16"}]
    parts = {
        "bundle_root": ".",
        "device": "$__import__('torch').device('cuda' if __import__('torch').cuda.is_available() else 'cpu')",
        "dataset_dir": "scans",
        "output": "predictions.jsonl",
        "preprocessing": {"_target_": "Compose", "transforms": steps},
        "scans": {**samples.scans, "place": "@dataset_dir"},
        "dataset": {"_target_": "Dataset", "data": "@scans", "transform": "@preprocessing"},
        "inferer": {"_target_": "SimpleInferer"},
        "network_def": network,
        "evaluator": {
            "_target_": f"scripts.{samples.module}.{samples.evaluator}",
            "scans": "@scans",
            "preprocessing": "@preprocessing",
            "network": "@network_def",
            "device": "@device",
            "output": "@output",
        },
        "run": ["$@evaluator.run()"],
    }
    if probe is not None:
        parts["evaluator"] |= {"probe": "@probe"}  # type: ignore[operator]
        parts["probe"] = _describe_probe(probe, outside_percentile)
    return parts


def _describe_probe(probe: FittedProbe, outside_percentile: float) -> dict[str, Any]:
    return {
        "_target_": "scripts.probe.load_probe",
        "weights": "$@bundle_root + '/models/probe.pt'",
        "kind": probe.kind,
        "classes": list(probe.classes),
        "threshold": probe.threshold,
        "limits": None if probe.limits is None else list(probe.limits),
        "outside_percentile": outside_percentile,
    }


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
