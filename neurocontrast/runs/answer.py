"""The known answer of an encoder: features of one sample, and a summary of its training scans."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.cohort import Cohort
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
from neurocontrast.transforms.loading import read_scan_header

ANSWER = "answer.json"
_FORMAT = 1
_REMEDY = "Copy the run again."
_FINER = 0.8
"""Voxel size of the phantom over that of the preprocessed image, so that resampling is tested too."""
_MOST_SCANS = 200
_SLACK = 0.1
"""Part of a value by which the training range is widened before a scan is called unlike."""
_MOST_DEVIATIONS = 5.0
_NAMES = {"t1": "what is not background", "gm": "grey matter", "wm": "white matter", "csf": "fluid"}


def phantom_of(source: Brains) -> Any:
    """Return a sample that is the same everywhere: nested ellipsoids with a pattern, or measures near the mean."""
    if isinstance(source, RegionalMeasures):
        known = source.known
        steps = (np.arange(len(known.columns)) % 5 - 2) / 2
        values = np.array(known.means) + np.array(known.sds) * steps
        if HEAD_SIZE in known.columns and known.head:
            values[known.columns.index(HEAD_SIZE)] = known.head
        volumes = np.array(known.is_volume) & known.log_volumes
        values[volumes] = np.exp(values[volumes])
        return pd.DataFrame([values], columns=list(known.columns))
    spacing = getattr(source.transforms, "spacing_mm", None)
    finer, step = (_FINER, spacing * _FINER) if spacing else (1.0, 1.0)
    shape = [round(n / finer) for n in source.shape(None)]
    places = np.indices(shape)
    scaled = [(place - (n - 1) / 2) / (0.4 * n) for place, n in zip(places, shape, strict=True)]
    shell = np.digitize(
        sum(each**2 for each in scaled), [0.4, 0.75, 1.0]
    )  # 0 white, 1 grey, 2 fluid, 3 outside
    pattern = (7 * places[0] + 13 * places[1] + 29 * places[2]) % 17 / 34
    affine = np.diag([step, step, step, 1.0])
    affine[:3, 3] = [-step * (n - 1) / 2 for n in shape]
    if source.n_channels == 1:
        made = [
            np.select([shell == 0, shell == 1, shell == 2], [300.0, 200.0, 100.0]) * (1 + pattern)
        ]
    else:
        made = [
            (shell == (1 - channel) % 3) * (0.5 + pattern) for channel in range(source.n_channels)
        ]
    images = tuple(nib.Nifti1Image(each.astype(np.float32), affine) for each in made)
    return [images if len(images) > 1 else images[0]]


def features_of(
    network: Encoder | ContrastiveModel, source: Brains, sample: Any
) -> npt.NDArray[np.float32]:
    """Return the features (n_features,) of one scan, or of a cohort of one.

    They are computed on the CPU: GPUs round convolutions otherwise.
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
    """Write ``answer.json`` of brains: features of the phantom, and ranges over training scans."""
    if not isinstance(source, Brains) or getattr(source, "given", None) is not None:
        return
    try:
        features = features_of(network, source, phantom_of(source))
    except NeurocontrastError as error:
        progress.message(f"{folder}: no known answer is kept for `weights verify` ({error})")
        return
    some = [
        rows[place] for place in np.unique(np.linspace(0, len(rows) - 1, _MOST_SCANS).astype(int))
    ]
    learned = ranges_of(source, cohort.subset(some)) if isinstance(source, BrainVolumes) else {}
    write_answer(folder, None, features, {}, learned)


def write_answer(
    folder: Path,
    sample: Sequence[str] | None,
    features: npt.NDArray[np.floating],
    predictions: Mapping[str, float],
    learned_from: Ranges,
) -> None:
    """Write a known answer; `sample` are files below `folder`, None for the phantom."""
    content = {"sample": sample, "features": [float(f"{value:.7g}") for value in features]}
    about = {"format": _FORMAT, "neurocontrast": version()}
    write_json(
        folder / ANSWER,
        {**about, **content, "predictions": predictions, "learned_from": learned_from},
    )


