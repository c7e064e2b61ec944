"""Check, write and read the files of a run directory, and describe a run's embeddings."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from neurocontrast import reading
from neurocontrast.config import Config, differences, load_config, write_config
from neurocontrast.data.cohort import Cohort
from neurocontrast.data.listing import read_table
from neurocontrast.data.sources import Source
from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.provenance import Provenance, RunCohort
from neurocontrast.documents.simulation import SimulationRecord
from neurocontrast.encoders.members import has_members, read_record
from neurocontrast.encoders.weights import CONTRACT, MEMBERS, WEIGHTS, digest_of_weights
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.files import check_writable, write_json
from neurocontrast.locks import LOCK
from neurocontrast.progress import Progress
from neurocontrast.provenance import (
    KnownPeople,
    describe_environment,
    version,
)
from neurocontrast.training.checkpoints import epochs_of, newest_checkpoint

_REMEDY = "Copy the run again."
read_json = partial(reading.read_json, error=CheckpointError, remedy=_REMEDY)
"""Read a JSON object from a file of a run."""
PROVENANCE = "provenance.json"
INITIAL = "init"
"""Folder within a run, with the weights of ``training.init`` that the run started from."""
_OF_CONTENTS = ("pretraining_contents", "pretraining_contents_complete")
"""Keys of ``provenance.json`` about the content of scans, which earlier versions did not record."""
UNKNOWN = "pretraining_unknown"
"""Key of ``provenance.json`` of joined runs: names of the runs that do not record everybody on whom
they were trained."""
FREE_TO_DIFFER = (
    "data.participants",
    "data.images_root",
    "data.cache_dir",
    "data.cache_shared",
    "data.n_workers",
    "training.accelerator",
    "training.devices",
    "training.num_nodes",
    "training.keep_checkpoints",
    "training.checkpoint_minutes",
    "simulation",
    "images",
    "embedding",
    "evaluation",
    "finetune",
    "report",
    "explanation",
)
"""Keys of the configuration that may change when a run continues.

They change weights in the last bits at most. The cohort is compared by its digest, not by its path.
"""


def check_new(folder: Path, *, resume: bool) -> bool:
    """Tell whether a new run is to begin in a folder; False for a run that can be continued.

    A file, a folder of other files, and a run without `resume` are refused.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"out: must be a directory, but '{folder}' is a file. Give another.")
    check_writable(folder)
    entries = folder.iterdir() if folder.is_dir() else ()
    names = [
        path.name for path in entries if not path.name.startswith(".tmp-") and path.name != LOCK
    ]
    if "config.yaml" in names and {PROVENANCE, MEMBERS} & set(names):
        if not resume:
            raise ConfigError(
                f"out: '{folder}' already holds a run. Continue it with --resume, or give another "
                "directory."
            )
        return False
    if {MEMBERS, "members"} <= set(names):
        raise ConfigError(
            f"out: '{folder}' was joined of several runs, which were trained by themselves. Train "
            "one of them further in its own folder, and join the runs again."
        )
    if not set(names) <= {"config.yaml", PROVENANCE, "skipped.tsv", INITIAL, MEMBERS}:
        raise ConfigError(
            f"out: '{folder}' is not empty and is not a run directory (it has no config.yaml). "
            "Give another directory."
        )
    return True


