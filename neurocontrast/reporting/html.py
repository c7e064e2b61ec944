"""The page: sections put into the template, everything inside, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import jinja2
from markupsafe import Markup

from neurocontrast.reporting.blocks import Block, Columns, Pictures, Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.naming import bare_text, head_facts, target_text
from neurocontrast.reporting.style import Picture

__all__ = ["PageHead", "list_pictures", "render_page", "render_sections"]


@dataclass(frozen=True)
class PageHead:
    """What stands above the sections.

    Attributes
    ----------
    kicker, title : str
        What kind of page it is, and of what.
    facts : sequence of (str, str)
        What a reader wants to know first.
    simulated : bool
        Whether the banner of simulated data is shown.
    simulation : str
        What the banner adds.
    version, created : str
        Of the software, and when the evaluation was made.
    """

    kicker: str
    title: str
    facts: Sequence[tuple[str, str]]
    simulated: bool
    simulation: str = ""
    version: str = ""
    created: str = ""


def render_page(files: EvaluationFiles, sections: Sequence[Section]) -> str:
    """Return the report as one HTML page that loads nothing and runs nothing.

    Parameters
    ----------
    files : EvaluationFiles
        What was read.
    sections : sequence of Section
        What is shown, in this order.
    """
    environment = files.summary.environment or {}
    head = PageHead(
        kicker="neurocontrast evaluation report",
        title=target_text(files),
        facts=head_facts(files),
        simulated=files.summary.simulated,
        simulation="What was planted in them is listed under Provenance." if files.summary.simulation else "",
        version=str(environment.get("neurocontrast") or ""),
        created=str(environment.get("created") or ""),
    )
    return render_sections(head, sections)


def render_sections(head: PageHead, sections: Sequence[Section]) -> str:
    """Return a page of any sections under a head."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("neurocontrast.reporting", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    # Our own style sheet, the only thing on the page that is not escaped.
    style = Markup(resources.files("neurocontrast.reporting").joinpath("templates/report.css").read_text("utf-8"))
    return environment.get_template("report.html.j2").render(style=style, sections=sections, **vars(head))


def list_pictures(sections: Sequence[Section]) -> list[Picture]:
    """Return every figure of the report, in order."""
    return [picture for section in sections for block in section.blocks for picture in _pictures_of(block)]


def _pictures_of(block: Block) -> list[Picture]:
    if isinstance(block, Pictures):
        return list(block.pictures)
    if isinstance(block, Columns):
        return [picture for inner in (*block.left, *block.right) for picture in _pictures_of(inner)]
    return []


def _finalize(value: object) -> object:
    return bare_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value
