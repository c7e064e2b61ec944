"""Train a run's encoder end to end on a column in every fold, and evaluate its predictions."""

import os
import shutil
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Any

from monai.transforms import Compose, Transform

from neurocontrast.commands.evaluate import EvaluationResult
from neurocontrast.config import AnyConfig, as_config
from neurocontrast.data.listing import AnyTable
from neurocontrast.display import as_progress
from neurocontrast.documents.result import FILE
from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.fit.fits import fit
from neurocontrast.evaluation.measure import measure
from neurocontrast.evaluation.measure.writing import write_evaluation
from neurocontrast.exceptions import ConfigError, one_of
from neurocontrast.files import check_output_folder
from neurocontrast.locks import hold
from neurocontrast.parallel.devices import refuse_several, usable_accelerator
from neurocontrast.progress import Progress
from neurocontrast.reporting.findings import FINDINGS
from neurocontrast.runs.finetuning import plan_folds
from neurocontrast.runs.folds import train_folds
from neurocontrast.runs.skipped import SKIPPED, write_skipped
from neurocontrast.settings import settings_from
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.training.signals import suspending
from neurocontrast.weights import folder_of

_OF_FEATURES = ("test", "split_column", "train_sizes", "n_permutations", "harmonise", "residualise")
"""Settings of an evaluation that need frozen features, and that fine-tuning refuses."""
_OFF = {"confounds": False, "new_site": False, "outlyingness": False}
"""Settings that switch off analyses of one table of features, since each fold has its own
network."""


@in_default_torch_state
def finetune(
    run: str | os.PathLike[str],
    *,
    participants: AnyTable,
    out: str | os.PathLike[str],
    target: str | None = None,
    from_scratch: bool = False,
    images_root: str | os.PathLike[str] | None = None,
    config: AnyConfig | None = None,
    transforms: Compose | Sequence[Transform] | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
    **options: Any,
) -> EvaluationResult:
    """Train a run's encoder with a linear head in every fold; return the evaluation's folder.

    Folds, metrics, baselines and files are those of `evaluate`, so that `compare` and `report` take
    both. Of a run of several encoders (members) each encoder is trained in the same folds, with a
    seed of its own, and the predicted probabilities, or numbers, are averaged.

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
        Whether the same network begins with random weights; from the run only architecture and
        preprocessing are then used.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    config : Config, mapping or path of a YAML file, optional
        Sections `evaluation` and `finetune`; `augment`, in place of the run's own; `seed` of the
        training; and `data`, for the places of images and cache.
    transforms : Compose or sequence of Transform, optional
        Transforms that were passed to `pretrain` from Python, if any.
    overwrite : bool, default=False
        Whether an evaluation already at `out` is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    **options
        Fields of `EvaluationSettings`: ``splits``, ``n_folds``, ``where`` and so on.

    Notes
    -----
    One part in ``n_inner_folds`` of each training fold is set aside for validation, by subject, or
    by site with ``inner_splits="leave-site-out"``. The weights of the epoch with the lowest
    validation loss are used; the validation scans are never trained on. The loss is the
    cross-entropy, or the squared error of numbers standardised over the training fold. The head
    sees standardised features. On a pretrained encoder the head begins as the linear probe of the
    frozen features; from scratch it begins by predicting the shares of the classes, or the mean.
    Probabilities are those of the network.
    """
    progress = as_progress(progress)
    settings = as_config({} if config is None else config)
    folder = Path(out)
    evaluation = settings.evaluation.model_dump() | options
    if target is not None:
        evaluation["target"] = target
    chosen = settings_from(EvaluationSettings, evaluation, source="evaluation")
    _refuse_settings_of_features(chosen)
    settings = settings.model_copy(update={"evaluation": chosen.model_copy(update=_OFF)})
    check_output_folder(folder, overwrite=overwrite, marker=FILE, what="an evaluation")
    refuse_several("finetune")
    usable_accelerator(
        settings.finetune.accelerator, section="finetune", training=settings.finetune.precision
    )
    with suspending():
        folds_plan = plan_folds(
            folder_of(run),
            participants,
            images_root,
            settings,
            None if transforms is None else Compose(transforms),
            from_scratch,
            progress,
        )
        work = folder.with_name(f".{folder.name}.{folds_plan.key()[:16]}.partial")
        with hold(work, progress):
            folds_plan = folds_plan.prepared(progress)
            network = train_folds(folds_plan, work, progress)
            plan = folds_plan.plan.with_model(network)
            result = measure(plan, fit(plan, progress), FINDINGS, progress=progress)
            write_evaluation(result, folder)
            write_skipped(folder / SKIPPED, folds_plan.skipped)
        for done in folder.parent.glob(f".{escape(folder.name)}.*.partial"):
            shutil.rmtree(done)
    return EvaluationResult(folder)


def _refuse_settings_of_features(chosen: EvaluationSettings) -> None:
    """Refuse settings of an evaluation that need frozen features, such as ``harmonise``.

    `chosen` are the settings of a call of `finetune`, which has no frozen features. A setting that
    has its default is accepted.
    """
    usual = EvaluationSettings()
    names = [name for name in _OF_FEATURES if getattr(chosen, name) != getattr(usual, name)]
    if ":" in chosen.probe:  # a built-in probe is that of the baselines
        names.append("probe")
    if not names:
        return
    verb = "is" if len(names) == 1 else "are"
    raise ConfigError(
        f"evaluation: {one_of(names)} {verb} for frozen features (`evaluate`); in `finetune` the "
        "network itself is trained in every fold. Leave this out."
    )
