"""Dependence of the whole embedding on a column, linear or not: HSIC, with a permutation test.

The Hilbert–Schmidt independence criterion (Gretton et al., 2005) in its unbiased form (Song et al., 2012), normalised
to 1 for identity (centred kernel alignment): about 0 means independence, whatever the number of features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.spatial.distance import cdist

from neurocontrast.evaluation.panels import Findings, Panel, PanelInputs
from neurocontrast.evaluation.panels.confounds import confound_columns, drawn_rows
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.rows import cell_texts, is_number
from neurocontrast.seeds import derive_generator

__all__ = ["PANEL", "category_factor", "centre_kernel", "dependence", "embedding_kernel", "number_factor"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

N_PERMUTATIONS = 499
MIN_SUBJECTS = 10
"""A column that fewer subjects have has no kernel dependence."""
RESIDUE = 1e-6
"""A kernel's factor holds all but this share of it."""
_BATCH_COLUMNS = 256


def measure_dependence(inputs: PanelInputs) -> Findings:
    """Return the normalised HSIC of the embedding with each covariate and with the target, one scan a subject.

    Permutations exchange values between subjects of the same site, the site's own between all.
    """
    study = inputs.study
    if not study.settings.confounds:
        return Findings()
    rows = drawn_rows(study)[0]
    first = rows[~pd.Series(study.subjects[rows]).duplicated().to_numpy()]
    kernels: dict[bytes, Floats] = {}
    found = [_measure(study, column, first, kernels) for column in (*confound_columns(study), study.target.name)]
    order = ["column", "hsic", "p", "n_permutations", "permuted_among", "n", "note"]
    return Findings(tables={"hsic": pd.DataFrame(found).reindex(columns=order)})


def _measure(study: Study, column: str, rows: Rows, kernels: dict[bytes, Floats]) -> dict[str, Any]:
    factor, kept = _factor(study, column, rows)
    row: dict[str, Any] = {"column": column, "n": len(kept)}
    if factor is None:
        return row | {"n_permutations": 0, "note": f"fewer than {MIN_SUBJECTS} subjects, or one value"}
    sites = None if column == "site" else study.table["site"].iloc[kept].astype(str).to_list()
    generator = derive_generator("hsic", study.settings.seed, column)
    if kept.tobytes() not in kernels:
        kernels[kept.tobytes()] = centre_kernel(embedding_kernel(study.features[kept]))
    value, p_value = dependence(
        kernels[kept.tobytes()], factor, sites, n_permutations=N_PERMUTATIONS, generator=generator
    )
    exchanged = "all subjects" if sites is None else "subjects of a site"
    row |= {"hsic": value, "p": p_value, "n_permutations": N_PERMUTATIONS}
    return row | {"permuted_among": exchanged, "note": None}


def _factor(study: Study, column: str, rows: Rows) -> tuple[Floats | None, Rows]:
    """Return the factor of a column's kernel, and the scans that have a value; no factor for too few or one value."""
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


def embedding_kernel(features: npt.NDArray[np.floating]) -> Floats:
    """Return the Gaussian kernel of standardised features (n, n); the bandwidth is the median distance."""
    values = features.astype(np.float64)
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return _gaussian(cdist(values, values, "sqeuclidean"))


def centre_kernel(kernel: Floats) -> Floats:
    """Return the U-centred kernel: every row and column sums to 0, the diagonal is 0 (Székely and Rizzo, 2014)."""
    n = len(kernel)
    bare = kernel - np.diag(np.diag(kernel))
    sums = bare.sum(axis=1)
    centred = bare - (sums[:, None] + sums[None]) / (n - 2) + sums.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(centred, 0.0)
    return centred


def category_factor(labels: npt.ArrayLike) -> Floats:
    """Return F (n, levels) with F Fᵀ = 1 where two labels are equal, else 0."""
    codes = np.unique(np.asarray(labels).astype(str), return_inverse=True)[1]
    return np.eye(int(codes.max()) + 1)[codes]


def number_factor(values: Floats) -> Floats:
    """Return F (n, r) with F Fᵀ the Gaussian kernel of numbers, up to `RESIDUE`; the bandwidth is the median distance.

    By pivoted Cholesky decomposition: a kernel of one variable needs few columns.
    """
    kernel = _gaussian((values[:, None] - values[None]) ** 2)
    left = np.ones(len(values))
    columns: list[Floats] = []
    while left.sum() > RESIDUE * len(values) and len(columns) < len(values):
        pivot = int(left.argmax())
        column = kernel[:, pivot] - sum(earlier * earlier[pivot] for earlier in columns)
        columns.append(column / np.sqrt(left[pivot]))
        left = np.maximum(left - columns[-1] ** 2, 0.0)
    return np.stack(columns, axis=1)


def dependence(
    centred: Floats,
    factor: Floats,
    strata: Sequence[object] | None,
    *,
    n_permutations: int,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """Return the normalised HSIC of an embedding and a column, and its permutation p-value.

    `centred` is of `centre_kernel`, `factor` of `category_factor` or `number_factor`. Values are exchanged within
    strata, so that what these explain stays in every permutation.
    """
    n, rank = factor.shape
    own = centre_kernel(factor @ factor.T)
    norm = np.sqrt((centred**2).sum() * (own**2).sum())
    if norm <= 1e-12:
        return 0.0, 1.0
    observed = float((factor * (centred @ factor)).sum())
    codes = np.zeros(n, dtype=int) if strata is None else pd.factorize(np.asarray(strata).astype(str), sort=True)[0]
    groups = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    as_much, batch = 0, max(1, _BATCH_COLUMNS // rank)
    for start in range(0, n_permutations, batch):
        orders = np.tile(np.arange(n), (min(batch, n_permutations - start), 1))
        for order in orders:
            for rows in groups:
                order[rows] = rows[generator.permutation(len(rows))]
        drawn = factor[orders].transpose(1, 0, 2).reshape(n, -1)
        sums = (drawn * (centred @ drawn)).sum(axis=0).reshape(len(orders), rank).sum(axis=1)
        as_much += int((sums >= observed - 1e-12 * abs(observed)).sum())
    return observed / float(norm), (1 + as_much) / (1 + n_permutations)


def _gaussian(squared: Floats) -> Floats:
    apart = squared[~np.eye(len(squared), dtype=bool)]
    positive = apart[apart > 0]
    middle = float(np.median(apart)) or (float(np.median(positive)) if len(positive) else 1.0)
    return np.exp(-squared / (2 * middle))


PANEL = Panel(order=21, run=measure_dependence)
