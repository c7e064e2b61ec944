"""Fine-tune the networks of a run in every fold of an evaluation."""

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
    """Fine-tune the networks in all folds; return one model that has the predictions of all folds.

    A prediction is the mean over the networks. Networks that an earlier, interrupted call has
    fine-tuned are read from the folder `work`.
    """
    plan = folds_plan.plan
    predictions = {}
    folds = _train_folds(folds_plan, work, progress)
    for fold, split in zip(folds, plan.splits, strict=True):
        scores = _mean_scores(fold)
        if plan.target.kind == "binary":
            scores = scores[:, 1]
        decided = decide_scores(scores, plan.target, split.train, plan.settings)
        predictions[split.repeat, split.fold] = Prediction(scores, *decided)
    trainings, epochs = _list_epochs(folds)
    begins_with = "pretrained weights"
    if folds_plan.from_scratch:
        begins_with = "random weights"
    finetuning = Finetuning.model_validate(
        {
            "begins_with": begins_with,
            "settings": folds_plan.settings.finetune.model_dump(mode="json"),
            "augment": folds_plan.augment,
            "seed": folds_plan.settings.seed,
            "folds": trainings,
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
    """Fine-tune each network of the run in each fold; return for each fold one result a network.

    A result is the content of ``finished.json``, which each fine-tuned network leaves in its own
    folder below `work`. A network whose file is there already is not trained again, and the result
    is read from the file.
    """
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
                progress.message(f"{title}: {_describe_epoch(trained['about'])}")
                folds[-1].append(trained)
                task.advance()
    return folds


def _describe_epoch(training: Record) -> str:
    """Describe in words the epoch whose weights a fine-tuned network keeps, and its loss."""
    n_epochs = training["n_epochs"]
    sentence = f"epoch {training['best_epoch']} of {n_epochs} is taken"
    if not training["best_epoch"]:
        sentence = f"no epoch of {n_epochs} is better than the probe it began as"
    loss = training["best_loss"]
    if loss is not None:
        n_scans = training["n_validation"]
        sentence += f", loss {loss:.4g} on {n_scans} scans of the training fold"
    return sentence


def _train(
    folds_plan: FoldsPlan,
    network: TrainedNetwork,
    split: Split,
    folder: Path,
    title: str,
    progress: Progress,
) -> Description:
    """Fine-tune one network of a run in the fold `split`; return the result for ``finished.json``.

    The result has ``predictions`` of the test scans, ``metrics`` of every epoch, and facts of the
    training (``about``).
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
    trained = fit_supervised(
        encoder,
        LabelledData(data, labels, split.test.tolist()),
        settings=settings.finetune,
        pretrained=not folds_plan.from_scratch,
        seed=seed,
        output=TrainingOutput(folder, resume=True, title=title, progress=progress),
        view=view,
    )
    training = {
        "repeat": split.repeat,
        "fold": split.fold,
        "n_fitted": len(fitted),
        "n_validation": len(tried),
        "n_epochs": len(trained.metrics),
        "best_epoch": trained.best_epoch,
        "best_loss": trained.best_loss,
    }
    return {
        "predictions": trained.predictions.tolist(),
        "metrics": trained.metrics,
        "about": training,
    }


def _mean_scores(fold: Sequence[Record]) -> npt.NDArray[np.float64]:
    """Return the mean, over the networks of `fold`, of the predictions for the fold's test scans.

    Predictions are probabilities (n, n_classes), or numbers (n,).
    """
    scores = []
    for network in fold:
        scores.append(np.asarray(network["predictions"], dtype=float))
    mean: npt.NDArray[np.float64] = np.mean(scores, axis=0)
    return mean


def _list_epochs(
    folds: Sequence[Sequence[Record]],
) -> tuple[list[Description], list[Description]]:
    """Return two lists of dictionaries: one for each network and fold, one for each of the epochs.

    `folds` has for each fold a list with one result a network. The first list has the facts that a
    result keeps under ``about``, one dictionary for each fold and network; the second has the
    metrics, one for each fold, network and epoch. Keys of both are ``repeat``, ``fold`` and, for
    several networks, ``member``.
    """
    trainings = []
    epochs = []
    for fold in folds:
        for member, network in enumerate(fold):
            keys = {"repeat": network["about"]["repeat"], "fold": network["about"]["fold"]}
            if len(fold) > 1:
                keys["member"] = member
            trainings.append(keys | network["about"])
            for row in network["metrics"]:
                epochs.append(keys | row)
    return trainings, epochs
