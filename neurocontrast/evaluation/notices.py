"""What a reader must know before the figures: leaks, and what the cohort and the folds show."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import chi2_contingency
from scipy.stats.contingency import crosstab

from neurocontrast.evaluation.record import Notice
from neurocontrast.evaluation.rows import NO_SITE, cell_texts
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import LeakageError, one_of
from neurocontrast.provenance import subject_digest

__all__ = ["NO_BASELINE", "SITE_ASSOCIATION", "check_duplicates", "check_overlap", "cramers_v", "feature_codes",
           "look_at_cohort", "look_at_covariates", "look_at_missing", "look_at_size", "pretrained"]  # fmt: skip

MAX_MAP_SCANS = 2000
"""Largest number of points on the map: of more tested images a sample is drawn, since more hide one another."""
FEW_SUBJECTS = 20
"""A class with fewer subjects is warned about."""
RARE_SHARE = 0.3
"""A class of two with a smaller share of the scans is warned about."""
SITE_ASSOCIATION, SEX_ASSOCIATION = 0.3, 0.2
"""Bias-corrected Cramér's V with the class; of the site also the root of the variance of a number that it explains."""
AGE_DIFFERENCE, AGE_ASSOCIATION = 0.3, 0.15
"""Mean ages of two classes apart, in standard deviations; of several, root of the variance of age that they explain."""
_FEW = "With so few, chance alone moves the result a lot. Read the interval, not the point."
_CONFOUNDED = (
    "Where {what} and target go together, a model that reads {what} off the scan looks as if it had read the target. "
    "Compare with the baseline, which knows {what} and nothing of the scan."
)
_NO_SITES = "Differences between scanners cannot be told apart from differences between people there."
NO_BASELINE = "Without a full baseline nobody can say what the scan adds to what was known without it."


def look_at_cohort(table: pd.DataFrame, target: Target, splits: Sequence[Split], *, min_site_n: int) -> list[Notice]:
    """Return warnings about class sizes, sites, what goes together with the target, and the folds."""
    found = [*_class_sizes(table, target), *_sites(table, target, min_site_n), *_site_association(table, target)]
    if target.kind != "continuous":
        found += [*_age(table, target), *_sex(table, target)]
    return [*found, *_look_at_splits(splits, target, table["subject_id"].to_numpy(dtype=object))]


def look_at_covariates(used: Sequence[str], dropped: Mapping[str, str]) -> list[Notice]:
    """Return warnings about a baseline that lacks what it should have."""
    expected = ("is the target", "is held out") if used else ()
    reasons = "; ".join(f"{name} {why}" for name, why in dropped.items() if why not in expected)
    if not used:
        text = f"The baseline has no covariate ({reasons}): it predicts the average of its training scans."
        return [Notice("baseline_empty", text, NO_BASELINE)]
    text = f"The baseline uses {one_of(used)} only: {reasons}."
    return [Notice("baseline_incomplete", text, NO_BASELINE)] if reasons else []


def look_at_missing(target: str, n_missing: int) -> list[Notice]:
    """Return the warning that scans without a target are left out."""
    text = f"{n_missing} scans have no {target} and are left out."
    explanation = "They are in no figure below. If they differ from the others, the result holds for a selected group."
    return [Notice("excluded_missing_target", text, explanation)] if n_missing else []


def look_at_size(table: pd.DataFrame, splits: Sequence[Split], settings: EvaluationSettings) -> list[Notice]:
    """Return what is done otherwise for more scans than a large table has."""
    n_train = max(len(split.train) for split in splits)
    if n_train <= settings.large_table:
        return []
    dealt = settings.split_column is None and settings.inner_splits == "stratified"
    text = (
        f"A large table ({n_train:,} training scans a fold, more than large_table={settings.large_table:,}): features "
        f"are in single precision, {'strengths are chosen on the first of the inner folds, ' if dealt else ''}and the "
        f"map shows {MAX_MAP_SCANS:,} scans at most, of {len(table):,}, drawn with seed {settings.seed}."
    )
    explanation = (
        "Thousands of scans tell strengths apart in one fold; probabilities differ by a few thousandths at most."
    )
    return [Notice("large_table", text, explanation)]


