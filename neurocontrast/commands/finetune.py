"""Train a run's encoder end to end on a column, fold by fold, and evaluate it as `evaluate` does frozen features."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from lightning_fabric import Fabric
from monai.transforms import Compose, Transform

from neurocontrast.commands.evaluate import write_evaluation
from neurocontrast.config import Config, as_config
from neurocontrast.data.batches import Images
from neurocontrast.data.listing import AnyTable
from neurocontrast.display import as_progress
from neurocontrast.encoders import build_encoder
from neurocontrast.evaluation import Study
from neurocontrast.evaluation.fitting import Prediction, decide_scores
from neurocontrast.evaluation.models import GivenModel
from neurocontrast.evaluation.record import FILE, EmbeddingsOrigin
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import validation_split
from neurocontrast.exceptions import CheckpointError, ConfigError
from neurocontrast.files import check_output_folder, write_json
from neurocontrast.findings import measure
from neurocontrast.parallel.collectives import Processes
from neurocontrast.progress import SILENT, Progress
from neurocontrast.runs.finetuning import FinetunePlan, check_machine, choose_settings, plan_finetuning
from neurocontrast.runs.folder import LOCK, hold, read_json
from neurocontrast.seeds import derive_seed
from neurocontrast.training import TrainingData
from neurocontrast.training.loop import suspending
from neurocontrast.training.supervised import Labels, fit_supervised

__all__ = ["finetune"]

WORK = "finetuning"
"""Folder below the evaluation's, with the folds that are trained, until all are."""
_STATE, _FINISHED = "state.json", "finished.json"
_FREE_TO_DIFFER = ("finetune.accelerator", "finetune.checkpoint_minutes", "evaluation.n_jobs")


def finetune(
    run: str | os.PathLike[str],
    *,
    participants: AnyTable,
    out: str | os.PathLike[str],
    target: str | None = None,
    from_scratch: bool = False,
    images_root: str | os.PathLike[str] | None = None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    transforms: Compose | Sequence[Transform] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | bool = SILENT,
    **options: Any,
) -> Path:
    """Train a run's encoder with a linear head in every training fold, and return the folder of the evaluation.

    Folds, metrics, baselines and files are those of `evaluate`, so that `compare` and `report` take both.

    Parameters
    ----------
    run : path
        Run directory, or any folder with ``encoder.json`` and its weights; not of a linear encoder.
    participants : path or DataFrame
        Table of scans, with the column to predict.
    out : path
        Folder to write: ``evaluation.json``, ``predictions.tsv``, ``folds.tsv``, ``sites.tsv``, ``finetuning.tsv`` and
        more.
    target : str, optional
        Column to predict; that of the settings (``diagnosis``) by default.
    from_scratch : bool, default=False
        Whether the same network begins with random weights; the run then says architecture and preprocessing alone.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    config : Config, mapping or path of a YAML file, optional
        Sections `evaluation` and `finetune`; `augment`, in place of the run's own; `seed` of the training; and `data`,
        for the places of images and cache.
    transforms : Compose or sequence of Transform, optional
        Transforms that `pretrain` was given from Python, where it was.
    resume : bool, default=False
        Continue what was stopped, or begin it: finished folds are kept, and the one under way goes on from its last
        epoch, to the same numbers.
    overwrite : bool, default=False
        Whether an evaluation already at `out` is replaced.
    progress : Progress or bool
        Receives progress messages; True shows them on standard error.
    **options
        Fields of `EvaluationSettings`: ``splits``, ``n_folds``, ``where`` and so on.
    """
    progress = as_progress(progress)
    settings, folder = as_config({} if config is None else config), Path(out)
    chosen = choose_settings(settings, options if target is None else {**options, "target": target})
    if _is_finished(folder, resume=resume, overwrite=overwrite):
        progress.message(f"{folder}: this evaluation is finished; there is nothing to continue.")
        return folder
    check_machine(settings.finetune)
    with suspending():
        plan = plan_finetuning(
            Path(run), participants, images_root, settings, chosen, transforms, from_scratch, progress
        )
        work, state = folder / WORK, plan.state()
        with _leaving_nothing_empty(folder), hold(work, progress):
            _open(work, state, resume=resume)
            study = plan.prepared(progress)
            write_json(work / _STATE, state)
            for notice in study.notices:
                progress.warning(notice.message)
            folds = _train_folds(plan, study, work, progress)
            _evaluate(folder, plan, study, folds, progress)
    return folder


def _is_finished(folder: Path, *, resume: bool, overwrite: bool) -> bool:
    """Return whether there is nothing left to do; refuse a folder that is not to be written."""
    if (folder / WORK).is_dir():
        if not resume and not overwrite:
            raise ConfigError(
                f"out: '{folder}' holds a fine-tuning that is not finished. Continue it with --resume, begin anew with "
                "--overwrite, or give another folder."
            )
        return False
    if resume and (folder / FILE).is_file():
        return True
    check_output_folder(folder, overwrite=overwrite, marker=FILE, what="an evaluation")
    return False