def check_can_continue(folder: Path, config: Config, cohort: Cohort | None) -> None:
    """Refuse to continue a run with another configuration, cohort or version of the code.

    List every difference.
    """
    before = load_config(folder / "config.yaml")
    provenance = read_provenance(folder)
    changes = differences(
        before, config, ignore=(*FREE_TO_DIFFER, "training.epochs", "training.init")
    )
    changes += _differences_in_training(folder, before, config)
    # A run keeps the weights that it started from, wherever they have gone since.
    start = provenance.init.sha256
    init = config.training.init
    digest = None
    if init is not None:
        digest = digest_of_weights(init) if init.exists() else start
    if digest != start:
        changes.append(
            f"training.init: was {before.training.init}, is {init}, and these are other weights"
        )
    if cohort is not None and cohort.digest() != provenance.cohort.digest:
        was = _name_cohort(provenance.cohort)
        now = _name_cohort(describe_cohort(cohort))
        changes.append(f"cohort: was {was}, is {now}")
    if provenance.environment.neurocontrast != version():
        changes.append(f"neurocontrast: was {provenance.environment.neurocontrast}, is {version()}")
    if changes:
        allowed = ", ".join(("a greater training.epochs", *FREE_TO_DIFFER))
        raise CheckpointError(f"{text_of_changes(folder, changes)} What may change: {allowed}.")


def _name_cohort(cohort: RunCohort) -> str:
    """Return a cohort's table name, number of scans and digest, as words for an error."""
    return f"{cohort.source} ({cohort.n_scans} scans, digest {cohort.digest[:12]})"


def check_same_number(folder: Path, settings: Config) -> None:
    """Refuse to continue a run whose number of encoders (``training.members``) has changed.

    A run without ``members.json`` has one encoder.
    """
    if not (folder / "config.yaml").is_file():
        return
    n_now = settings.training.members
    n_before = 1
    if has_members(folder):
        n_before = len(read_record(folder).seeds)
    if n_before != n_now:
        change = f"training.members: was {n_before}, is {n_now}"
        raise CheckpointError(text_of_changes(folder, [change]))


def text_of_changes(folder: Path, changes: Sequence[str]) -> str:
    """Return the text of an error: why a run cannot continue, one line a change, and a remedy."""
    lines = "\n".join(map("  {}".format, changes))
    return (
        f"{folder}: the run cannot continue, because it would not be the same run:\n{lines}\n"
        "Give what it began with, or start another in a new directory."
    )


def _differences_in_training(folder: Path, before: Config, now: Config) -> Iterator[str]:
    """Yield reasons why a run cannot be continued with a new number of epochs or processes.

    New numbers under which the epochs that are already trained stay valid yield no reason.
    """
    was = before.training.epochs
    epochs = now.training.epochs
    newest = newest_checkpoint(folder / "checkpoints")
    n_done = 0 if newest is None else epochs_of(newest)
    if was != epochs and now.training.schedule == "cosine":
        yield (
            f"training.epochs: was {was}, is {epochs}, and a cosine schedule reaches its end at "
            "the last of them"
        )
    elif epochs < min(was, n_done):
        yield f"training.epochs: was {was}, is {epochs}, and {n_done} are done"
    n_before = before.training.devices * before.training.num_nodes
    n_now = now.training.devices * now.training.num_nodes
    in_head = any(encoder.projection_norm == "batch" for encoder in now.encoders)
    in_encoder = any(encoder.norm == "batch" for encoder in now.encoders)
    of_whole_batch = now.training.sync_batchnorm and (
        now.training.micro_batch_size is None or not in_encoder
    )
    if n_before != n_now and (in_head or in_encoder) and not of_whole_batch:
        why = "each process normalises its own part of a batch, which changes the weights"
        yield f"training.devices × training.num_nodes: was {n_before}, is {n_now}, and {why}"


def continue_run(folder: Path, config: Config, progress: Progress) -> None:
    """Write the new number of epochs into ``config.yaml`` of a run continued for more epochs."""
    was = load_config(folder / "config.yaml").training.epochs
    if config.training.epochs != was:
        write_config(folder / "config.yaml", config)
        progress.message(f"{folder}: now {config.training.epochs} epochs, in place of {was}.")