def _look_at_splits(splits: Sequence[Split], target: Target, subjects: npt.NDArray[np.object_]) -> Iterable[Notice]:
    if target.kind != "continuous":
        single = [split for split in splits if len(np.unique(target.values[split.test])) < 2]
        # The warning on single-class sites says it of a site that is held out.
        names = [f"repeat {split.repeat} fold {split.fold}" for split in single if split.held_out_site is None]
        if names:
            yield Notice(
                "single_class_fold",
                f"{len(names)} test folds have one class only ({', '.join(names[:5])}): no AUC there; "
                "they count in the pooled figures. Give fewer folds, or let splits=stratified deal them.",
                "The mean over folds leaves these folds out; the pooled figures hold all scans.",
            )
        for split in splits:
            unseen = np.setdiff1d(target.values[split.test], target.values[split.train])
            if len(unseen):
                yield Notice(
                    "fold_unseen_class",
                    f"When {split.named}, {one_of(target.classes[code] for code in unseen)} is in no training scan and "
                    "cannot be predicted there.",
                    "No model can name a class that it was never shown; what belongs to it counts as an error.",
                )
    everything = np.arange(len(subjects))
    untested = np.setdiff1d(everything, np.concatenate([split.test for split in splits]))
    if len(untested):
        text = f"{len(untested)} of {len(subjects)} scans are trained on only, as the folds say."
        yield Notice("fold_untested", text, "They are in no figure of the result, but shaped the models.")
    sat_out = {
        owner
        for split in splits
        if split.held_out_site is not None
        for owner in subjects[np.setdiff1d(everything, np.concatenate([split.train, split.test]))]
    }
    if sat_out:
        yield Notice(
            "site_shared_subjects",
            f"{len(sat_out)} subjects were scanned at several sites: while one of their sites is held out, none of "
            "their scans is trained on.",
            "Their other scans are left out of training, so that nobody is recognised again.",
        )


def _class_sizes(table: pd.DataFrame, target: Target) -> Iterable[Notice]:
    subjects = table["subject_id"]
    if target.kind == "continuous":
        if subjects.nunique() < 2 * FEW_SUBJECTS:
            yield Notice("few_subjects", f"Only {subjects.nunique()} subjects: intervals are wide.", _FEW)
        return
    counts = {name: subjects[target.values == code].nunique() for code, name in enumerate(target.classes)}
    few = ", ".join(f"'{name}' has {n}" for name, n in counts.items() if n < FEW_SUBJECTS)
    if few:
        yield Notice(
            "few_subjects",
            f"Classes with fewer than {FEW_SUBJECTS} subjects: {few}. Intervals are wide: read them, not the values.",
            _FEW,
        )
    shares = np.bincount(target.values, minlength=len(target.classes)) / len(target.values)
    if target.kind == "binary" and shares.min() < RARE_SHARE:
        rare = target.classes[int(shares.argmin())]
        yield Notice(
            "class_imbalance",
            f"'{rare}' is {shares.min():.0%} of the scans: at the threshold 0.5 a probe tends to name the other class, "
            "which lowers balanced accuracy. AUC does not depend on the threshold; evaluation.threshold=prevalence "
            "moves it.",
            "Where one class is rare, accuracy looks high for a model that never names it; balanced accuracy does not.",
        )
    owners = pd.Series(target.values).groupby(subjects.to_numpy()).nunique()
    if (owners > 1).any():
        yield Notice(
            "changing_class",
            f"{int((owners > 1).sum())} subjects have sessions of different classes; they are dealt to folds by the "
            "rarest of them.",
            "Their scans stay in one fold together, so that nobody is recognised again.",
        )


def _sites(table: pd.DataFrame, target: Target, min_site_n: int) -> Iterable[Notice]:
    if target.name == "site":
        return
    n_missing = int(table["site"].isna().sum())
    if n_missing == len(table):
        text = "No scan has a site: nothing can be said about differences between sites."
        yield Notice("site_missing", text, _NO_SITES)
        return
    if n_missing:
        text = f"{n_missing} of {len(table)} scans have no site; they form the group '{NO_SITE}'."
        yield Notice("site_missing", text, _NO_SITES)
    sites = table["site"].fillna(NO_SITE)
    sizes = table["subject_id"].groupby(sites).nunique()
    if len(sizes) == 1:
        text = f"All scans are of the site '{sizes.index[0]}': results need not hold at another."
        yield Notice("single_site", text, "Nothing here tells whether the result would hold at another scanner.")
        return
    small = [f"'{site}' ({n})" for site, n in sizes.items() if n < min_site_n]
    if small:
        yield Notice(
            "small_site",
            f"Sites with fewer than {min_site_n} subjects: {_listed(small)}. Their own figures have no interval and "
            "say little; leave them out with where, or read the pooled figures.",
            _FEW,
        )
    if target.kind == "continuous":
        return
    single = {
        site: target.classes[codes.iloc[0]]
        for site, codes in pd.Series(target.values).groupby(sites.to_numpy())
        if codes.nunique() == 1
    }
    if single:
        named = _listed([f"'{site}' ({name})" for site, name in single.items()])
        yield Notice(
            "single_class_site",
            f"{len(single)} of {len(sizes)} sites have one class only: {named}. There AUC and balanced accuracy are "
            "not defined, and a probe that recognises the site recognises the class.",
            "A site where everybody has the same label says nothing about telling labels apart, and rewards a model "
            "that has merely learned to recognise the site.",
        )


