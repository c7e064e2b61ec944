"""How alike the classes are in the embedding: mean cosines, and nearest neighbours of the own and of other classes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.evaluation.schema import Similarity
from neurocontrast.reporting import style
from neurocontrast.reporting.page import Facts, Section, SectionBuilder, note, pictures
from neurocontrast.reporting.plots import draw_matrix
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.wording import DASH, number_text

__all__ = ["SIMILARITY", "draw_class_cosines"]


def _build(files: EvaluationFiles) -> Section | None:
    """Build the cosines of classes and of neighbours; None where the evaluation was not asked for them."""
    block, items = files.summary.similarity, files.words.items
    if not block:
        return None
    shown = [] if files.similarity is None else pictures(draw_class_cosines(files.similarity, items=items))
    where = "training" if (block.n_folds or 1) == 1 else "the training folds"
    lead = f"Each tested {files.words.item} is compared, by the cosine of the features, with those of {where}."
    if block.own_class_nearest is not None:
        lead += f" For {block.own_class_nearest:.1%} of them the nearest is of their own class."
    blocks = [Facts(_facts(block, items)), *(shown or [note("Not shown: similarity.tsv is absent or empty.")])]
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


@style.styled
def draw_class_cosines(table: pd.DataFrame, *, items: str = "scans") -> style.Picture:
    """Draw the mean cosine of each class (rows, tested) with each (columns, trained): ``similarity.tsv``."""
    names = [str(name) for name in table["class"].drop_duplicates()]
    square = table.astype({"class": str, "reference": str}).pivot(index="class", columns="reference", values="cosine")
    square = square.reindex(index=names, columns=names)
    numbers, same = square.to_numpy(dtype=float), np.eye(len(square), dtype=bool)
    texts = [[number_text(value, digits=2) for value in row] for row in numbers]
    axis_names = ("Class in training", "Class in the test")
    figure, drawn = draw_matrix(numbers, names, texts, axis_names, cmap="cividis")
    figure.colorbar(drawn, shrink=0.7, pad=0.02).set_label("Mean cosine")
    alt = "There is one class only."
    between = np.where(same, np.nan, numbers)
    if np.isfinite(between).any():
        row, column = (int(place) for place in np.unravel_index(np.nanargmax(between), between.shape))
        alt = (
            f"Within classes {np.nanmean(numbers[same]):.2f} on average, between them {np.nanmean(between):.2f}; most "
            f"alike are {names[row]} and {names[column]}, {between[row, column]:.2f}."
        )
    return style.Picture(
        "similarity",
        figure,
        alt=f"Mean cosine of each class with each. {alt}",
        caption=f"Mean cosine of the features of each class's test {items} with each class's training {items}.",
        numbers=square.rename_axis(columns=None).reset_index(),
    )


SIMILARITY = SectionBuilder("similarity", "How alike the classes are", order=160, build=_build)
