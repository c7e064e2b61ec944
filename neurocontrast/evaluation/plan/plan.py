"""Plan of an evaluation: everything that is decided before the first model is fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import EmbeddingsOrigin, FixedSplit
from neurocontrast.documents.result import Probe as EstimatorSection
from neurocontrast.evaluation.plan.leakage import Overlap
from neurocontrast.evaluation.plan.models.model import GivenModel, Model
from neurocontrast.evaluation.plan.units import Units
from neurocontrast.evaluation.probes.adjustment import adjustments
from neurocontrast.evaluation.probes.designs import (
    Block,
    Design,
    FeatureDesign,
    has_own_blocks,
)
from neurocontrast.evaluation.probes.fitting import FitContext
from neurocontrast.evaluation.probes.members import Designs, Member, MemberDesign
from neurocontrast.evaluation.rows import site_names
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.seeds import derive_seed


@dataclass(frozen=True)
class SplitDesign:
    """Origin of a plan's splits for ``evaluation.json``: rule, file, splitter or column."""

    name: str
    """``stratified``, ``leave-site-out``, ``file``, ``custom`` or ``fixed``."""
    splitter: str | None = None
    """Expression of the user's own splitter; None without one."""
    fixed: FixedSplit | None = None
    """Sizes and use of train, validation and test where a column names them; None in
    cross-validation."""


