"""Train the networks of a run in every fold of a folds_plan."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.documents.origin import Finetuning
from neurocontrast.encoders import build_encoder
from neurocontrast.evaluation.plan.models import GivenModel
from neurocontrast.evaluation.probes.fitting import Prediction, decide_scores
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import validation_split
from neurocontrast.files import write_json
from neurocontrast.progress import Progress
from neurocontrast.provenance import Description, Record
from neurocontrast.runs.finetuning import FoldsPlan, TrainedNetwork
from neurocontrast.runs.folder import read_json
from neurocontrast.seeds import derive_seed
from neurocontrast.training import TrainingData
from neurocontrast.training.loop import TrainingOutput
from neurocontrast.training.supervised import fit_supervised
from neurocontrast.training.supervised_state import LabelledData, Labels

_FINISHED = "finished.json"


def train_folds(folds_plan: FoldsPlan, work: Path, progress: Progress) -> GivenModel:
    """Train the networks of every fold that are not finished, and return their model, predicting."""
    plan = folds_plan.plan
    predictions = {}
    folds = _train_folds(folds_plan, work, progress)
    for fold, split in zip(folds, plan.splits, strict=True):
        scores = _mean_scores(fold)
        if plan.target.kind == "binary":
            scores = scores[:, 1]
        decided = decide_scores(scores, plan.target, split.train, plan.settings)
        predictions[split.repeat, split.fold] = Prediction(scores, *decided)
    abouts, epochs = _list_epochs(folds)
    begins_with = "pretrained weights"
    if folds_plan.from_scratch:
        begins_with = "random weights"
    finetuning = Finetuning.model_validate(
        {
            "begins_with": begins_with,
            "settings": folds_plan.settings.finetune.model_dump(mode="json"),
            "augment": folds_plan.augment,
            "seed": folds_plan.settings.seed,
            "folds": abouts,
        }
    )
    network = plan.models[0]
    assert isinstance(network, GivenModel)
    return replace(
        network,
        predictions=predictions,
        result_keys={"finetuning": finetuning},
        tables={"finetuning": pd.DataFrame(epochs)},
    )


def _train_folds(folds_plan: FoldsPlan, work: Path, progress: Progress) -> list[list[Description]]:
    """Train the networks one after another; return their ``finished.json``, a list a fold."""
    plan = folds_plan.plan
    folds = []
    n_folds = len(plan.splits)
    n_networks = len(folds_plan.networks)
    with progress.task("Fine-tuning", n_folds * n_networks, "networks") as task:
        for number, split in enumerate(plan.splits):
            folds.append(list[Description]())
            for member, network in enumerate(folds_plan.networks):
                folder = work / f"fold-{number:03d}"
                title = f"Fold {number + 1} of {n_folds}"
                if n_networks > 1:
                    folder /= f"member-{member}"
                    title += f", member {member + 1} of {n_networks}"
                if not (folder / _FINISHED).is_file():
                    trained = _train(folds_plan, network, split, folder, title, progress)
                    write_json(folder / _FINISHED, trained)
                    shutil.rmtree(folder / "checkpoints")
                trained = read_json(folder / _FINISHED)
                progress.message(f"{title}: {_say_epoch(trained['about'])}")
                folds[-1].append(trained)
                task.advance()
    return folds


def _say_epoch(about: Record) -> str:
    """Say which epoch of a training is taken, and its loss."""
    n_epochs = about["n_epochs"]
    text = f"epoch {about['best_epoch']} of {n_epochs} is taken"
    if not about["best_epoch"]:
        text = f"no epoch of {n_epochs} is better than the probe it began as"
    if about["best_loss"] is not None:
        text += (
            f", loss {about['best_loss']:.4g} on {about['n_validation']} scans of the training fold"
        )
    return text


def _train(
    folds_plan: FoldsPlan,
    network: TrainedNetwork,
    split: Split,
    folder: Path,
    title: str,
    progress: Progress,
) -> Description:
    """Train a network of a fold.

    Return predictions of the test scans, epochs and facts of the training.
    """
    settings = folds_plan.settings
    plan = folds_plan.plan
    target = plan.target
    seed = derive_seed("finetune", network.seed, split.repeat, split.fold)
    fitted, tried = validation_split(
        target, split.train, plan.subjects, sites=plan.sites, settings=plan.settings, seed=seed
    )
    encoder = copy.deepcopy(network.encoder)
    if folds_plan.from_scratch:
        encoder = build_encoder(encoder.settings, n_channels=encoder.n_channels, seed=seed)
    view = None
    if settings.finetune.augment:
        views: Any = network.source.prepared(network.cohort, fitted.tolist()).views(
            network.augment, seed=seed
        )
        view = partial(views.view, view=0)
    data = TrainingData(
        images=network.images,
        names=network.cohort.names(),
        metadata={},
        training_rows=fitted.tolist(),
        validation_rows=tried.tolist(),
        n_readers=settings.data.n_workers,
    )
    labels = Labels(target.values, None if target.kind == "continuous" else len(target.classes))
    found = fit_supervised(
        encoder,
        LabelledData(data, labels, split.test.tolist()),
        settings=settings.finetune,
        pretrained=not folds_plan.from_scratch,
        seed=seed,
        output=TrainingOutput(folder, resume=True, title=title, progress=progress),
        view=view,
    )
    about = {
        "repeat": split.repeat,
        "fold": split.fold,
        "n_fitted": len(fitted),
        "n_validation": len(tried),
    }
    about |= {"n_epochs": len(found.metrics), "best_epoch": found.best_epoch}
    known = {"predictions": found.predictions.tolist(), "metrics": found.metrics}
    return known | {"about": about | {"best_loss": found.best_loss}}


def _mean_scores(fold: Sequence[Record]) -> npt.NDArray[np.float64]:
    """Return the mean of the probabilities, or numbers, that the networks of a fold predict."""
    scores = []
    for network in fold:
        scores.append(np.asarray(network["predictions"], dtype=float))
    mean: npt.NDArray[np.float64] = np.mean(scores, axis=0)
    return mean


def _list_epochs(
    folds: Sequence[Sequence[Record]],
) -> tuple[list[Description], list[Description]]:
    """Return how each network of each fold was trained, and its epochs, a row each."""
    abouts = []
    epochs = []
    for fold in folds:
        for member, network in enumerate(fold):
            keys = {"repeat": network["about"]["repeat"], "fold": network["about"]["fold"]}
            if len(fold) > 1:
                keys["member"] = member
            abouts.append(keys | network["about"])
            for row in network["metrics"]:
                epochs.append(keys | row)
    return abouts, epochs
