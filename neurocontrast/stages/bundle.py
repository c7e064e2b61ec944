"""Hand a run, and its probe, over as a MONAI bundle."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import yaml

from neurocontrast.bundling.card import model_card
from neurocontrast.bundling.configs import Samples, describe_inference, describe_network, probe_state
from neurocontrast.bundling.scripts import MODULES, as_target, sources_of
from neurocontrast.config import DataSettings
from neurocontrast.data.cohort import columns_of
from neurocontrast.data.sources import BrainVolumes, RegionalMeasures, brains_of_run
from neurocontrast.encoders import Encoder, load_encoder
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.rows import check_same_encoder
from neurocontrast.evaluation.schema import FILE, Evaluation, read_evaluation
from neurocontrast.exceptions import CheckpointError, ConfigError
from neurocontrast.files import atomic_folder, check_output_folder
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import version
from neurocontrast.runs.folder import read_provenance
from neurocontrast.transforms.compose import brain_steps
from neurocontrast.transforms.described import DescribedTransforms, transform_class
from neurocontrast.transforms.description import TARGET
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["bundle"]

_MARKER = "configs/metadata.json"
_OF_MEASURES = ("list_rows", "StandardiseMeasuresd")
_TOLERANCE = 1e-4


def bundle(
    run: str | os.PathLike[str],
    evaluation: str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    licence: str | os.PathLike[str] | None = None,
    torchscript: bool = False,
    outside_percentile: float = 97.5,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write a run's encoder as a MONAI bundle, which runs without neurocontrast, and return its folder.

    ``python -m monai.bundle run --config_file configs/inference.yaml`` in that folder gives the features that `embed`
    gives, and what the probe of an evaluation says of them. The folder holds the weights, the transforms as MONAI's
    configuration with the code that they need (``scripts/``), ``metadata.json``, a model card and licences.

    Parameters
    ----------
    run : path
        Run directory of scans or regional measures, or any folder with ``encoder.json``.
    evaluation : path, optional
        Evaluation directory whose probe was fitted on the run's features.
    out : path
        Folder to make.
    licence : path, optional
        Text file with the licence of the weights, put before that of the code in ``docs/license.txt``. What the data
        were shared under may bind it.
    torchscript : bool
        Whether the encoder is written as ``models/model.ts`` too. It is refused where features differ by more than 1e-4
        of the largest.
    outside_percentile : float, default=97.5
        Percentile of training scans' own distances beyond which a scan is called outside.
    overwrite : bool
        Whether a bundle in `out` is replaced.
    progress : Progress
        Receives progress messages.

    Raises
    ------
    ConfigError
        Where the run or the probe cannot be bundled: transforms from Python, natural images, recentring, joined
        features.
    CheckpointError
        Where a file of the run or of the probe is missing, damaged or of another version.
    """
    if not 50 <= outside_percentile < 100:
        raise ConfigError(f"outside_percentile: must be from 50 to below 100, got {outside_percentile}.")
    target, folder = Path(out), Path(run)
    check_output_folder(target, overwrite=overwrite, marker=_MARKER, what="a bundle")
    encoder, contract = load_encoder(folder)
    source = brains_of_run(folder, contract, DataSettings(), what="a bundle is made of an encoder of brains")
    samples = _measures(source) if isinstance(source, RegionalMeasures) else _scans(source)
    probe = None if evaluation is None else _probe_of(Path(evaluation), contract)
    scored = None if evaluation is None else _evaluation_of(Path(evaluation))
    texts = _texts(folder, encoder, contract, samples, probe, scored, outside_percentile)
    texts["docs/license.txt"] = _licences(licence)
    with atomic_folder(target) as made:
        for name, text in texts.items():
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_text(text, encoding="utf-8")
        (made / "models").mkdir()
        torch.save(encoder.state_dict(), made / "models" / "model.pt")
        if probe is not None:
            torch.save(probe_state(probe), made / "models" / "probe.pt")
        if torchscript:
            progress.message("Tracing the encoder, and comparing what the trace makes of another sample.")
            _write_torchscript(encoder, (len(samples.channels), *samples.shape), made / "models" / "model.ts")
    return target


def _texts(
    folder: Path,
    encoder: Encoder,
    contract: Mapping[str, Any],
    samples: Samples,
    probe: FittedProbe | None,
    evaluation: Evaluation | None,
    outside_percentile: float,
) -> dict[str, str]:
    """Return the configuration, the model card and the code, by the name of the file."""
    scripts = sources_of([*MODULES, f"neurocontrast.bundling.{samples.module}", *_modules_of(samples.steps)])
    provenance = read_provenance(folder) if (folder / "provenance.json").is_file() else {}
    about = describe_network(contract, samples, probe=probe, evaluation=evaluation, provenance=provenance)
    inference = describe_inference(contract, encoder, samples, probe=probe, outside_percentile=outside_percentile)
    return {
        **{f"scripts/{name}": text for name, text in scripts.items()},
        **samples.files,
        _MARKER: json.dumps(about, indent=2, ensure_ascii=False) + "\n",
        "configs/inference.yaml": yaml.safe_dump(inference, sort_keys=False, allow_unicode=True, width=100),
        "docs/README.md": model_card(contract, provenance, samples, probe=probe, evaluation=evaluation),
    }


