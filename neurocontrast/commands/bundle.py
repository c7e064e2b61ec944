"""Hand a run, and its probe, over as a MONAI bundle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from neurocontrast.bundling import MARKER, Samples, texts_of
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources import brains_of_run
from neurocontrast.encoders import load_encoder, save_encoder
from neurocontrast.evaluation import FittedProbe, load_probe, save_probe
from neurocontrast.evaluation.record import FILE, Evaluation, read_evaluation
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import atomic_folder, check_output_folder, write_text
from neurocontrast.provenance import version
from neurocontrast.runs.folder import read_provenance

_OF_THE_RUN = ("weights", "head")
"""What ``encoder.json`` says of files that a bundle does without."""


def bundle(
    run: str | os.PathLike[str],
    evaluation: str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    licence: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a run's encoder as a MONAI bundle, and return its folder.

    ``python -m monai.bundle run --config_file configs/inference.yaml`` in that folder calls `predict` with the probe of
    an evaluation, or `embed` without one. The folder holds the encoder and the probe, ``metadata.json``, a model card
    and licences; of the people of pretraining and evaluation it names none.

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
    overwrite : bool
        Whether a bundle in `out` is replaced.

    Raises
    ------
    ConfigError
        Where the run or the probe cannot be bundled: transforms from Python, natural images, joined features.
    CheckpointError
        Where a file of the run or of the probe is missing, damaged or of another version.
    """
    target, folder = Path(out), Path(run)
    check_output_folder(target, overwrite=overwrite, marker=MARKER, what="a bundle")
    encoder, contract = load_encoder(folder)
    source = brains_of_run(folder, contract, DataSettings(), what="a bundle is made of an encoder of brains")
    probe = None if evaluation is None else _probe_of(Path(evaluation), contract)
    texts = texts_of(
        Samples.of(source),
        contract,
        read_provenance(folder) if (folder / "provenance.json").is_file() else {},
        probe=probe,
        evaluation=None if evaluation is None else _evaluation_of(Path(evaluation)),
    )
    texts["docs/license.txt"] = _licences(licence)
    with atomic_folder(target) as made:
        for name, text in texts.items():
            write_text(made / name, text)
        save_encoder(made / "models", encoder, {key: contract[key] for key in contract if key not in _OF_THE_RUN})
        if probe is not None:
            save_probe(made / "models" / "probe", probe)
    return target


def _probe_of(evaluation: Path, contract: Mapping[str, Any]) -> FittedProbe:
    probe = load_probe(evaluation)
    if probe.blocks:
        raise ConfigError(
            f"{evaluation}: its probe was fitted on joined features of {len(probe.blocks)} encoders; a bundle has one."
        )
    sha256, n_features = contract["weights"]["sha256"], int(contract["n_features"])
    probe.check_encoder(sha256, n_features, place=str(evaluation), what="its probe")
    return probe.model_copy(update={"trained_on": frozenset()})


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
    return f"{of_weights}\n\n---\n\nThe code of neurocontrast {version()}:\n\n{of_code.strip()}\n"
