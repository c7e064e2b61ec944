"""Compare features of a test sample with recorded features, and a scan with training scans."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from neurocontrast.data.cohort import columns_of
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources import Brains, BrainVolumes, RegionalMeasures
from neurocontrast.documents.answer import KnownAnswer, Ranges
from neurocontrast.encoders import load_encoder
from neurocontrast.encoders.members import members_of
from neurocontrast.evaluation import load_probe
from neurocontrast.exceptions import (
    ConfigError,
    DataError,
    NeurocontrastError,
    one_of,
)
from neurocontrast.progress import SILENT
from neurocontrast.runs.answer import (
    ANSWER,
    doubts_of_measures,
    doubts_of_scan,
    features_of,
    phantom_of,
    read_answer,
)
from neurocontrast.runs.networks import RunNetwork, load_networks, sources_of
from neurocontrast.weights import folder_of, names

_T1 = ("t1",)
"""Channel of T1-weighted scans, which are no maps of tissue."""
_FEATURES = 1e-3
_PREDICTIONS = 1e-2
"""Largest differences from a known answer: of features as a share of the largest feature, of
predictions as a share of the prediction."""


@dataclass(frozen=True)
class Verification:
    """Comparison of weights with a recorded answer, and of a user's scan with the training scans.

    `verify_weights` returns one. The recorded answer (known answer) are the features of a test
    sample, and predictions from them, in the file ``answer.json``. The lists `facts` and `doubts`
    say in which measures the user's scan is like and unlike the training scans; both are empty if
    no scan was given.
    """

    checks: list[tuple[bool, str]]
    """Comparisons with the known answer: whether each passed, and a sentence with the numbers."""
    facts: list[str] = field(default_factory=list)
    """Sentences on the user's scan, and on measures in which the scan is like the training
    scans."""
    doubts: list[str] = field(default_factory=list)
    """Sentences on measures in which the user's scan is unlike the training scans."""

    @property
    def passed(self) -> bool:
        """Whether features and predictions of the test sample agree with the known answer."""
        return all(passed for passed, _ in self.checks)


def verify_weights(
    weights: str | os.PathLike[str],
    *,
    scan: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
) -> Verification:
    """Compare features of a test sample with recorded features, and a scan with training scans.

    The sample of a run is a phantom that is computed again; shipped weights have a public scan.
    Features must agree within 1e-3 of the largest, predictions within 1e-2 of their size. The
    returned `Verification` has a line for each of these comparisons, and ``passed`` is False if one
    of them fails, which is no error. A scan unlike the training scans is told by sentences in
    ``doubts`` alone.

    Parameters
    ----------
    weights : str or path
        Name of weights that ship or are installed, or the folder of a run. All encoders of a run
        are compared.
    scan : path, or sequence of paths, optional
        A scan that is prepared as the encoder expects; one file a channel. For a run of regional
        measures a table or folder of these.

    Raises
    ------
    CheckpointError
        For weights without recorded features (``answer.json``).
    DataError
        For a scan that cannot be read.
    """
    folder = folder_of(weights)
    if not folder.is_dir():
        raise ConfigError(
            f"weights: '{weights}' is no run directory, and these weights are installed: "
            f"{one_of(names())}."
        )
    networks = load_networks(folder)
    sources = sources_of(networks, DataSettings(), what="weights verify is for brains")
    checks = []
    answers = _read_answers(folder, networks)
    for answer in answers:
        checks += _compare(answer, networks, sources)
    if scan is None:
        return Verification(checks)
    files = [scan] if isinstance(scan, str | os.PathLike) else list(scan)
    columns = _columns_of(sources)
    facts = list[str]()
    doubts = list[str]()
    for answer in answers:
        source = _compared_source(answer, sources)
        of_scan = _doubts_of(source, columns, files, answer.content.learned_from)
        facts += [f"{answer.title}{fact}" for fact in of_scan[0]]
        doubts += [f"{answer.title}{doubt}" for doubt in of_scan[1]]
    return Verification(checks, facts, doubts)


def damage_of_weights(folder: Path) -> str:
    """Read all networks and probes in the folder of weights; return the first error, "" if none."""
    try:
        for network in members_of(folder):
            load_encoder(network)
        for description in sorted(folder.glob("*/probe.json")):
            load_probe(description.parent)
    except NeurocontrastError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class _Answer:
    """Features recorded for a test sample (known answer), of a run or of one of its encoders.

    The file ``answer.json`` in `folder` has these features and, if the folder has probes, what the
    probes predict from them.
    """

    folder: Path
    content: KnownAnswer
    numbers: tuple[int, ...]
    """Positions, among the run's networks, of the networks whose features the answer states."""
    title: str = ""
    """Beginning of each sentence, such as ``member 0: ``, for one of several encoders (members) of
    a run; "" for the answer of a whole run.
    """


def _read_answers(run: Path, networks: Sequence[RunNetwork]) -> list[_Answer]:
    """Read ``answer.json``, the stated features of a test sample, from the folder `run`.

    If a run of several encoders (members) has no such file, the file in the folder of each encoder
    is read. One `_Answer` is returned for each file.
    """
    if len(networks) == 1 or (run / ANSWER).is_file():
        return [_Answer(run, read_answer(run), tuple(range(len(networks))))]
    answers = []
    for number, network in enumerate(networks):
        folder = network.folder
        answers.append(_Answer(folder, read_answer(folder), (number,), f"member {number}: "))
    return answers


