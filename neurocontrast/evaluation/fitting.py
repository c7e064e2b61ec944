"""The probes of a study: on the embedding, on the covariates, and on permuted labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from neurocontrast.evaluation.covariates import CovariateDesign
from neurocontrast.evaluation.crossval import OutOfFold, cross_validate
from neurocontrast.evaluation.permutation import permutation_p_values
from neurocontrast.evaluation.planning import Study, deal_folds
from neurocontrast.evaluation.probes import Design
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.progress import Progress
from neurocontrast.seeds import derive_seed

__all__ = ["features_design", "permutation_test", "predict_out_of_fold", "study_designs"]


def features_design(study: Study) -> Design:
    """Return the design of the embedding."""
    features = np.asarray(study.features, dtype=np.float64)
    return lambda train, test: (features[train], features[test])


def study_designs(study: Study) -> dict[str, Design]:
    """Return the design of each model by name: the embedding, and the baseline beside it."""
    return {"embedding": features_design(study), "baseline": CovariateDesign(study.table, study.covariates)}


def predict_out_of_fold(study: Study, progress: Progress) -> dict[str, OutOfFold]:
    """Return the out-of-fold predictions of every model."""
    designs = study_designs(study)
    models = {}
    with progress.task("Fitting probes", len(designs) * len(study.splits), "fold") as task:
        for name, design in designs.items():
            models[name] = cross_validate(
                design,
                study.target,
                study.splits,
                subjects=study.subjects,
                settings=study.settings,
                advance=task.advance,
            )
    return models


def permutation_test(study: Study, metrics: Mapping[str, Any], progress: Progress) -> dict[str, Any] | None:
    """Return ``permutation`` of evaluation.json; None where no permutation is asked for."""
    if not study.settings.n_permutations:
        return None
    settings, is_site = study.settings, study.target.name == "site"

    def make_splits(target: Target, permutation: int) -> list[Split]:
        if study.from_file or settings.splits != "stratified":
            return study.splits
        return deal_folds(study.table, target, settings, derive_seed("permuted-folds", settings.seed, permutation))

    with progress.task("Permuting labels", settings.n_permutations, "permutation") as task:
        p_values = permutation_p_values(
            features_design(study),
            study.target,
            make_splits,
            sites=[None] * len(study.table) if is_site else list(study.table["site"]),
            subjects=study.subjects,
            settings=settings,
            observed={name: np.nan if part["pooled"] is None else part["pooled"] for name, part in metrics.items()},
            advance=task.advance,
        )
    return {"n": settings.n_permutations, "unit": "subject", "within_site": not is_site, "p_values": p_values}