@dataclass(frozen=True)
class Plan:
    """Everything decided before the first fit: scans, target, folds, models and warnings."""

    settings: EvaluationSettings
    table: pd.DataFrame
    """The scans that take part, one a row, with their identifiers and metadata."""
    features: npt.NDArray[np.floating]
    """Features (n, p) of the scans, in the order of the table."""
    target: Target
    splits: list[Split]
    split_design: SplitDesign
    units: Units
    """Subjects or sites whose scans a bootstrap draws together."""
    overlap: Overlap
    """People of pretraining among those who are evaluated."""
    excluded: dict[str, int]
    """Number of scans that are left out, by reason."""
    blocks: tuple[Block, ...] = ()
    """Groups of columns of joined encoders, or of one encoder's network and principal components;
    empty for a network alone."""
    members: tuple[Member, ...] = ()
    """Encoders of one run, whose predictions are averaged; empty for one encoder."""
    estimator: BaseEstimator | None = None
    """The user's own estimator; None for a built-in probe."""
    models: tuple[Model, ...] = ()
    """The models to compare: first the embedding, second the baseline of covariates."""
    flow: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Table of the steps by which scans came in and were left out, from the first table on."""
    notices: list[Notice] = field(default_factory=list)
    info: EmbeddingsInfo = field(default_factory=EmbeddingsInfo)
    """Description of the embeddings: run, encoder and people of pretraining."""
    origin: EmbeddingsOrigin = field(default_factory=EmbeddingsOrigin)
    """File of the embeddings, or of the weights of networks that are trained in the folds."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Settings as ``config.yaml`` holds them."""
    external: External | None = None
    """Test set of other people, on which the probe of all scans is tested; None without one."""

    def design(self, *, predicted: str = "", block: str = "") -> Designs:
        """Return a function of training and test rows that gives their features as two matrices.

        Such a function is called a design; rows are positions in the plan's table. Probes are
        fitted to the matrices, which have sites or covariates taken out as the settings say,
        estimated on the training rows. A `block` names part of the features, such as
        ``components``. For a run of several encoders, a `MemberDesign` with one design for each
        encoder is returned. `predicted` is a column that is predicted in place of the target: it is
        not among the columns whose effect on the features ComBat keeps.
        """
        if not self.members:
            return self._design(self.features, self.blocks, predicted=predicted, block=block)
        designs: list[Design] = []
        start = 0
        for member in self.members:
            features = self.features[:, start : start + member.n_features]
            start += member.n_features
            designs.append(self._design(features, member.blocks, predicted=predicted, block=block))
        return MemberDesign(tuple(designs))

    def design_of_distances(self) -> FeatureDesign:
        """Return a function of training and test rows that gives features for measuring distances.

        Distances are of scans from the training distribution (outlying scans). The function returns
        one matrix for each kind of rows, with sites or covariates taken out as for a probe; of a
        run of several encoders, all features are side by side.
        """
        return self._design(self.features, self.blocks)

    def _design(
        self,
        features: npt.NDArray[np.floating],
        blocks: tuple[Block, ...],
        *,
        predicted: str = "",
        block: str = "",
    ) -> FeatureDesign:
        """Return the `FeatureDesign` of one encoder's `features`, or of one block of their columns.

        `blocks` divides the columns, for instance into a network's features and principal
        components; `block` is the name of the one to take, "" for all.
        """
        target = self.target.name
        steps = adjustments(self.table, self.settings, target=target, predicted=predicted)
        if not block:
            return FeatureDesign(features, self.table, steps, blocks)
        start = 0
        for name, n_features, _ in blocks:
            if name == block:
                return FeatureDesign(features[:, start : start + n_features], self.table, steps)
            start += n_features
        raise KeyError(block)

    @property
    def own_blocks(self) -> tuple[Block, ...]:
        """Columns of an encoder's network and of its principal components, as a pair of `Block`.

        A `Block` has the name and number of columns. The tuple is empty for an encoder without
        principal components, and for joined encoders. With several encoders of a run it is that of
        the first encoder, and empty unless every encoder has network and components.
        """
        of_members = list(map(attrgetter("blocks"), self.members)) or [self.blocks]
        if all(map(has_own_blocks, of_members)):
            blocks: tuple[Block, ...] = of_members[0]
            return blocks
        return ()

    def size_of_block(self, name: str) -> str:
        """Return the number of columns of the blocks called `name` as text, such as ``60``.

        Blocks divide an encoder's features into ``network`` and ``components``. If the encoders of
        a run differ, the text is ``60 or 40``.
        """
        sizes = set[int]()
        for blocks in list(map(attrgetter("blocks"), self.members)) or [self.blocks]:
            for block in blocks:
                if block.name == name:
                    sizes.add(block.n_features)
        return " or ".join(map(str, sorted(sizes)))

    def with_model(self, model: Model) -> Plan:
        """Return a copy of the plan with a model added, in place of any model of the same name.

        The model's warnings are added to the plan's.
        """
        models = {earlier.name: earlier for earlier in self.models}
        models[model.name] = model
        return replace(self, models=tuple(models.values())).with_notices(model.notices)

    def with_outcome(self, outcome: Model | Notice | None) -> Plan:
        """Return a copy of the plan with a model or a warning added, or for None the plan itself.

        `outcome`, the model, the warning or None, is the return value of a function such as those
        in `MODELS`.
        """
        if isinstance(outcome, Notice):
            return self.with_notices([outcome])
        if outcome is None:
            return self
        return self.with_model(outcome)

    @property
    def context(self) -> FitContext:
        """Subject and site of each scan, settings and seed, which every fit of a model gets."""
        return FitContext(self.subjects, self.settings, self.settings.seed, self.sites)

    def describe(self, model: Model) -> EstimatorSection:
        """Return the section ``probe`` of ``evaluation.json``, which describes a model's estimator.

        The section holds the estimator's name and an expression: Python for the fit in
        scikit-learn, or words for a model that was fitted elsewhere.
        """
        n_train = max(len(split.train) for split in self.splits)
        return model.describe(self.target, self.settings, n_train=n_train)

    @property
    def estimators(self) -> dict[str, EstimatorSection]:
        """Name of each of the plan's models → the section that describes its estimator.

        Sections are as in ``evaluation.json``: the estimator's name, expression and penalty.
        """
        described = {}
        for model in self.models:
            described[model.name] = self.describe(model)
        return described

    def estimator_title(self, model: Model) -> str:
        """Return the name of a model's estimator for a sentence, such as ``ridge regression``."""
        described = self.describe(model)
        return str(described.title or described.name)

    def with_external(self, external: External) -> Plan:
        """Return a copy of the plan with the test set of other people `external`."""
        return replace(self, external=external)

    def with_notices(self, notices: Iterable[Notice]) -> Plan:
        """Return a copy of the plan with the warnings `notices` added to its own."""
        return replace(self, notices=[*self.notices, *notices])

    def text(self) -> str:
        """Return one line of text: target, numbers of scans and subjects, folds, and probe."""
        n = len(self.table)
        n_subjects = self.table["subject_id"].nunique()
        folds = self._text_of_folds()
        model = str(self.probe.name)
        if not isinstance(self.models[0], GivenModel):
            model += " probe"
        return f"{self.target.name}: {n} scans of {n_subjects} subjects, {folds}, {model}"

    def _text_of_folds(self) -> str:
        """Return the number and kind of the folds as text, such as ``5 folds, 10 times``."""
        if self.fixed:
            return f"parts as column '{self.settings.split_column}' says"
        n_folds = 1 + max(split.fold for split in self.splits)
        n_repeats = 1 + max(split.repeat for split in self.splits)
        folds = f"{n_folds} sites held out"
        if self.splits[0].held_out_site is None:
            folds = f"{n_folds} folds"
        if n_repeats > 1:
            folds += f", {n_repeats} times"
        return folds

    @property
    def n_features(self) -> int:
        """Number of features that the probe on the embedding reads, of all encoders together."""
        embedding = self.models[0]
        if isinstance(embedding, GivenModel):
            return embedding.n_features
        return int(self.features.shape[1])

    @property
    def n_members(self) -> int:
        """Number of encoders whose predictions are averaged; 1 for one encoder."""
        embedding = self.models[0]
        if isinstance(embedding, GivenModel):
            return embedding.n_members
        return max(1, len(self.members))

    @property
    def subjects(self) -> npt.NDArray[np.object_]:
        """Subject of each scan."""
        return self.table["subject_id"].to_numpy(dtype=object)

    @property
    def sites(self) -> npt.NDArray[np.object_]:
        """Site of each scan; `NO_SITE` for a scan without one."""
        return site_names(self.table["site"])

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns that the baseline of covariates reads: age, sex, site and the like."""
        return self.models[1].covariates

    @property
    def probe(self) -> EstimatorSection:
        """Section ``probe`` of ``evaluation.json``: a description of the embedding's estimator."""
        return self.describe(self.models[0])

    @property
    def why_not_stored(self) -> str | None:
        """Reason why the embedding's probe is not written to a file; None if a file is written."""
        return self.models[0].why_not_stored(self.settings)

    @property
    def final_seed(self) -> int:
        """Seed of the probe that is written to a file.

        If a column names the test rows, it is the seed of the one split.
        """
        seed = self.settings.seed
        if self.fixed:
            return split_seed(seed, self.splits[0])
        return derive_seed("final-probe", seed)

    @property
    def fixed(self) -> bool:
        """Whether the setting ``split_column`` names a column that marks the test rows."""
        return self.settings.split_column is not None

    @property
    def fitted_rows(self) -> npt.NDArray[np.intp]:
        """Positions in `table` of the scans that the stored probe is fitted to.

        If a column names the test rows, the test rows are left out.
        """
        if self.fixed:
            return self.splits[0].train
        return np.arange(len(self.table))


def split_seed(seed: int, split: Split) -> int:
    """Return the seed of a split's probe, derived from the seed of the evaluation."""
    return derive_seed("probe", seed, split.repeat, split.fold)


@dataclass(frozen=True)
class External:
    """External test: training and external scans in one plan, whose split tests external scans."""

    plan: Plan
    excluded: dict[str, int]
    """Number of external scans that are left out, by reason."""
    n_overlap: int
    """Number of external subjects who were trained on, or were in pretraining."""
    overlap_by: tuple[str, ...]
    """How people of pretraining were looked for: by ``identifiers``, by ``contents`` of scans."""
    notices: list[Notice]
    origin: EmbeddingsOrigin = field(default_factory=EmbeddingsOrigin)
    """File of the external embeddings."""
