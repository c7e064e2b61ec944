"""Whether a path holds a patient's name, however it is spelled there."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence

__all__ = ["holds_name"]

_ENCODINGS = ("utf-8", "iso8859-2", "iso8859-5", "iso8859-7", "gb18030")
"""dcm2niix takes every name for Latin-1; others are tried too, since a wrong one gives words that no path holds."""
_WORD = re.compile(r"[^\W\d_]+")
_PLACEHOLDER = re.compile(r"anon|pseudo|patient|sub", re.IGNORECASE)
_NO_NAMES = {*("mr", "ms", "mrs", "dr", "prof", "jr", "sr", "ii", "iii", "iv"),
             *("de", "da", "di", "do", "el", "al", "la", "st", "van", "von", "der", "den", "del", "dos")}  # fmt: skip
_LETTERS = str.maketrans({"ø": "o", "æ": "a", "œ": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
_DIGRAPHS = re.compile(r"(?<=[aou])e|(?<=a)a|(?<=s)s")


def holds_name(parts: Sequence[str], name: str) -> bool:
    """Tell whether the parts of a path hold a word of a name.

    Case, accents, transliteration (``Müller``, ``Mueller``, ``Muller``), the order of the words and what is between
    letters do not matter. Words of three letters are found anywhere in a part; shorter ones (``Li``, ``Wu``) as words
    of their own or together. Titles and particles are no names, nor are ``anonymous`` and the like.
    """
    words = {_folded(word) for reading in _readings(name) for word in _WORD.findall(reading) if _is_name(word)}
    long = {one + other for one, other in itertools.permutations(words, 2) if _is_long(one + other, 4)}
    long |= {word for word in words if _is_long(word, 3)}
    for part in parts:
        parted = _WORD.findall(_apart(part))
        tokens = [_folded(word) for word in parted]
        texts = "".join(tokens), _folded("".join(parted))  # M.u.e.l.l.e.r has its digraph only when joined
        if words.intersection(tokens) or any(word in text for word in long for text in texts):
            return True
    return False


def _readings(name: str) -> list[str]:
    found = [name]
    for encoding in _ENCODINGS:
        try:
            found.append(name.encode("latin-1").decode(encoding))
        except UnicodeError:
            continue
    return found


def _is_name(word: str) -> bool:
    initial = len(word) == 1 and word.isascii()
    return not initial and word.casefold() not in _NO_NAMES and not _PLACEHOLDER.match(word)


def _is_long(word: str, least: int) -> bool:
    return len(word) >= (least if word.isascii() else 2)


def _apart(text: str) -> str:
    """Return a text with a space where a capital follows a small letter."""
    text = unicodedata.normalize("NFC", text)
    return "".join(
        f" {letter}" if before.islower() and letter.isupper() else letter
        for before, letter in zip(f" {text}", text, strict=False)
    )


def _folded(word: str) -> str:
    """Return letters without case and accents; ``ae``, ``oe``, ``ue``, ``aa`` and ``ss`` become one letter."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter)).translate(_LETTERS)
    return _DIGRAPHS.sub("", plain)
