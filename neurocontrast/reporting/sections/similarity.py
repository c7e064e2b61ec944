"""How alike the classes are in the embedding: mean cosines, and nearest neighbours of the own and of other classes."""

from __future__ import annotations

import pandas as pd

from neurocontrast.evaluation.schema import Similarity
from neurocontrast.reporting.page import Facts, Section, SectionBuilder, Table, note
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.tables import Column, make_table
from neurocontrast.reporting.wording import DASH, number_text

__all__ = ["SIMILARITY"]

_OPEN_CLASSES = 12


def _build(files: EvaluationFiles) -> Section | None:
    """Build the cosines of classes and of neighbours; None where the evaluation was not asked for them."""
    block, items = files.summary.similarity, files.words.items
    if not block:
        return None
    where = "training" if (block.n_folds or 1) == 1 else "the training folds"
    lead = f"Each tested {files.words.item} is compared, by the cosine of the features, with those of {where}."
    if block.own_class_nearest is not None:
        lead += f" For {block.own_class_nearest:.1%} of them the nearest is of their own class."
    absent = note("Not shown: similarity.tsv is absent or empty.")
    blocks = [Facts(_facts(block, items)), absent if files.similarity is None else _table(files, files.similarity)]
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


def _table(files: EvaluationFiles, table: pd.DataFrame) -> Table:
    """Return the mean cosine of each class (rows, tested) with each (columns, trained): ``similarity.tsv``."""
    names = [str(name) for name in table["class"].drop_duplicates()]
    square = table.astype({"class": str, "reference": str}).pivot(index="class", columns="reference", values="cosine")
    rows = [{**row, "": name} for name, row in zip(names, square.reindex(names).to_dict("records"), strict=True)]
    items = files.words.items
    caption = f"Mean cosine of each class's test {items} (rows) with each class's training {items} (columns)."
    columns = (Column("Class", "", "heading"), *(Column(name, name, digits=2) for name in names))
    return make_table(caption, rows, columns, folded=len(names) > _OPEN_CLASSES)


SIMILARITY = SectionBuilder("similarity", "How alike the classes are", order=160, build=_build)
