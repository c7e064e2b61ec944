"""Make the source of a run's samples: scans of brains, regional measures, or other kinds."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from monai.transforms import Compose, Transform

from neurocontrast.data.kinds import KINDS
from neurocontrast.data.settings import (
    AnyDataSettings,
    DataSettings,
    MeasureDataSettings,
    MeasureTableSettings,
)
from neurocontrast.data.sources.measures import RegionalMeasures
from neurocontrast.data.sources.paired import PairedBrains
from neurocontrast.data.sources.source import Source, check_kind
from neurocontrast.data.sources.volumes import BrainVolumes
from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import EncoderContract
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.transforms import MeasureAugmentSettings

__all__ = [
    "BrainVolumes",
    "Brains",
    "PairedBrains",
    "RegionalMeasures",
    "Source",
    "brains_of_run",
    "check_kind",
    "source_of",
    "source_of_run",
]

_CONTRACT = "encoder.json"

_OF_BRAINS: dict[str, type[DataSettings] | type[MeasureDataSettings]] = {
    "volumes": DataSettings,
    "measures": MeasureDataSettings,
}
"""Kind of samples of brains → class of settings for the section ``data``."""

Brains = BrainVolumes | RegionalMeasures


def source_of(
    data: AnyDataSettings,
    *,
    transforms: Compose | None = None,
    augment: Transform | None = None,
    frame: pd.DataFrame | None = None,
    second: tuple[MeasureTableSettings, MeasureAugmentSettings] | None = None,
) -> Source:
    """Return the source of samples that the configuration's section ``data`` describes.

    From Python come `transforms` that preprocess scans, `augment` that makes views, and `frame`, a
    table in place of ``data.participants``. `second` has the settings of regional measures of the
    same scans, which a second encoder reads, and of their views.
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
    kind = KINDS.find(data.kind)
    assert kind is not None  # the configuration's schema knows no other
    return kind.source(data, augment, frame)


def source_of_run(
    run: Path,
    contract: EncoderContract,
    data: AnyDataSettings,
    *,
    transforms: Compose | None = None,
) -> Source:
    """Return a source of new samples that are preprocessed like a run's training samples.

    `contract` is the run's ``encoder.json``. A setting of ``data`` that the user has set is refused
    if it contradicts the run's preprocessing, which cannot be changed.
    """
    trained = contract.preprocessing.kind
    if trained not in (*_OF_BRAINS, *KINDS.names()):
        raise CheckpointError(
            f"{_CONTRACT}: preprocessing.kind {trained!r} is not known. Upgrade neurocontrast."
        )
    if trained != data.kind:
        data = _settings_of_kind(trained, data)
    try:
        source = source_of(data, transforms=transforms).as_in_run(contract)
    except DataError as error:
        raise CheckpointError(f"{run / _CONTRACT}: {error}") from error
    _check_settings(data, source.in_run(contract.preprocessing))
    return source


def _settings_of_kind(trained: str, data: AnyDataSettings) -> AnyDataSettings:
    """Return settings of section ``data`` for the kind of samples that an encoder was trained on.

    The settings replace `data`, which is of another kind. `n_workers` is taken over from `data`,
    and so is ``skip_unreadable`` for measures, or ``images_root`` for other samples. Settings of
    `data` that the kind `trained` does not have are refused.
    """
    if "kind" in data.model_fields_set:
        raise ConfigError(
            f"data.kind: is '{data.kind}', and the run was trained on {trained}. Give the run's "
            "own configuration, or none."
        )
    settings: Any = _OF_BRAINS.get(trained)
    kind = KINDS.find(trained)
    if kind is not None:
        settings = kind.data
    needless = {"images_root", "cache_dir", "cache_shared"}  # of samples that are not in files
    lost = sorted(data.model_fields_set - {*settings.model_fields, *needless})
    if lost:
        raise ConfigError(
            f"data.{lost[0]}: is for {data.kind}, and the run was trained on {trained}. Leave it "
            "out."
        )
    common: dict[str, Any] = {"kind": trained, "n_workers": data.n_workers}
    if trained == "measures":
        common["skip_unreadable"] = getattr(data, "skip_unreadable", False)
    else:
        common["images_root"] = data.images_root
    chosen: AnyDataSettings = settings(**common)
    return chosen


def _check_settings(data: AnyDataSettings, of_run: Json) -> None:
    """Refuse settings of section ``data`` that the user has set and that differ from a run's.

    `of_run` has the settings that the preprocessing of the run has fixed, by name.
    """
    problems = []
    for name in sorted(of_run.keys() & data.model_fields_set):
        asked = getattr(data, name)
        if name == "channels" and asked is None:
            asked = ("t1",)
        if asked != of_run[name]:
            found = json.dumps(asked, default=str)
            trained = json.dumps(of_run[name], default=str)
            problems.append(f"data.{name}: is {found}, and the run was trained with {trained}")
    if problems:
        listed = "\n".join(problems)
        raise ConfigError(f"{listed}\nThe run decides how they are prepared: take this out.")


def brains_of_run(
    run: Path,
    contract: EncoderContract,
    data: AnyDataSettings,
    *,
    what: str,
    transforms: Compose | None = None,
) -> Brains:
    """Return a source of brains that are preprocessed like a run's training samples.

    A `ConfigError` is raised for a run that was trained on other samples than brains, such as
    natural images. `what` begins the message.
    """
    kind = KINDS.find(contract.preprocessing.kind)
    if kind is not None:
        raise ConfigError(
            f"{what}, and this run was trained on {kind.title}. Give a run that was trained on "
            "brains."
        )
    source = source_of_run(run, contract, data, transforms=transforms)
    assert isinstance(source, Brains)
    return source
