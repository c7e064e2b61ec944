"""Every warning is in ``warnings.yaml``, and is given the values that its texts name."""

import ast
from pathlib import Path
from string import Formatter

import yaml

import neurocontrast

PACKAGE = Path(neurocontrast.__file__).parent
TEXTS = yaml.safe_load((PACKAGE / "evaluation" / "warnings.yaml").read_text())


def calls():
    """Give the place and the call of each `Notice.of`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Notice.of", "record.Notice.of")):
                yield f"{path.name}:{node.lineno}", node


def named_in(texts):
    return {name for text in texts.values() for _, name, _, _ in Formatter().parse(text) if name}


def test_each_warning_gets_the_values_that_its_texts_name():
    wrong, used = [], set()
    for place, call in calls():
        keys = {each.value for each in ast.walk(call.args[0]) if isinstance(each, ast.Constant)} & TEXTS.keys()
        given = {each.arg for each in call.keywords}
        used |= keys
        wrong += [f"{place}: no such warning: {ast.unparse(call.args[0])}"] if not keys else []
        wrong += [
            f"{place}: {key}: {given} for {needed}"
            for key in keys
            if (needed := named_in(TEXTS[key])) != given and not (None in given and given - {None} <= needed)
        ]
    assert wrong == []
    assert TEXTS.keys() - used == set()
    assert len(used) > 30