@contextlib.contextmanager
def _leaving_nothing_empty(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # where nothing was written


def _open(work: Path, state: Mapping[str, Any], *, resume: bool) -> None:
    """Begin anew, or refuse to continue with other choices than the finished folds'; list every difference."""
    if not resume:
        for path in work.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
    if not (work / _STATE).is_file():
        return
    before, now = (pd.json_normalize(dict(each)).iloc[0].to_dict() for each in (read_json(work / _STATE), state))
    found = [
        f"{key}: was {before.get(key)}, is {now.get(key)}"
        for key in dict.fromkeys([*before, *now])
        if str(before.get(key)) != str(now.get(key)) and key not in _FREE_TO_DIFFER
    ]
    if found:
        lines = "\n".join(f"  {line}" for line in found)
        raise CheckpointError(
            f"{work.parent}: the fine-tuning cannot continue, because its folds would not belong together:\n{lines}\n"
            "Give what it began with, or another folder."
        )


@dataclass(frozen=True)
class _Fold:
    """What the network of a fold predicts of its test scans, and how it was trained."""

    predictions: npt.NDArray[np.float64]
    metrics: list[dict[str, Any]]
    about: dict[str, Any]


def _train_folds(plan: FinetunePlan, study: Study, work: Path, progress: Progress) -> list[_Fold]:
    """Train a network in every fold that is not finished, one after another."""
    folds, n, engine, images = [], len(study.splits), plan.engine, plan.source.images(plan.cohort)
    with progress.task("Fine-tuning", n, "folds") as task:
        for number, split in enumerate(study.splits):
            folder, title = work / f"fold-{number:03d}", f"Fold {number + 1} of {n}"
            if (folder / _FINISHED).is_file():
                fold = _Fold(**read_json(folder / _FINISHED))
                fold = replace(fold, predictions=np.asarray(fold.predictions, dtype=float))
            else:
                fold = _train(plan, study, split, images, folder, title, engine, progress)
                write_json(folder / _FINISHED, {**vars(fold), "predictions": fold.predictions.tolist()})
                shutil.rmtree(folder / "checkpoints")
            progress.message(f"{title}: {_fold_text(fold)}")
            folds.append(fold)
            task.advance()
    return folds


def _fold_text(fold: _Fold) -> str:
    about = fold.about
    text = f"epoch {about['best_epoch']} of {about['n_epochs']} is taken"
    text = text if about["best_epoch"] else f"no epoch of {about['n_epochs']} is better than the probe it began as"
    loss = about["best_loss"]
    return text if loss is None else f"{text}, loss {loss:.4g} on {about['n_validation']} scans of the training fold"


def _train(
    plan: FinetunePlan,
    study: Study,
    split: Split,
    images: Images,
    folder: Path,
    title: str,
    engine: tuple[Fabric, Processes],
    progress: Progress,
) -> _Fold:
    settings, target = plan.settings, study.target
    seed = derive_seed("finetune", settings.seed, split.repeat, split.fold)
    fitted, tried = validation_split(
        target, split.train, study.subjects, sites=study.sites, settings=study.settings, seed=seed
    )
    encoder = copy.deepcopy(plan.encoder)
    if plan.from_scratch:
        encoder = build_encoder(encoder.settings, n_channels=encoder.n_channels, seed=seed)
    view = None
    if settings.finetune.augment:
        views: Any = plan.source.prepared(plan.cohort, fitted.tolist()).views(settings.augment, seed=seed)
        view = partial(views.view, view=0)
    data = TrainingData(
        images=images,
        names=plan.cohort.names(),
        metadata={},
        training_rows=fitted.tolist(),
        validation_rows=tried.tolist(),
        n_readers=settings.data.n_workers,
    )
    found = fit_supervised(
        encoder,
        Labels(target.values, None if target.kind == "continuous" else len(target.classes)),
        data,
        split.test.tolist(),
        settings=settings.finetune,
        pretrained=not plan.from_scratch,
        seed=seed,
        folder=folder,
        view=view,
        title=title,
        engine=engine,
        progress=progress,
    )
    about = {"repeat": split.repeat, "fold": split.fold, "n_fitted": len(fitted), "n_validation": len(tried)}
    about |= {"n_epochs": len(found.metrics), "best_epoch": found.best_epoch}
    return _Fold(found.predictions, found.metrics, about | {"best_loss": found.best_loss})


def _evaluate(folder: Path, plan: FinetunePlan, study: Study, folds: Sequence[_Fold], progress: Progress) -> None:
    """Write what `evaluate` does, with the predictions of the folds in place of a probe's."""
    predictions = {}
    for fold, split in zip(folds, study.splits, strict=True):
        scores = fold.predictions[:, 1] if study.target.kind == "binary" else fold.predictions
        decided = decide_scores(scores, study.target, split.train, study.settings)
        predictions[split.repeat, split.fold] = Prediction(*decided)
    network = study.models[0]
    assert isinstance(network, GivenModel)
    result = measure(study.with_model(replace(network, predictions=predictions)), progress=progress)
    keys = ("repeat", "fold")
    epochs = [{**{key: fold.about[key] for key in keys}, **row} for fold in folds for row in fold.metrics]
    tables = {name: table for name, table in result.tables.items() if name != "map"}  # of features, which are not one's
    result = replace(result, tables={**tables, "finetuning": pd.DataFrame(epochs)})
    state, n = plan.state(), result.evaluation.n.model_copy(update={"features": plan.encoder.n_features})
    about = {
        "begins_with": "random weights" if plan.from_scratch else "pretrained weights",
        "settings": state["finetune"],
        "augment": state["augment"],
        "seed": state["seed"],
        "folds": [fold.about for fold in folds],
    }
    origin = EmbeddingsOrigin(
        file=None if plan.from_scratch else plan.contract["weights"]["file"],
        digest=state["weights"],
        cohort_source=plan.info["cohort_source"],
        cohort_digest=plan.info["cohort_digest"],
    )
    choices = {key: state[key] for key in ("seed", "evaluation", "finetune", "augment")}
    added = {"finetuning": about, "embeddings": origin, "n": n, "software": ["scikit-learn"]}
    write_evaluation(
        folder, result, choices={**choices, "from_scratch": plan.from_scratch}, info=plan.info, added=added
    )
