"""What an evaluation is asked to do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from neurocontrast.settings import Settings

__all__ = ["EvaluationSettings"]


class EvaluationSettings(Settings):
    """Target, folds, probes and uncertainty of an evaluation.

    Attributes
    ----------
    target : str
        Column to predict.
    kind : {"auto", "categorical", "continuous"}
        ``auto``: text is categorical, a number with two distinct values too, other numbers are
        continuous.
    positive : str or None
        Positive class of a two-class target. None: the class that is not called control, healthy,
        HC, CN …; else the last by alphabet.
    where : dict
        Rows to keep before anything else: column → allowed values.
    splits : {"stratified", "leave-site-out"}
        How folds are made.
    split_file : str or None
        Folds to use instead: the ``splits.tsv`` of another evaluation of the same scans.
    n_folds, n_repeats : int
        Folds of ``stratified``, and how often they are drawn anew.
    n_inner_folds : int
        Folds inside each training fold by which the penalty is chosen.
    seed : int
        Of folds and bootstrap.
    C, alpha : tuple of float
        Grids of the inverse penalty of logistic regression and of the penalty of ridge.
    threshold : {"half", "prevalence"}
        When a scan is called positive: above 0.5, or above the share of positives in the training
        fold. Of several classes: the likeliest, or the one likeliest against its share.
    covariates : tuple of str
        Columns of the baseline; those that are absent, the target, and the site where sites are
        left out, are dropped.
    n_permutations : int
        Repetitions of the whole procedure on labels permuted within site; 0 for no permutation test.
    n_bootstraps : int
        Resamples of subjects behind every interval; 0 for none.
    confidence_level : float
        Of every interval.
    min_site_n : int
        Sites with fewer subjects are warned about, and have no interval.
    umap : bool
        Whether the map has UMAP coordinates too, if umap-learn is installed.
    allow_overlap : bool
        Whether subjects of the pretraining cohort may be evaluated (said in the warnings).
    """

    target: str = "diagnosis"
    kind: Literal["auto", "categorical", "continuous"] = "auto"
    positive: str | None = None
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    splits: Literal["stratified", "leave-site-out"] = "stratified"
    split_file: str | None = None
    n_folds: int = Field(5, ge=2)
    n_repeats: int = Field(1, ge=1)
    n_inner_folds: int = Field(5, ge=2)
    seed: int = Field(0, ge=0)
    C: tuple[float, ...] = tuple(10.0**power for power in range(-6, 4))
    alpha: tuple[float, ...] = tuple(10.0 ** (power / 2) for power in range(-2, 13))
    threshold: Literal["half", "prevalence"] = "half"
    covariates: tuple[str, ...] = ("age", "sex", "site")
    n_permutations: int = Field(0, ge=0)
    n_bootstraps: int = Field(2000, ge=0)
    confidence_level: float = Field(0.95, gt=0.0, lt=1.0)
    min_site_n: int = Field(10, ge=1)
    umap: bool = True
    allow_overlap: bool = False

    @field_validator("C", "alpha")
    @classmethod
    def _check_grid(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        if not grid or any(not 0.0 < value < float("inf") for value in grid):
            raise ValueError("must be a list of positive, finite numbers")
        return tuple(sorted(set(grid)))

    @field_validator("where", mode="before")
    @classmethod
    def _as_lists(cls, where: object) -> object:
        if not isinstance(where, dict):
            return where
        return {
            column: tuple(str(value) for value in (values if isinstance(values, list | tuple) else [values]))
            for column, values in where.items()
        }
