"""Hand a run, and its probe, over as a MONAI bundle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from neurocontrast.bundling.contents import MARKER, Samples, probe_state, texts_of
from neurocontrast.config import DataSettings
from neurocontrast.data.sources import brains_of_run
from neurocontrast.encoders import load_encoder
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.record import FILE, Evaluation, read_evaluation
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import atomic_folder, check_output_folder
from neurocontrast.provenance import version
from neurocontrast.runs.folder import read_provenance

__all__ = ["bundle"]


def bundle(
    run: str | os.PathLike[str],
    evaluation: str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    licence: str | os.PathLike[str] | None = None,
    outside_percentile: float = 97.5,
    overwrite: bool = False,
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
    outside_percentile : float, default=97.5
        Percentile of training scans' own distances beyond which a scan is called outside.
    overwrite : bool
        Whether a bundle in `out` is replaced.

    Raises
    ------
    ConfigError
        Where the run or the probe cannot be bundled: transforms from Python, natural images, joined features.
    CheckpointError
        Where a file of the run or of the probe is missing, damaged or of another version.
    """
    if not 50 <= outside_percentile < 100:
        raise ConfigError(f"outside_percentile: must be from 50 to below 100, got {outside_percentile}.")
    target, folder = Path(out), Path(run)
    check_output_folder(target, overwrite=overwrite, marker=MARKER, what="a bundle")
    encoder, contract = load_encoder(folder)
    source = brains_of_run(folder, contract, DataSettings(), what="a bundle is made of an encoder of brains")
    samples = Samples.of(source)
    probe = None if evaluation is None else _probe_of(Path(evaluation), contract)
    texts = texts_of(
        samples,
        encoder,
        contract,
        read_provenance(folder) if (folder / "provenance.json").is_file() else {},
        probe=probe,
        evaluation=None if evaluation is None else _evaluation_of(Path(evaluation)),
        outside_percentile=outside_percentile,
    )
    texts["docs/license.txt"] = _licences(licence)
    with atomic_folder(target) as made:
        for name, text in texts.items():
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_text(text, encoding="utf-8")
        (made / "models").mkdir()
        torch.save(encoder.state_dict(), made / "models" / "model.pt")
        if probe is not None:
            torch.save(probe_state(probe), made / "models" / "probe.pt")
    return target


def _probe_of(evaluation: Path, contract: Mapping[str, Any]) -> FittedProbe:
    probe = load_probe(evaluation)
    if probe.blocks:
        raise ConfigError(
            f"{evaluation}: its probe was fitted on joined features of {len(probe.blocks)} encoders; a bundle has one."
        )
    sha256, n_features = contract["weights"]["sha256"], int(contract["n_features"])
    probe.check_encoder(sha256, n_features, place=str(evaluation), what="its probe")
    return probe


def _evaluation_of(path: Path) -> Evaluation | None:
    folder = path if (path / FILE).is_file() else path.parent
    return read_evaluation(folder) if (folder / FILE).is_file() else None


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