def _known_sample(answer: _Answer, source: Brains, columns: Sequence[str]) -> object:
    """Return the test sample of ``answer.json`` in the form that the reader `source` takes.

    `answer` holds that file, which records the features of the sample, and `source` reads samples
    for one network. The sample is a list of one scan, or a table of regional measures. If the file
    names no files of the sample, the scan is artificial (a phantom), and the measures are of an
    invented person.
    """
    names = answer.content.sample
    if names is None:
        return phantom_of(source)
    if isinstance(source, RegionalMeasures):
        return source.unlisted(answer.folder / names[0])
    files = list(map(answer.folder.joinpath, names))
    return [_scan_of(source, columns, files)]


def _compare(
    answer: _Answer, networks: Sequence[RunNetwork], sources: Sequence[Brains]
) -> list[tuple[bool, str]]:
    """Compare features and predictions of a test sample with the values of ``answer.json``.

    The test sample is a scan or table beside ``answer.json``, or an artificial brain (phantom) if
    the file names none. `networks` and `sources` have an entry for each encoder of the run: the
    network, and the reader that prepares the test sample for the network. Return a pair for each
    comparison: whether the values agree, and a sentence with the difference.
    """
    stated = answer.content
    columns = _columns_of(list(map(sources.__getitem__, answer.numbers)))
    of_networks = []
    for number in answer.numbers:
        sample = _known_sample(answer, sources[number], columns)
        of_networks.append(features_of(networks[number].encoder, sources[number], sample))
    features = np.concatenate(of_networks)
    expected = np.asarray(stated.features, dtype=float)
    apart = np.inf
    if expected.shape == features.shape:
        apart = float(np.abs(features - expected).max() / max(np.abs(expected).max(), 1e-12))
    outcome = (
        f"{answer.title}{len(features)} features of the known sample differ by {apart:.1g} of the "
        f"largest (at most {_FEATURES:g})"
    )
    checks = [(apart <= _FEATURES, outcome)]
    for name, value in stated.predictions.items():
        predicted = float(load_probe(answer.folder / name).predict(features[None])[0])
        close = abs(predicted - value) <= _PREDICTIONS * max(abs(value), 1)
        outcome = (
            f"{answer.title}{name} of the known sample is predicted as {predicted:.4g}, stated "
            f"{value:.4g}"
        )
        checks.append((close, outcome))
    return checks


def _columns_of(sources: Sequence[Brains]) -> tuple[str, ...]:
    """Return the image columns of a table of scans that the networks of a run read, each once.

    The tuple is empty for networks of regional measures.
    """
    columns = list[str]()
    for source in sources:
        if isinstance(source, BrainVolumes):
            columns += columns_of(source.channels)
    return tuple(dict.fromkeys(columns))


def _scan_of(
    source: Brains, columns: Sequence[str], files: Sequence[str | os.PathLike[str]]
) -> str | tuple[str, ...]:
    """Select the files of a scan that one network reads; a tuple, or one path for a single channel.

    `source` reads scans for the network. `columns` are the image columns of all networks of a run,
    and `files` the file for each column.
    """
    paths = dict(zip(columns, map(str, files), strict=True))
    scan = tuple(map(paths.__getitem__, columns_of(source.channels)))
    return scan if len(scan) > 1 else scan[0]


def _compared_source(answer: _Answer, sources: Sequence[Brains]) -> Brains:
    """Return the reader of scans (source) that prepares the user's scan for the comparison.

    `sources` has one for each network of the run. `answer` is the content of an ``answer.json``,
    which records features of one or more of these networks, and ranges over the training scans for
    each channel. Chosen is the first of the recorded networks that reads exactly the channels with
    ranges; if there is none, the first recorded network.
    """
    for number in answer.numbers:
        channels = sources[number].channels or _T1
        if list(channels) == list(answer.content.learned_from):
            return sources[number]
    return sources[answer.numbers[0]]


def _doubts_of(
    source: Brains,
    columns: Sequence[str],
    files: Sequence[str | os.PathLike[str]],
    learned_from: Ranges,
) -> tuple[list[str], list[str]]:
    """Compare the user's scan or measures, `files`, with the training scans of the weights.

    Return two lists of sentences: how the scan or measures are like the training scans, and how
    they are unlike. `source` prepares the scan. `learned_from` has, for each channel of a scan,
    ranges of volume and brightness over the training scans; regional measures are compared with the
    means in `source`.
    """
    with tempfile.TemporaryDirectory(prefix="neurocontrast-verify-") as scratch:
        source = source.kept_in(Path(scratch))
        if isinstance(source, RegionalMeasures):
            cohort = source.unlisted(Path(files[0])) if len(files) == 1 else None
            if cohort is None:
                shown = ", ".join(map(str, files))
                raise DataError(
                    f"scan: must be one table or folder of regional measures, found '{shown}'."
                )
            return doubts_of_measures(source, cohort)
        if len(files) != len(columns):
            listed = ""
            if len(columns) > 1:
                listed = f" ({', '.join(columns)})"
            raise DataError(
                f"scan: the encoder takes {len(columns)} files a scan{listed}, got {len(files)}."
            )
        cohort = source.cohort_of([_scan_of(source, columns, files)], Path(scratch))
        source.make_ready(cohort, SILENT)
        return doubts_of_scan(source, cohort, learned_from)