def _scans(source: BrainVolumes) -> Samples:
    shape, channels = tuple(source.transforms.image_shape[1:]), source.channels or ("t1",)
    columns = columns_of(channels)
    named = "T1-weighted, skull-stripped brains" if columns == ("path",) else f"Maps: {', '.join(columns)}"
    spaced = isinstance(source.transforms, Preprocessing) and source.transforms.spacing_mm
    given = ", ".join(f"`{name}`" for name in columns)
    return Samples(
        what="brain MRI",
        channels=channels,
        shape=shape,
        classes=f"{', '.join(channels)}, on the grid and in the intensities of configs/inference.yaml",
        module="inference",
        evaluator="Inference",
        scans={"_target_": "scripts.inference.list_scans", "columns": list(columns)},
        steps=_steps(source),
        prepared=f"## What scans must be\n\n{named}, prepared as the training scans were"
        f"{'' if spaced else ', in voxels of their own size'}. `configs/inference.yaml` then brings them to\n"
        f"{' × '.join(map(str, shape))} voxels, by the same code as in training.",
        use=f"`PLACE` is a scan, a folder of scans, or a table (`.tsv`, `.csv`) with the columns {given}.\n"
        "Each scan becomes one line of JSON: `image`",
        unlike="another scanner, sequence, age, disease or brain extraction",
        format={"type": "image", "format": "magnitude", "modality": "MR"},
    )


def _measures(source: RegionalMeasures) -> Samples:
    known, file = source.known, "configs/measures.json"
    place = f"$@bundle_root + '/{file}'"
    scans, step = ({"_target_": f"scripts.measures.{name}", "contract": place} for name in _OF_MEASURES)
    program = known.software or "a program that the tables learned from do not name"
    lacking = f"{known.max_missing:.0%}"
    return Samples(
        what="regional measures of the brain",
        channels=known.columns,
        shape=(1,),
        classes=f"{len(known.columns)} measures of the atlas {known.atlas}, standardised by {file}",
        module="measures",
        evaluator="MeasuresInference",
        scans=scans,
        steps=[step],
        prepared=f"## What measures must be\n\n{len(known.columns)} measures of the atlas {known.atlas}, by {program}: "
        "thickness in mm, areas in mm²,\nvolumes in mm³; another version measures otherwise. "
        f"A scan may lack {lacking} of them.\n`{file}` says by which numbers they are standardised. The columns:\n\n"
        + "\n".join(textwrap.wrap(", ".join(known.columns), 100, break_on_hyphens=False)),
        use="`PLACE` is a table (`.tsv`, `.csv`) with one row a scan, or a folder of such tables, joined by "
        "`participant_id`\nor by their first column, as `aparcstats2table` writes it. Each row becomes one line of "
        "JSON: `participant_id`,\n`session`",
        unlike="another scanner, sequence, version of FreeSurfer, age or disease",
        files={file: json.dumps(known.as_json(), indent=1) + "\n"},
        format={"type": "tuples", "format": "raw", "modality": "n/a"},
    )


def _probe_of(evaluation: Path, contract: Mapping[str, Any]) -> FittedProbe:
    probe = load_probe(evaluation)
    if probe.recentring is not None:
        raise ConfigError(
            f"{evaluation}: its probe needs features recentred by site, which takes the scans of a site together; a "
            "bundle sees one at a time. Evaluate with recentre=none."
        )
    if probe.blocks:
        raise ConfigError(
            f"{evaluation}: its probe was fitted on joined features of {len(probe.blocks)} encoders; a bundle has one."
        )
    check_same_encoder(
        probe.encoder,
        contract["weights"]["sha256"],
        n_expected=probe.n_features,
        n_found=int(contract["n_features"]),
        parameter=str(evaluation),
        what="its probe",
    )
    return probe


def _evaluation_of(path: Path) -> Evaluation | None:
    folder = path if (path / FILE).is_file() else path.parent
    return read_evaluation(folder) if (folder / FILE).is_file() else None


def _steps(source: BrainVolumes) -> list[dict[str, Any]]:
    """Return the transforms of a run as MONAI's configuration names them."""
    transforms = source.transforms
    if not isinstance(transforms, DescribedTransforms):
        return [as_target(each, arguments) for each, arguments in brain_steps(transforms, "image")]
    if transforms.targets is None:
        raise ConfigError("run: its transforms came from Python, and a bundle holds none of these.")
    named = [(transform_class(str(step[TARGET])), step) for step in transforms.targets]
    return [as_target(each, {key: step[key] for key in step if key != TARGET}) for each, step in named]


def _modules_of(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    names = {step["_target_"].rpartition(".")[0] for step in steps} - {"scripts.measures"}
    return [f"neurocontrast.transforms.{name.partition('.')[2]}" for name in names if name.startswith("scripts.")]


def _licences(licence: str | os.PathLike[str] | None) -> str:
    """Return the text of the licence of the weights, and of that of the code."""
    if licence is None:
        of_weights = (
            "Licence of the weights: not stated. Ask who made them; the data that they were trained on have terms of\n"
            "their own, which may bind the weights."
        )
    else:
        try:
            of_weights = Path(licence).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"licence: '{licence}' cannot be read as text ({error}).") from error
    # From a source tree an .egg-info, which holds no licences, may come before what was installed.
    found = (each.read_text("licenses/LICENSE") for each in metadata.distributions(name="neurocontrast"))
    of_code = next((text for text in found if text), "BSD-3-Clause")
    return f"{of_weights}\n\n---\n\nThe code in scripts/, of neurocontrast {version()}:\n\n{of_code.strip()}\n"


def _write_torchscript(encoder: Encoder, shape: tuple[int, ...], path: Path) -> None:
    """Trace the encoder on a random sample, and compare what it makes of another one."""
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn((1, *shape), generator=generator) for _ in range(2))
    with torch.inference_mode(False), torch.no_grad():
        traced = torch.jit.trace(encoder, first)
        wanted = encoder(second)
        apart = float((traced(second) - wanted).abs().max() / wanted.abs().max().clamp(min=1e-12))
    if not apart <= _TOLERANCE:
        raise CheckpointError(f"torchscript: features differ by {apart:.2g} of the largest. Bundle without it.")
    traced.save(str(path))
