"""Write and read ``answer.json``, the known answer by which copies of an encoder are checked.

The file states the features of one test sample and, for an encoder of scans, ranges of volume and
brightness over training scans.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.cohort import Cohort
from neurocontrast.data.measures import MeasuresContract
from neurocontrast.data.measures.names import HEAD_SIZE
from neurocontrast.data.sources import (
    Brains,
    BrainVolumes,
    RegionalMeasures,
    Source,
)
from neurocontrast.documents.answer import KnownAnswer, Ranges
from neurocontrast.documents.document import Json
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.embedding.extract import extract_features
from neurocontrast.encoders import ContrastiveModel, Encoder
from neurocontrast.exceptions import CheckpointError, NeurocontrastError
from neurocontrast.files import files_of, write_json
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import version
from neurocontrast.reading import read_json
from neurocontrast.transforms.images import spacing_of
from neurocontrast.transforms.loading import ScanHeader, read_scan_header

ANSWER = "answer.json"
_FORMAT = 1
_REMEDY = "Copy the run again."
_FINER = 0.8
"""Voxel size of the phantom (the artificial test scan), divided by that of preprocessed scans.

Not 1, so that the known answer tests resampling too.
"""
_MOST_SCANS = 200
_SLACK = 0.1
"""Tolerance around a range of volume or brightness over training scans, as a share of its limit."""
_MOST_DEVIATIONS = 5.0
_GUESSES = {
    "litres": "another segmentation, brain extraction or unit?",
    "bright": "another contrast or scaling?",
}
"""Volume or brightness of a scan → likely causes of a value outside of the range in training."""
_NAMES = {"t1": "what is not background", "gm": "grey matter", "wm": "white matter", "csf": "fluid"}


def phantom_of(source: Brains) -> Any:
    """Return an artificial test sample for the encoder of `source`, the same in every call.

    For an encoder of scans, the sample is a phantom: a list of one NIfTI image, or of one tuple
    with an image a channel. For an encoder of regional measures, the sample is a table of one
    invented person whose measures lie near the training means.
    """
    if isinstance(source, RegionalMeasures):
        return _measures_near_means(source.known)
    spacing = getattr(source.transforms, "spacing_mm", None)
    finer = 1.0
    step = 1.0
    if spacing:
        finer = _FINER
        step = spacing * _FINER
    shape = tuple(round(n / finer) for n in source.shape(None))
    affine = np.diag([step, step, step, 1.0])
    for axis, n_voxels in enumerate(shape):
        affine[axis, 3] = -step * (n_voxels - 1) / 2
    images = []
    for channel in _channels_of_phantom(shape, source.n_channels):
        images.append(nib.Nifti1Image(channel.astype(np.float32), affine))
    if len(images) > 1:
        return [tuple(images)]
    return images


def _measures_near_means(contract: MeasuresContract) -> pd.DataFrame:
    """Return a table of one invented person with measures within one SD of the training means.

    The measures, their means and their SDs are those that `contract` stores of an encoder's
    training people.
    """
    steps = (np.arange(len(contract.columns)) % 5 - 2) / 2
    values = np.array(contract.means) + np.array(contract.sds) * steps
    if HEAD_SIZE in contract.columns and contract.head:
        values[contract.columns.index(HEAD_SIZE)] = contract.head
    volumes = np.array(contract.is_volume) & contract.log_volumes
    values[volumes] = np.exp(values[volumes])
    return pd.DataFrame([values], columns=list(contract.columns))


def _channels_of_phantom(shape: tuple[int, ...], n_channels: int) -> list[npt.NDArray[np.float64]]:
    """Return a phantom of nested ellipsoids (white and grey matter, fluid) as a list of channels.

    The list has `n_channels` arrays of the same `shape`. With one channel, voxels have the
    brightness of the tissue; with several, the channels are maps of grey matter, white matter and
    fluid in turn.
    """
    voxels = np.indices(shape)
    squared = np.zeros(shape)
    for axis, n_voxels in enumerate(shape):
        squared = squared + ((voxels[axis] - (n_voxels - 1) / 2) / (0.4 * n_voxels)) ** 2
    shell = np.digitize(squared, [0.4, 0.75, 1.0])  # 0 white, 1 grey, 2 fluid, 3 outside
    pattern = (7 * voxels[0] + 13 * voxels[1] + 29 * voxels[2]) % 17 / 34
    if n_channels == 1:
        brightness = np.select([shell == 0, shell == 1, shell == 2], [300.0, 200.0, 100.0])
        return [brightness * (1 + pattern)]
    channels = []
    for channel in range(n_channels):
        channels.append((shell == (1 - channel) % 3) * (0.5 + pattern))
    return channels


def features_of(
    network: Encoder | ContrastiveModel, source: Brains, sample: Any
) -> npt.NDArray[np.float32]:
    """Return an encoder's features (n_features,) of one test sample.

    `sample` is a scan, or a cohort that has one row.

    The features are computed on the CPU, since GPUs round convolutions in another way.
    """
    with tempfile.TemporaryDirectory(prefix="neurocontrast-answer-") as scratch:
        source = source.kept_in(Path(scratch))
        cohort = sample if isinstance(sample, Cohort) else source.cohort_of(sample, Path(scratch))
        source.make_ready(cohort, SILENT)
        features: npt.NDArray[np.float32] = extract_features(
            network, source.images(cohort), settings=EmbeddingSettings(accelerator="cpu")
        )[0]
    return features


def keep_answer(
    folder: Path,
    network: Encoder,
    source: Source,
    cohort: Cohort,
    rows: Sequence[int],
    progress: Progress,
) -> None:
    """Compute and write ``answer.json`` of a trained encoder: features of an artificial sample.

    The sample is the result of `phantom_of`: a phantom of a brain, or for regional measures an
    invented person. For an encoder of scans, the file also has the ranges of volume and brightness
    over training scans (`rows` of `cohort`). Nothing is written for an encoder of natural images,
    or of scans with transforms from Python. If the features cannot be computed, a message says so
    and nothing is written.
    """
    if not isinstance(source, Brains) or getattr(source, "given", None) is not None:
        return
    try:
        features = features_of(network, source, phantom_of(source))
    except NeurocontrastError as error:
        progress.message(f"{folder}: no known answer is kept for `weights verify` ({error})")
        return
    learned: Ranges = {}
    if isinstance(source, BrainVolumes):
        even = np.unique(np.linspace(0, len(rows) - 1, _MOST_SCANS).astype(int))
        learned = ranges_of(source, cohort.subset(np.asarray(rows)[even]))
    write_answer(folder, None, features, {}, learned)


def write_answer(
    folder: Path,
    sample: Sequence[str] | None,
    features: npt.NDArray[np.floating],
    predictions: Mapping[str, float],
    learned_from: Ranges,
) -> None:
    """Write ``answer.json`` of an encoder: a test sample, with its features and predictions.

    `sample` lists files below `folder`; None means the phantom, an artificial sample.
    `learned_from` holds the ranges of volume and brightness over training scans.
    """
    content = {
        "format": _FORMAT,
        "neurocontrast": version(),
        "sample": sample,
        "features": [float(f"{value:.7g}") for value in features],
        "predictions": predictions,
        "learned_from": learned_from,
    }
    write_json(folder / ANSWER, content)


def read_answer(folder: Path) -> KnownAnswer:
    """Read ``answer.json``, the known answer of an encoder, from a run or a folder of weights."""
    if not (folder / ANSWER).is_file():
        raise CheckpointError(
            f"{folder}: there is no {ANSWER}. Runs of earlier versions, runs with transforms from "
            "Python, and weights of other programs have none."
        )
    path = folder / ANSWER
    content: Json = read_json(path, error=CheckpointError, remedy=_REMEDY)
    if content.get("format") != _FORMAT:
        raise CheckpointError(f"{path}: damaged, or of another version. {_REMEDY}")
    return KnownAnswer.of(content, path, error=CheckpointError, remedy=_REMEDY)


def _measure(volume: npt.NDArray[Any], affine: npt.NDArray[np.float64]) -> list[dict[str, float]]:
    """Return for each channel of a preprocessed scan ``litres`` and ``bright``, in a dictionary.

    ``litres`` is the volume of all voxels that differ from the channel's corner voxel, or, for
    values from 0 to 1.5 (a map of tissue), the sum of the map. ``bright`` is the 99th percentile of
    the voxels that differ from the corner voxel, in the units of the preprocessed scan.
    """
    litres_of_voxel = float(np.prod(spacing_of(affine))) / 1e6
    measures = []
    for channel in volume.astype(np.float32):
        is_map = channel.min() >= 0 and channel.max() <= 1.5
        inside = channel[channel != channel[0, 0, 0]]
        n_voxels = float(inside.size)
        if is_map:
            n_voxels = float(channel.sum())
        bright = 0.0
        if inside.size:
            bright = float(np.percentile(inside, 99))
        measures.append({"litres": n_voxels * litres_of_voxel, "bright": bright})
    return measures


def ranges_of(source: BrainVolumes, cohort: Cohort) -> Ranges:
    """Return the lowest and highest volume and brightness of each channel over preprocessed scans.

    The result maps a channel to ``litres`` and ``bright``, each a list of two numbers, the lowest
    and the highest. ``litres`` is the volume of the brain in the channel, in a map of tissue the
    volume of the tissue; ``bright`` is the 99th percentile of the voxels of the brain, in the units
    of the preprocessed scan. The scans are all scans of `cohort`, read from the cache of `source`.
    """
    of_scans = []
    for scan in cohort.scans:
        of_scans.append(_measure(*source.cache.read_with_affine(scan)))
    ranges: Ranges = {}
    for name, measures in zip(
        source.channels or ("t1",), zip(*of_scans, strict=True), strict=False
    ):
        ranges[name] = {}
        for key in measures[0]:
            values = [of_scan[key] for of_scan in measures]
            ranges[name][key] = [round(min(values), 4), round(max(values), 4)]
    return ranges


def doubts_of_scan(
    source: BrainVolumes, cohort: Cohort, learned_from: Ranges
) -> tuple[list[str], list[str]]:
    """Compare the one scan of `cohort` with the training scans of an encoder; return two lists.

    The first list has sentences on the grid of the scan's files and on likeness to the training
    scans; the second has sentences on difference, and warnings about file headers. `learned_from`
    holds the ranges of volume and brightness over the training scans.
    """
    scan = cohort.scans[0]
    facts = []
    doubts = []
    for file in files_of(scan):
        header = read_scan_header(file)
        facts.append(f"{Path(file).name}: {_describe_grid(header)}")
        doubts += [f"{Path(file).name}: {warning}" for warning in header.warnings]
    of_channels = _measure(*source.cache.read_with_affine(scan))
    for (name, ranges), measures in zip(learned_from.items(), of_channels, strict=False):
        for comparison in _compare(_NAMES.get(name, name), measures, ranges):
            if comparison.is_like:
                facts.append(comparison.sentence)
            else:
                doubts.append(f"{comparison.sentence}: {comparison.guess}")
    return facts, doubts


def _describe_grid(header: ScanHeader) -> str:
    """Describe as text a scan's voxels, their size along each axis, and if marked as MNI space."""
    voxels = f"{'×'.join(map(str, header.shape))} voxels"
    if header.spacing_mm is not None:
        voxels += f" of {'×'.join(map('{:.3g}'.format, header.spacing_mm))} mm"
    if header.is_mni:
        return f"{voxels}, in MNI space"
    return f"{voxels}, not marked as in MNI space"


