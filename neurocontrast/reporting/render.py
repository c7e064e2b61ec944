"""The page: sections put into the template, everything inside, everything escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from neurocontrast.reporting.page import Block, Columns, Pictures, Section
from neurocontrast.reporting.prose import bare_text, head_facts, target_text
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.style import Picture

__all__ = ["list_pictures", "render_page", "render_sections"]


def render_page(files: EvaluationFiles, sections: Sequence[Section]) -> str:
    """Return the report as one HTML page that loads nothing and runs nothing.

    Parameters
    ----------
    files : EvaluationFiles
        What was read.
    sections : sequence of Section
        What is shown, in this order.
    """
    return render_sections(
        sections,
        kicker="neurocontrast evaluation report",
        title=target_text(files),
        facts=head_facts(files),
        simulated=files.summary.simulated,
        simulation="What was planted in them is listed under Provenance." if files.summary.simulation else "",
        environment=files.summary.environment,
    )


def render_sections(
    sections: Sequence[Section], *, environment: Mapping[str, Any] | None, simulation: str = "", **head: Any
) -> str:
    """Return a page of sections; `head` is its kicker, title and facts, and what the banner of simulated data says."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("neurocontrast.reporting", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: bare_text(value) if type(value) is str else value,
    )
    # Our own style sheet, the only thing on the page that is not escaped.
    style = Markup(resources.files("neurocontrast.reporting").joinpath("templates/report.css").read_text("utf-8"))
    version, created = (str((environment or {}).get(name) or "") for name in ("neurocontrast", "created"))
    page = templates.get_template("report.html.j2")
    return page.render(style=style, sections=sections, version=version, created=created, simulation=simulation, **head)


def list_pictures(sections: Sequence[Section]) -> list[Picture]:
    """Return every figure of the report, in order."""
    return [picture for section in sections for block in section.blocks for picture in _pictures_of(block)]


def _pictures_of(block: Block) -> list[Picture]:
    if isinstance(block, Columns):
        return [picture for inner in (*block.left, *block.right) for picture in _pictures_of(inner)]
    return list(block.pictures) if isinstance(block, Pictures) else []
