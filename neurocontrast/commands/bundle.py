"""Export a run and its probe as a MONAI bundle, from templates of `neurocontrast/bundling`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import jinja2
import torch

from neurocontrast.data.cohort import columns_of
from neurocontrast.data.measures import MeasuresContract
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources import Brains, RegionalMeasures, brains_of_run
from neurocontrast.documents.encoder import EncoderDescription, RunDescription
from neurocontrast.documents.provenance import PublicProvenance
from neurocontrast.documents.result import FILE, Result, read_evaluation
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.embedding.readers import load_readers
from neurocontrast.encoders.members import has_members, members_of, read_record, write_members
from neurocontrast.encoders.weights import copy_encoder, read_contract
from neurocontrast.evaluation import FittedProbe, load_probe, save_probe
from neurocontrast.evaluation.probes.designs import is_joined
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import atomic_folder, check_output_folder, write_text
from neurocontrast.provenance import version
from neurocontrast.runs.folder import find_provenance
from neurocontrast.runs.networks import check_probe_members
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.transforms.preprocessing import Preprocessing
from neurocontrast.weights import folder_of

_MARKER = "configs/metadata.json"
_TEMPLATES = {
    _MARKER: "metadata.json.j2",
    "configs/inference.yaml": "inference.yaml.j2",
    "docs/README.md": "README.md.j2",
}
_INTENDED_USE = (
    "Research on groups of people. Not a medical device; no decision about a person may rest on it."
)
_JINJA = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parents[1] / "bundling"),
    keep_trailing_newline=True,
    autoescape=False,
    undefined=jinja2.StrictUndefined,
)
_JINJA.policies["json.dumps_kwargs"] = {"ensure_ascii": False}


@in_default_torch_state
def bundle(
    run: str | os.PathLike[str],
    evaluation: str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    licence: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a run's encoder as a MONAI bundle, and return its folder.

    ``python -m monai.bundle run --config_file configs/inference.yaml`` in that folder calls
    `predict` with the probe of an evaluation, or `embed` without one. The folder holds the encoder
    and the probe, ``metadata.json``, a model card and licences. Nobody of the people of pretraining
    and evaluation is named in the folder.

    Parameters
    ----------
    run : path
        Run directory of scans or regional measures, or any folder with ``encoder.json``.
    evaluation : path, optional
        Evaluation directory whose probe was fitted on the run's features.
    out : path
        Folder to make.
    licence : path, optional
        Text file with the licence of the weights, put before that of the code in
        ``docs/license.txt``. The terms under which the data were shared may restrict the licence.
    overwrite : bool
        Whether a bundle in `out` is replaced.

    Raises
    ------
    ConfigError
        Where the run or the probe cannot be bundled: transforms from Python, natural images, joined
        features.
    CheckpointError
        Where a file of the run or of the probe is missing, damaged or of another version.
    """
    target = Path(out)
    folder = folder_of(run)
    check_output_folder(target, overwrite=overwrite, marker=_MARKER, what="a bundle")
    readers, described = load_readers(folder, EmbeddingSettings())
    purpose = "a bundle is made of an encoder of brains"
    sources = []
    for reader in readers:
        sources.append(brains_of_run(reader.folder, reader.contract, DataSettings(), what=purpose))
    probe = None
    evaluated = None
    if evaluation is not None:
        probe = _probe_of(evaluation, described)
        evaluated = _evaluation_of(Path(evaluation))
    names = {
        "samples": _samples_of(sources[0]),
        "all_samples": _samples_of_all(sources),
        "contract": RunDescription.model_validate(described.content()),
        "probe": probe,
        "evaluation": evaluated,
        "provenance": find_provenance(folder) or PublicProvenance(),
        "metrics": _values_of(evaluated),
        "simulated": described.simulated or (evaluated is not None and evaluated.simulated),
        "versions": _list_versions(),
        "features": [f"feature {number}" for number in range(described.n_features or 0)],
        "numbered": _number,
        "intended_use": _INTENDED_USE,
    }
    licences = _licences(licence)
    with atomic_folder(target) as new:
        for name, template in _TEMPLATES.items():
            write_text(new / name, _JINJA.get_template(template).render(names))
        write_text(new / "docs" / "license.txt", licences)
        _save_encoders(new / "models", folder)
        if probe is not None:
            save_probe(new / "models" / "probe", probe)
    return target


def _evaluation_of(place: Path) -> Result | None:
    """Read the record ``evaluation.json`` in `place` or, if absent there, in the folder above.

    `place` is an evaluation directory, or its folder ``probe``. None if neither folder has the
    file.
    """
    for folder in (place, place.parent):
        if (folder / FILE).is_file():
            return read_evaluation(folder)
    return None


def _values_of(evaluation: Result | None) -> dict[str, float]:
    """Return metric → value of the embedding, for the metrics of an evaluation that have a value.

    The mapping is empty if `evaluation` is None.
    """
    if evaluation is None:
        return {}
    values = {}
    for name, metric in evaluation.metrics.items():
        if metric.value is not None:
            values[name] = metric.value
    return values


def _list_versions() -> dict[str, str]:
    """Return package → version installed here, for the packages named in a bundle's metadata."""
    return {
        "monai": metadata.version("monai"),
        "numpy": metadata.version("numpy"),
        "torch": torch.__version__.partition("+")[0],
        "neurocontrast": version(),
    }


def _number(names: Sequence[str]) -> dict[str, str]:
    """Return number → name for names numbered from "0", as MONAI's metadata describe channels."""
    return {str(number): name for number, name in enumerate(names)}


