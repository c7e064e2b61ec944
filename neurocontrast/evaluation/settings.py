"""What an evaluation is asked to do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from neurocontrast.evaluation.thresholds import parse_threshold
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
    test : str or None
        An embeddings table of other people, of the same encoder: the probe fitted on all scans is
        applied to it.
    test_where : dict or None
        Rows of `test` to keep; None: as `where` says.
    n_inner_folds : int
        Folds inside each training fold by which the penalty is chosen.
    inner_splits : {"stratified", "leave-site-out"}
        How these are made: dealt by subject, or each leaving training sites out, so that the penalty is chosen for
        sites that a probe has not seen (in up to ten groups of sites; dealt where a training fold has too few).
    seed : int
        Of folds and bootstrap.
    probe : {"auto", "logistic", "ridge", "svm", "knn"}
        What is fitted on the features. ``auto``: ``logistic`` for classes, ``ridge`` for numbers.
    C, alpha : tuple of float
        Grids of the inverse penalty of logistic regression and the SVM, and of the penalty of ridge.
    k : tuple of int
        Grid of the number of neighbours of ``knn``.
    clip : bool
        Whether predicted numbers are kept within the range of the training scans' own.
    threshold : {"half", "prevalence", "youden", "sensitivity=…", "specificity=…"} or float
        When a scan is called positive: at 0.5, at the share of positives in the training fold, or
        at a probability of one's own. ``youden`` (largest sensitivity + specificity), and a
        sensitivity or specificity to reach, are chosen on inner folds of the training fold. Of
        several classes: ``half`` takes the likeliest, ``prevalence`` the one likeliest against its share.
    train_sizes : tuple of int
        Numbers of training subjects of a learning curve; none by default.
    n_draws : int
        How often the subjects of each size are drawn in each fold.
    covariates : tuple of str
        Columns of the baseline; those that are absent, the target, and the site where sites are
        left out, are dropped. Total intracranial volume (``tiv``) is used where it is given.
    confounds : bool
        Whether to ask how well the covariates can be read from the embedding.
    new_site : bool
        Whether every site is left out once besides, where there are two or more: its people's error while the
        site is known, beside their error while it is not.
    outlyingness : bool
        Whether to say how far each scan lies from those that a probe was fitted on.
    outside_percentile : float
        Beyond which percentile of the training scans' own distances a scan is called outside.
    recentre : {"none", "site"}
        Whether every site's features are moved to a common centre: training sites by their training scans, a site
        that these do not have by its own unlabelled scans at hand. That is transductive: a prediction then depends
        on which other scans of its site there are. True differences between sites in what is predicted go too.
    recentre_preserve : tuple of str
        Columns in which recentred sites may go on to differ; never the target.
    harmonise : {"none", "combat"}
        Whether site differences are taken out of the features, by what the training folds say of them.
    harmonise_preserve : tuple of str
        Columns whose effect on the features ComBat keeps; never the target.
    residualise : tuple of str
        Columns whose linear effect is taken out of the features, as the training folds have it.
    n_permutations : int
        Repetitions of the whole procedure on labels permuted within site; 0 for no permutation test.
    n_jobs : int
        Processes that fit probes; results are the same for any number.
    n_bootstraps : int
        Resamples behind every interval; 0 for none.
    bootstrap_unit : {"auto", "subject", "site"}
        What is resampled. ``auto``: whole sites where there are 20 or more and every scan has one,
        else subjects.
    confidence_level : float
        Of every interval.
    min_site_n : int
        Sites with fewer subjects are warned about, and have no interval, as have smaller groups.
    age_bands : tuple of float
        Edges, in years, of the groups of ``groups.tsv``; a band holds its lower edge. None: no bands.
    similarity : bool
        Whether to compare the classes by the cosine of their features: every tested scan or image with the
        training ones of its fold.
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
    test: str | None = None
    test_where: dict[str, tuple[str, ...]] | None = None
    n_inner_folds: int = Field(5, ge=2)
    inner_splits: Literal["stratified", "leave-site-out"] = "stratified"
    seed: int = Field(0, ge=0)
    probe: Literal["auto", "logistic", "ridge", "svm", "knn"] = "auto"
    C: tuple[float, ...] = tuple(10.0**power for power in range(-6, 4))
    alpha: tuple[float, ...] = tuple(10.0 ** (power / 2) for power in range(-2, 13))
    k: tuple[int, ...] = (3, 5, 10, 20, 50)
    clip: bool = False
    threshold: float | str = "half"
    train_sizes: tuple[int, ...] = ()
    n_draws: int = Field(5, ge=1)
    covariates: tuple[str, ...] = ("age", "sex", "site", "tiv")
    confounds: bool = True
    new_site: bool = True
    outlyingness: bool = True
    outside_percentile: float = Field(97.5, ge=50.0, lt=100.0)
    recentre: Literal["none", "site"] = "none"
    recentre_preserve: tuple[str, ...] = ("age", "sex")
    harmonise: Literal["none", "combat"] = "none"
    harmonise_preserve: tuple[str, ...] = ("age", "sex")
    residualise: tuple[str, ...] = ()
    n_permutations: int = Field(0, ge=0)
    n_jobs: int = Field(1, ge=1)
    n_bootstraps: int = Field(2000, ge=0)
    bootstrap_unit: Literal["auto", "subject", "site"] = "auto"
    confidence_level: float = Field(0.95, gt=0.0, lt=1.0)
    min_site_n: int = Field(10, ge=1)
    age_bands: tuple[float, ...] = (18.0, 30.0, 45.0, 60.0, 75.0)
    similarity: bool = False
    umap: bool = True
    allow_overlap: bool = False

    @field_validator("C", "alpha")
    @classmethod
    def _check_grid(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        if not grid or any(not 0.0 < value < float("inf") for value in grid):
            raise ValueError("must be a list of positive, finite numbers")
        return tuple(sorted(set(grid)))

    @field_validator("k", "train_sizes")
    @classmethod
    def _check_counts(cls, counts: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if any(count < 1 for count in counts) or (info.field_name == "k" and not counts):
            raise ValueError("must be a list of whole numbers from 1 on")
        return tuple(sorted(set(counts)))

    @field_validator("age_bands")
    @classmethod
    def _check_edges(cls, edges: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0.0 < edge < float("inf") for edge in edges) or sorted(set(edges)) != list(edges):
            raise ValueError("must be positive numbers of years in rising order")
        return edges

    @field_validator("threshold")
    @classmethod
    def _check_threshold(cls, threshold: float | str) -> float | str:
        return parse_threshold(threshold)

    @model_validator(mode="after")
    def _check_test(self) -> EvaluationSettings:
        if self.test_where is not None and self.test is None:
            raise ValueError("test_where: selects scans of an external test set, and there is none. Give test (--test)")
        return self

    @field_validator("where", "test_where", mode="before")
    @classmethod
    def _as_lists(cls, where: object) -> object:
        if not isinstance(where, dict):
            return where
        return {
            column: tuple(str(value) for value in (values if isinstance(values, list | tuple) else [values]))
            for column, values in where.items()
        }