def _site_association(table: pd.DataFrame, target: Target) -> Iterable[Notice]:
    first = _one_row_a_subject(table)
    known = first[table["site"].iloc[first].notna().to_numpy()]
    sites = table["site"].iloc[known].to_numpy()
    if target.name == "site" or len(set(sites)) < 2:
        return
    if target.kind == "continuous":
        strength = np.sqrt(variance_explained(target.values[known].astype(float), sites))
        measure, means = "√ε²", "the target's mean differs between sites"
    else:
        strength = cramers_v(target.values[known], sites)
        measure, means = "bias-corrected Cramér's V", "the classes are spread unevenly over sites"
    if strength > SITE_ASSOCIATION:
        yield Notice(
            "site_confounded",
            f"Site is confounded with {target.name} ({measure} {strength:.2f} > {SITE_ASSOCIATION}): {means} "
            f"({_unlike_sites(target, known, sites)}). A probe can score by recognising the scanner. Compare with the "
            "baseline, and with splits=leave-site-out; keep sites that have every class with where.",
            _CONFOUNDED.format(what="site"),
        )


def _unlike_sites(target: Target, known: npt.NDArray[np.intp], sites: npt.NDArray[np.object_], n_shown: int = 3) -> str:
    """Return the sites that are least like the whole cohort, and in what."""
    values, continuous = target.values[known], target.kind == "continuous"
    columns = pd.DataFrame(values.astype(float) if continuous else np.eye(len(target.classes))[values.astype(int)])
    overall, means = columns.mean(), columns.groupby(sites).mean()
    apart = (means - overall).abs()
    code = int(apart.max().to_numpy().argmax())
    least = apart[code].sort_values(ascending=False, kind="stable").index[:n_shown]
    if continuous:
        return ", ".join(f"'{site}' mean {means[code][site]:.4g}" for site in least) + f"; all {overall[code]:.4g}"
    listed = ", ".join(f"'{site}' {means[code][site]:.0%}" for site in least)
    return f"{target.classes[code]}: {listed}; all {overall[code]:.0%}"


def _age(table: pd.DataFrame, target: Target) -> Iterable[Notice]:
    first = _one_row_a_subject(table)
    first = first[table["age"].notna().to_numpy()[first]]
    ages, codes = table["age"].to_numpy()[first], target.values[first]
    if target.name == "age" or not len(ages):
        return
    explained, present = variance_explained(ages, codes), np.unique(codes).astype(int)
    strength, limit, what = float(np.sqrt(explained)), AGE_ASSOCIATION, "√ε²"
    if target.kind == "binary" and len(present) == 2:  # a rare class explains little, however far it is from the other
        share = float(codes.mean())
        spread = max(1 - explained, np.finfo(float).tiny) * share * (1 - share)
        strength, limit, what = float(np.sqrt(explained / spread)), AGE_DIFFERENCE, "difference in standard deviations"
    if strength > limit:
        means = ", ".join(f"{target.classes[code]} {ages[codes == code].mean():.1f}" for code in present)
        yield _differing("age", f"{what} {strength:.2f} > {limit}; means {means}", target)


def _sex(table: pd.DataFrame, target: Target) -> Iterable[Notice]:
    first = _one_row_a_subject(table)
    texts = np.array([text or "" for text in cell_texts(table["sex"].iloc[first])])
    known = texts != ""
    strength = cramers_v(target.values[first][known], texts[known]) if known.any() and target.name != "sex" else 0.0
    if strength > SEX_ASSOCIATION:
        yield _differing("sex", f"bias-corrected Cramér's V {strength:.2f} > {SEX_ASSOCIATION}", target)


def _differing(what: str, how: str, target: Target) -> Notice:
    text = f"Classes differ in {what} ({how}): what looks like {target.name} can be {what}. Compare with the baseline."
    return Notice(f"{what}_imbalance", text, _CONFOUNDED.format(what=what))


def _one_row_a_subject(table: pd.DataFrame) -> npt.NDArray[np.intp]:
    return np.flatnonzero(~table["subject_id"].duplicated().to_numpy())


def _listed(names: Sequence[str], n_shown: int = 8) -> str:
    return ", ".join(names[:n_shown]) + (f" … and {len(names) - n_shown} more" if len(names) > n_shown else "")


