"""Damage to valid files: bits, cuts, hostile words, and changes within JSON, archives and compressed files."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import zipfile
import zlib
from collections.abc import Callable

WORDS = (
    *(
        "",
        "n/a",
        "nan",
        "inf",
        "-1",
        "0",
        "1.2.3",
        "1e999",
        "-1e-999",
        "9" * 400,
        "9" * 5_000,
        "true",
        "null",
        "[]",
        "{}",
    ),
    *("\t", "\n", "\r", "\0", "\x1b[31m", "\u2028", "\u202e", "\ud7ff", "\U0001f9e0", "脳", '"', "'", "\\", "=1+1"),
    *(
        "../../etc/passwd",
        "/dev/zero",
        "%s%n",
        "{0}",
        "<a/>",
        "&a [*a]",
        "!!python/name:os.system",
        "- - -",
        "a" * 70_000,
    ),
)
VALUES = (
    *(
        None,
        True,
        False,
        0,
        -1,
        2**31,
        2**63,
        10**39,
        1e308,
        -0.0,
        "",
        "n/a",
        "\x1b[31m",
        "\u2028",
        "\ud800",
        "x" * 70_000,
    ),
    *([], {}, [[]], {"": {}}, [None] * 50, ["a"] * 50, [1e300, -1e300], {"a": {"b": {"c": []}}}, [[[[[[1]]]]]]),
)


def flip(content: bytes, chance: random.Random) -> bytes:
    """Change some bits, half of the time among the first 400 bytes, where headers are."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        if changed:
            end = min(len(changed), 400) if chance.random() < 0.5 else len(changed)
            changed[chance.randrange(end)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def fill(content: bytes, chance: random.Random) -> bytes:
    """Overwrite a few bytes by extremes."""
    start, n = chance.randrange(min(len(content), 600) + 1), chance.choice((1, 2, 4, 8, 16))
    byte = chance.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"9", b"["))
    return content[:start] + byte * n + content[start + n :]


def cut(content: bytes, chance: random.Random) -> bytes:
    """Leave out the end, the beginning or the middle."""
    first, second = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return chance.choice((content[:first], content[second:], content[:first] + content[second:], b""))


def grow(content: bytes, chance: random.Random) -> bytes:
    """Repeat a part, or nest it a hundred thousand deep."""
    first, second = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    deep = chance.choice((b"[", b'{"a":', b"- ", b"(")) * 100_000
    return chance.choice((content + content, content[:second] + content[first:], content[:first] + deep, deep))


def reword(content: bytes, chance: random.Random) -> bytes:
    """Put a hostile word in the place of a word, or beside it."""
    words = list(re.finditer(rb"[A-Za-z0-9_.+-]+", content[:20_000]))
    if not words:
        return content
    found = chance.choice(words)
    start = found.start() if chance.random() < 0.8 else found.end()
    return content[:start] + chance.choice(WORDS).encode("utf-8", "surrogatepass") + content[found.end() :]


def structured(content: bytes, chance: random.Random) -> bytes:
    """Change a value in JSON, in the JSON of a safetensors file, or a part of an archive or of a compressed file."""
    if content.startswith(b"PK"):
        return _in_zip(content, chance)
    if content.startswith(b"\x1f\x8b"):
        inner = chance.choice((flip, fill, cut, reword))(gzip.decompress(content), chance)
        return gzip.compress(inner, 1)
    n = int.from_bytes(content[:8], "little")
    if 2 < n < len(content) and content[8:9] == b"{":
        header = _in_json(content[8 : 8 + n], chance)
        return len(header).to_bytes(8, "little") + header + content[8 + n :]
    return _in_json(content, chance)


def _in_json(content: bytes, chance: random.Random) -> bytes:
    try:
        tree = json.loads(content)
    except ValueError:
        return reword(content, chance)
    places: list[tuple[object, object]] = []
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        places += [(here, key) for key in keys]
        waiting += [here[key] for key in keys]
    if not places or chance.random() < 0.05:
        return json.dumps(chance.choice(VALUES)).encode()
    here, key = chance.choice(places)
    if isinstance(here, dict) and chance.random() < 0.25:
        value = here.pop(key)
        if chance.random() < 0.5:
            here[str(key).swapcase() + chance.choice(("", "\x1b", "é"))] = value
    else:
        here[key] = chance.choice(VALUES)
    return json.dumps(tree).encode()


def _in_zip(content: bytes, chance: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(sorted(parts))
    if chance.random() < 0.15:
        del parts[name]
    else:
        parts[name] = chance.choice((flip, fill, cut, reword))(parts[name], chance)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for each, part in parts.items():
            archive.writestr(each, part)
    return packed.getvalue()


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (flip, fill, cut, grow, reword, structured, structured)


def mutated(content: bytes, seed: int) -> bytes:
    """Return a file's content, damaged in the one way that a number stands for."""
    chance = random.Random(seed)
    try:
        return MUTATIONS[seed % len(MUTATIONS)](content, chance)
    except (EOFError, OSError, zlib.error, RecursionError):
        return cut(content, chance)
