"""Figures and text of the card that `measures.py` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import roc_auc_score

import neurocontrast
from benchmarks.weights.publishing import people_text, with_interval
from neurocontrast.encoders.members import digest_of_members, read_record
from neurocontrast.files import write_text

__all__ = ["write_card"]

TEMPLATE = Path(__file__).with_name("measures_card.md")
N_BOOTSTRAPS = 2000
SEED = 0
MIN_OF_SEX = 5
"""Women and men that a site needs for an AUC."""
SYSTEMS = {"weights": "age_predicted", "ridge": "age_ridge", "median": "age_median"}
CLASSIFIERS = {"weights": "sex_predicted", "logistic": "sex_logistic"}
NAMES = {
    "fcon1000": "1000 Functional Connectomes (INDI), CC BY-NC",
    "abide1": "ABIDE I, people without a diagnosis, CC BY-NC-SA",
    "openneuro6": "OpenNeuro ds003469 and ds003826, CC0 or PDDL",
    "aomic-piop2": "AOMIC PIOP2 (OpenNeuro ds002790), CC0",
}

Rows = npt.NDArray[np.intp]


def error_of(people: pd.DataFrame, column: str) -> float:
    """Return the mean absolute error of age in years."""
    return float((people[column] - people["age"]).abs().mean())


def bias_of(people: pd.DataFrame, column: str) -> float:
    """Return the mean error of age in years: below 0 people are taken for younger."""
    return float((people[column] - people["age"]).mean())


def auc_of(people: pd.DataFrame, column: str) -> float:
    """Return the AUC of sex; NaN with too few women or men."""
    is_male = people["sex"] == "M"
    if min(is_male.sum(), (~is_male).sum()) < MIN_OF_SEX:
        return float("nan")
    return float(roc_auc_score(is_male, people[column]))


def draws_of(people: pd.DataFrame, *, by_site: bool) -> list[Rows]:
    """Return all rows, and then the rows of each resample of sites or of people."""
    generator = np.random.default_rng(SEED)
    rows = np.arange(len(people))
    units: Sequence[Rows] = [rows[[row]] for row in rows]
    if by_site:
        units = list(people.reset_index().groupby("site").indices.values())
    draws = [rows]
    for _ in range(N_BOOTSTRAPS):
        drawn = generator.integers(len(units), size=len(units))
        draws.append(np.concatenate([units[unit] for unit in drawn]))
    return draws


def summary(people: pd.DataFrame, *, by_site: bool) -> str:
    """Return the table of errors, biases and AUCs of weights and rivals, with intervals."""
    draws = draws_of(people, by_site=by_site)

    def figure(measure: Callable[[pd.DataFrame, str], float], column: str, digits: int) -> str:
        table = people[["age", "sex", column]]
        return with_interval([measure(table.iloc[rows], column) for rows in draws], digits)

    lines = ["| | these weights | ridge or logistic regression | median age |", "|---|---|---|---|"]
    for title, measure in (("mean absolute error, years", error_of), ("bias, years", bias_of)):
        cells = [figure(measure, column, 1) for column in SYSTEMS.values()]
        lines.append(f"| age, {title} | {' | '.join(cells)} |")
    cells = [figure(auc_of, column, 2) for column in CLASSIFIERS.values()]
    lines.append(f"| sex, AUC | {' | '.join(cells)} | 0.50 |")
    return "\n".join(lines)


def rows_of_groups(groups: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """Return a row a group of people: number, ages, errors, bias and AUC."""
    lines = []
    for title, people in groups:
        facts = people_text(people)
        errors = [f"{error_of(people, column):.1f}" for column in SYSTEMS.values()]
        aucs = [f"{auc_of(people, column):.2f}" for column in CLASSIFIERS.values()]
        cells = [
            title,
            f"{facts['n']} ({facts['women']})",
            facts["ages"],
            *errors,
            f"{bias_of(people, 'age_predicted'):+.1f}",
            *aucs,
        ]
        lines.append(f"| {' | '.join(cells)} |".replace("nan", "–"))
    return "\n".join(lines)


def by_decade(people: pd.DataFrame) -> str:
    """Return a row a decade of age."""
    decades = (people["age"] // 10 * 10).astype(int)
    groups = []
    for decade, of_decade in people.groupby(decades):
        groups.append((f"{decade}–{int(decade) + 9}", of_decade))
    return rows_of_groups(groups)


def by_site(people: pd.DataFrame, chose: Sequence[str]) -> str:
    """Return a row a site; sites at which the recipe was chosen have an asterisk."""
    groups = []
    for site, of_site in people.groupby("site"):
        mark = "\\*" if site in chose else ""
        groups.append((f"{site}{mark}", of_site))
    return rows_of_groups(groups)


def by_source(people: pd.DataFrame) -> str:
    """Return a row a source that was learned from."""
    lines = []
    for source, of_source in people.groupby("source"):
        facts = people_text(of_source)
        cells = [
            str(source),
            NAMES[str(source)],
            f"{facts['n']} ({facts['women']})",
            str(of_source["site"].nunique()),
            f"{facts['ages']}, mean {facts['mean']}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_card(
    folder: Path, learned: pd.DataFrame, judged: pd.DataFrame, *, new: str, chose: Sequence[str]
) -> None:
    """Fill in the card: `learned` are people learned from, `judged` predictions at sites left out."""
    of_new = judged[judged["site"] == new]
    left_out = judged[judged["site"] != new]
    untouched = left_out[~left_out["site"].isin(chose)]
    facts = people_text(learned)
    text = TEMPLATE.read_text(encoding="utf-8").format(
        **facts,
        n_sites=learned["site"].nunique(),
        old=int((learned["age"] >= 60).sum()),
        sources=by_source(learned),
        summary=summary(left_out, by_site=True),
        n_left_out=f"{len(left_out):,}",
        n_untouched=f"{len(untouched):,}",
        untouched_sites=untouched["site"].nunique(),
        untouched_error=f"{error_of(untouched, 'age_predicted'):.1f}",
        untouched_ridge=f"{error_of(untouched, 'age_ridge'):.1f}",
        untouched_auc=f"{auc_of(untouched, 'sex_predicted'):.2f}",
        outside=f"{100 * left_out['outside'].mean():.0f}",
        outside_new=f"{100 * of_new['outside'].mean():.0f}",
        new_facts="{n} people ({women} women) of {ages} years".format(**people_text(of_new)),
        summary_new=summary(of_new, by_site=False),
        decades=by_decade(left_out),
        decades_new=by_decade(of_new),
        sites=by_site(left_out, chose),
        version=neurocontrast.__version__,
        weights=digest_of_members(read_record(folder)),
    )
    write_text(folder / "README.md", text)