def start_run(
    folder: Path,
    config: Config,
    cohort: Cohort,
    facts: Mapping[str, object],
    *,
    contents: Sequence[str],
    earlier: KnownPeople | None = None,
) -> None:
    """Write ``provenance.json``, with `facts` and all subjects of training, and ``config.yaml``.

    Parameters
    ----------
    folder, config, cohort, facts
        Folder, configuration and scans of the run, and additional keys of ``provenance.json``.
    contents : sequence of str
        Digests of the content of each scan, as `Source.contents` returns them.
    earlier : KnownPeople, optional
        People of the pretraining of the weights of ``training.init``; None for random weights.
    """
    earlier = earlier or KnownPeople(frozenset(), is_complete=True)
    digests = set(" ".join(contents).split())
    content = {
        "format": 1,
        "environment": describe_environment(),
        "seed": config.seed,
        "cohort": describe_cohort(cohort),
        "simulated": cohort.simulated,
        "simulation": read_simulation(cohort),
        **facts,
        "pretraining_subjects": sorted({*cohort.subject_digests(), *(earlier.subjects or ())}),
        "pretraining_contents": sorted(digests | earlier.contents),
        "pretraining_contents_complete": all(contents) and earlier.is_complete,
    }
    write_provenance(folder, content)
    write_config(folder / "config.yaml", config)


def write_provenance(folder: Path, content: Mapping[str, object]) -> None:
    """Check the content of ``provenance.json``, and write the file into a run."""
    write_json(folder / PROVENANCE, Provenance.model_validate(content).content())


def describe_cohort(cohort: Cohort) -> RunCohort:
    """Describe a cohort for ``provenance.json``: the table's digest, and a summary of the people.

    The summary has the lowest, median and highest age, and the numbers of people by sex and by
    site. Numbers of scans and subjects are described too.
    """
    people = cohort.table.groupby("subject_id").first()
    described: Json = {}
    if "age" in people and people["age"].notna().any():
        ages = people["age"].quantile([0, 0.5, 1]).astype(float).round(1)
        described["age_years"] = ages.tolist()
    for key, column in (("sex", "sex"), ("sites", "site")):
        if column in people:
            counts = people[column].dropna().astype(str).value_counts().sort_index().to_dict()
            if counts:
                described[key] = counts
    content = {
        "source": cohort.source.name,
        "digest": cohort.digest(),
        "n_scans": len(cohort),
        "n_subjects": len(people),
        "people": described,
    }
    return RunCohort.model_validate(content)


def read_simulation(cohort: Cohort) -> SimulationRecord | None:
    """Read the ``simulation.json`` next to a simulated cohort's table.

    None if there is no such file, or if the cohort is not simulated.
    """
    path = cohort.source.parent / "simulation.json"
    if not (cohort.simulated and path.is_file()):
        return None
    return SimulationRecord.of(read_json(path), path, error=CheckpointError, remedy=_REMEDY)


def read_provenance(folder: Path) -> Provenance:
    """Read ``provenance.json`` of a run: its cohort, versions, and digests of its people."""
    path = folder / PROVENANCE
    return Provenance.of(read_json(path), path, error=CheckpointError, remedy=_REMEDY)


def find_provenance(folder: Path) -> Provenance | None:
    """Read ``provenance.json`` of a run, or of weights; None for weights without the file."""
    if not (folder / PROVENANCE).is_file():
        return None
    return read_provenance(folder)


def read_preprocessing(folder: Path, source: Source) -> Source | None:
    """Return a copy of `source`, with the preprocessing that ``provenance.json`` of a run records.

    `source` is the object that reads and preprocesses samples; the recorded preprocessing replaces
    its own. None if the file records no preprocessing.
    """
    provenance = read_provenance(folder)
    path = folder / PROVENANCE
    samples = source.contract()
    if provenance.preprocessing is None and provenance.preprocessing_2 is None:
        return None
    if provenance.preprocessing is not None:
        samples = samples.with_keys(preprocessing=provenance.preprocessing)
    if provenance.preprocessing_2 is not None:
        samples = samples.with_keys(preprocessing_2=provenance.preprocessing_2)
    try:
        return source.as_in_run(samples)
    except DataError as error:
        raise CheckpointError(f"{path}: {error}") from error


