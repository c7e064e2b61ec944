"""A whole evaluation in memory: from features and metadata to tables and ``evaluation.json``."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.evaluation.distribution import TrainingDistribution
from neurocontrast.evaluation.fitting import OutOfFold, constant_predictions, cross_validate
from neurocontrast.evaluation.metrics import finite_or_none
from neurocontrast.evaluation.panels import PanelInputs, run_panels
from neurocontrast.evaluation.panels.external import External
from neurocontrast.evaluation.panels.outlyingness import training_distribution
from neurocontrast.evaluation.permutation import permutation_test
from neurocontrast.evaluation.planning import Study, plan_study
from neurocontrast.evaluation.results import compose, describe_split, fold_table, look_at_results, metric_summary
from neurocontrast.evaluation.schema import Evaluation
from neurocontrast.evaluation.splits import Split, stratified
from neurocontrast.evaluation.splits.given import split_table
from neurocontrast.evaluation.stored_probe import FittedProbe, fit_on_all
from neurocontrast.evaluation.tables import (
    calibration_table,
    class_table,
    cohort_table,
    draw_map,
    example_scans,
    map_table,
    prediction_table,
)
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.voxels import N_COMPONENTS, ComponentsDesign, look_at_voxels, voxel_p_values
from neurocontrast.progress import SILENT, Progress
from neurocontrast.seeds import derive_seed

__all__ = ["Study", "StudyResult", "permutation_summary", "plan_study", "predict_out_of_fold", "run_study"]


@dataclass(frozen=True)
class StudyResult:
    """The findings of a study.

    Parameters
    ----------
    evaluation : Evaluation
        Content of ``evaluation.json``.
    tables : dict of str to DataFrame
        Tables by the name of their file.
    probe : FittedProbe or None
        The probe fitted on all scans, where it can be stored.
    """

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
    tables = _tables(study, models)
    figures = metric_summary(study, tables["folds"], models)
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
    known = {key: value for key, value in found.summary.items() if key in Evaluation.model_fields}
    others = {key: value for key, value in found.summary.items() if key not in known}
    figures |= known | ({"panels": others} if others else {})
    return StudyResult(compose(study, models, figures, notices), tables | found.tables, probe)


def predict_out_of_fold(study: Study, progress: Progress) -> dict[str, OutOfFold]:
    """Return the out-of-fold predictions of every model."""
    designs, settings = study.designs(), study.settings
    if study.voxels is not None:
        designs["voxels"] = ComponentsDesign(study.voxels.products)
    models = {}
    with progress.task("Fitting probes", len(designs) * len(study.splits), "fold") as task:
        for name, design in designs.items():
            if name == "baseline" and study.fixed and not study.covariates and study.target.kind != "continuous":
                # Images without a covariate: the shares of the fitted classes are all that a baseline can say.
                models[name] = constant_predictions(study.target, study.splits)
                task.advance()
                continue
            models[name] = cross_validate(
                design,
                study.target,
                study.splits,
                subjects=study.subjects,
                settings=settings.model_copy(update={"probe": "auto"}) if name == "voxels" else settings,
                sites=study.sites,
                estimator=study.estimator_of(name),
                advance=task.advance,
            )
    return models


def permutation_summary(study: Study, model: OutOfFold, progress: Progress) -> dict[str, Any] | None:
    """Return ``permutation`` of evaluation.json; None where no permutation is asked for."""
    settings, is_site = study.settings, study.target.name == "site"
    n = settings.n_permutations
    if not n:
        return None

    def redeal(target: Target, permutation: int) -> list[Split]:
        seed = derive_seed("permuted-folds", settings.seed, permutation)
        places = list(study.table["site"])
        return stratified(target, places, study.subjects, n_folds=settings.n_folds, n_repeats=1, seed=seed)

    n_folds, started = sum(split.repeat == 0 for split in study.splits), time.perf_counter()
    with progress.task("Permuting labels", n * n_folds, "fold") as task:
        result = permutation_test(
            study.design(),
            study.target,
            study.splits,
            model,
            sites=[None] * len(study.table) if is_site else list(study.table["site"]),
            subjects=study.subjects,
            settings=settings,
            estimator=study.estimator,
            redeal=redeal if study.how_split == "stratified" else None,
            advance=task.advance,
        )
    return {
        "n": n,
        "unit": "subject",
        "within_site": not is_site,
        "within_fold": result.within_fold,
        "share_moved": result.share_moved,
        "repeat": 0,
        "observed": {name: finite_or_none(value) for name, value in result.observed.items()},
        "p_values": result.p_values,
        "seconds": round(time.perf_counter() - started, 1),
    }


def _tables(study: Study, models: dict[str, OutOfFold]) -> dict[str, pd.DataFrame]:
    """Return the tables of the cohort and of the predictions; maps of the fixed design are of tested images."""
    table, target, settings, level = study.table, study.target, study.settings, study.settings.confidence_level
    shown = study.splits[0].test if study.fixed else np.arange(len(table))
    drawn = draw_map(shown, seed=settings.seed) if study.fixed else shown
    mapped = table.iloc[drawn].reset_index(drop=True), target.subset(drawn), study.features[drawn]
    tables = {
        "cohort": cohort_table(table, target),
        "flow": study.flow,
        "map": map_table(*mapped, seed=settings.seed, umap=settings.umap),
        "splits": split_table(table, study.splits),
        "scans": example_scans(table.iloc[shown].reset_index(drop=True), target.subset(shown)),
        "predictions": prediction_table(table, target, models, with_paths=study.fixed),
        "folds": fold_table(study, models),
    }
    if target.kind == "multiclass":
        split = study.splits[0] if study.fixed else None
        tables["classes"] = class_table(target, models["embedding"], split=split, level=level)
    if target.kind != "continuous" and target.has_probabilities:
        tables["calibration"] = calibration_table(target, models, study.subjects, level=level)
    return tables


def _voxel_figures(study: Study, figures: dict[str, Any], folds: pd.DataFrame) -> dict[str, Any]:
    """Return p-values of the difference from the voxels, and how voxels were read."""
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
    if study.why_not_stored is not None:
        return None
    if study.fixed:  # not chosen anew: the grids hold what was chosen
        strength = model.strengths[0]
        chosen = {"C": (strength,), "alpha": (strength,)}
        sgd = study.settings.sgd.model_copy(update={"learning_rate": (strength,)})
        study = replace(study, settings=study.settings.model_copy(update={**chosen, "sgd": sgd}))
    return fit_on_all(study, encoder=encoder, distribution=distribution)[1]
