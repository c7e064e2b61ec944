"""The configuration: one section a component, each component's own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from neurocontrast.augment import AugmentSettings
from neurocontrast.config.objectives import CategoricalFactor, GaussianFactor, ObjectiveSettings, YAwareSettings
from neurocontrast.data.simulation import SimulationSettings
from neurocontrast.data.volumes import (
    CommonFraction,
    CommonView,
    ErodeMm,
    Normalise,
    Percentiles,
    Preprocessing,
    Shape,
    SpacingMm,
    check_erosion,
)
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.encoders import EncoderSettings
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.explanation import ExplanationSettings
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.settings import Settings
from neurocontrast.training import TrainingSettings

__all__ = ["Config", "DataSettings"]


class DataSettings(Settings):
    """Which scans are used, and what is done to each.

    Parameters
    ----------
    participants : path or None
        Table of scans; `pretrain` needs it. Relative to the current directory, as are
        `images_root` and `cache_dir`.
    images_root : path or None
        Folder that relative image paths in the table start from; None for the table's own.
    images_pattern : str or None
        Path of every image, with columns in braces, where the table has no column ``path``.
    where : mapping
        Rows to keep: column → allowed values.
    spacing_mm, shape, normalise, percentiles, erode_mm, common_view, common_fraction
        See `neurocontrast.data.Preprocessing`.
    cache_dir : path or None
        Folder of preprocessed volumes; None for one of the user's, shared by all runs.
    cache_dtype : {'float16', 'float32'}
        How they are kept; float16 halves the disk and changes z-scored voxels by less than 0.1 %.
    n_workers : int
        Processes that preprocess, and threads that read batches.
    val_fraction : float
        Fraction of subjects, at each site, that only measure; 0 for none.
    """

    participants: Path | None = None
    images_root: Path | None = None
    images_pattern: str | None = None
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    spacing_mm: SpacingMm | None = 1.5
    shape: Shape = (121, 145, 121)
    normalise: Normalise = "zscore"
    percentiles: Percentiles = (1.0, 99.0)
    erode_mm: ErodeMm = 0.0
    common_view: CommonView = "none"
    common_fraction: CommonFraction = 0.95
    cache_dir: Path | None = None
    cache_dtype: Literal["float16", "float32"] = "float16"
    n_workers: Annotated[int, Field(ge=1)] = 2
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1

    @property
    def preprocessing(self) -> Preprocessing:
        """What is done to each scan, before anything is fitted."""
        return Preprocessing(
            spacing_mm=self.spacing_mm,
            shape=self.shape,
            normalise=self.normalise,
            percentiles=self.percentiles,
            erode_mm=self.erode_mm,
            common_view=self.common_view,
            common_fraction=self.common_fraction,
        )

    @model_validator(mode="after")
    def _check(self) -> DataSettings:
        check_erosion(self.erode_mm, self.spacing_mm)
        return self


def _default_objective() -> YAwareSettings:
    age = GaussianFactor(type="gaussian", column="age", sigma=5.0)
    return YAwareSettings(loss="yaware", kernel=(age, CategoricalFactor(type="categorical", column="sex")))


class Config(Settings):
    """Everything a user can say; each command reads the sections it needs.

    Parameters
    ----------
    seed : int
        Of the weights, the validation split, the order of scans and the views. `simulation`
        and `evaluation` have their own.
    data, augment, encoder, objective, training
        What `pretrain` reads.
    simulation, embedding, evaluation, explanation, report
        What `simulate`, `embed`, `evaluate`, `explain` and `report` read.
    """

    seed: Annotated[int, Field(ge=0)] = 0
    data: DataSettings = DataSettings()
    augment: AugmentSettings = AugmentSettings()
    encoder: EncoderSettings = EncoderSettings()
    objective: ObjectiveSettings = Field(default_factory=_default_objective)
    training: TrainingSettings = TrainingSettings()
    simulation: SimulationSettings = SimulationSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    explanation: ExplanationSettings = ExplanationSettings()
    report: ReportOptions = ReportOptions()
