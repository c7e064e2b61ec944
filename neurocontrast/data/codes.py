"""Read codes that a column's name or a text explains, as in ``Gender_ 1=female_2=male``."""

import re

from neurocontrast.cells import number_of
from neurocontrast.data.sexes import WORDS, plain_word

# Repetitions give nothing back (`*+`) and begin where a word does: long names take linear time.
_IN_BRACKETS = re.compile(r"[(\[]([^()\[\]=]*+=[^()\[\]]*+)[)\]]")
_EQUATION = re.compile(r"(?<![^\W_])([^\W_]++)\s*+=\s*+([^\W_]++)")
_BEGINS_CODES = re.compile(r"(?<![\s_(\[:,;-])[\s_(\[:,;-]*+(?<![^\W_])[^\W_]++\s*+=")
_OF_SEX = re.compile(
    r"(?i)((?:biological[\s_]?)?(?:sex|gender|geschlecht|sexe|sexo)(?:_id)?)[\W_]+"
)
_TOKEN = re.compile(r"[0-9]+|[^\W\d_]+")


def codes_first(meanings: dict[str, str]) -> dict[str, str]:
    """Return `meanings` as code → meaning; a mapping the other way is turned around.

    The other way is a mapping of words to numbers, as ``{"female": "1"}``.
    """
    turned = {}
    for meaning, code in meanings.items():
        if number_of(code) is not None and number_of(meaning) is None:
            turned[code] = meaning
    if len(turned) == len(meanings):
        return turned
    return meanings


def codes_in_name(column: str) -> dict[str, str]:
    """Return code → meaning from a column's name, as in ``SEX_ID (1=m, 2=f)``; empty if none.

    A column of sexes may also be called ``Gender_ 1=female_2=male`` or ``sex_1_male_2_female``.

    Examples
    --------
    >>> codes_in_name("Gender_ 1=female_2=male")
    {'1': 'female', '2': 'male'}
    >>> codes_in_name("sex (M: 1, F: 2)")
    {'1': 'M', '2': 'F'}
    """
    bracketed = _IN_BRACKETS.search(column)
    if bracketed is not None:
        codes = {}
        for equation in re.split("[,;/|]", bracketed[1]):
            code, _, meaning = equation.partition("=")
            codes[code.strip()] = meaning.strip()
        return codes_first(codes)
    equations = _EQUATION.findall(column)
    if equations:
        return codes_first(dict(equations))
    named = _OF_SEX.match(column)
    if named is None:
        return {}
    return _alternating(_TOKEN.findall(column[named.end() :]))


def _alternating(tokens: list[str]) -> dict[str, str]:
    """Return number → word for sex if numbers and words take turns in `tokens`; empty if not.

    The tokens of ``1 male, 2 female`` and of ``male 1, female 2`` are read.
    """
    first = tokens[0::2]
    second = tokens[1::2]
    if first and len(first) == len(second):
        for codes, words in ((first, second), (second, first)):
            if WORDS.keys() >= set(map(plain_word, words)) and None not in map(number_of, codes):
                return dict(zip(codes, words, strict=True))
    return {}


def sexes_in_words(text: str) -> dict[str, str]:
    """Return code → word for sex from a text such as ``1 = female, 2 = male``; empty if none.

    Examples
    --------
    >>> sexes_in_words("Sex of the participant (0: female; 1: male)")
    {'0': 'female', '1': 'male'}
    >>> sexes_in_words("20 women and 30 men")
    {}
    """
    tokens = []
    for token in _TOKEN.findall(text):
        is_code = token.isdecimal() and len(token) == 1
        if is_code or plain_word(token) in WORDS:
            tokens.append(token)
    codes = _alternating(tokens)
    sexes = set(map(WORDS.get, map(plain_word, codes.values())))
    if sexes != {"F", "M"}:
        return {}
    return codes


def base_name(column: str) -> str:
    """Return a column's name in lower case, without accents and without explanations of codes."""
    name = column
    if codes_in_name(column):
        of_sex = _OF_SEX.match(column)
        begins = _BEGINS_CODES.search(column)
        if _IN_BRACKETS.search(column):
            name = _IN_BRACKETS.sub("", column)
        elif begins is not None:
            name = column[: begins.start()]
        elif of_sex is not None:
            name = of_sex[1]
    return plain_word(name).strip(" _")
