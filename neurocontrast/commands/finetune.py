"""Train a run's encoder end to end on a column, fold by fold, and evaluate it as `evaluate` does frozen features."""

import copy
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from monai.transforms import Compose, Transform

from neurocontrast.commands.evaluate import EvaluationResult, write_evaluation
from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.batches import Images
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.sources import Brains, brains_of_run
from neurocontrast.display import as_progress
from neurocontrast.encoders import Encoder, build_encoder, load_encoder
from neurocontrast.evaluation import EvaluationSettings, Study, plan_study, read_split_file
from neurocontrast.evaluation.models import GivenModel, Prediction, decide_scores
from neurocontrast.evaluation.notices import check_duplicates, check_overlap
from neurocontrast.evaluation.record import FILE, EmbeddingsOrigin
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import validation_split
from neurocontrast.exceptions import ConfigError, one_of
from neurocontrast.files import check_output_folder, digest_of, hold, write_json
from neurocontrast.findings import measure
from neurocontrast.parallel.devices import refuse_several, usable_accelerator
from neurocontrast.progress import Progress
from neurocontrast.provenance import CONTENT, version
from neurocontrast.runs.folder import describe_embedded, read_json, warn_of_imitations
from neurocontrast.runs.parts import NONE, SKIPPED, leave_out, write_skipped
from neurocontrast.runs.voxels import with_voxels
from neurocontrast.seeds import derive_seed
from neurocontrast.settings import settings_from
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.training import TrainingData
from neurocontrast.training.loop import suspending
from neurocontrast.training.supervised import Labels, fit_supervised

_FINISHED = "finished.json"
_FREE_TO_DIFFER = {"accelerator", "checkpoint_minutes"}
"""Settings of fine-tuning with which an interrupted call may be continued."""
_OF_FEATURES = ("test", "split_column", "train_sizes", "n_permutations", "harmonise", "residualise")
"""Settings of an evaluation that frozen features alone can have."""
_OFF = {"confounds": False, "new_site": False, "outlyingness": False}
"""What an evaluation asks of one table of features, where every fold has a network of its own."""
_SCRATCH = {"loss": "none", "title": "none: random weights"}
_NOT_STORED = "every fold has a network of its own, and none is fitted on all scans"


@in_default_torch_state
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
    overwrite: bool = False,
    progress: Progress | bool | None = None,
    **options: Any,
) -> EvaluationResult:
    """Train a run's encoder with a linear head in every training fold, and return the folder of the evaluation.

    Folds, metrics, baselines and files are those of `evaluate`, so that `compare` and `report` take
    both.

    A call that was stopped continues when it is made again: finished folds are kept, in a hidden
    folder next to `out`, and the one under way goes on from its last epoch, to the same numbers.

    Parameters
    ----------
    run : path
        Run directory, or any folder with ``encoder.json`` and its weights; not of a linear encoder.
    participants : path or DataFrame
        Table of scans, with the column to predict.
    out : path
        Folder to write: ``evaluation.json``, ``predictions.tsv``, ``folds.tsv``, ``sites.tsv``,
        ``finetuning.tsv`` and more; with ``data.skip_unreadable`` also ``skipped.tsv``, the scans
        that cannot be used.
    target : str, optional
        Column to predict; that of the settings (``diagnosis``) by default.
    from_scratch : bool, default=False
        Whether the same network begins with random weights; the run then says architecture and
        preprocessing alone.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    config : Config, mapping or path of a YAML file, optional
        Sections `evaluation` and `finetune`; `augment`, in place of the run's own; `seed` of the
        training; and `data`, for the places of images and cache.
    transforms : Compose or sequence of Transform, optional
        Transforms that `pretrain` was given from Python, where it was.
    overwrite : bool, default=False
        Whether an evaluation already at `out` is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
    **options
        Fields of `EvaluationSettings`: ``splits``, ``n_folds``, ``where`` and so on.
    """
    progress = as_progress(progress)
    settings = as_config({} if config is None else config)
    folder = Path(out)
    given = (
        settings.evaluation.model_dump() | options | ({} if target is None else {"target": target})
    )
    chosen = settings_from(EvaluationSettings, given, source="evaluation")
    usual = EvaluationSettings()
    found = [name for name in _OF_FEATURES if getattr(chosen, name) != getattr(usual, name)]
    found += ["probe"] if ":" in chosen.probe else []  # a built-in one is that of the baselines
    if found:
        raise ConfigError(
            f"evaluation: {one_of(found)} {'is' if len(found) == 1 else 'are'} for frozen features (`evaluate`); in "
            "`finetune` the network itself is trained in every fold. Leave this out."
        )
    chosen = chosen.model_copy(update=_OFF)
    check_output_folder(folder, overwrite=overwrite, marker=FILE, what="an evaluation")
    refuse_several("finetune")
    usable_accelerator(
        settings.finetune.accelerator, section="finetune", training=settings.finetune.precision
    )
    with suspending():
        plan = _plan_folds(
            Path(run),
            participants,
            images_root,
            settings,
            chosen,
            transforms,
            from_scratch,
            progress,
        )
        work = folder.with_name(f".{folder.name}.{plan.key()[:16]}.partial")
        with hold(work, progress):
            study = plan.prepared(progress)
            for notice in study.notices:
                progress.warning(notice.message)
            folds = _train_folds(plan, study, work, progress)
            _evaluate(folder, plan, study, folds, progress)
        for done in folder.parent.glob(f".{escape(folder.name)}.*.partial"):
            shutil.rmtree(done)
    return EvaluationResult(folder)


