"""Everything that is decided before a network is fine-tuned: which, on whom, in which folds, and shown how."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lightning_fabric import Fabric
from monai.transforms import Compose, Transform

from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.sources import Brains, brains_of_run
from neurocontrast.encoders import Encoder, load_encoder
from neurocontrast.evaluation import EvaluationSettings, Study, plan_study, read_split_file
from neurocontrast.evaluation.models import GivenModel
from neurocontrast.evaluation.notices import check_duplicates
from neurocontrast.exceptions import ConfigError, one_of
from neurocontrast.files import digest_of
from neurocontrast.parallel.collectives import Processes
from neurocontrast.parallel.devices import launched, usable_accelerator
from neurocontrast.parallel.launch import launch
from neurocontrast.progress import Progress
from neurocontrast.provenance import version
from neurocontrast.runs.folder import describe_embedded, warn_of_imitations
from neurocontrast.runs.voxels import with_voxels
from neurocontrast.settings import settings_from
from neurocontrast.training import FinetuneSettings

__all__ = ["FinetunePlan", "check_machine", "choose_settings", "plan_finetuning"]

_OF_FEATURES = ("test", "split_column", "train_sizes", "n_permutations", "harmonise", "residualise",
                "n_components")  # fmt: skip
"""Settings of an evaluation that frozen features alone can have."""
_OFF = {"confounds": False, "new_site": False, "outlyingness": False}
"""What an evaluation asks of one table of features, where every fold has a network of its own."""
_SCRATCH = {"loss": "none", "title": "none: random weights"}
_NOT_STORED = "every fold has a network of its own, and none is fitted on all scans"


def choose_settings(settings: Config, options: Mapping[str, Any]) -> EvaluationSettings:
    """Return the settings of the evaluation, or refuse those that belong to frozen features."""
    given = {**settings.evaluation.model_dump(), **options}
    chosen = settings_from(EvaluationSettings, given, source="evaluation")
    usual = EvaluationSettings()
    found = [name for name in _OF_FEATURES if getattr(chosen, name) != getattr(usual, name)]
    found += ["probe"] if ":" in chosen.probe else []  # a built-in one is that of the baselines
    if found:
        raise ConfigError(
            f"evaluation: {one_of(found)} {'is' if len(found) == 1 else 'are'} for frozen features (`evaluate`); in "
            "`finetune` the network itself is trained in every fold. Leave this out."
        )
    return chosen.model_copy(update=_OFF)


def check_machine(settings: FinetuneSettings) -> None:
    """Refuse several processes, and a device or precision that this machine does not have."""
    if launched().n_processes > 1:
        raise ConfigError(
            f"finetune: works in one process, and {launched().by} started {launched().n_processes}. Start it without, "
            "once for each target."
        )
    usable_accelerator(settings.accelerator, section="finetune", training=settings.precision)


@dataclass(frozen=True)
class FinetunePlan:
    """What is trained and evaluated, before an image is read."""

    settings: Config
    encoder: Encoder
    contract: Mapping[str, Any]
    source: Brains
    cohort: Cohort
    study: Study
    info: Mapping[str, Any]
    from_scratch: bool

    @property
    def engine(self) -> tuple[Fabric, Processes]:
        """A Fabric of one process."""
        return launch(**self.settings.finetune.of_loop.of_launch, section="finetune")

    def state(self) -> dict[str, Any]:
        """Return what must be the same where folds of two commands belong together."""
        splits = [(split.repeat, split.fold, split.train.tolist(), split.test.tolist()) for split in self.study.splits]
        return {
            "weights": None if self.from_scratch else self.contract["weights"]["sha256"],
            "encoder": self.encoder.settings.model_dump(mode="json"),
            "preprocessing": digest_of(self.contract["preprocessing"]),
            "seed": self.settings.seed,
            "evaluation": self.study.settings.without_folders(),
            "finetune": self.settings.finetune.model_dump(mode="json"),
            "augment": self.settings.augment.model_dump(mode="json") if self.settings.finetune.augment else None,
            "cohort": self.cohort.digest(),
            "splits": digest_of(splits),
            "neurocontrast": version(),
        }

    def prepared(self, progress: Progress) -> Study:
        """Return the study with its baseline of voxels, after its scans are preprocessed."""
        progress.message(self.study.text())
        self.source.make_ready(self.cohort, progress)
        images, allowed = self.source.images(self.cohort), self.study.settings.allow_overlap
        volumes = (images[row]["image"].numpy() for row in range(len(images)))
        notices = check_duplicates(self.study.table, volumes, allow_overlap=allowed)
        return with_voxels(self.study.with_notices(notices), self.info, progress)


def plan_finetuning(
    run: Path,
    participants: AnyTable,
    images_root: str | os.PathLike[str] | None,
    settings: Config,
    chosen: EvaluationSettings,
    transforms: Compose | Sequence[Transform] | None,
    from_scratch: bool,
    progress: Progress,
) -> FinetunePlan:
    """Check everything that can be before an image is read, and make the folds; see `finetune`."""
    encoder, contract = load_encoder(run)
    if encoder.settings.is_linear:
        raise ConfigError(
            f"finetune: the encoder of '{run}' is '{encoder.settings.name}', whose components are computed in one pass "
            "and not trained. Give a run of a network, or `embed` this one and `evaluate` its features."
        )
    what, given = "finetune trains on brains", None if transforms is None else Compose(transforms)
    source = brains_of_run(run, contract, settings.data, what=what, transforms=given)
    settings = settings.model_copy(update={"augment": _augment(settings, contract)})
    if settings.finetune.augment:
        source.views(settings.augment, seed=settings.seed)  # refused before anything is read
    listed = source.read_cohort(participants, images_root=images_root)
    for warning in listed.warnings:
        progress.warning(warning)
    info = describe_embedded(run, contract, listed, progress)
    if from_scratch:
        info |= {"pretraining_subjects": [], "objective": _SCRATCH, "training_metrics": None}
    folds = None if chosen.split_file is None else read_split_file(chosen.split_file)
    rows = np.arange(len(listed), dtype=float)[:, None]  # instead of features: the row of each scan in the table
    study = plan_study(listed.table, rows, settings=chosen, info=info, split_rows=folds)
    name, weights = ("network from scratch", "random") if from_scratch else ("fine-tuned network", "pretrained")
    text = f"{encoder.settings.name}, {weights} weights to begin with"
    study = study.with_model(GivenModel("embedding", name, text, _NOT_STORED))
    cohort = listed.subset(study.features[:, 0].astype(int))
    warn_of_imitations(cohort, "evaluation.where", progress)
    return FinetunePlan(settings, encoder, contract, source, cohort, study, info, from_scratch)


def _augment(settings: Config, contract: Mapping[str, Any]) -> Any:
    """Return the section ``augment`` if it was given, else that of the run."""
    of_run = contract.get("augment")
    if "augment" in settings.model_fields_set or of_run is None:
        return settings.augment
    return as_config({"augment": of_run}).augment