def read_answer(folder: Path) -> KnownAnswer:
    """Read the known answer of a run or of weights."""
    if not (folder / ANSWER).is_file():
        raise CheckpointError(
            f"{folder}: there is no {ANSWER}. Runs of earlier versions, runs with transforms from Python, and weights "
            "of other programs have none."
        )
    path = folder / ANSWER
    content: Json = read_json(path, error=CheckpointError, remedy=_REMEDY)
    if content.get("format") != _FORMAT:
        raise CheckpointError(f"{path}: damaged, or of another version. {_REMEDY}")
    return KnownAnswer.of(content, path, error=CheckpointError, remedy=_REMEDY)


def _measured(volume: npt.NDArray[Any], affine: npt.NDArray[np.float64]) -> list[dict[str, float]]:
    """Return litres and the 99th percentile inside the brain for each channel of an image."""
    litres = float(np.prod(spacing_of(affine))) / 1e6
    found = []
    for channel in volume.astype(np.float32):
        is_map = channel.min() >= 0 and channel.max() <= 1.5
        inside = channel[channel != channel[0, 0, 0]]
        size = float(channel.sum() if is_map else inside.size) * litres
        found.append(
            {"litres": size, "bright": float(np.percentile(inside, 99)) if inside.size else 0.0}
        )
    return found


def ranges_of(source: BrainVolumes, cohort: Cohort) -> Ranges:
    """Return lowest and highest value of each measure of each channel over scans that are preprocessed already."""
    scans = cohort.scans
    found = [_measured(*source.cache.read_with_affine(scan)) for scan in scans]
    by_channel = zip(source.channels or ("t1",), zip(*found, strict=True), strict=False)
    return {
        name: {
            key: [round(pick(each[key] for each in values), 4) for pick in (min, max)]
            for key in values[0]
        }
        for name, values in by_channel
    }


def doubts_of_scan(
    source: BrainVolumes, cohort: Cohort, learned_from: Ranges
) -> tuple[list[str], list[str]]:
    """Describe a cohort of one scan, and how the scan is unlike the training scans, in words."""
    scan = cohort.scans[0]
    facts = []
    doubts = []
    for file in files_of(scan):
        header = read_scan_header(file)
        size = "×".join(map(str, header.shape))
        mm = (
            ""
            if header.spacing_mm is None
            else f" of {'×'.join(f'{each:.3g}' for each in header.spacing_mm)} mm"
        )
        facts.append(
            f"{Path(file).name}: {size} voxels{mm}, {'in' if header.is_mni else 'not marked as in'} MNI space"
        )
        doubts += [f"{Path(file).name}: {warning}" for warning in header.warnings]
    for (name, ranges), here in zip(
        learned_from.items(), _measured(*source.cache.read_with_affine(scan)), strict=False
    ):
        words = _NAMES.get(name, name)
        texts = {
            "litres": (
                f"{words} in your scan: {{:.2g}} L",
                "another segmentation, brain extraction or unit?",
            ),
            "bright": (
                f"bright voxels (99th percentile) of {words} are {{:.3g}}",
                "another contrast or scaling?",
            ),
        }
        for key, (text, guess) in texts.items():
            low, high = ranges[key]
            learned = f"learned from {low:.3g} to {high:.3g}"
            fits = low - _SLACK * abs(low) <= here[key] <= high + _SLACK * abs(high)
            (facts if fits else doubts).append(
                f"{text.format(here[key])}, {learned}" + ("" if fits else f": {guess}")
            )
    return facts, doubts


def doubts_of_measures(source: RegionalMeasures, cohort: Cohort) -> tuple[list[str], list[str]]:
    """Compare measures of one person or several with the training people's, in words."""
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
    shown = ", ".join(f"{source.known.columns[place]} {middle[place]:+.0f}" for place in far[:5])
    doubt = (
        f"{len(far)} of {z.shape[1]} measures are more than {_MOST_DEVIATIONS:g} standard deviations from those "
        f"learned from ({shown}): another unit, atlas or program?"
    )
    return facts, [*cohort.warnings, doubt]
