"""Texts take names that exist, or fail."""

import jinja2
import pytest

from neurocontrast.reporting import blocks, texts
from neurocontrast.reporting.wording import SCANS


@pytest.mark.parametrize(
    "text", ["## A.\n{{ nobody }}", "## A.\n{% if words.nobody %}b{% endif %}"]
)
def test_a_name_that_is_not_there_is_an_error(text):
    with pytest.raises(jinja2.UndefinedError, match="nobody"):
        texts.fill_paragraphs(text, SCANS)


def test_no_template_of_a_page_takes_an_undefined_name():
    page = blocks.html_templates("neurocontrast.reporting")
    for environment in (page, texts._JINJA):
        assert environment.undefined is jinja2.StrictUndefined


def test_paragraphs_that_say_nothing_are_left_out():
    text = "## First.\n\n## Second.\n two  lines ,\n here ( so ) .\n"
    assert texts.fill_paragraphs(text, SCANS) == [("Second.", "two lines, here (so).")]