def cramers_v(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return Cramér's V of two categorical variables, corrected for bias (Bergsma, 2013): 0 is independence."""
    counts = crosstab(np.asarray(a), np.asarray(b)).count
    n, (r, k) = int(counts.sum()), counts.shape
    if n < 2:
        return 0.0
    phi_squared = chi2_contingency(counts, correction=False).statistic / n
    corrected = max(0.0, phi_squared - (k - 1) * (r - 1) / (n - 1))
    smallest = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    return float(min(1.0, np.sqrt(corrected / smallest))) if smallest > 0 else 0.0


def variance_explained(values: npt.NDArray[np.float64], groups: npt.ArrayLike) -> float:
    """Return ε², the share of a variable's variance that groups explain, corrected for chance."""
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    n, k = len(values), int(codes.max()) + 1
    total = float(((values - values.mean()) ** 2).sum())
    if n <= k or total == 0:
        return 0.0
    means = np.bincount(codes, weights=values) / np.bincount(codes)
    within = float(((values - means[codes]) ** 2).sum())
    return max(0.0, 1 - (within / (n - k)) / (total / (n - 1)))


def check_overlap(
    table: pd.DataFrame, info: Mapping[str, Any], *, allow_overlap: bool = False
) -> tuple[int, list[Notice]]:
    """Return how many subjects were in the pretraining cohort, and a warning; refuse them unless they are allowed."""
    notices, text = [], "The embeddings do not say who was in pretraining: an overlap could not be checked."
    if info.get("pretraining_unknown"):
        text = f"Of the joined embeddings, {one_of(info['pretraining_unknown'])} does not say who was in pretraining."
    if info.get("pretraining_subjects") is None or info.get("pretraining_unknown"):
        explanation = "If some of them were in pretraining, the figures below may be too good."
        notices = [Notice("overlap_unknown", text, explanation)]
    seen, subjects = pretrained(table, info), sorted(set(table["subject_id"]))
    both = sorted(set(table["subject_id"][seen]))
    if not both:
        return 0, notices
    shown = ", ".join(both[:5]) + (" …" if len(both) > 5 else "")
    text = f"{len(both)} of {len(subjects)} subjects were in the pretraining cohort ({shown})"
    if not allow_overlap:
        raise LeakageError(
            f"{text}: the encoder has seen them, and their scores would flatter it. Embed people that were not in "
            "pretraining, or keep only those with where; to evaluate them all the same, and have the report say so, "
            "set allow_overlap=true (--allow-overlap)."
        )
    explanation = (
        "The encoder has already seen these people. Its features can fit them better than anybody new, so the "
        "figures below may be too good."
    )
    text = f"{text.partition(' (')[0]} (allowed on request): the figures may flatter the encoder."
    return len(both), [*notices, Notice("pretraining_overlap", text, explanation)]


def pretrained(table: pd.DataFrame, info: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Return which rows are of subjects of the pretraining cohort, as far as the embeddings say."""
    digests = set(info.get("pretraining_subjects") or ())
    return np.array([subject_digest(subject) in digests for subject in table["subject_id"]], dtype=bool)


def check_duplicates(
    table: pd.DataFrame, features: Iterable[npt.NDArray[np.floating]], *, allow_overlap: bool = False
) -> list[Notice]:
    """Refuse one image under the names of two subjects, or warn of it where it is allowed."""
    codes = feature_codes(features)
    subjects = table["subject_id"].to_numpy()
    n_subjects = pd.Series(subjects).groupby(codes).nunique()
    shared = n_subjects.index[n_subjects > 1]
    if not len(shared):
        return []
    pairs = [" = ".join(sorted(set(subjects[codes == code]))[:3]) for code in shared[:5]]
    text = (
        f"{len(shared)} images have the names of several subjects (features equal to the last bit): "
        f"{', '.join(pairs)}{' …' if len(shared) > 5 else ''}"
    )
    if not allow_overlap:
        raise LeakageError(
            f"{text}. They could be on both sides of a fold. Give them one subject_id or leave one out; to evaluate "
            "all the same, set allow_overlap=true (--allow-overlap)."
        )
    explanation = (
        "The same image on both sides of a fold is learned by heart, not understood: the figures below may be too good."
    )
    text = f"{text}. They can be on both sides of a fold (allowed on request)."
    return [Notice("duplicate_overlap", text, explanation)]


def feature_codes(features: Iterable[npt.NDArray[np.floating]]) -> npt.NDArray[np.intp]:
    """Return a code for each row, the same for rows whose features are equal, by digests: sorting takes far longer."""
    rows = (np.ascontiguousarray(row) + 0.0 for row in features)  # -0.0 is 0.0
    digests = [hashlib.blake2b(row.data, digest_size=16).digest() for row in rows]
    return pd.factorize(np.array(digests, dtype=object))[0].astype(np.intp)
