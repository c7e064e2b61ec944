"""How alike the classes are in the embedding: mean cosines, and nearest neighbours of the own and of other classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neurocontrast.reporting.blocks import Block, Facts, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.similarity import draw_class_cosines, draw_nearest_cosines
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, number_text
from neurocontrast.reporting.options import ReportOptions

__all__ = ["build_similarity"]

_TITLE = "How alike the classes are"


def build_similarity(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the cosines of classes and of neighbours; None where the evaluation was not asked for them."""
    del options
    block = files.summary.get("similarity")
    if not block:
        return None
    blocks: list[Block] = [Facts(_facts(block, files.words.items))]
    drawn = []
    if files.similarity is not None:
        drawn.append(draw_class_cosines(files.similarity, items=files.words.items))
    if files.cosines is not None:
        drawn.append(draw_nearest_cosines(files.cosines, items=files.words.items))
    if drawn:
        blocks.append(Pictures(drawn))
    if len(drawn) < 2:
        text = "Not all is shown: similarity.tsv or cosines.tsv is absent or empty."
        blocks.append(Paragraph(text, role="note"))
    return Section("similarity", _TITLE, blocks, lead=_lead(block, files.words.items))


def _lead(block: Mapping[str, Any], items: str) -> str:
    folds = block.get("n_folds") or 1
    where = "training" if folds == 1 else "the training folds"
    text = f"Each tested {_one(items)} is compared, by the cosine of the features, with those of {where}. "
    nearest = block.get("own_class_nearest")
    if nearest is not None:
        text += f"For {nearest:.1%} of them the nearest is of their own class."
    return text.strip()


def _one(items: str) -> str:
    return items.removesuffix("s")


def _facts(block: Mapping[str, Any], items: str) -> list[tuple[str, str]]:
    folds = block.get("n_folds") or 1
    with_what = f"{_count(block.get('n_reference'))} {items}" + (f" in each of {folds} folds" if folds > 1 else "")
    return [
        (f"{items.capitalize()} compared", f"{_count(block.get('n'))}, each with {with_what}"),
        ("Nearest of the own class (target)", _middle(block.get("target"))),
        ("Nearest of another class (noise)", _middle(block.get("noise"))),
        ("Target − noise", _middle(block.get("difference"))),
        ("Mean cosine within classes", number_text(block.get("within"), digits=3)),
        ("Mean cosine between classes", number_text(block.get("between"), digits=3)),
    ]


def _count(n: Any) -> str:
    return DASH if n is None else f"{int(n):,}"


def _middle(values: Mapping[str, Any] | None) -> str:
    mean, median = ((values or {}).get(key) for key in ("mean", "median"))
    return f"{number_text(mean, digits=3)} (median {number_text(median, digits=3)})"