def _probe_of(evaluation: str | os.PathLike[str], described: EncoderDescription) -> FittedProbe:
    """Return the probe of the folder `evaluation` without the identities of training people.

    A probe that was not fitted on features of the run with the description `described`, or that was
    fitted on joined features of several encoders, is refused.
    """
    probe = load_probe(evaluation)
    if is_joined(probe.blocks):
        n = len(probe.blocks)
        raise ConfigError(
            f"{evaluation}: its probe was fitted on joined features of {n} encoders; "
            "a bundle has one."
        )
    n_features = described.n_features or 0
    check_probe_members(probe, described, parameter=f"{evaluation}")
    probe.check_encoder(
        described.weights.sha256, n_features, place=f"{evaluation}", what="its probe"
    )
    nobody: dict[str, frozenset[str]] = {
        "trained_on": frozenset(),
        "trained_contents": frozenset(),
    }
    return probe.model_copy(update=nobody)


def _save_encoders(models: Path, run: Path) -> None:
    """Copy the encoder of the folder `run` to `models`, without the projection head.

    Of a run of several encoders (members) each encoder is copied, and ``members.json`` is written.
    """
    for folder in members_of(run):
        contract = read_contract(folder).without("head")
        copy_encoder(folder, contract, models / folder.relative_to(run))
    if has_members(run):
        write_members(models, read_record(run))


def _licences(licence: str | os.PathLike[str] | None) -> str:
    """Return the licence of the weights, then the licence of the code, as one text.

    `licence` is a text file with the licence of the weights. Without one, the text says that the
    licence of the weights is not stated.
    """
    if licence is None:
        of_weights = (
            "Licence of the weights: not stated. Ask who made them; the data that they were "
            "trained on have terms of\ntheir own, which may bind the weights."
        )
    else:
        try:
            of_weights = Path(licence).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"licence: '{licence}' cannot be read as text ({error}).") from error
    of_code = "BSD-3-Clause"
    # From a source tree an .egg-info without licences may come before the installed package.
    for distribution in metadata.distributions(name="neurocontrast"):
        licence_of_code = distribution.read_text("licenses/LICENSE")
        if licence_of_code:
            of_code = licence_of_code
            break
    return f"{of_weights}\n\n---\n\nThe code of neurocontrast {version()}:\n\n{of_code.strip()}\n"


@dataclass(frozen=True)
class _Samples:
    """Channels, shape and table columns of the scans that one encoder reads.

    The templates of a MONAI bundle, which are files of ``neurocontrast/bundling``, are filled with
    these values. For an encoder of regional measures, `channels` names the measures, and `measures`
    is not None.
    """

    channels: tuple[str, ...]
    """Names of the channels of a scan, or names of the regional measures."""
    shape: tuple[int, ...]
    columns: tuple[str, ...] = ()
    """Table columns with the image files of a scan; empty for regional measures."""
    is_resampled: bool = False
    """Whether the scans are resampled to a voxel size; False for regional measures."""
    measures: MeasuresContract | None = None
    """Standardisation of regional measures; None for scans."""


@dataclass(frozen=True)
class _AllSamples:
    """Channels, table columns and shapes that any encoder of a run reads, for the model card.

    One record describes all encoders of the run together. The model card is the bundle's file
    ``docs/README.md``. For encoders of regional measures, `channels` names the measures.
    """

    channels: list[str]
    """Names of channels or regional measures, each once, in the order of the encoders."""
    columns: list[str]
    """Columns of the scans' table with image files, each once; empty for regional measures."""
    shapes: list[str]
    """Shapes of preprocessed scans as text, such as ``121 × 145 × 121``, each once."""
    is_resampled: bool
    """Whether the scans of all encoders are resampled to a voxel size."""
    is_alike: bool
    """Whether all encoders of scans read the same table columns."""
    max_missing: float
    """Share of measures that a person may lack: the strictest limit among the encoders."""


def _samples_of(source: Brains) -> _Samples:
    """Return channels, shape and table columns of the scans that an encoder reads, as `_Samples`.

    `source` reads and preprocesses the scans, or regional measures, for that encoder.
    """
    if isinstance(source, RegionalMeasures):
        return _Samples(source.known.columns, (1,), measures=source.known)
    channels = source.channels or ("t1",)
    transforms = source.transforms
    is_resampled = isinstance(transforms, Preprocessing) and transforms.spacing_mm is not None
    shape = transforms.image_shape[1:]
    return _Samples(channels, shape, columns_of(channels), is_resampled)


def _samples_of_all(sources: Sequence[Brains]) -> _AllSamples:
    """Return the channels, table columns and shapes that any encoder of a run reads, each once.

    `sources` has one entry for each encoder, which reads and preprocesses the encoder's scans or
    regional measures. The `_AllSamples` also says whether every encoder has its scans resampled to
    a voxel size, and whether all read the same table columns.
    """
    channels = dict[str, None]()
    columns = dict[str, None]()
    shapes = dict[str, None]()
    shares = []
    resampled = []
    alike = set[tuple[str, ...]]()
    for source in sources:
        samples = _samples_of(source)
        channels |= dict.fromkeys(samples.channels)
        if isinstance(source, RegionalMeasures):
            shares.append(source.known.max_missing)
            continue
        columns |= dict.fromkeys(samples.columns)
        alike.add(samples.columns)
        shapes[" × ".join(map(str, samples.shape))] = None
        resampled.append(samples.is_resampled)
    return _AllSamples(
        channels=list(channels),
        columns=list(columns),
        shapes=list(shapes),
        is_resampled=all(resampled),
        is_alike=len(alike) < 2,
        max_missing=min(shares, default=0.0),
    )
