"""Settings of an evaluation."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PositiveInt, field_validator, model_validator

from neurocontrast.data.columns import Where
from neurocontrast.evaluation.probe_kinds import PROBES
from neurocontrast.evaluation.target import Kind, Target
from neurocontrast.exceptions import ConfigError, one_of, suggestion
from neurocontrast.settings import Settings

OUTSIDE_PERCENTILE = 97.5
"""Percentile of the training scans' own distances beyond which a scan is called outside."""
_RULES = ("half", "prevalence")
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _parse_threshold(threshold: float | str) -> float | str:
    """Return the setting `threshold` as a probability, or as ``half`` or ``prevalence``."""
    stripped = str(threshold).strip()
    if stripped in _RULES:
        return stripped
    with suppress(ValueError):
        number = float(stripped)
        if 0 < number < 1:
            return number
    raise ValueError(
        "must be half, prevalence, or a probability between 0 and 1; got "
        f"'{stripped}'.{suggestion(stripped, _RULES)}"
    )


_ASCENDING = AfterValidator(lambda values: tuple(sorted(set(values))))
Grid = Annotated[
    tuple[Annotated[float, Field(gt=0.0, allow_inf_nan=False)], ...],
    Field(min_length=1),
    _ASCENDING,
]


class EvaluationSettings(Settings):
    """Target, folds, probes and uncertainty of an evaluation."""

    target: str = "diagnosis"
    """Column to predict."""
    kind: Literal["auto", "categorical", "continuous"] = "auto"
    """Kind of the target. ``auto``: text is categorical, a number with two values too, other
    numbers are continuous."""
    positive: str | None = None
    """Positive class of two. None: the one not called control, healthy, HC, CN …; else the last by
    alphabet."""
    where: Where = Field(default_factory=dict)
    """Rows of the table to keep: column → value, values, or ``{not: values}``; not of `test`."""
    splits: Literal["stratified", "leave-site-out"] = "stratified"
    """How folds are made."""
    split_file: str | None = None
    """File of folds to use in place of dealt folds: ``splits.tsv`` of another evaluation of the
    same scans."""
    split_column: str | None = None
    """Column of train, validation and test to use in place of folds: the penalty is chosen on
    validation, the probe is fitted on train and validation, and every metric is of test."""
    n_folds: int = Field(5, ge=2)
    """Number of stratified folds."""
    n_repeats: int = Field(1, ge=1)
    """Number of times that stratified folds are dealt."""
    test: str | None = None
    """Embeddings table of other people, of the same encoder, to which the probe fitted on all scans
    is applied."""
    test_where: Where | None = None
    """Rows of `test` to keep. None: all."""
    n_inner_folds: int = Field(5, ge=2)
    """Number of folds inside each training fold, on which the penalty is chosen."""
    inner_splits: Literal["stratified", "leave-site-out"] = "stratified"
    """How inner folds are made: dealt by subject, or each leaving training sites out, so that the
    penalty is chosen for unseen sites (dealt in a training fold with fewer than two sites of ten
    subjects or more)."""
    seed: int = Field(0, ge=0)
    """Seed of folds and bootstrap."""
    probe: str = "auto"
    """Estimator of the embedding. ``auto``: ``logistic`` for classes, ``ridge`` for numbers. An
    import path ``package.module:Object`` names an estimator of your own, which
    `neurocontrast.evaluate` imports."""
    C: Grid = tuple(10.0**power for power in range(-6, 4))
    """Grid of the inverse penalty of logistic regression."""
    alpha: Grid = tuple(10.0 ** (power / 2) for power in range(-2, 13))
    """Grid of the penalty of ridge regression."""
    threshold: Annotated[float | str, AfterValidator(_parse_threshold)] = "half"
    """Probability from which a scan is positive: ``half``, ``prevalence`` (the share in training),
    or a number. Of several classes: ``half`` takes the likeliest, ``prevalence`` the one
    likeliest relative to its share."""
    train_sizes: Annotated[tuple[PositiveInt, ...], _ASCENDING] = ()
    """Numbers of training subjects of a learning curve."""
    n_draws: int = Field(5, ge=1)
    """Number of times that the subjects of each size are drawn in a fold."""
    covariates: tuple[str, ...] = ("age", "sex", "site", "tiv")
    """Columns of the baseline. Absent ones, the target, text of which most subjects have a value of
    their own, and the site if sites are left out, are dropped."""
    voxels: Literal["auto", "on", "input", "off"] = "auto"
    """Whether principal components of the scans' voxels are a further baseline. ``auto``: if the
    scans are at hand, at 4 mm in a box of 192 × 228 × 192 mm; ``on``: the same, and scans that
    are not at hand are an error; ``input``: of what the encoder is given, as ``encoder.name:
    pca`` would fit."""
    scans: str | None = None
    """Table of the same scans, if the paths in the embeddings table do not lead to them."""
    regional: tuple[str, ...] = ()
    """Columns of regional volumes, thicknesses or other measures, by name or pattern (``vol_*``): a
    further baseline. For an encoder of regional measures it is those that the encoder reads,
    unless ``voxels`` is ``off``."""
    confounds: bool = True
    """Whether covariates are predicted from the embedding."""
    new_site: bool = True
    """Whether, in addition to the folds, every site is left out once, to test at an unseen site."""
    outlyingness: bool = True
    """Whether each scan's distance from the training scans is measured."""
    outside_percentile: float = Field(OUTSIDE_PERCENTILE, ge=50.0, lt=100.0)
    """Percentile of the training scans' own distances beyond which a scan is outside."""
    harmonise: Literal["none", "combat"] = "none"
    """Whether site differences are taken out as estimated in the training folds."""
    harmonise_preserve: tuple[str, ...] = ("age", "sex")
    """Columns whose effect ComBat keeps."""
    residualise: tuple[str, ...] = ()
    """Columns whose linear effect is taken out of the features."""
    n_permutations: int = Field(0, ge=0)
    """Repetitions of the procedure on labels permuted within site."""
    n_jobs: int = Field(1, ge=1)
    """Number of processes that fit probes."""
    large_table: int = Field(5000, ge=0)
    """With more training scans, features are in single precision, the strength is chosen on the
    first inner fold alone (unless these leave sites out), and solvers are less exact."""
    n_bootstraps: int = Field(2000, ge=0)
    """Number of resamples of every interval."""
    bootstrap_unit: Literal["auto", "subject", "site"] = "auto"
    """Unit of the bootstrap. ``auto``: whole sites if there are 20 or more and every scan has one,
    else subjects."""
    confidence_level: float = Field(0.95, gt=0.0, lt=1.0)
    """Level of every interval."""
    min_site_n: int = Field(10, ge=1)
    """Sites with fewer subjects are warned about, and have no interval."""
    allow_overlap: bool = False
    """Whether subjects of the pretraining cohort may be evaluated; a warning then says so."""

    @field_validator("probe")
    @classmethod
    def _check_probe(cls, probe: str) -> str:
        """Return the setting `probe`; refuse a name that is neither built in nor an import path."""
        names = ("auto", *PROBES)
        if probe in names or _IMPORT_PATH.fullmatch(probe):
            return probe
        raise ValueError(
            f"must be {one_of(names)}, or package.module:Object for an estimator of your own, got "
            f"'{probe}'."
            f"{suggestion(probe, names)}"
        )

    @field_validator("voxels", mode="before")
    @classmethod
    def _check_voxels(cls, voxels: object) -> object:
        """Return the setting `voxels`, with "on" for True and "off" for False.

        YAML reads the words on and off as true and false.
        """
        if voxels is True:
            return "on"
        if voxels is False:
            return "off"
        return voxels

    @model_validator(mode="after")
    def _check_design(self) -> EvaluationSettings:
        """Refuse settings that contradict each other, such as two sources of folds."""
        if self.test_where is not None and self.test is None:
            raise ValueError(
                "test_where: selects scans of an external test set, and there is none. Give "
                "test=EMB2.parquet"
            )
        if self.scans is not None and self.voxels == "off":
            raise ValueError(
                "scans: is for the baseline of voxels, which voxels=off leaves out. Leave out "
                "either"
            )
        if self.split_column is None:
            return self
        others = {
            "split_file": self.split_file is not None,
            "splits=leave-site-out": self.splits == "leave-site-out",
            "inner_splits=leave-site-out": self.inner_splits == "leave-site-out",
            "n_repeats": self.n_repeats > 1,
            "n_permutations": self.n_permutations > 0,
            "regional": bool(self.regional),
        }
        stated = [name for name, is_stated in others.items() if is_stated]
        if stated:
            raise ValueError(
                f"split_column: there are no folds where the column '{self.split_column}' says "
                "what is train, "
                f"validation and test, so {' and '.join(stated)} cannot be had. Leave out the one "
                "or the other"
            )
        return self

    def without_folders(self) -> dict[str, Any]:
        """Return the settings by name, with paths cut to the names of their files.

        Results travel, and folders can name people.
        """
        choices = self.model_dump(mode="json")
        for key in ("split_file", "test", "scans"):
            if choices[key] is not None:
                choices[key] = Path(choices[key]).name
        return choices


