"""The probes of a study: on the embedding, on the covariates, and on permuted labels."""

from __future__ import annotations

import time
from typing import Any

from neurocontrast.evaluation.crossval import OutOfFold, constant_predictions, cross_validate
from neurocontrast.evaluation.designs import CovariateDesign, FeatureDesign, adjustments
from neurocontrast.evaluation.metrics import finite_or_none
from neurocontrast.evaluation.permutation import permutation_test
from neurocontrast.evaluation.planning import Study, deal_folds
from neurocontrast.evaluation.probes import Design
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.voxels import ComponentsDesign
from neurocontrast.progress import Progress
from neurocontrast.seeds import derive_seed

__all__ = [
    "features_design",
    "permutation_summary",
    "predict_out_of_fold",
    "study_designs",
]


def features_design(study: Study, *, recentre: bool = True, predicted: str = "") -> FeatureDesign:
    """Return the design of the embedding, adjusted as the settings say; nothing keeps the column `predicted`."""
    settings, target = study.settings, study.target.name
    steps = adjustments(study.table, settings, target=target, recentre=recentre, predicted=predicted)
    return FeatureDesign(study.features, study.table, steps)


def study_designs(study: Study) -> dict[str, Design]:
    """Return the design of each model by name: the embedding, and the baseline beside it."""
    return {"embedding": features_design(study), "baseline": CovariateDesign(study.table, study.covariates)}


def predict_out_of_fold(study: Study, progress: Progress) -> dict[str, OutOfFold]:
    """Return the out-of-fold predictions of every model."""
    designs = study_designs(study)
    if study.voxels is not None:
        designs["voxels"] = ComponentsDesign(study.voxels.products)
    models = {}
    with progress.task("Fitting probes", len(designs) * len(study.splits), "fold") as task:
        for name, design in designs.items():
            if name == "baseline" and _knows_nothing(study):
                models[name] = constant_predictions(study.target, study.splits)
                task.advance()
                continue
            models[name] = cross_validate(
                design,
                study.target,
                study.splits,
                subjects=study.subjects,
                settings=study.settings.model_copy(update={"probe": "auto"}) if name == "voxels" else study.settings,
                sites=study.sites,
                estimator=study.estimator_of(name),
                advance=task.advance,
            )
    return models


def _knows_nothing(study: Study) -> bool:
    """Say whether the baseline of natural images has no column: the shares of the fitted classes are all it can say."""
    return study.fixed and not study.covariates and study.target.kind != "continuous"


def permutation_summary(study: Study, model: OutOfFold, progress: Progress) -> dict[str, Any] | None:
    """Return ``permutation`` of evaluation.json; None where no permutation is asked for."""
    settings, is_site = study.settings, study.target.name == "site"
    n = settings.n_permutations
    if not n:
        return None
    once = settings.model_copy(update={"n_repeats": 1})

    def redeal(target: Target, permutation: int) -> list[Split]:
        return deal_folds(study.table, target, once, derive_seed("permuted-folds", settings.seed, permutation))

    n_folds, started = sum(split.repeat == 0 for split in study.splits), time.perf_counter()
    with progress.task("Permuting labels", n * n_folds, "fold") as task:
        result = permutation_test(
            study_designs(study)["embedding"],
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
