"""Load pretrained weights by name: encoders with a card, and probes that predict from features.

`brain-maps-lda` ships with this package, others with packages of their own (entry point group
``neurocontrast.weights``): `brain-maps` with ``neurocontrast-weights-brains``, and `measures` with
``neurocontrast-weights-measures``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from neurocontrast.exceptions import (
    CheckpointError,
    ConfigError,
    one_of,
    suggestion,
)
from neurocontrast.provenance import version
from neurocontrast.weights.packages import (
    CARD,
    FILES,
    Source,
    problem_of_folder,
    sources_of_packages,
)

if TYPE_CHECKING:
    from neurocontrast.encoders import Encoder
    from neurocontrast.encoders.members import SeveralEncoders

__all__ = ["CARD", "Weights", "folder_of", "load", "names", "not_installed", "problems"]

_FOLDER = Path(__file__).parent
_ELSEWHERE = {
    "brain-maps": (
        "pip install neurocontrast-weights-brains, or in a checkout of neurocontrast "
        "pip install ./weights/brains"
    ),
    "measures": (
        "pip install neurocontrast-weights-measures, or in a checkout of neurocontrast "
        "pip install ./weights/measures"
    ),
}
"""Name of weights that are in a package of their own → how to install the package."""
_OF_RUNS = (*FILES, "probe.json", "evaluation.json")
"""Files by which a folder of the user's is recognised as a run, a probe or an evaluation."""


@dataclass(frozen=True)
class Weights(os.PathLike[str]):
    """Folder of pretrained weights, which `embed`, `predict`, `pretrain` and `ScanEmbedder` accept.

    The functions take the object in the place of a run's path.

    Parameters
    ----------
    name : str
        Name of the weights.
    path : Path
        Folder of the weights: ``encoder.json`` and ``encoder.safetensors``, or a run of several
        encoders (members); the model card, ``README.md``; and a folder for each probe.
    origin : str
        Distribution that brings the weights, with its version.
    """

    name: str
    path: Path
    origin: str = ""

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def card(self) -> str:
        """Model card in Markdown: data, ages, sites, intended use, limits and licence."""
        return (self.path / CARD).read_text(encoding="utf-8")

    @property
    def probes(self) -> dict[str, Path]:
        """Target that can be predicted → folder of the probe, for `predict`."""
        folders = {}
        for description in sorted(self.path.glob("*/probe.json")):
            folders[description.parent.name] = description.parent
        return folders

    @property
    def encoder(self) -> Encoder | SeveralEncoders:
        """Encoder of the weights on the CPU, in evaluation mode; several encoders as one.

        Features of several encoders (members) are side by side. Encoders whose samples are
        prepared in different ways cannot be one network, and are refused.
        """
        from neurocontrast.encoders import load_encoder
        from neurocontrast.encoders.members import SeveralEncoders, members_of

        encoders = []
        prepared = []
        for folder in members_of(self.path):
            encoder, contract = load_encoder(folder)
            encoders.append(encoder)
            prepared.append((contract.preprocessing, contract.channels))
        if len(encoders) == 1:
            return encoders[0]
        if prepared.count(prepared[0]) < len(prepared):
            raise ConfigError(
                f"weights: the {len(encoders)} members of '{self.name}' prepare their samples in "
                f"different ways. Take `embed`, or one of them: load_encoder('{folder}')."
            )
        return SeveralEncoders(encoders)


def _sources() -> dict[str, list[Source]]:
    """Return name of weights → the packages that bring weights of this name, each as a `Source`.

    Searched are this package and installed ones. A `Source` has the folder of the weights, and any
    problem.
    """
    sources = dict[str, list[Source]]()
    for card in sorted(_FOLDER.glob(f"*/{CARD}")):
        folder = card.parent
        problem = problem_of_folder(folder)
        source = Source(folder.name, f"neurocontrast {version()}", folder, problem)
        sources.setdefault(folder.name, []).append(source)
    for source in sources_of_packages():
        sources.setdefault(source.name, []).append(source)
    return dict(sorted(sources.items()))


def _problem_of(sources: list[Source]) -> str:
    """Return why the weights of one name cannot be used; "" for usable weights.

    `sources` has an entry for each package that brings weights of this name. Several packages are a
    problem; weights of one package have a problem if they are damaged.
    """
    if len(sources) == 1:
        return sources[0].problem
    origins = sorted(map(attrgetter("origin"), sources))
    return (
        f"weights: {len(sources)} packages bring weights named '{sources[0].name}': "
        f"{' and '.join(origins)}. Uninstall all but one."
    )


