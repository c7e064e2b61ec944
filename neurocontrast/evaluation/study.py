"""A whole evaluation in memory: from features and metadata to tables and a summary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.evaluation.calibration import calibration_table
from neurocontrast.evaluation.classes import class_table
from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.distribution import TrainingDistribution
from neurocontrast.evaluation.estimators import STRENGTH_NAMES
from neurocontrast.evaluation.fitted import FittedProbe, fit_on_all, why_not_stored
from neurocontrast.evaluation.fitting import permutation_summary, predict_out_of_fold
from neurocontrast.evaluation.panels import PanelInputs, run_panels
from neurocontrast.evaluation.panels.external import External
from neurocontrast.evaluation.panels.outlyingness import training_distribution
from neurocontrast.evaluation.planning import Study, plan_study
from neurocontrast.evaluation.results import describe_split, look_at_results, study_summary
from neurocontrast.evaluation.schema import Evaluation
from neurocontrast.evaluation.splits.files import split_table
from neurocontrast.evaluation.summaries import fold_table, metric_summary
from neurocontrast.evaluation.tables import cohort_table, draw_map, example_scans, map_table, prediction_table
from neurocontrast.evaluation.voxels import N_COMPONENTS, look_at_voxels, voxel_p_values
from neurocontrast.progress import SILENT, Progress

__all__ = ["Study", "StudyResult", "plan_study", "run_study"]


@dataclass(frozen=True)
class StudyResult:
    """What a study found: the content of ``evaluation.json``, tables by name, and the probe fitted on all scans."""

    evaluation: Evaluation
    tables: dict[str, pd.DataFrame]
    probe: FittedProbe | None = None


def run_study(
    study: Study, *, external: External | None = None, encoder: str | None = None, progress: Progress = SILENT
) -> StudyResult:
    """Fit the probes, and compute every table and figure of an evaluation.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it.
    external : External, optional
        A test set of other people, as `plan_external` returned it.
    encoder : str, optional
        Digest of the encoder that made the features, for the probe to remember.
    progress : Progress
        Told how far the work is.
    """
    models = predict_out_of_fold(study, progress)
    tables = _cohort_tables(study) | _result_tables(study, models)
    figures = metric_summary(study.target, tables["folds"], models, study.units.labels, study.settings)
    figures["split"] = describe_split(study)
    figures["permutation"] = permutation_summary(study, models["embedding"], progress)
    figures |= _voxel_figures(study, figures, tables["folds"])
    notices = [*study.notices, *(external.notices if external else ()), *look_at_results(figures, models)]
    inside = training_distribution(study)
    found = run_panels(PanelInputs(study, models, external, inside, progress))
    notices += found.notices
    if study.voxels is not None:
        notices += look_at_voxels(figures, study.target.metric_names[0])
    probe = _stored_probe(study, models["embedding"], encoder, inside)
    figures, tables = figures | _panel_sections(found.summary), tables | found.tables
    return StudyResult(study_summary(study, models, figures, notices), tables, probe)


def _panel_sections(summary: dict[str, Any]) -> dict[str, Any]:
    """Return what panels found under the keys of evaluation.json; what has no key of its own stands in ``panels``."""
    known = {key: value for key, value in summary.items() if key in Evaluation.model_fields}
    others = {key: value for key, value in summary.items() if key not in known}
    return known | ({"panels": others} if others else {})


def _voxel_figures(study: Study, figures: dict[str, Any], folds: pd.DataFrame) -> dict[str, Any]:
    """Return what evaluation.json says of the voxels besides their metrics: p-values, and how they were read."""
    if study.voxels is None:
        return {}
    increment = figures["voxels_increment"]
    p_values = voxel_p_values(folds, study.splits, list(increment))
    increment = {name: values | {"p_value": p_values[name]} for name, values in increment.items()}
    n_components = min(N_COMPONENTS, *(len(split.train) - 1 for split in study.splits))
    return {"voxels_increment": increment, "voxels_about": study.voxels.about | {"n_components": n_components}}


def _stored_probe(
    study: Study, model: OutOfFold, encoder: str | None, distribution: TrainingDistribution | str | None
) -> FittedProbe | None:
    """Return the probe of all scans, or, in the fixed design, the very one that was evaluated; None if not stored."""
    if why_not_stored(study) is not None:
        return None
    if study.fixed:  # not chosen anew: the grids hold what was chosen
        strength = model.strengths[0]
        chosen = {"C": (strength,), "alpha": (strength,)}
        sgd = study.settings.sgd.model_copy(update={"learning_rate": (strength,)})
        study = replace(study, settings=study.settings.model_copy(update={**chosen, "sgd": sgd}))
    return fit_on_all(study, encoder=encoder, distribution=distribution)[1]


def _cohort_tables(study: Study) -> dict[str, pd.DataFrame]:
    """Return the tables that need no prediction; of the fixed design, map and examples are of tested images."""
    table, target, settings = study.table, study.target, study.settings
    shown = study.splits[0].test if study.fixed else np.arange(len(table))
    drawn = draw_map(shown, seed=settings.seed) if study.fixed else shown
    mapped = table.iloc[drawn].reset_index(drop=True), target.subset(drawn), study.features[drawn]
    return {
        "cohort": cohort_table(table, target),
        "flow": study.flow,
        "map": map_table(*mapped, seed=settings.seed, umap=settings.umap),
        "splits": split_table(table, study.splits),
        "scans": example_scans(table.iloc[shown].reset_index(drop=True), target.subset(shown)),
    }


def _result_tables(study: Study, models: dict[str, OutOfFold]) -> dict[str, pd.DataFrame]:
    """Return the tables of out-of-fold predictions and of figures made from them."""
    table, target, settings, subjects = study.table, study.target, study.settings, study.subjects
    tables = {
        "predictions": prediction_table(table, target, models, with_paths=study.fixed),
        "folds": fold_table(target, study.splits, models, strength_name=STRENGTH_NAMES.get(study.probe)),
    }
    if target.kind == "multiclass":
        split = study.splits[0] if study.fixed else None
        tables["classes"] = class_table(target, models["embedding"], split=split, level=settings.confidence_level)
    if target.kind != "continuous" and target.has_probabilities:
        tables["calibration"] = calibration_table(target, models, subjects, level=settings.confidence_level)
    return tables
