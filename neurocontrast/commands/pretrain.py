"""Pretrain an encoder: from a configuration to a run directory."""

import os
from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from monai.transforms import Compose, Transform

from neurocontrast.commands.written import Written
from neurocontrast.config import AnyConfig
from neurocontrast.data.listing import AnyTable
from neurocontrast.display import as_progress
from neurocontrast.encoders.members import has_members, read_record
from neurocontrast.encoders.weights import folder_of_member
from neurocontrast.parallel.launch import joined
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reporting.wording import count_text, number_text
from neurocontrast.runs.folder import read_metrics, read_provenance
from neurocontrast.runs.inputs import Inputs
from neurocontrast.runs.members import train_members
from neurocontrast.runs.run import Run
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.training.signals import suspending
from neurocontrast.transforms.views import Sample


class PretrainingRun(Written):
    """Directory of a trained run; property `metrics` has the losses of each epoch."""

    @property
    def metrics(self) -> pd.DataFrame:
        """Table of training metrics, one row an epoch; empty for a linear encoder.

        For a run that trains several encoders (members), column ``member`` has the encoder's
        number, from 0.
        """
        if not has_members(self.location):
            return pd.DataFrame(read_metrics(self.location))
        tables = []
        for number in range(len(read_record(self.location).seeds)):
            table = pd.DataFrame(read_metrics(folder_of_member(self.location, number)))
            table.insert(0, "member", number)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def summary(self) -> str:
        """Return a line: numbers of training scans and people, and the last epoch's losses.

        For a run of several encoders (members), their number is in place of epoch and losses.
        """
        cohort = read_provenance(self.location).cohort
        n_scans = cohort.n_scans or 0
        n_people = cohort.n_subjects or n_scans
        title = f"run on {count_text(n_scans, 'scan')} of {n_people:,} people"
        if has_members(self.location):
            n_members = len(read_record(self.location).seeds)
            return f"{title}, {n_members} members"
        table = self.metrics
        if table.empty:
            return title
        last = table.iloc[-1]
        words = [title, count_text(len(table), "epoch")]
        for name in ("train_loss", "val_loss"):
            if name in table:
                words.append(f"{name.replace('_', ' ')} {number_text(last[name])}")
        return ", ".join(words)


@in_default_torch_state
def pretrain(
    config: AnyConfig | None = None,
    *,
    out: str | os.PathLike[str],
    participants: AnyTable | None = None,
    resume: bool = False,
    transforms: Compose | Sequence[Transform] | None = None,
    augment: Callable[[Sample], Mapping[str, object]] | None = None,
    progress: Progress | bool | None = None,
) -> PretrainingRun:
    """Pretrain an encoder on the scans and metadata of a cohort, and return the run directory.

    Everything is checked before the first scan is preprocessed, and nothing is written before that.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of the run. With `resume`, None takes the configuration that the run has
        stored.
    out : path
        Run directory to write: ``config.yaml``, ``provenance.json``, ``metrics.csv``,
        ``encoder.safetensors`` ….
    participants : path or DataFrame, optional
        Table of scans, in place of ``data.participants``. A DataFrame must be given again to
        continue.
    resume : bool
        Continue the run in `out`, or begin it if there is none. On a CPU the weights are bit for
        bit those of a run that was never stopped. A run that has skipped scans
        (``data.skip_unreadable``) goes on without them.
    transforms : Compose or sequence of Transform, optional
        Lead from ``{"image": path of a scan}`` to ``{"image": MetaTensor (1, D, H, W)}``, in place
        of the preprocessing in `config`; none of them random. `embed` needs the same ones.
    augment : Compose or Transform, optional
        Random transforms of ``{"image": Tensor (C, D, H, W)}`` that make the views, in place of the
        operations in `config`. See `neurocontrast.transforms.TwoViews`.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.

    Returns
    -------
    PretrainingRun
        The run directory, a path; a notebook shows its last epoch, ``run.metrics`` has all.

    Examples
    --------
    >>> import neurocontrast
    >>> run = neurocontrast.pretrain("yaware", out="runs/first")  # doctest: +SKIP
    """
    progress = as_progress(progress)
    inputs = Inputs(participants, None if transforms is None else Compose(transforms), augment)
    run = Run.resume(out, config, inputs) if resume else Run.create(config, out, inputs)
    with suspending(), joined(run.settings.training.hardware) as engine:
        if not engine.processes.is_first:
            progress = SILENT
        if run.settings.training.members > 1:
            train_members(run, engine, progress)
        else:
            run.train(engine, progress)
    return PretrainingRun(run.folder)
