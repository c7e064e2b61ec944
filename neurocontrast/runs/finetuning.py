"""Plan the folds in which the networks of a run are fine-tuned."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from monai.transforms import Compose

from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.batches import Images
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.sources import Brains
from neurocontrast.documents.encoder import EncoderContract, EncoderDescription
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.result import EmbeddingsOrigin
from neurocontrast.encoders import Encoder
from neurocontrast.evaluation import Plan, plan_evaluation
from neurocontrast.evaluation.plan.leakage import check_duplicates, check_overlap
from neurocontrast.evaluation.plan.models import GivenModel
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import digest_of
from neurocontrast.progress import Progress
from neurocontrast.provenance import CONTENT, Description, join_contents, version
from neurocontrast.runs.folder import describe_embedded, warn_of_imitations
from neurocontrast.runs.members import seed_of_member
from neurocontrast.runs.networks import (
    RunNetwork,
    describe_networks,
    first_alike,
    list_scans,
    load_networks,
    sources_of,
)
from neurocontrast.runs.planning import complete_plan

_FREE_TO_DIFFER = {"accelerator", "checkpoint_minutes"}
"""Settings of section ``finetune`` that may change when an interrupted `finetune` is continued."""
_SCRATCH = {"loss": "none", "title": "none: random weights"}
_NOT_STORED = "every fold has a network of its own, and none is fitted on all scans"


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """Network of a run, or one of several (members), that is fine-tuned anew in every fold.

    `plan_folds` makes one for each network, with the scans of all folds as the network reads them
    and the seed from which the seed of each fold is derived.
    """

    encoder: Encoder
    contract: EncoderContract
    """Content of the network's ``encoder.json``."""
    source: Brains
    cohort: Cohort
    """Scans of all folds, in the order of the evaluation's plan."""
    augment: Any
    """Section ``augment``, of the user or the pretrained run: random views for fine-tuning."""
    seed: int
    """Seed of the network's training, from which the seed of each fold is derived."""

    @cached_property
    def images(self) -> Images:
        """Preprocessed scans or measures that the network reads, in the order of `cohort`."""
        return self.source.images(self.cohort)


@dataclass(frozen=True)
class FoldsPlan:
    """Networks and folds of a fine-tuning, as `plan_folds` plans them before an image is read.

    A run has one network or several, called members.
    """

    settings: Config
    networks: tuple[TrainedNetwork, ...]
    """The network of the run, or its several networks (members), whose predictions are averaged."""
    contract: EncoderDescription
    """Content of the run's ``encoder.json``; for several networks, their joint description."""
    plan: Plan
    info: EmbeddingsInfo
    from_scratch: bool
    skipped: pd.DataFrame
    """Scans that are left out because they cannot be used, with reasons, as in ``skipped.tsv``."""

    @property
    def weights(self) -> str | None:
        """Digest of the pretrained weights that every fold begins with; None for random weights."""
        if self.from_scratch:
            return None
        return self.contract.weights.sha256

    @property
    def augment(self) -> object:
        """Settings of random views for training; None if scans are shown without random changes.

        The settings are a list with an entry for each network of the run if the networks differ in
        them.
        """
        if not self.settings.finetune.augment:
            return None
        sections = []
        for network in self.networks:
            sections.append(network.augment.model_dump(mode="json"))
        if sections.count(sections[0]) < len(sections):
            return sections
        return sections[0]

    def key(self) -> str:
        """Return a digest of the settings, weights, scans and folds of this fine-tuning.

        The folder of unfinished work is named by the digest, so that an equal call of `finetune`
        continues there.
        """
        splits = [
            (split.repeat, split.fold, split.train.tolist(), split.test.tolist())
            for split in self.plan.splits
        ]
        settings = self.settings.finetune.model_dump(mode="json", exclude=_FREE_TO_DIFFER)
        encoders = []
        scans = []
        for network in self.networks:
            encoder = network.encoder.settings.model_dump(mode="json")
            encoders.append([encoder, network.contract.preprocessing.content()])
            scans.append([network.cohort.digest(), network.source.signatures(network.cohort)])
        chosen = self.plan.settings.without_folders()
        depends_on = [
            self.weights,
            encoders,
            settings,
            self.augment,
            chosen,
            self.settings.seed,
            scans,
            splits,
            version(),
        ]
        return digest_of("finetune", json.dumps(depends_on, sort_keys=True))

    @property
    def choices(self) -> Description:
        """Settings with which to repeat this fine-tuning, by name, for a record of the evaluation.

        They are the seed, the sections ``evaluation``, ``finetune`` and ``augment``, and
        `from_scratch`.
        """
        return {
            "seed": self.settings.seed,
            "evaluation": self.plan.settings.without_folders(),
            "finetune": self.settings.finetune.model_dump(mode="json"),
            "augment": self.augment,
            "from_scratch": self.from_scratch,
        }

    def prepared(self, progress: Progress) -> FoldsPlan:
        """Preprocess the scans; return a copy of this plan, with the evaluation checked once more.

        Now that scans are read, their content shows scans of one person under two subjects, and
        people of the encoder's pretraining under other identifiers. Both are a LeakageError, or,
        with the setting ``evaluation.allow_overlap``, a text among the warnings that the returned
        plan keeps. Baseline models that predict from the scans' voxels are added to the evaluation,
        unless they are switched off.
        """
        contents = []
        for number in dict.fromkeys(first_alike(list(map(attrgetter("source"), self.networks)))):
            network = self.networks[number]
            network.source.make_ready(network.cohort, progress)
            contents.append(network.source.contents(network.cohort, progress))
        images = self.networks[0].images
        allowed = self.plan.settings.allow_overlap
        volumes = (images[row]["image"].numpy() for row in range(len(images)))
        table = self.plan.table.assign(**{CONTENT: join_contents(contents)})
        notices = check_duplicates(table, volumes, allow_overlap=allowed)
        overlap = check_overlap(table, self.info, allow_overlap=allowed)
        # Identifiers were looked at before the scans were read.
        plan = replace(
            self.plan,
            table=table,
            overlap=overlap,
            notices=overlap.notices_among(self.plan.notices),
            choices=self.choices,
        ).with_notices(notices)
        return replace(self, plan=complete_plan(plan, progress))