@dataclass(frozen=True)
class _Comparison:
    """Volume or brightness of a scan's channel, compared with the range over training scans."""

    sentence: str
    is_like: bool
    """Whether the volume or brightness lies in the range of training scans, widened by `_SLACK`."""
    guess: str
    """Question about the likely cause if the volume or brightness lies outside of the range."""


def _compare(
    name: str, measures: Mapping[str, float], ranges: Mapping[str, Sequence[float]]
) -> list[_Comparison]:
    """Compare volume and brightness of a scan's channel with the ranges over training scans.

    Return two comparisons, of volume and of brightness, whose sentences name the channel by `name`.
    """
    litres = measures["litres"]
    bright = measures["bright"]
    sentences = {
        "litres": f"{name} in your scan: {litres:.2g} L",
        "bright": f"bright voxels (99th percentile) of {name} are {bright:.3g}",
    }
    comparisons = []
    for key, sentence in sentences.items():
        low, high = ranges[key]
        is_like = low - _SLACK * abs(low) <= measures[key] <= high + _SLACK * abs(high)
        learned = f"learned from {low:.3g} to {high:.3g}"
        comparisons.append(_Comparison(f"{sentence}, {learned}", is_like, _GUESSES[key]))
    return comparisons


def doubts_of_measures(source: RegionalMeasures, cohort: Cohort) -> tuple[list[str], list[str]]:
    """Compare regional measures of people with an encoder's training people; return two lists.

    Both are lists of sentences for the user. The first list has one sentence, on the distance of
    the measures from the training people. The second list has the warnings that came up when the
    table of `cohort` was read, and, if the medians of some measures lie far from the training
    people, a sentence that names such measures.
    """
    assert cohort.measures is not None
    wide = source.known.model_copy(update={"clip": np.inf})
    z = wide.apply(cohort.measures.values, cohort.names(), source=cohort.source.name)
    middle = np.median(z, axis=0)
    far = np.flatnonzero(np.abs(middle) > _MOST_DEVIATIONS)
    facts = [
        f"{len(cohort)} rows of {z.shape[1]} measures; half of these lie within "
        f"{np.median(np.abs(z)):.2g} standard deviations of the people learned from"
    ]
    if not len(far):
        return facts, list(cohort.warnings)
    farthest = []
    for column in far[:5]:
        farthest.append(f"{source.known.columns[column]} {middle[column]:+.0f}")
    doubt = (
        f"{len(far)} of {z.shape[1]} measures are more than {_MOST_DEVIATIONS:g} standard "
        f"deviations from those learned from ({', '.join(farthest)}): another unit, atlas or "
        "program?"
    )
    return facts, [*cohort.warnings, doubt]
