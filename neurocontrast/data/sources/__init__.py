"""Where the samples of a run come from: scans of brains, regional measures, or natural images."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from monai.transforms import Compose, Transform

from neurocontrast.data.settings import (
    AnyDataSettings,
    DataSettings,
    ImageDataSettings,
    MeasureDataSettings,
    MeasureTableSettings,
)
from neurocontrast.data.sources.measures import RegionalMeasures
from neurocontrast.data.sources.natural import NaturalImages
from neurocontrast.data.sources.paired import PairedBrains
from neurocontrast.data.sources.source import check_kind
from neurocontrast.data.sources.volumes import BrainVolumes
from neurocontrast.documents.encoder import EncoderContract
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.transforms import MeasureAugmentSettings

__all__ = [
    "AnySource",
    "BrainVolumes",
    "Brains",
    "NaturalImages",
    "PairedBrains",
    "RegionalMeasures",
    "brains_of_run",
    "check_kind",
    "source_of",
    "source_of_run",
]

_CONTRACT = "encoder.json"

Brains = BrainVolumes | RegionalMeasures
AnySource = Brains | NaturalImages


def source_of(
    data: AnyDataSettings,
    *,
    transforms: Compose | None = None,
    augment: Transform | None = None,
    frame: pd.DataFrame | None = None,
    second: tuple[MeasureTableSettings, MeasureAugmentSettings] | None = None,
) -> AnySource:
    """Return the source that the section ``data`` describes, with transforms and a table that came from Python.

    `second` describes the measures of the same scans, for a second encoder, and their views.
    """
    if isinstance(data, DataSettings) and second is not None:
        measures = RegionalMeasures(MeasureDataSettings(**dict(second[0])))
        return PairedBrains(
            data, augment, frame, python_transforms=transforms, second=measures, augment_2=second[1]
        )
    if isinstance(data, DataSettings):
        return BrainVolumes(data, augment, frame, python_transforms=transforms)
    if transforms is not None:
        raise ConfigError(
            f"transforms: are for scans (data.kind: volumes), found data.kind: {data.kind}."
        )
    if isinstance(data, MeasureDataSettings):
        return RegionalMeasures(data, augment, frame)
    return NaturalImages(data, augment, frame)


def source_of_run(
    run: Path,
    contract: EncoderContract,
    data: AnyDataSettings,
    *,
    transforms: Compose | None = None,
) -> AnySource:
    """Return images by the section ``data``, preprocessed as those of a run; `contract` is its ``encoder.json``.

    Settings of ``data`` that were given and say otherwise than the run, which they cannot change,
    are refused.
    """
    trained = contract.preprocessing.kind
    if trained not in ("volumes", "images", "measures"):
        raise CheckpointError(
            f"{_CONTRACT}: preprocessing.kind {trained!r} is not known. Upgrade neurocontrast."
        )
    if trained != data.kind:
        if "kind" in data.model_fields_set:
            raise ConfigError(
                f"data.kind: is '{data.kind}', and the run was trained on {trained}. Give the run's own configuration, "
                "or none."
            )
        kinds: dict[str, Any] = {
            "volumes": DataSettings,
            "images": ImageDataSettings,
            "measures": MeasureDataSettings,
        }
        needless = {"images_root", "cache_dir", "cache_shared"}  # of samples that are not in files
        lost = sorted(data.model_fields_set - {*kinds[trained].model_fields, *needless})
        if lost:
            raise ConfigError(
                f"data.{lost[0]}: is for {data.kind}, and the run was trained on {trained}. Leave it out."
            )
        common: dict[str, Any] = {"images_root": data.images_root, "n_workers": data.n_workers}
        if trained == "measures":
            skips = getattr(data, "skip_unreadable", False)
            data = MeasureDataSettings(n_workers=data.n_workers, skip_unreadable=skips)
        else:
            data = (
                DataSettings(**common)
                if trained == "volumes"
                else ImageDataSettings(kind="images", **common)
            )
    try:
        source = source_of(data, transforms=transforms).as_in_run(contract)
    except DataError as error:
        raise CheckpointError(f"{run / _CONTRACT}: {error}") from error
    of_run = source.in_run(contract.preprocessing)
    problems = []
    for name in sorted(of_run.keys() & data.model_fields_set):
        asked = getattr(data, name)
        trained = of_run[name]
        asked = ("t1",) if name == "channels" and asked is None else asked
        if asked != trained:
            shown = [json.dumps(each, default=str) for each in (asked, trained)]
            problems.append(f"data.{name}: is {shown[0]}, and the run was trained with {shown[1]}")
    if problems:
        raise ConfigError(
            "\n".join(problems) + "\nThe run decides how they are prepared: take this out."
        )
    return source


def brains_of_run(
    run: Path,
    contract: EncoderContract,
    data: AnyDataSettings,
    *,
    what: str,
    transforms: Compose | None = None,
) -> Brains:
    """Return brains as a run was trained on them; `what` begins the refusal of a run of natural images."""
    if contract.preprocessing.kind == "images":
        raise ConfigError(
            f"{what}, and this run was trained on natural images. Give a run that was trained on brains."
        )
    source = source_of_run(run, contract, data, transforms=transforms)
    assert not isinstance(source, NaturalImages)
    return source
