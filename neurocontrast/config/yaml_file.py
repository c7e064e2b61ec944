"""YAML as people write it: ``1e-4`` is a number, ``no`` is a word, and a key stands once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from neurocontrast.exceptions import ConfigError

__all__ = ["parse_value", "read_yaml"]

_FLOAT = re.compile(
    r"""^(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9]+[eE][-+]?[0-9]+
    |[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)
_RESOLVERS: dict[str, tuple[re.Pattern[str], str]] = {
    "tag:yaml.org,2002:bool": (re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    "tag:yaml.org,2002:int": (re.compile("^[-+]?(?:0|[1-9][0-9]*)$"), "-+0123456789"),
    "tag:yaml.org,2002:float": (_FLOAT, "-+.0123456789"),
    "tag:yaml.org,2002:null": (re.compile("^(?:~|null|Null|NULL|)$"), "~nN\0"),
    "tag:yaml.org,2002:merge": (re.compile("^(?:<<)$"), "<"),
}


class _Problem(Exception):
    """What is wrong, with its line."""


class _Loader(yaml.SafeLoader):
    """YAML 1.2's scalars: no sexagesimal or octal numbers, no dates, no yes/no, and floats without a point."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own class attribute

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, refusing a key that stands twice."""
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            if key_node.tag.endswith(":merge"):
                continue
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise _Problem(f"line {line}: a key must be text, found {key!r}; put it in quotes")
            if key in seen:
                raise _Problem(f"line {line}: key '{key}' stands twice (first in line {seen[key]}); remove one")
            seen[key] = line
        return super().construct_mapping(node, deep=deep)


for _tag, (_pattern, _first) in _RESOLVERS.items():
    _Loader.add_implicit_resolver(_tag, _pattern, ["" if letter == "\0" else letter for letter in _first])


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a configuration file as a mapping; an error names the file, and the line where there is one."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
        there = f" In that folder: {', '.join(near)}." if near else ""
        raise ConfigError(f"{path}: there is no such configuration file.{there}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a text file ({error}).") from error
    content = _load(text, str(path))
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must hold sections (`key: value` lines), found {_kind(content)}.")
    return content


def parse_value(text: str, *, place: str) -> Any:
    """Return the value of ``key=value`` by YAML's rules; an error names `place`."""
    return _load(text, place)


def _load(text: str, place: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except _Problem as problem:
        raise ConfigError(f"{place}: {problem}.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{place}: not valid YAML: {where}{what}.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{place}: not valid YAML: {error}.") from None


def _kind(content: Any) -> str:
    return "a list" if isinstance(content, list) else f"'{content}'"