def probe_name(settings: EvaluationSettings, kind: Kind) -> str:
    """Return the name of the built-in probe: as the settings say, or by the kind of target."""
    if settings.probe in PROBES:
        return settings.probe
    if kind == "continuous":
        return "ridge"
    return "logistic"


def check_probe(settings: EvaluationSettings, target: Target) -> None:
    """Refuse settings whose probe or threshold does not suit the kind of target or its classes."""
    continuous = target.kind == "continuous"
    if settings.probe in PROBES and PROBES[settings.probe].continuous != continuous:
        kind = "categorical"
        if continuous:
            kind = "continuous"
        others = [name for name, probe in PROBES.items() if probe.continuous == continuous]
        raise ConfigError(
            f"probe: '{settings.probe}' is not for a {kind} target, and '{target.name}' is {kind}. "
            "Use 'auto', "
            f"{one_of(others)}."
        )
    if target.kind != "binary" and settings.threshold not in _RULES:
        described = f"of {len(target.classes)} classes"
        hint = "Use half or prevalence, or keep two classes with where."
        if continuous:
            described = "continuous"
            hint = "Leave threshold out."
        raise ConfigError(
            f"threshold: '{settings.threshold}' is for two classes, and '{target.name}' is "
            f"{described}. {hint}"
        )
