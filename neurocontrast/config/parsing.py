"""YAML with YAML 1.2 scalars: ``1e-4`` is a number, ``no`` is a word, keys are given once."""

import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from neurocontrast.documents.document import Json
from neurocontrast.exceptions import ConfigError
from neurocontrast.reading import DAMAGE, NO_FILE, problem_of_place, read_text

_N_VALUES = 100_000
"""Largest number of values in a configuration, after its YAML aliases are written out."""
_TOO_MANY = (
    f"more than {_N_VALUES:,} values, with what its aliases (*name) repeat; "
    "a part must not hold itself"
)
_N_BYTES = 2**20
"""Largest size of a configuration file, in bytes."""
_SCALARS = {
    "bool": "true|True|TRUE|false|False|FALSE",
    "int": "[-+]?(?:0|[1-9][0-9]*)",
    "float": (
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    ),
    "null": "~|null|Null|NULL|",
    "merge": "<<",
}
"""Tag of YAML → scalars without quotes that have the tag; every other scalar is text."""
_FAULTS: tuple[type[Exception], ...] = (yaml.YAMLError, *DAMAGE)
"""Exceptions that reading YAML can raise: on a malformed text, the YAML library raises almost any
type."""
_Counts: TypeAlias = dict[int, int]
"""Id of a mapping, list or YAML node → number of values in the object, the object included."""


def check_size(content: object, *, source: str) -> None:
    """Refuse a configuration of more than 100,000 values, with repeated parts counted repeatedly.

    A part is repeated by YAML aliases (``*name``), or if one mapping or list is in several places.
    The message begins with `source`, the name of the configuration.
    """
    if _n_values(content, _children_of_object, {}) > _N_VALUES:
        raise ConfigError(f"{source}: {_TOO_MANY}.")


def _n_values(value: object, children_of: Callable[[object], list[object]], counts: _Counts) -> int:
    """Count the values in a tree of values; a value that occurs twice counts twice.

    `children_of` returns the values directly in a value, and `counts` holds the counts of mappings
    and lists that were met before. A value that holds itself counts as more than `_N_VALUES`.
    """
    children = children_of(value)
    if not children:
        return 1
    if id(value) not in counts:
        counts[id(value)] = _N_VALUES + 1  # while the children are counted
        n_below = 0
        for child in children:
            n_below += _n_values(child, children_of, counts)
        counts[id(value)] = 1 + n_below
    return counts[id(value)]


def _children_of_object(value: object) -> list[object]:
    """Return the values of a mapping, or the elements of a list or set; a scalar has none."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    return []


def _children_of_node(node: object) -> list[object]:
    """Return keys and values of a YAML mapping, or elements of a sequence; a scalar has none."""
    if isinstance(node, yaml.MappingNode):
        return list(itertools.chain.from_iterable(node.value))
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    return []


class _Loader(yaml.SafeLoader):
    """YAML loader with the scalars of YAML 1.2, and floats without a point such as ``1e-4``.

    YAML 1.1 would also read ``12:30`` and ``010`` as numbers, ``2020-01-01`` as a date and ``no``
    as false.
    """

    def get_single_node(self) -> yaml.Node | None:
        """Return the root node of a YAML text; refuse a text too large with aliases written out."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _n_values(node, _children_of_node, {}) > _N_VALUES:
            raise yaml.YAMLError(_TOO_MANY)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping from `node`; refuse a key that is no text, and a key given twice."""
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            if key_node.tag.endswith(":merge"):
                continue
            key = self.construct_object(key_node, deep=True)
            problem = ""
            if not isinstance(key, str):
                problem = f"a key must be text, found {key!r}; put it in quotes"
            elif key in lines:
                problem = f"key '{key}' is given twice (first in line {lines[key]}); remove one"
            if problem:
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            lines[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), None
    )


def read_yaml(path: Path) -> Json:
    """Read a YAML file as a mapping; errors name the file and, if possible, the line."""
    if problem_of_place(path) == NO_FILE:
        raise ConfigError(f"{path}: there is no such configuration file.{_files_beside(path)}")
    content = parse_value(read_text(path, error=ConfigError, limit=_N_BYTES), source=str(path))
    if content is None:
        return {}
    if isinstance(content, dict):
        return content
    kind = f"'{content}'"
    if isinstance(content, list):
        kind = "a list"
    raise ConfigError(f"{path}: must hold sections (`key: value` lines), found {kind}.")


def _files_beside(path: Path) -> str:
    """Return a sentence for an error, with the YAML files in the folder of `path`; "" for none."""
    names = sorted(file.name for file in path.parent.glob("*.y*ml"))
    if not names:
        return ""
    return f" In that folder: {', '.join(names)}."


def parse_value(text: str, *, source: str) -> Any:
    """Return the value that a YAML text describes: a scalar, a list or a mapping.

    Parameters
    ----------
    text : str
        YAML of a scalar, a list or a mapping.
    source : str
        File or option that the text is of, with which messages begin.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = ""
        if mark is not None:
            line = f"line {mark.line + 1}, column {mark.column + 1}: "
        problem = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(f"{source}: not valid YAML: {line}{problem}.") from None
    except _FAULTS as error:
        problem = " ".join(str(error).split())
        raise ConfigError(f"{source}: not valid YAML: {problem}.") from None