def read_metrics(folder: Path) -> list[Json]:
    """Read a run's ``metrics.csv``, one mapping an epoch; None for empty or infinite cells."""
    path = folder / "metrics.csv"
    if not path.is_file():
        return []
    remedy = "Copy the run again, or remove this file to go on without the course of its training."
    options = {
        "sep": ",",
        "dtype": float,
        "float_precision": "round_trip",
        "na_values": ["", "nan"],
    }
    table = read_table(path, needed=["epoch"], error=CheckpointError, remedy=remedy, **options)
    if not (table["epoch"] % 1 == 0).all():
        raise CheckpointError(f"{path}: column 'epoch' must hold whole numbers. {remedy}")
    epochs = table["epoch"].astype(int)
    rows = table.astype(object).where(np.isfinite(table), None).assign(epoch=epochs.tolist())
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def is_finished(folder: Path, config: Config | None = None) -> bool:
    """Tell whether a run holds its final encoder, trained for the epochs of `config` if passed."""
    path = folder / CONTRACT
    if not path.is_file() or not (folder / WEIGHTS).is_file():
        return False
    return config is None or read_json(path).get("epochs") == config.training.epochs


def warn_of_imitations(cohort: Cohort, key: str, progress: Progress) -> None:
    """Warn if a cohort holds imitated acquisitions, which are made for training only.

    An imitated acquisition is a real scan that `prepare` has altered to look like another
    scanner's. The warning names `key`, the setting that can leave such scans out.
    """
    if (
        "acquisition" in cohort.table
        and cohort.table["acquisition"].astype(str).str.startswith("imitated").any()
    ):
        progress.warning(
            f"{cohort.source.name}: holds imitated acquisitions, from which to learn. Evaluate the "
            f"real scans: participants.tsv next to it, or {key}={{acquisition: [real]}}."
        )


def describe_embedded(
    run: Path, described: EncoderDescription, cohort: Cohort, progress: Progress
) -> EmbeddingsInfo:
    """Return a run's description and pretraining people, for a table of embeddings to keep.

    The people are recorded, as in the run's ``provenance.json``, by digests of their identifiers
    and of the content of their scans. `described` is the content of the run's ``encoder.json``, and
    `cohort` has the embedded scans. Warn if the run does not record everybody who was in
    pretraining.
    """
    provenance = find_provenance(run)
    content = described.content()
    people: Json = {"pretraining_subjects": None}
    people |= dict.fromkeys(_OF_CONTENTS)
    if provenance is None:
        progress.warning(
            f"{run}: there is no provenance.json, so nobody can tell whether these participants "
            "were in pretraining."
        )
    else:
        _warn_of_unknown(run, provenance, progress)
        stated = provenance.content()
        people = {"pretraining_subjects": provenance.pretraining_subjects}
        for key in _OF_CONTENTS:
            people[key] = stated.get(key)
    info: Json = {
        "run": {"name": run.resolve().name, **content},
        **people,
        "simulated": cohort.simulated or described.simulated,
        "objective": content.get("objective"),
        "training_metrics": read_metrics(run),
        "environment": describe_environment(),
        "cohort_source": cohort.source.name,
        "cohort_digest": cohort.digest(),
        "simulation": read_simulation(cohort),
    }
    if provenance is not None and provenance.has(UNKNOWN):
        info[UNKNOWN] = provenance.pretraining_unknown
    return EmbeddingsInfo.model_validate(info)


def _warn_of_unknown(run: Path, provenance: Provenance, progress: Progress) -> None:
    """Warn if a run does not record everybody who was in its pretraining."""
    unknown = ", ".join(provenance.pretraining_unknown)
    if unknown:
        progress.warning(
            f"{run}: was joined of runs of which {unknown} does not say who was in pretraining, so "
            "nobody can tell whether these participants were."
        )
    elif not provenance.init.subjects_known:
        progress.warning(
            f"{run}: started from weights that do not say who was in their pretraining, so nobody "
            "can tell whether these participants were."
        )
