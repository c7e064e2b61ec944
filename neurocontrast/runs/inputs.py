"""Combine the configuration of a run with a table and transforms passed from Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from monai.transforms import Compose

from neurocontrast.config import AnyConfig, Config, as_config
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources import Source, source_of
from neurocontrast.documents.document import Json
from neurocontrast.exceptions import ConfigError
from neurocontrast.parallel.devices import launched, usable_accelerator
from neurocontrast.runs.folder import check_new
from neurocontrast.weights import folder_of


@dataclass(frozen=True)
class Inputs:
    """Table and transforms passed from Python to `pretrain`, in place of the configuration's."""

    participants: AnyTable | None = None
    transforms: Compose | None = None
    """Preprocessing of a scan; None for the preprocessing of the configuration."""
    augment: Callable[..., Any] | None = None
    """Random transforms that make the two views of a scan; None for section ``augment``."""

    def source(self, settings: Config) -> Source:
        """Return the object that reads and preprocesses the samples of a run (its source).

        It uses the table and the transforms that the user passed from Python. Transforms are
        refused for samples that are no scans.
        """
        frame = self.participants if isinstance(self.participants, pd.DataFrame) else None
        return source_of(
            settings.data,
            transforms=self.transforms,
            augment=self.augment,
            frame=frame,
            second=settings.second,
        )

    def with_table(self, settings: Config) -> Config:
        """Return a copy of `settings` whose ``data.participants`` is the user's table of scans.

        A table passed from Python (`participants`) replaces the one of the settings: a path is put
        in its place, and for a DataFrame the setting becomes None. Without any table a ConfigError
        is raised. No file is read or written.
        """
        if self.participants is None:
            if settings.data.participants is None:
                raise ConfigError(
                    "data.participants: missing. Give the table of scans, "
                    "participants=participants.tsv."
                )
            return settings
        path = None
        if not isinstance(self.participants, pd.DataFrame):
            path = Path(self.participants)
        data = settings.data.model_copy(update={"participants": path})
        return settings.model_copy(update={"data": data})

    def with_transforms(self, settings: Config) -> Config:
        """Return a copy of `settings` that records which sections transforms from Python replace.

        In section ``data``, if `transforms` replaces its preprocessing, and in section ``augment``,
        if the user passed the random transforms `augment`, the setting ``transforms`` becomes
        ``python``.
        """
        changes: Json = {}
        # The source refuses them for other samples than scans.
        if self.transforms is not None and isinstance(settings.data, DataSettings):
            changes["data"] = settings.data.with_given()
        if self.augment is not None:
            changes["augment"] = settings.augment.with_given()
        return settings.model_copy(update=changes)


def with_folder_of_init(settings: Config) -> Config:
    """Return a configuration whose ``training.init`` is the path of a folder of weights.

    A name of installed weights is replaced by their folder.
    """
    init = settings.training.init
    if init is None:
        return settings
    training = settings.training.model_copy(update={"init": folder_of(init)})
    return settings.model_copy(update={"training": training})


def read_settings(config: AnyConfig | None, folder: Path, *, resumes: bool) -> Config:
    """Return the checked `config`, or, for None, the configuration of the run in `folder`.

    A folder in which a run can neither begin nor continue is refused.
    """
    is_new = not (folder / "config.yaml").is_file()
    if launched().by is None:  # of several processes another may have begun the run already
        is_new = check_new(folder, resume=resumes)
    if config is None:
        if is_new:
            raise ConfigError(
                f"config: there is no run in '{folder}' to continue, and only such a run has its "
                "own configuration. Give one, or the directory of a run."
            )
        config = folder / "config.yaml"
    return with_folder_of_init(as_config(config))


def check_machine(settings: Config) -> None:
    """Refuse devices that this machine lacks, and several processes for a linear encoder."""
    training = settings.training
    usable_accelerator(
        training.accelerator, training.devices, section="training", training=training.precision
    )
    if settings.encoder.is_linear and training.hardware.n_processes > 1:
        raise ConfigError(
            f"training.devices: encoder '{settings.encoder.name}' is fitted by one process. Set "
            "devices and num_nodes to 1."
        )
