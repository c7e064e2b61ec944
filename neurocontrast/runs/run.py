"""A run to be trained: created, or continued from its last state.

Settings, machine and table are checked before the first scan is preprocessed, and no file of the
run is written before these checks. Of several processes, only the first prepares the scans and
writes the first files in the run's folder; then all others build the same data and network, with
the fitted preprocessing that the first process sends them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

import pandas as pd

from neurocontrast.config import AnyConfig, Config
from neurocontrast.data.cohort import Cohort
from neurocontrast.data.sources import Source
from neurocontrast.documents.document import Document, Json
from neurocontrast.documents.encoder import Samples
from neurocontrast.encoders.weights import SECOND, save_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.locks import hold
from neurocontrast.parallel.launch import Engine, after_first
from neurocontrast.progress import Progress
from neurocontrast.runs.answer import keep_answer
from neurocontrast.runs.components import RunComponents, build_components
from neurocontrast.runs.contracts import contracts_of
from neurocontrast.runs.folder import (
    check_can_continue,
    check_new,
    check_same_number,
    continue_run,
    is_finished,
    read_preprocessing,
    read_provenance,
    start_run,
)
from neurocontrast.runs.initial import restore_initial
from neurocontrast.runs.inputs import Inputs, check_machine, read_settings
from neurocontrast.runs.skipped import (
    NONE,
    SKIPPED,
    leave_out,
    leave_out_unlearnable,
    make_ready,
    read_skipped,
    without,
    write_skipped,
)
from neurocontrast.runs.views import warn_of_other_views
from neurocontrast.training.components import Facts, fit_beside, fit_components
from neurocontrast.training.loop import TrainingOutput, train
from neurocontrast.training.state import ContrastiveState


@dataclass(frozen=True)
class OpenedRun:
    """Run that is ready to be trained: new with its first files written, or continued."""

    is_new: bool
    components: RunComponents | None = None
    """Data, network and loss; None where the run is finished."""
    skipped: list[str] = field(default_factory=list)
    """Names of the scans that the run leaves out."""

    def for_others(self) -> Json:
        """Return a dictionary that tells other processes how the first began or continued the run.

        It is written as JSON, and read as `RunOfOthers`.
        """
        samples = None
        if self.components is not None:
            samples = self.components.source.contract()
        told = RunOfOthers(is_new=self.is_new, samples=samples, skipped=self.skipped)
        return told.content()


class RunOfOthers(Document):
    """Message by which the first process tells all others how a run was begun or continued."""

    is_new: bool
    samples: Samples | None = None
    """Preprocessing of the samples as the first process fitted it; None for a finished run."""
    skipped: list[str]


@dataclass(frozen=True)
class Run:
    """Configuration, folder and source of the samples of a run that is to be trained.

    Parameters
    ----------
    settings : Config
        Configuration of the run.
    folder : Path
        Directory of the run.
    source : source
        Source of the samples, before preprocessing is fitted to the training scans.
    resumes : bool
        Whether a run in `folder` is continued; without a run there, a new one begins.
    listed : Cohort, optional
        All samples of the run's table, if the table has been read; members of a run share it.

    Examples
    --------
    >>> from neurocontrast.runs.run import Run
    >>> run = Run.create("yaware", "runs/first")  # doctest: +SKIP
    >>> run.components().model  # doctest: +SKIP
    """

    settings: Config
    folder: Path
    source: Source
    resumes: bool = False
    listed: Cohort | None = None

    @classmethod
    def create(
        cls, config: AnyConfig | None, out: str | os.PathLike[str], inputs: Inputs | None = None
    ) -> Self:
        """Return a run for an empty folder, with its configuration checked; nothing is written."""
        return cls._checked(config, Path(out), inputs or Inputs(), resumes=False)

    @classmethod
    def resume(
        cls,
        out: str | os.PathLike[str],
        config: AnyConfig | None = None,
        inputs: Inputs | None = None,
    ) -> Self:
        """Return the run in folder `out` to be continued, or a new run if the folder has none.

        Settings, machine and folder are checked first. This call trains nothing.
        """
        return cls._checked(config, Path(out), inputs or Inputs(), resumes=True)

    @classmethod
    def _checked(
        cls, config: AnyConfig | None, folder: Path, inputs: Inputs, *, resumes: bool
    ) -> Self:
        """Check settings, machine and folder, before further processes start; return a new run."""
        settings = inputs.with_table(read_settings(config, folder, resumes=resumes))
        check_same_number(folder, settings)
        check_machine(settings)
        settings = inputs.with_transforms(settings)
        source = inputs.source(settings)
        # Refuses views, and needs a package for some images: before anything is written.
        source.views(settings.augment, seed=settings.seed)
        return cls(settings, folder, source, resumes)

    def read_cohort(self, *, check_images: bool = True, skipped: Collection[str] = ()) -> Cohort:
        """Return the cohort of samples by ``data.where``, without samples in `skipped`."""
        listed = self.listed
        if listed is None:
            listed = self.list_samples(check_images=check_images)
        cohort = listed.select(self.settings.data.where)
        return without(cohort, skipped) if skipped else cohort

    def list_samples(self, *, check_images: bool = True) -> Cohort:
        """Return the cohort of all rows of the table of samples, whatever ``data.where`` selects.

        With `check_images`, missing files of samples are an error.
        """
        assert self.source.table is not None
        return self.source.read_cohort(self.source.table, check_images=check_images)

    def components(self, cohort: Cohort | None = None, *, is_new: bool = True) -> RunComponents:
        """Build data, network and loss of the run, by default for all rows that settings select.

        `cohort` can hold fewer rows, such as the rows without unreadable scans.
        """
        if cohort is None:
            cohort = self.read_cohort()
        return build_components(self.settings, cohort, self.source, is_new=is_new)

    def train(self, engine: Engine, progress: Progress) -> None:
        """Train the run's encoder, from the last checkpoint if there is one, and save the encoder.

        The first process prepares scans and folder, and all other processes then build the same
        data and network. A new run writes its first files; an interrupted run goes on after its
        last checkpoint; for a finished run, a message says that there is nothing to continue.
        """
        with ExitStack() as stack:
            opened = after_first(
                engine.processes,
                partial(self._open, stack, progress),
                self._follow,
                tell=OpenedRun.for_others,
            )
            components = opened.components
            if components is None:
                progress.message(
                    f"{self.folder}: this run is finished; there is nothing to continue."
                )
                return
            if self.settings.training.init is not None:
                restore_initial(components.model.halves[0], self.folder)
            if components.objective is None:
                self._fit_linear(components, progress)
            else:
                self._train_network(components, engine, resume=not opened.is_new, progress=progress)

    def save(
        self,
        components: RunComponents,
        progress: Progress,
        *,
        fitted: Facts | None = None,
        beside: Facts | None = None,
        **facts: Json,
    ) -> None:
        """Finish the run: save the weights of each encoder, and features of a test sample.

        The features are of an artificial sample, so that ``weights verify`` can check copies of the
        weights. They are written to ``answer.json``, except for encoders of natural images, and of
        scans whose preprocessing was passed to `pretrain` as transforms.

        Parameters
        ----------
        components : RunComponents
            Components with trained weights.
        progress : Progress
            Receives progress messages.
        fitted, beside : dict, optional
            Facts about a linear encoder (`fitted`), or about linear components appended to a
            network (`beside`).
        **facts
            Other sections of ``encoder.json``.
        """
        contracts = contracts_of(self.settings, components, self.folder, fitted or {})
        if beside is not None:
            contracts[0] = contracts[0].with_keys(beside=beside)
        folders = (self.folder, self.folder / SECOND)
        rows = components.data.training_rows
        for folder, half, source in zip(
            folders, components.model.halves, components.source.halves, strict=False
        ):
            keep_answer(folder, half.encoder, source, components.cohort, rows, progress)
        save_model(
            self.folder,
            components.model,
            contracts,
            run=self.folder,
            heads=components.objective is not None,
            **facts,
        )
        progress.message(f"{self.folder}: finished.")

    def _fit_linear(self, components: RunComponents, progress: Progress) -> None:
        """Fit the run's linear encoder to training samples in one pass, and save the encoder."""
        fitted = fit_components(
            components.model.encoder,
            components.data,
            components.training_subjects,
            seed=self.settings.seed,
            progress=progress,
        )
        self.save(components, progress, fitted=fitted)

    def _train_network(
        self, components: RunComponents, engine: Engine, *, resume: bool, progress: Progress
    ) -> None:
        """Train the run's network in all processes, and save the encoder in the first process."""
        assert components.objective is not None
        assert components.sampler is not None
        state = ContrastiveState(
            components.model,
            components.objective,
            components.source.views(self.settings.augment, seed=self.settings.seed),
            components.data,
            settings=self.settings.training,
            sampler=components.sampler,
            engine=engine,
        )
        output = TrainingOutput(self.folder, resume=resume, title="Pretraining", progress=progress)
        result = train(state, output)
        if not engine.processes.is_first:
            return
        beside = None
        if self.settings.encoder.beside is not None:
            beside = fit_beside(
                components.model.encoder,
                components.data,
                components.training_subjects,
                seed=self.settings.seed,
                progress=progress,
            )
        self.save(components, progress, beside=beside, batchnorm=result.batchnorm)

    def _open(self, stack: ExitStack, progress: Progress) -> OpenedRun:
        """Check and prepare the run in the first process; return its data, network and loss.

        For a new run, the first files of the run's folder are written; for a run that is continued,
        the scans are prepared as when it began. The lock on the folder is held until `stack`
        closes. The result is an `OpenedRun`. For a finished run, it has no data, network and loss
        (`components` is None), and nothing is written.
        """
        is_new = check_new(self.folder, resume=self.resumes)
        if not is_new and is_finished(self.folder, self.settings):
            check_can_continue(self.folder, self.settings, self._cohort_if_there())
            return OpenedRun(is_new=False)
        recorded = [] if is_new else read_skipped(self.folder)
        cohort = self.read_cohort(skipped=recorded)
        for warning in cohort.warnings:
            progress.warning(warning)
        if not is_new:
            check_can_continue(self.folder, self.settings, cohort)
        cohort, unlearnable = leave_out_unlearnable(
            self.settings, self.source, cohort, progress, is_new=is_new
        )
        components = self.components(cohort, is_new=is_new)
        for warning in components.columns_of_no_effect():
            progress.warning(warning)
        stack.enter_context(hold(self.folder, progress))
        if check_new(self.folder, resume=not is_new) != is_new:
            raise ConfigError(
                f"out: '{self.folder}' has changed while this command began. Start it again."
            )
        if is_new:
            opened = self._begin(components, unlearnable, progress)
        else:
            opened = replace(self._continue(components, progress), skipped=recorded)
        # A killed process leaves files half-written.
        for path in list(self.folder.rglob(".tmp-*")):
            path.unlink(missing_ok=True)
        return opened

    def _cohort_if_there(self) -> Cohort | None:
        """Return the cohort of a finished run, without scans that the run left out.

        None if the file of the table is no longer there.
        """
        table = self.source.table
        is_there = isinstance(table, pd.DataFrame) or (table is not None and Path(table).is_file())
        if not is_there:
            return None
        return self.read_cohort(check_images=False, skipped=read_skipped(self.folder))

    def _begin(
        self, components: RunComponents, unlearnable: pd.DataFrame, progress: Progress
    ) -> OpenedRun:
        """Prepare the scans of a new run and write the first files; return the run ready to train.

        `unlearnable` is the table of people who were left out before, because of their measures.
        """
        cohort = components.cohort
        skipped = NONE
        if self.source.skips:
            cohort, skipped = leave_out(components.source, cohort, progress)
            if len(skipped):
                components = self.components(cohort)
            skipped = pd.concat([unlearnable, skipped], ignore_index=True)
        source = components.source.fitted(cohort, components.data.training_rows, progress)
        components = components.with_source(source)
        make_ready(source, cohort, progress)
        for doubt in source.doubts(cohort):
            progress.warning(doubt)
        self._warn_of_probe(components, progress)
        self._write_start(components, skipped, progress)
        return OpenedRun(True, components, skipped["scan"].tolist())

    def _write_start(
        self, components: RunComponents, skipped: pd.DataFrame, progress: Progress
    ) -> None:
        """Write a run's first files: ``provenance.json``, ``config.yaml`` and initial weights.

        Weights are written only if the run starts from ``training.init``. `skipped` is the table of
        scans left out; it is written to ``skipped.tsv`` unless it is empty.
        """
        cohort = components.cohort
        facts = components.facts() | self.source.record(cohort) | {"n_skipped": len(skipped)}
        contents = components.source.contents(cohort, progress)
        write_skipped(self.folder / SKIPPED, skipped)
        people = None
        if components.start is not None:
            samples = components.source.halves[0].contract()
            components.start.keep(components.model.halves[0], self.folder, samples, progress)
            facts["init"] = components.start.start
            people = components.start.people
        start_run(self.folder, self.settings, cohort, facts, contents=contents, earlier=people)

    def _continue(self, components: RunComponents, progress: Progress) -> OpenedRun:
        """Prepare the scans of a continued run as they were prepared when the run began.

        The run is returned, ready to be trained. A new number of epochs is written into
        ``config.yaml``.
        """
        cohort = components.cohort
        self.source.check_unchanged(cohort, read_provenance(self.folder), self.folder)
        source = read_preprocessing(self.folder, components.source)
        if source is None:
            source = components.source.fitted(cohort, components.data.training_rows, progress)
        components = components.with_source(source)
        make_ready(source, cohort, progress)
        self._warn_of_probe(components, progress)
        if components.objective is not None:
            warn_of_other_views(source, self.folder, progress)
        continue_run(self.folder, self.settings, progress)
        return OpenedRun(False, components)

    def _warn_of_probe(self, components: RunComponents, progress: Progress) -> None:
        """Warn if probes during training have no validation scans to be scored on."""
        if self.settings.training.probe_every and not len(components.data.validation_rows):
            progress.warning(
                "training.probe_every: no probe is fitted: with data.val_fraction 0 there are no "
                "scans to score it on."
            )

    def _follow(self, message: Mapping[str, object]) -> OpenedRun:
        """Build the run's data, network and loss in this process, after the first process.

        `message` is sent by the first process: whether the run is new, the fitted preprocessing,
        and the scans left out. The table is read again. Nothing is written. The result has no data,
        network and loss (`components` is None) for a finished run.
        """
        told = RunOfOthers.model_validate(message)
        if told.samples is None:
            return OpenedRun(told.is_new)
        components = self.components(self.read_cohort(skipped=told.skipped), is_new=False)
        source = components.source.as_in_run(told.samples)
        return OpenedRun(told.is_new, components.with_source(source), told.skipped)
