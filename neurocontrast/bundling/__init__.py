"""The texts of a bundle: configuration, description and model card, from templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import jinja2
import torch

from neurocontrast.data.cohort import columns_of
from neurocontrast.data.measures import MeasuresContract
from neurocontrast.data.sources import BrainVolumes, RegionalMeasures
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.record import Evaluation
from neurocontrast.provenance import version
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["MARKER", "Samples", "texts_of"]

MARKER = "configs/metadata.json"
_TEMPLATES = {
    MARKER: "metadata.json.j2",
    "configs/inference.yaml": "inference.yaml.j2",
    "docs/README.md": "README.md.j2",
}
_INTENDED_USE = "Research on groups of people. Not a medical device; no decision about a person may rest on it."
_TENSOR = {"dtype": "float32", "value_range": [], "is_patch_data": False}
_JINJA = jinja2.Environment(
    loader=jinja2.PackageLoader("neurocontrast.bundling"), keep_trailing_newline=True, autoescape=False
)
_JINJA.policies["json.dumps_kwargs"] = {"ensure_ascii": False}


@dataclass(frozen=True)
class Samples:
    """What a bundle's encoder is given, for the templates.

    `format` is for ``metadata.json``, and `named`, `unlike` are for the model card. `contract` is of measures alone.
    """

    what: str
    channels: Sequence[str]
    shape: Sequence[int]
    classes: str
    format: Mapping[str, str]
    unlike: str
    columns: Sequence[str] = ()
    named: str = ""
    is_resampled: bool = False
    contract: MeasuresContract | None = None

    @classmethod
    def of(cls, source: BrainVolumes | RegionalMeasures) -> Samples:
        """Return what the encoder of a run is given."""
        if isinstance(source, RegionalMeasures):
            known = source.known
            return cls(
                what="regional measures of the brain",
                channels=known.columns,
                shape=(1,),
                classes=f"{len(known.columns)} measures of the atlas {known.atlas}, by models/encoder.json",
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
            classes=f"{', '.join(channels)}, on the grid and in the intensities of models/encoder.json",
            format={"type": "image", "format": "magnitude", "modality": "MR"},
            unlike="another scanner, sequence, age, disease or brain extraction",
            columns=columns,
            named="T1-weighted, skull-stripped brains" if columns == ("path",) else f"Maps: {', '.join(columns)}",
            is_resampled=bool(isinstance(source.transforms, Preprocessing) and source.transforms.spacing_mm),
        )


def texts_of(
    samples: Samples,
    contract: Mapping[str, Any],
    provenance: Mapping[str, Any],
    *,
    probe: FittedProbe | None,
    evaluation: Evaluation | None,
) -> dict[str, str]:
    """Return the text of each file of a bundle, by its name.

    `contract` and `provenance` are the contents of ``encoder.json`` and ``provenance.json``, which may be empty.
    """
    found = {} if evaluation is None else evaluation.metrics
    metrics = {name: each.value for name, each in found.items()}
    given = {
        **{"samples": samples, "contract": contract, "probe": probe, "evaluation": evaluation},
        "provenance": {"cohort": {}, **provenance},
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "simulated": contract.get("simulated") or (evaluation is not None and evaluation.simulated),
        "versions": {name: metadata.version(name) for name in ("monai", "numpy")}
        | {"torch": torch.__version__.partition("+")[0], "neurocontrast": version()},
        "features": [f"feature {number}" for number in range(int(contract["n_features"]))],
        "numbered": lambda names: {str(number): name for number, name in enumerate(names)},
        **{"tensor": _TENSOR, "intended_use": _INTENDED_USE},
    }
    return {name: _JINJA.get_template(template).render(given) for name, template in _TEMPLATES.items()}
