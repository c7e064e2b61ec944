"""Read sexes as hospitals write them: words of several languages, letters, and codes."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from neurocontrast.cells import Refusal, is_missing, number_of
from neurocontrast.exceptions import one_of

_MALE = """
m male males man men boy boys masc masculine mannlich maennlich mann manner herr junge
masculin homme hommes garcon masculino masculina hombre varon nino homem menino maschio maschile
uomo mannelijk jongen mand mies mezczyzna muz muski erkek муж мужской мужчина м 男 男性
"""
_FEMALE = """
f female females woman women girl girls fem feminine weiblich frau frauen madchen maedchen
feminin femme femmes fille femenino femenina mujer nina feminino feminina mulher menina femmina
femminile donna vrouw vrouwelijk meisje kvinna kvinne kvinde nainen kobieta zena zenski kadin
kadın жен женский женщина ж 女 女性
"""
_OTHERS = """
other, o, x, d, diverse, inter, intersex, nb, nonbinary, non-binary, genderqueer, third gender,
transgender, trans, autre, otro, unknown, u, unsure, undisclosed, unspecified, not reported,
not recorded, declined, refused, prefer not to say, prefer not to answer, missing, none
"""
_DIVERSE = "divers"
_NEGATIONS = frozenset("not non no nicht kein keine ohne without sans sin senza geen".split())
OTHERS = frozenset((*_OTHERS.replace("\n", " ").strip().split(", "), _DIVERSE))
"""Answers that name a sex other than F and M, or say that the sex is not known."""
CODES = {1.0: "M", 2.0: "F"}
"""Sex by code of ISO 5218; some tables use the codes the other way, so that a warning is given."""
_DOUBTFUL = {
    "m": frozenset("h v k n hombre homem varon mujer mulher junge madchen maedchen".split()),
    "f": frozenset("n v k".split()),
    "w": frozenset("h v k".split()),
}
"""Letter → cells in whose presence the letter's meaning is unclear: with h (hombre), m can be
mujer.
"""
LETTERS = frozenset("mfwhvkn")
"""Letters with which words for a sex begin in several languages."""
_PARTNERS = {"m": "f", "f": "m", "w": "m"}
"""Letter → second letter that makes the first one clear, whatever other cells the column has."""
RULE = "sex is M, F, male, female, 1 (male), 2 (female) or n/a"
REMEDY = "Write F and M, or explain the codes in the column's name, as in 'sex (h=male, m=female)'."
_ZERO = "Tables disagree on what 0 and 1 mean for sex, so 0/1 is not accepted; write M and F."


@dataclass(frozen=True)
class SexColumn:
    """Result of `read_sexes`: for each cell of a column "F", "M", "" if missing, or a `Refusal`.

    `others` is the set of refused cells, as written, that are a word of `OTHERS`: a sex other than
    F and M (``diverse``), or an answer that the sex is not known or not told (``unknown``). `notes`
    are for the user and say how codes were read.
    """

    values: tuple[str | Refusal, ...]
    others: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def plain_word(cell: str) -> str:
    """Return a word in lower case, without accents, points and doubled spaces."""
    if number_of(cell) is not None:
        return cell
    letters = unicodedata.normalize("NFKD", cell.casefold())
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(bare.replace(".", " ").split())


WORDS = {
    **dict.fromkeys(map(plain_word, _MALE.split()), "M"),
    **dict.fromkeys(map(plain_word, _FEMALE.split()), "F"),
}
"""Word for a sex → "M" or "F", for unambiguous words and the letters m and f; no accents or
capitals.
"""


def as_sex(cell: str) -> str | Refusal:
    """Return "F" or "M" for a cell that is clear by itself, or a `Refusal` for any other cell."""
    number = number_of(cell)
    if number == 0:
        return Refusal(RULE, _ZERO)
    sex = CODES.get(number or 0.0) or WORDS.get(plain_word(cell))
    return sex or Refusal(RULE)


def read_sexes(cells: Sequence[str]) -> SexColumn:
    """Read a column of sexes; the meaning of a letter depends on all values of the column.

    Words of one meaning are read whatever the other values. A letter is read if the other values
    leave no doubt: ``w`` is F, ``h`` in a column with ``f`` is M, and ``m`` in a column with ``h``
    is refused, since ``m`` can be mujer. The codes 1 and 2 are read unless the column has further
    numbers.

    A refused cell raises no error: in `values` of the returned `SexColumn` it is a `Refusal`, which
    has the reason and a hint for the user.

    Examples
    --------
    >>> read_sexes(["m", "w", "n/a"]).values
    ('M', 'F', '')
    >>> read_sexes(["H", "F"]).values
    ('M', 'F')
    >>> read_sexes(["H", "M"]).values[1].hint.partition(".")[0]
    "The column has 'H', 'M', and letters can begin several words"
    """
    spellings = {}
    for cell in dict.fromkeys(cells):
        if not is_missing(cell):
            spellings[cell] = plain_word(cell)
    words = frozenset(spellings.values())
    readings: dict[str, str | Refusal] = {}
    others = set()
    for cell, word in spellings.items():
        readings[cell] = _reading(word, words)
        if isinstance(readings[cell], Refusal) and word in OTHERS:
            others.add(cell)
        elif isinstance(readings[cell], Refusal) and number_of(word) is None and len(word) == 1:
            readings[cell] = Refusal(RULE, _hint(spellings))
    values = tuple(readings.get(cell, "") for cell in cells)
    return SexColumn(values, frozenset(others), _notes(readings))


def _reading(word: str, words: frozenset[str]) -> str | Refusal:
    """Return the sex that `word` means in a column with `words`, "F" or "M", or a `Refusal`.

    The other words of the column can make a letter clear or unclear.
    """
    if number_of(word) is not None:
        return _of_code(word, words)
    if _PARTNERS.get(word) not in words and words & _DOUBTFUL.get(word, frozenset()):
        return Refusal(RULE)
    if word == "w":
        return "F"
    if word == "h" and "m" not in words and "F" in map(WORDS.get, words):
        return "M"
    return as_sex(word)


def _of_code(word: str, words: frozenset[str]) -> str | Refusal:
    """Return "M" for the code 1, "F" for 2, or a `Refusal` if the column has any other number.

    `word` is the code as text, and `words` are all words of the column. A number for a missing sex,
    such as 9, counts as another number, too.
    """
    numbers = set(map(number_of, words)) - {None}
    if numbers <= set(CODES):
        return as_sex(word)
    if 0.0 in numbers:
        return Refusal(RULE, _ZERO)
    return Refusal(RULE, "Numbers besides 1 and 2 are there: explain all of them.")


def _hint(spellings: Iterable[str]) -> str:
    """Return advice for a column whose letters can begin words for either sex.

    `spellings` are the distinct cells of the column.
    """
    shown = one_of(sorted(spellings))
    return f"The column has {shown}, and letters can begin several words. {REMEDY}"


def _notes(readings: Mapping[str, str | Refusal]) -> tuple[str, ...]:
    """Return a tuple of one note if codes 1 and 2 were read as male and female; empty if not.

    The note is for the user. `readings` is cell of the column → sex or refusal.
    """
    has_codes = False
    has_words = False
    for cell, reading in readings.items():
        if isinstance(reading, Refusal):
            continue
        if number_of(cell) is None:
            has_words = True
        else:
            has_codes = True
    if not has_codes:
        return ()
    how = "1 is read as male and 2 as female"
    if has_words:
        return (f"mixes numbers and letters; {how}",)
    otherwise = "if it means them otherwise, name it 'sex (1=female, 2=male)'"
    return (f"holds codes that nothing explains: {how}; {otherwise}",)


def sex_in(phrase: str, phrases: Iterable[str] = ()) -> str | None:
    """Return "F" or "M" if a phrase such as "male participant" names only this sex, or None.

    A letter is read as in a column that has the words of all `phrases`, and passed over if it is
    unclear there: beside "sexo h", "sexo m" is None, since m can be mujer, and "m (mujer)" is F.
    """
    tokens = _words_in(phrase)
    if (_NEGATIONS | OTHERS).intersection(tokens):
        return None
    words = frozenset(tokens).union(*map(_words_in, phrases))
    sexes = set()
    for token in tokens:
        reading = _reading(token, words)
        if not isinstance(reading, Refusal):
            sexes.add(reading)
    return sexes.pop() if len(sexes) == 1 else None


def _words_in(phrase: str) -> list[str]:
    """Return the words of a phrase, without digits, signs, accents and capitals."""
    return re.findall(r"[^\W\d_]+", plain_word(phrase))