@dataclass(frozen=True)
class _Plan:
    """What is trained and evaluated, before an image is read."""

    settings: Config
    encoder: Encoder
    contract: Mapping[str, Any]
    source: Brains
    cohort: Cohort
    study: Study
    info: Mapping[str, Any]
    from_scratch: bool
    skipped: pd.DataFrame
    """Scans that cannot be used, as in ``skipped.tsv``."""

    @property
    def weights(self) -> str | None:
        """Digest of the weights that every fold begins with; None for random ones."""
        return None if self.from_scratch else self.contract["weights"]["sha256"]

    @property
    def augment(self) -> dict[str, Any] | None:
        """Settings of the views that the network is shown; None for the scans themselves."""
        return (
            self.settings.augment.model_dump(mode="json")
            if self.settings.finetune.augment
            else None
        )

    def key(self) -> str:
        """Return a digest of all that a fold's network depends on, where folds of two calls belong together."""
        splits = [
            (split.repeat, split.fold, split.train.tolist(), split.test.tolist())
            for split in self.study.splits
        ]
        settings = self.settings.finetune.model_dump(mode="json", exclude=_FREE_TO_DIFFER)
        network = [
            self.weights,
            self.encoder.settings.model_dump(mode="json"),
            self.contract["preprocessing"],
        ]
        chosen = self.study.settings.without_folders()
        scans = [self.cohort.digest(), self.source.signatures(self.cohort)]
        known = [
            network,
            settings,
            self.augment,
            chosen,
            self.settings.seed,
            scans,
            splits,
            version(),
        ]
        return digest_of("finetune", json.dumps(known, sort_keys=True))

    def prepared(self, progress: Progress) -> Study:
        """Return the study with its baseline of voxels, after its scans are preprocessed."""
        progress.message(self.study.text())
        self.source.make_ready(self.cohort, progress)
        images = self.source.images(self.cohort)
        allowed = self.study.settings.allow_overlap
        volumes = (images[row]["image"].numpy() for row in range(len(images)))
        contents = self.source.contents(self.cohort, progress)
        table = self.study.table.assign(**{CONTENT: contents})
        notices = check_duplicates(table, volumes, allow_overlap=allowed)
        overlap = check_overlap(table, self.info, allow_overlap=allowed)
        # Identifiers were looked at before the scans were read.
        study = replace(
            self.study,
            table=table,
            facts=self.study.facts | overlap.facts,
            notices=overlap.notices_among(self.study.notices),
        ).with_notices(notices)
        return with_voxels(study, self.info, progress)


def _plan_folds(
    run: Path,
    participants: AnyTable,
    images_root: str | os.PathLike[str] | None,
    settings: Config,
    chosen: EvaluationSettings,
    transforms: Compose | Sequence[Transform] | None,
    from_scratch: bool,
    progress: Progress,
) -> _Plan:
    """Check everything that can be before an image is read, and make the folds; see `finetune`."""
    encoder, contract = load_encoder(run)
    encoder.without_beside()
    if encoder.settings.is_linear:
        raise ConfigError(
            f"finetune: the encoder of '{run}' is '{encoder.settings.name}', whose components are computed in one pass "
            "and not trained. Give a run of a network, or `embed` this one and `evaluate` its features."
        )
    what = "finetune trains on brains"
    given = None if transforms is None else Compose(transforms)
    source = brains_of_run(run, contract, settings.data, what=what, transforms=given)
    if "augment" not in settings.model_fields_set and contract.get("augment") is not None:
        kind = contract["preprocessing"].get("kind", "volumes")
        of_run = as_config({"data": {"kind": kind}, "augment": contract["augment"]}).augment
        settings = settings.model_copy(update={"augment": of_run})
    if settings.finetune.augment:
        source.views(settings.augment, seed=settings.seed)  # refused before anything is read
    listed = source.read_cohort(participants, images_root=images_root)
    for warning in listed.warnings:
        progress.warning(warning)
    skipped = NONE
    if source.skips:
        listed, skipped = leave_out(source, listed, progress)
    info = describe_embedded(run, contract, listed, progress)
    if from_scratch:
        info |= {"pretraining_subjects": [], "objective": _SCRATCH, "training_metrics": None}
        info |= {"pretraining_contents": [], "pretraining_contents_complete": True}
    folds = None if chosen.split_file is None else read_split_file(chosen.split_file)
    rows = np.arange(len(listed), dtype=float)[
        :, None
    ]  # instead of features: the row of each scan in the table
    study = plan_study(listed.table, rows, settings=chosen, info=info, split_rows=folds)
    name, weights = (
        ("network from scratch", "random") if from_scratch else ("fine-tuned network", "pretrained")
    )
    text = f"{encoder.settings.name}, {weights} weights to begin with"
    study = study.with_model(GivenModel("embedding", name, text, _NOT_STORED))
    cohort = listed.subset(study.features[:, 0].astype(int))
    warn_of_imitations(cohort, "evaluation.where", progress)
    return _Plan(settings, encoder, contract, source, cohort, study, info, from_scratch, skipped)


