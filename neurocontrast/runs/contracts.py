"""Build the content of ``encoder.json`` for each encoder of a run, before weights are written."""

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

from neurocontrast.config import Config
from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.files import digest_of_file
from neurocontrast.losses.registry import describe_objective
from neurocontrast.runs.components import RunComponents
from neurocontrast.runs.folder import read_provenance
from neurocontrast.training.components import LINEAR_OBJECTIVES


def contracts_of(
    settings: Config, components: RunComponents, folder: Path, fitted: Mapping[str, object]
) -> list[EncoderDescription]:
    """Return the content of ``encoder.json`` for each encoder of a run, without digests of weights.

    No file is written: `save_model` adds the digests, and writes the weights and ``encoder.json``.
    `folder` is the run's folder; the digest of its ``provenance.json`` is part of each content.
    `fitted` has further keys, by name, for the first encoder: facts on the fit of a linear
    encoder's components; empty for other encoders.
    """
    common: Json = {
        "objective": _describe_objective(settings, components),
        "seed": settings.seed,
        "epochs": settings.training.epochs,
        "n_training_scans": len(components.data.training_rows),
        "simulated": components.cohort.simulated,
        "provenance": digest_of_file(folder / "provenance.json"),
    }
    augments: list[Json | None] = [None]
    if components.objective is not None:
        augments = [settings.augment.model_dump(mode="json")]
    trained_with: list[Json] = [{}]
    if settings.second is not None:
        names = list(map(attrgetter("name"), settings.encoders))
        augments.append(settings.second[1].model_dump(mode="json"))
        trained_with = [{"trained_with": names[1]}, {"trained_with": names[0]}]
    contracts = []
    for number, (half, augment) in enumerate(zip(components.source.halves, augments, strict=True)):
        content = half.contract().content() | {"augment": augment}
        if number:
            content |= trained_with[number] | common
        else:
            content |= common | dict(fitted) | trained_with[number]
        contracts.append(content)
    if settings.training.init is not None:
        contracts[0] = {"init": read_provenance(folder).content().get("init")} | contracts[0]
    return list(map(EncoderDescription.model_validate, contracts))


def _describe_objective(settings: Config, components: RunComponents) -> Json:
    """Return section ``objective`` of ``encoder.json``: the loss, or how the encoder is fitted."""
    if components.objective is None:
        return dict(LINEAR_OBJECTIVES[settings.encoder.name])
    described: Json = describe_objective(settings.objective, components.vectors)
    if components.target:
        described["target"] = components.target
    return described
