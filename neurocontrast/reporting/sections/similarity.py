"""How alike the classes are in the embedding: mean cosines, and nearest neighbours of the own and of other classes."""

from __future__ import annotations

from neurocontrast.evaluation.schema import Similarity
from neurocontrast.reporting.blocks import Block, Facts, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.matrices import draw_class_cosines, draw_nearest_cosines
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, number_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import SectionBuilder

__all__ = ["SIMILARITY"]


def _build(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the cosines of classes and of neighbours; None where the evaluation was not asked for them."""
    del options
    block, items = files.summary.similarity, files.words.items
    if not block:
        return None
    drawn = [] if files.similarity is None else [draw_class_cosines(files.similarity, items=items)]
    drawn += [] if files.cosines is None else [draw_nearest_cosines(files.cosines, items=items)]
    blocks: list[Block] = [Facts(_facts(block, items)), *([Pictures(drawn)] if drawn else [])]
    if len(drawn) < 2:
        text = "Not all is shown: similarity.tsv or cosines.tsv is absent or empty."
        blocks.append(Paragraph(text, role="note"))
    where = "training" if (block.n_folds or 1) == 1 else "the training folds"
    lead = f"Each tested {files.words.item} is compared, by the cosine of the features, with those of {where}."
    if block.own_class_nearest is not None:
        lead += f" For {block.own_class_nearest:.1%} of them the nearest is of their own class."
    return Section("similarity", "How alike the classes are", blocks, lead=lead)


def _facts(block: Similarity, items: str) -> list[tuple[str, str]]:
    folds = block.n_folds or 1
    n, n_reference = (DASH if count is None else f"{count:,}" for count in (block.n, block.n_reference))
    beside = f"{n_reference} {items}" + (f" in each of {folds} folds" if folds > 1 else "")
    names = {"Nearest of the own class (target)": block.target, "Nearest of another class (noise)": block.noise,
             "Target − noise": block.difference}  # fmt: skip
    facts = [(f"{items.capitalize()} compared", f"{n}, each with {beside}")]
    facts += [(name, f"{number_text(each.mean)} (median {number_text(each.median)})") for name, each in names.items()]
    means = {"within": block.within, "between": block.between}
    return facts + [(f"Mean cosine {where} classes", number_text(mean)) for where, mean in means.items()]


SIMILARITY = SectionBuilder("similarity", "How alike the classes are", order=160, build=_build)
