"""The commands `weights import`, `weights export` and `weights path`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from neurocontrast.cli.command import Configured, Given, Overwrite, argument, option
from neurocontrast.cli.output import Result
from neurocontrast.reading import read_json

__all__ = ["export_weights", "find_weights", "import_weights"]

_ARCHITECTURE = (
    "Network of the weights: yaware (the y-Aware authors'), nidl-densenet121, monai-densenet121, medicalnet-resnet10, "
    "-resnet18, -resnet34, -resnet50."
)


def import_weights(
    given: Configured,
    file: Annotated[Path, argument("FILE", "State dict or checkpoint: .safetensors, or by torch.save.")],
    architecture: Annotated[str, option(_ARCHITECTURE, metavar="NAME")],
    out: Annotated[Path, option("Folder to write, which embed and pretrain --init take as a run.")],
) -> Result:
    """Take over weights of another program; what does not fit is listed, and no code in the file is run."""
    from neurocontrast import stages

    folder = stages.import_weights(
        file, architecture=architecture, out=out, config=given.resolve(), progress=given.progress
    )
    about = read_json(folder / "encoder.json")
    facts = {key: about[key] for key in ("imported", "n_features", "n_channels", "preprocessing")}
    title = f"{about['imported']['title']}: {about['n_features']:,} features"
    return Result({**facts, "has_head": "head" in about}, title, path=folder)


def export_weights(
    given: Given,
    run: Annotated[Path, argument("RUN", "Run directory of `pretrain`, or a folder of `weights import`.")],
    out: Annotated[Path, option("File to write: .pt or .safetensors.", metavar="FILE")],
    overwrite: Overwrite = False,
) -> Result:
    """Write an encoder's weights as a plain state dict with the names of MONAI's networks."""
    from neurocontrast import stages

    return Result(path=stages.export_weights(run, out=out, overwrite=overwrite, progress=given.progress))


def find_weights(
    given: Given,
    name: Annotated[str, argument("NAME", "Weights that ship with the package, such as brain-maps-lda.")],
) -> Result:
    """Print the folder of weights that ship with the package, to be given as RUN to other commands."""
    from neurocontrast.weights import load

    del given
    weights = load(name)
    return Result({"probes": {key: str(path) for key, path in weights.probes.items()}}, path=weights.path)
