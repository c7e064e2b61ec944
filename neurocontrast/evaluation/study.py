"""A whole evaluation in memory: from features and metadata to tables and a summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from neurocontrast.evaluation.calibration import calibration_table
from neurocontrast.evaluation.confound_panel import run_confound_panel, site_reading
from neurocontrast.evaluation.crossval import OutOfFold
from neurocontrast.evaluation.external import External
from neurocontrast.evaluation.external_results import run_external
from neurocontrast.evaluation.fitted import FittedProbe, fit_on_all, why_not_stored
from neurocontrast.evaluation.fitting import permutation_summary, predict_out_of_fold
from neurocontrast.evaluation.groups import group_table, site_table
from neurocontrast.evaluation.learning import learning_curve
from neurocontrast.evaluation.new_site import measure_new_sites
from neurocontrast.evaluation.outlyingness import measure_outlyingness, training_distribution
from neurocontrast.evaluation.planning import Study, plan_study
from neurocontrast.evaluation.probe_kinds import STRENGTH_NAMES
from neurocontrast.evaluation.results import look_at_results, study_summary
from neurocontrast.evaluation.similarity import measure_similarity
from neurocontrast.evaluation.split_files import split_table
from neurocontrast.evaluation.summaries import fold_table, metric_summary
from neurocontrast.evaluation.tables import cohort_table, example_scans, map_table, prediction_table
from neurocontrast.progress import SILENT, Progress

__all__ = ["Evaluation", "Study", "plan_study", "run_study"]


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation: a JSON-ready summary, tables by name, and the probe fitted on all scans."""

    summary: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    probe: FittedProbe | None = None


def run_study(
    study: Study, *, external: External | None = None, encoder: str | None = None, progress: Progress = SILENT
) -> Evaluation:
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
    figures["permutation"] = permutation_summary(study, models["embedding"], progress)
    panel = run_confound_panel(study, progress)
    figures["confounds"] = panel.summary
    new_sites = measure_new_sites(study, models, site_reading(panel.tables.get("confounds")), progress)
    figures |= {"new_site": new_sites.summary, "new_site_note": new_sites.note}
    outlying = measure_outlyingness(study, new_sites.splits, progress)
    figures["outlyingness"] = outlying.summary
    similar = measure_similarity(study, progress)
    figures |= {} if similar.summary is None else {"similarity": similar.summary}
    figures["learning_curve"], curve = learning_curve(study, progress)
    inside = training_distribution(study)
    tested = run_external(external, distribution=inside, progress=progress)
    figures["external"] = tested.summary
    probe = None if why_not_stored(study) else fit_on_all(study, encoder=encoder, distribution=inside)[1]
    notices = [*study.notices, *(external.notices if external else ()), *look_at_results(figures, models)]
    notices += [*panel.notices, *new_sites.notices, *outlying.notices, *tested.notices]
    tables |= panel.tables | similar.tables
    measured = {"new_sites": new_sites.table, "outlyingness": outlying.table}
    tables |= {name: table for name, table in measured.items() if table is not None}
    tables |= tested.tables if curve is None else {**tested.tables, "learning_curve": curve}
    return Evaluation(study_summary(study, models, figures, notices), tables, probe)


def _cohort_tables(study: Study) -> dict[str, pd.DataFrame]:
    """Return the tables that need no prediction."""
    table, target, settings = study.table, study.target, study.settings
    return {
        "cohort": cohort_table(table, target),
        "flow": study.flow,
        "map": map_table(table, target, study.features, seed=settings.seed, umap=settings.umap),
        "splits": split_table(table, study.splits),
        "scans": example_scans(table, target),
    }


def _result_tables(study: Study, models: dict[str, OutOfFold]) -> dict[str, pd.DataFrame]:
    """Return the tables of out-of-fold predictions and of figures made from them."""
    table, target, settings, subjects = study.table, study.target, study.settings, study.subjects
    tables = {
        "predictions": prediction_table(table, target, models),
        "folds": fold_table(target, study.splits, models, strength_name=STRENGTH_NAMES[study.probe]),
        "sites": site_table(table, target, models, subjects, settings),
        "groups": group_table(table, target, models, subjects, study.units, settings),
    }
    if target.kind != "continuous":
        tables["calibration"] = calibration_table(target, models, subjects, level=settings.confidence_level)
    return tables