def names() -> list[str]:
    """Return the names of all usable weights, shipped with this package or in installed ones."""
    return _usable(_sources())


def _usable(of_names: dict[str, list[Source]]) -> list[str]:
    usable = []
    for name, sources in of_names.items():
        if not _problem_of(sources):
            usable.append(name)
    return usable


def problems() -> dict[str, str]:
    """Return name of weights → reason why the weights cannot be used; empty if all can.

    Files of weights are not read, only looked for.
    """
    of_names = {}
    for name, sources in _sources().items():
        problem = _problem_of(sources)
        if problem:
            of_names[name] = problem
    return of_names


def not_installed() -> dict[str, str]:
    """Return name → how to install, for this project's weights that are not installed."""
    remedies = dict(_ELSEWHERE)
    for name in _sources():
        remedies.pop(name, None)
    return remedies


def load(name: str) -> Weights:
    """Return weights that ship with the package or are installed; nothing is downloaded.

    Parameters
    ----------
    name : str
        One of `names`.

    Raises
    ------
    ConfigError
        If no weights have that name, or the weights of two packages have.
    CheckpointError
        If the package with these weights is damaged.

    Examples
    --------
    >>> from neurocontrast import weights
    >>> brain_maps = weights.load("brain-maps-lda")
    >>> brain_maps.encoder.n_features
    60
    >>> sorted(brain_maps.probes)
    ['age', 'sex']
    """
    return _load(name, _sources())


def _load(name: str, sources: dict[str, list[Source]]) -> Weights:
    if name not in sources:
        if name in _ELSEWHERE:
            raise ConfigError(f"weights: '{name}' is not installed. Get it by {_ELSEWHERE[name]}.")
        usable = _usable(sources)
        raise ConfigError(
            f"weights: none are named '{name}'.{suggestion(name, [*usable, *_ELSEWHERE])} "
            f"There are: {one_of(usable)}."
        )
    source, *others = sources[name]
    problem = _problem_of(sources[name])
    if others:
        raise ConfigError(problem)
    if problem or source.folder is None:
        raise CheckpointError(problem)
    return Weights(name, source.folder, source.origin)


def _refuse_misspelt(path: Path, sources: dict[str, list[Source]]) -> None:
    """Refuse a path that does not exist and is nearly the name of weights.

    The `ConfigError` suggests the name. `sources` is name of weights → the packages that bring
    them.
    """
    if path.exists():
        return
    hint = suggestion(path.parts[0], [*_usable(sources), *_ELSEWHERE])
    if hint:
        raise ConfigError(
            f"weights: '{path}' is no file or folder, and no weights are named so.{hint}"
        )


def folder_of(name_or_path: str | os.PathLike[str]) -> Path:
    """Return the folder of weights, or of one of their probes, by name; a path is unchanged.

    Parameters
    ----------
    name_or_path : str or path
        Name of weights, name and probe such as ``measures/age``, or the path of a run, of a probe
        or of an evaluation. A path that is no name is returned unread.

    Raises
    ------
    ConfigError
        Where a name is that of weights and of a run in the current folder, of weights that are not
        installed, or of a probe that the weights lack.
    CheckpointError
        Where the package with these weights is damaged.

    Examples
    --------
    >>> from neurocontrast import weights
    >>> weights.folder_of("brain-maps-lda/age").name
    'age'
    >>> weights.folder_of("runs/yaware").as_posix()
    'runs/yaware'
    """
    path = Path(name_or_path)
    if path.is_absolute() or len(path.parts) not in (1, 2):
        return path
    name, *probe = path.parts
    is_run = any(map(Path.is_file, map(path.joinpath, _OF_RUNS)))
    sources = _sources()
    if name not in sources:
        if name in _ELSEWHERE and not path.exists():
            _load(name, sources)
        _refuse_misspelt(path, sources)
        return path
    if is_run:
        raise ConfigError(
            f"weights: '{path}' is a folder of yours, and weights are named '{name}' too. Give the "
            f"folder as {path.absolute()}, or that of the weights, which `neurocontrast weights "
            f"path {name}` prints."
        )
    if probe and path.exists():
        return path
    weights = _load(name, sources)
    if not probe:
        return weights.path
    if probe[0] not in weights.probes:
        raise ConfigError(
            f"weights: '{name}' has no probe '{probe[0]}'.{suggestion(probe[0], weights.probes)} "
            f"It predicts: {one_of(weights.probes)}."
        )
    return weights.probes[probe[0]]
