"""The commands that have commands of their own: `weights import`, `weights verify`, `config list` …"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import neurocontrast
from neurocontrast.cli.command import Configured, Given, Overwrite, argument, option
from neurocontrast.cli.output import Result
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import write_text
from neurocontrast.reading import read_json

__all__ = [
    "copy_recipe",
    "export_weights",
    "find_weights",
    "import_weights",
    "list_recipes",
    "list_weights",
    "show_recipe",
    "show_schema",
    "verify_weights",
]

_SCHEMA = "neurocontrast.schema.json"
Name = Annotated[str, argument("NAME", "Name of a recipe, such as yaware or natural/simclr.")]
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
    """Import weights of another program; what does not fit is listed, and no code in the file is run."""
    folder = neurocontrast.import_weights(
        file, architecture=architecture, out=out, config=given.resolve(), progress=given.progress
    )
    about = read_json(folder / "encoder.json")
    facts = {key: about[key] for key in ("imported", "n_features", "n_channels", "preprocessing")}
    title = f"{about['imported']['title']}: {about['n_features']:,} features"
    following = ("embed", folder, "--participants", "PARTICIPANTS.tsv", "--out", "embeddings.parquet")
    return Result({**facts, "has_head": "head" in about}, title, next=following, path=folder)


def export_weights(
    given: Given,
    run: Annotated[Path, argument("RUN", "Run directory of `pretrain`, or a folder of `weights import`.")],
    out: Annotated[Path, option("File to write: .pt or .safetensors.", metavar="FILE")],
    overwrite: Overwrite = False,
) -> Result:
    """Write an encoder's weights as a plain state dict with the names of MONAI's networks."""
    return Result(path=neurocontrast.export_weights(run, out=out, overwrite=overwrite, progress=given.progress))


def find_weights(
    given: Given,
    name: Annotated[str, argument("NAME", "Weights that ship with the package, such as brain-maps-lda.")],
) -> Result:
    """Print the folder of weights that ship with the package; other commands take it as RUN."""
    from neurocontrast.weights import load

    weights = load(name)
    return Result({"probes": {key: str(path) for key, path in weights.probes.items()}}, path=weights.path)


def list_weights(given: Given) -> Result:
    """List the weights that ship with the package, and what their probes predict."""
    from neurocontrast.weights import load, names

    found = {name: load(name) for name in names()}
    facts = {name: {"path": str(each.path), "probes": sorted(each.probes)} for name, each in found.items()}
    notes = [
        f"{name}  predicts {' and '.join(each.probes)}; card: {each.path}/README.md" for name, each in found.items()
    ]
    return Result({"weights": facts}, notes=notes)


def verify_weights(
    given: Given,
    weights: Annotated[str, argument("NAME|RUN", "Weights that ship with the package, or a run.")],
    scan: Annotated[
        list[Path] | None,
        option("A scan of yours to compare with those learned from; once a channel.", "--scan", metavar="FILE"),
    ] = None,
) -> Result:
    """Check that this installation gives the features that an encoder states, and whether a scan fits it."""
    found = neurocontrast.verify_weights(weights, scan=scan or None)
    lines = [f"{'PASS' if passed else 'FAIL'}  {text}" for passed, text in found.checks]
    lines += [*(f"      {text}" for text in found.facts), *(f"DOUBT {text}" for text in found.doubts)]
    facts = {"passed": found.passed, "facts": found.facts, "doubts": found.doubts}
    return Result(facts, notes=lines, exit_code=0 if found.passed else 1)


def list_recipes(given: Given) -> Result:
    """List the recipes that come with the package."""
    from neurocontrast.config.load import describe_recipe, list_recipes

    found = {name: describe_recipe(file) for name, file in list_recipes().items()}
    width = max(map(len, found))
    title = f"{len(found)} recipes: neurocontrast pretrain --config NAME"
    return Result({"recipes": found}, title, notes=[f"{name:<{width}}  {about}" for name, about in found.items()])


def show_recipe(given: Given, name: Name) -> Result:
    """Print a recipe."""
    from neurocontrast.config.load import find_config

    text = find_config(name).read_text(encoding="utf-8")
    return Result({"recipe": text}, notes=[text.rstrip()])


def copy_recipe(
    given: Given,
    name: Name,
    file: Annotated[Path | None, argument("FILE", "NAME.yaml by default.")] = None,
) -> Result:
    """Copy a recipe to a file to be changed, with the schema by which editors check it."""
    from neurocontrast.config.load import find_config

    source = find_config(name)
    target = file or Path(source.name)
    schema, made = target.parent / _SCHEMA, _schema()
    if target.exists() or target.name == _SCHEMA:
        raise ConfigError(f"'{target}' exists, or is the schema's. Name another file: config copy {name} FILE.")
    if schema.exists() and read_json(schema).get("title") != json.loads(made)["title"]:
        raise ConfigError(f"'{schema}' exists and is no schema of configurations. Copy into another folder.")
    write_text(schema, made)
    write_text(target, f"# yaml-language-server: $schema={_SCHEMA}\n{source.read_text(encoding='utf-8')}")
    following = ("pretrain", "--config", target, "--participants", "PARTICIPANTS.tsv", "--out", "run")
    return Result({"schema": str(schema)}, next=following, path=target)


def show_schema(given: Given) -> Result:
    """Print the JSON schema of configurations, by which editors complete and check them."""
    schema = _schema()
    return Result({"schema": json.loads(schema)}, notes=[schema])


def _schema() -> str:
    from neurocontrast.config import Config

    return json.dumps(Config.model_json_schema(), indent=2)