def _train_folds(plan: _Plan, study: Study, work: Path, progress: Progress) -> list[dict[str, Any]]:
    """Train a network in every fold that is not finished, one after another; return the ``finished.json`` of each."""
    folds = []
    n = len(study.splits)
    images = plan.source.images(plan.cohort)
    with progress.task("Fine-tuning", n, "folds") as task:
        for number, split in enumerate(study.splits):
            folder = work / f"fold-{number:03d}"
            title = f"Fold {number + 1} of {n}"
            if not (folder / _FINISHED).is_file():
                write_json(
                    folder / _FINISHED, _train(plan, study, split, images, folder, title, progress)
                )
                shutil.rmtree(folder / "checkpoints")
            fold = read_json(folder / _FINISHED)
            about = fold["about"]
            n_epochs = fold["about"]["n_epochs"]
            text = f"epoch {about['best_epoch']} of {n_epochs} is taken"
            if not about["best_epoch"]:
                text = f"no epoch of {n_epochs} is better than the probe it began as"
            if about["best_loss"] is not None:
                text += f", loss {about['best_loss']:.4g} on {about['n_validation']} scans of the training fold"
            progress.message(f"{title}: {text}")
            folds.append(fold)
            task.advance()
    return folds


def _train(
    plan: _Plan,
    study: Study,
    split: Split,
    images: Images,
    folder: Path,
    title: str,
    progress: Progress,
) -> dict[str, Any]:
    """Train the network of a fold; return what it predicts of its test scans, its epochs, and how it was trained."""
    settings = plan.settings
    target = study.target
    seed = derive_seed("finetune", settings.seed, split.repeat, split.fold)
    fitted, tried = validation_split(
        target, split.train, study.subjects, sites=study.sites, settings=study.settings, seed=seed
    )
    encoder = copy.deepcopy(plan.encoder)
    if plan.from_scratch:
        encoder = build_encoder(encoder.settings, n_channels=encoder.n_channels, seed=seed)
    view = None
    if settings.finetune.augment:
        views: Any = plan.source.prepared(plan.cohort, fitted.tolist()).views(
            settings.augment, seed=seed
        )
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
        progress=progress,
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


def _evaluate(
    folder: Path, plan: _Plan, study: Study, folds: Sequence[Mapping[str, Any]], progress: Progress
) -> None:
    """Write what `evaluate` does, with the predictions of the folds in place of a probe's."""
    predictions = {}
    for fold, split in zip(folds, study.splits, strict=True):
        scores = np.asarray(fold["predictions"], dtype=float)
        scores = scores[:, 1] if study.target.kind == "binary" else scores
        decided = decide_scores(scores, study.target, split.train, study.settings)
        predictions[split.repeat, split.fold] = Prediction(scores, *decided)
    network = study.models[0]
    assert isinstance(network, GivenModel)
    result = measure(study.with_model(replace(network, predictions=predictions)), progress=progress)
    abouts = [fold["about"] for fold in folds]
    epochs = [
        {"repeat": about["repeat"], "fold": about["fold"], **row}
        for about, fold in zip(abouts, folds, strict=True)
        for row in fold["metrics"]
    ]
    result = replace(result, tables={**result.tables, "finetuning": pd.DataFrame(epochs)})
    n = result.evaluation.n.model_copy(update={"features": plan.encoder.n_features})
    settings = plan.settings.finetune.model_dump(mode="json")
    finetuning = {
        "begins_with": "random weights" if plan.from_scratch else "pretrained weights",
        "settings": settings,
        "augment": plan.augment,
        "seed": plan.settings.seed,
        "folds": abouts,
    }
    origin = EmbeddingsOrigin(
        file=None if plan.from_scratch else plan.contract["weights"]["file"],
        digest=plan.weights,
        cohort_source=plan.info["cohort_source"],
        cohort_digest=plan.info["cohort_digest"],
    )
    choices = {
        "seed": plan.settings.seed,
        "evaluation": plan.study.settings.without_folders(),
        "finetune": settings,
    }
    choices |= {"augment": plan.augment, "from_scratch": plan.from_scratch}
    added = {"finetuning": finetuning, "embeddings": origin, "n": n, "software": ["scikit-learn"]}
    write_evaluation(folder, result, choices=choices, info=plan.info, added=added)
    write_skipped(folder / SKIPPED, plan.skipped)