def plan_folds(
    run: Path,
    participants: AnyTable,
    images_root: str | os.PathLike[str] | None,
    settings: Config,
    transforms: Compose | None,
    from_scratch: bool,
    progress: Progress,
) -> FoldsPlan:
    """Return the plan of `finetune`: folds, networks and scans, checked before an image is read.

    Run, settings and table are checked. Section ``evaluation`` of `settings` decides how the
    subjects are divided into folds.
    """
    chosen = settings.evaluation
    networks = load_networks(run)
    for network in networks:
        _without_components(network)
    contract = describe_networks(run, networks)
    sources = sources_of(
        networks,
        settings.data,
        what="finetune trains on brains",
        transforms=transforms,
    )
    sections = []
    for network, source in zip(networks, sources, strict=True):
        section = _views_of(settings, network)
        if settings.finetune.augment:
            source.views(section, seed=settings.seed)  # refused before anything is read
        sections.append(section)
    listed, skipped = list_scans(sources, participants, images_root, progress)
    info = describe_embedded(run, contract, listed[0], progress)
    if from_scratch:
        info = info.without("pretraining_unknown").with_keys(
            pretraining_subjects=[],
            objective=_SCRATCH,
            training_metrics=None,
            pretraining_contents=[],
            pretraining_contents_complete=True,
        )
    plan = plan_evaluation(
        listed[0].table,
        np.arange(len(listed[0]), dtype=float)[:, None],
        settings=chosen,
        info=info,
        network=_model_of(networks, from_scratch=from_scratch),
    )
    origin = EmbeddingsOrigin(
        file=None if from_scratch else contract.weights.file,
        digest=None if from_scratch else contract.weights.sha256,
        cohort_source=info.cohort_source,
        cohort_digest=info.cohort_digest,
    )
    plan = replace(plan, origin=origin)
    trained = []
    for number, network in enumerate(networks):
        seed = settings.seed
        if len(networks) > 1:
            seed = seed_of_member(settings.seed, number)
        cohort = listed[number].subset(plan.features[:, 0].astype(int))
        trained.append(
            TrainedNetwork(
                network.encoder, network.contract, sources[number], cohort, sections[number], seed
            )
        )
    warn_of_imitations(trained[0].cohort, "evaluation.where", progress)
    return FoldsPlan(settings, tuple(trained), contract, plan, info, from_scratch, skipped)


def _without_components(network: RunNetwork) -> None:
    """Remove linear components from a network's features, in place; refuse a linear encoder.

    An encoder that is linear itself is refused with a ConfigError: no network would be left to
    train.
    """
    encoder = network.encoder.without_beside()
    if encoder.settings.is_linear:
        raise ConfigError(
            f"finetune: the encoder of '{network.folder}' is '{encoder.settings.name}', whose "
            "components are computed in one pass and not trained. Give a run of a network, or "
            "`embed` this one and `evaluate` its features."
        )


def _views_of(settings: Config, network: RunNetwork) -> Any:
    """Return the settings of random views (section ``augment``) to fine-tune a network with.

    They are set by the user, or else those of the pretrained `network`; without either, the
    defaults.
    """
    of_run = network.contract.augment
    if "augment" in settings.model_fields_set or of_run is None:
        return settings.augment
    kind = network.contract.preprocessing.kind
    return as_config({"data": {"kind": kind}, "augment": of_run}).augment


def _model_of(networks: Sequence[RunNetwork], *, from_scratch: bool) -> GivenModel:
    """Return a `GivenModel` for the fine-tuned networks, whose scores the evaluation reports.

    The evaluation is the cross-validation in whose folds the networks are fine-tuned. One network,
    or the mean of several, is one model with a name and a description in words. The model has no
    predictions yet; `train_folds` adds them.
    """
    name = "fine-tuned network"
    weights = "pretrained"
    if from_scratch:
        name = "network from scratch"
        weights = "random"
    encoders = dict.fromkeys(map(attrgetter("encoder.settings.name"), networks))
    description = f"{' and '.join(encoders)}, {weights} weights to begin with"
    if len(networks) > 1:
        name = f"mean of {len(networks)} {name.replace('network', 'networks')}"
        description = f"mean of {len(networks)} members: {description}"
    n_features = sum(map(attrgetter("encoder.n_features"), networks))
    return GivenModel(
        "embedding", name, description, _NOT_STORED, n_features, n_members=len(networks)
    )
