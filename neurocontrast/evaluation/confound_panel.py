"""The confound panel of a study: probes of covariates, the OpenBHB score, kernel dependence, and what to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.confounding import cramers_v
from neurocontrast.evaluation.confounds import (
    ConfoundProbes,
    classes_apart,
    confound_columns,
    confound_table,
    draw_among,
)
from neurocontrast.evaluation.dependence import (
    category_factor,
    centre_kernel,
    dependence,
    embedding_kernel,
    number_factor,
)
from neurocontrast.evaluation.designs import kept_columns
from neurocontrast.evaluation.fitting import features_design
from neurocontrast.evaluation.notices import SITE_ASSOCIATION
from neurocontrast.evaluation.openbhb import openbhb_score
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.table import cell_texts, is_number
from neurocontrast.progress import Progress
from neurocontrast.seeds import derive_generator

__all__ = ["ConfoundPanel", "dependence_table", "look_at_confounds", "run_confound_panel", "site_reading"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

N_PERMUTATIONS = 499
"""Behind each p-value of the kernel dependence."""
MIN_SUBJECTS = 10
"""A column that fewer subjects have has no kernel dependence."""
STRONG_SHARE = 0.5
"""The site is called predictable where balanced accuracy is this far from chance to perfect."""


@dataclass(frozen=True)
class ConfoundPanel:
    """``confounds`` of evaluation.json, tables by name, and warnings."""

    summary: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    notices: list[Notice]


def run_confound_panel(study: Study, progress: Progress) -> ConfoundPanel:
    """Say what the features that the probe gets know besides the target; only how they were adjusted, if so asked."""
    settings, target = study.settings, study.target
    summary: dict[str, Any] = {
        "harmonise": settings.harmonise,
        "harmonise_preserve": list(kept_columns(study.table, settings, by="harmonise", target=target.name)),
        "residualise": list(settings.residualise),
        "openbhb": None,
        "openbhb_reason": "not asked for (confounds=false)",
    }
    if not settings.confounds:
        return ConfoundPanel(summary, {}, [])
    probes = ConfoundProbes(
        study.table,
        lambda column: features_design(study, predicted=column),
        study.subjects,
        study.units.labels,
        settings,
    )
    among = study.splits[0].test if study.fixed else None  # pretraining has seen the others
    n_parts = len(confound_columns(study.table, target, settings)) * (1 + len(classes_apart(target)))
    with progress.task("Looking for confounds", n_parts + 2, "probe") as task:
        readings = confound_table(probes, target, among=among, advance=task.advance)
        score: dict[str, Any] | str = "the effect of unseen sites cannot be taken out (harmonise, residualise)"
        if settings.harmonise == "none" and "site" not in settings.residualise:
            score = openbhb_score(probes, draw_among(study.subjects, among, seed=settings.seed)[0])
        task.advance()
        kernels = dependence_table(study)
        task.advance()
    has_score = not isinstance(score, str)
    summary |= {"openbhb": score if has_score else None, "openbhb_reason": None if has_score else score}
    return ConfoundPanel(summary, {"confounds": readings, "hsic": kernels}, look_at_confounds(study, readings))


def dependence_table(study: Study) -> pd.DataFrame:
    """Return the normalised HSIC of the embedding with each covariate and with the target, one scan a subject.

    Permutations exchange values between subjects of the same site, the site's own between all.
    """
    among = study.splits[0].test if study.fixed else None
    rows, _ = draw_among(study.subjects, among, seed=study.settings.seed)
    first = rows[~pd.Series(study.subjects[rows]).duplicated().to_numpy()]
    found = []
    kernels: dict[bytes, Floats] = {}
    columns = (*confound_columns(study.table, study.target, study.settings), study.target.name)
    for column in columns:
        factor, kept = _factor(study, column, first)
        row: dict[str, Any] = {"column": column, "n": len(kept)}
        if factor is None:
            found.append(row | {"n_permutations": 0, "note": f"fewer than {MIN_SUBJECTS} subjects, or one value"})
            continue
        if kept.tobytes() not in kernels:
            kernels = {kept.tobytes(): centre_kernel(embedding_kernel(study.features[kept]))}
        sites = None if column == "site" else study.table["site"].iloc[kept].astype(str).to_list()
        result = dependence(
            kernels[kept.tobytes()],
            factor,
            sites,
            n_permutations=N_PERMUTATIONS,
            generator=derive_generator("hsic", study.settings.seed, column),
        )
        exchanged = "all subjects" if sites is None else "subjects of a site"
        found.append(row | {"hsic": result.value, "p": result.p_value, "n_permutations": N_PERMUTATIONS, "note": None}
                     | {"permuted_among": exchanged})  # fmt: skip
    order = ["column", "hsic", "p", "n_permutations", "permuted_among", "n", "note"]
    return pd.DataFrame(found).reindex(columns=order)


def look_at_confounds(study: Study, readings: pd.DataFrame) -> list[Notice]:
    """Return warnings about what the panel found."""
    site = site_reading(readings)
    if site is None or site["value"] < site["chance"] + STRONG_SHARE * (1 - site["chance"]):
        return []
    strength = _site_association(study)
    told = (
        f"The site can be told from the features that the probe gets: balanced accuracy {site['value']:.2f}, where "
        f"chance is {site['chance']:.2f} ({int(site['n_levels'])} sites)."
    )
    if strength > SITE_ASSOCIATION:
        told += (
            f" And the site says much of {study.target.name} (bias-corrected Cramér's V {strength:.2f}): a probe can "
            "score without the brain. Read the figures within sites, the increment over the baseline, and "
            "splits=leave-site-out."
        )
    else:
        told += " Whether that carries the result, splits=leave-site-out tells."
    explanation = (
        "A model can use the scanner where sites differ in the target. See Confounds, and the result site by site."
    )
    return [Notice("site_predictable", told, explanation)]


def site_reading(readings: pd.DataFrame | None) -> pd.Series | None:
    """Return the row of ``confounds.tsv`` that says how well the site is told from all scans; None without one."""
    if readings is None:
        return None
    whole = readings[(readings["column"] == "site") & (readings["within"] == "all") & readings["value"].notna()]
    return None if whole.empty else whole.iloc[0]


def _site_association(study: Study) -> float:
    if study.target.kind == "continuous":
        return 0.0
    known = study.table["site"].notna().to_numpy() & ~study.table["subject_id"].duplicated().to_numpy()
    return cramers_v(study.target.values[known], study.table["site"][known].to_numpy(dtype=object))


def _factor(study: Study, column: str, rows: Rows) -> tuple[Floats | None, Rows]:
    values, is_target = study.table[column], column == study.target.name
    if (study.target.kind == "continuous") if is_target else is_number(values):
        numbers = study.target.values.astype(float) if is_target else values.to_numpy(dtype=float)
        kept = rows[np.isfinite(numbers[rows])]
        usable = len(kept) >= MIN_SUBJECTS and np.ptp(numbers[kept]) > 0
        return (number_factor(numbers[kept]) if usable else None), kept
    texts = np.array(cell_texts(values), dtype=object)
    kept = rows[[text is not None for text in texts[rows]]]
    usable = len(kept) >= MIN_SUBJECTS and len(set(texts[kept])) > 1
    return (category_factor(texts[kept]) if usable else None), kept
