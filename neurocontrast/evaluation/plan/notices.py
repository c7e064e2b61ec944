"""Give warnings about a cohort and its folds, before the first model is fitted.

Warnings are about small classes; scans without a site, small sites, and sites spelled in two ways;
folds that lack a class; and site, age or sex associated with the target.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from neurocontrast.data.levels import spelled_alike
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.association import cramers_v, variance_explained
from neurocontrast.evaluation.rows import (
    NO_SITE,
    Labels,
    Texts,
    cell_texts,
    listed,
    site_names,
)
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import one_of

FEW_SUBJECTS = 20
"""Number of subjects of a class below which a warning is given."""
RARE_SHARE = 0.3
"""Share of the rarer of two classes below which a warning is given."""
SITE_ASSOCIATION = 0.3
"""Association of site and target above which a warning is given: Cramér's V for classes, √ε² for
numbers."""
SEX_ASSOCIATION = 0.2
"""Bias-corrected Cramér's V of sex and class above which a warning is given."""
AGE_DIFFERENCE = 0.3
"""Difference of two classes' mean ages, in standard deviations, above which a warning is given."""
AGE_ASSOCIATION = 0.15
"""√ε² of age explained by several classes above which a warning is given."""
_N_SITES_SHOWN = 8
_N_UNLIKE_SHOWN = 3


def look_at_cohort(
    table: pd.DataFrame, target: Target, splits: Sequence[Split], *, min_site_n: int
) -> list[Notice]:
    """Return warnings about class sizes, sites, folds, and columns associated with the target.

    The columns are site, and, for a target of classes, age and sex. `table` has a row for each
    scan, in the order of `target`. A site with fewer subjects than `min_site_n` is called small.
    """
    first = np.flatnonzero(~table["subject_id"].duplicated().to_numpy())
    people = table.iloc[first]
    of_people = target.subset(first)
    notices = [
        *_look_at_sizes(table, target),
        *_look_at_site_spellings(table, target),
        *_look_at_sites(table, target, min_site_n),
        *_look_at_site_association(people, of_people),
    ]
    if target.kind != "continuous":
        notices += _look_at_age(people, of_people)
        notices += _look_at_sex(people, of_people)
    notices += _look_at_splits(splits, target, table["subject_id"].to_numpy(dtype=object))
    return notices


def look_at_covariates(used: Sequence[str], dropped: Mapping[str, str]) -> list[Notice]:
    """Return a warning, in a list, that the model of covariates lacks covariates of the settings.

    `used` are the columns that the model reads, and `dropped` has the reason for each one left out.
    The list is empty if only the target, or a site that is held out, is left out, and some
    covariate is used.
    """
    if not used:
        return [Notice.of("baseline_empty", reasons=_join_reasons(dropped, expected=()))]
    reasons = _join_reasons(dropped, expected=("is the target", "is held out"))
    if not reasons:
        return []
    return [Notice.of("baseline_incomplete", used=one_of(used), reasons=reasons)]


def _join_reasons(dropped: Mapping[str, str], *, expected: Sequence[str]) -> str:
    """Join the names and reasons of covariates in `dropped` as text; "" if none is left.

    Covariates whose reason is among the `expected` ones are left out.
    """
    reasons = []
    for name, why in dropped.items():
        if why not in expected:
            reasons.append(f"{name} {why}")
    return "; ".join(reasons)


def look_at_size(splits: Sequence[Split], settings: EvaluationSettings) -> list[Notice]:
    """Warn that above `large_table` training scans probes are fitted in single precision.

    `large_table` is a setting. The warning is returned in a list, which is empty with fewer scans.
    """
    n_train = max(len(split.train) for split in splits)
    if n_train <= settings.large_table:
        return []
    strengths = ""
    if settings.split_column is None and settings.inner_splits == "stratified":
        strengths = ", and strengths are chosen on the first of the inner folds"
    return [
        Notice.of("large_table", n_train=n_train, limit=settings.large_table, strengths=strengths)
    ]


def _look_at_splits(splits: Sequence[Split], target: Target, subjects: Texts) -> Iterator[Notice]:
    """Yield warnings of classes that training or test rows of a fold lack, and of unused scans.

    Unused are scans that no fold tests. Unused by a fold that holds out a site are scans of the
    site's subjects at other sites: the fold does not train on them.
    """
    if target.kind != "continuous":
        yield from _look_at_classes_of_folds(splits, target)
    everything = np.arange(len(subjects))
    untested = np.setdiff1d(everything, np.concatenate([split.test for split in splits]))
    if len(untested):
        yield Notice.of("fold_untested", n=len(untested), n_all=len(subjects))
    idle = set[str]()
    for split in splits:
        if split.held_out_site is not None:
            used = np.concatenate([split.train, split.test])
            idle.update(subjects[np.setdiff1d(everything, used)])
    if idle:
        yield Notice.of("site_shared_subjects", n=len(idle))


def _look_at_classes_of_folds(splits: Sequence[Split], target: Target) -> Iterator[Notice]:
    """Yield warnings of folds that test a class and train on none of its scans, or test one class.

    The second warning leaves out folds that hold out a site: sites of one class have a warning of
    their own.
    """
    single = []
    for split in splits:
        tested = np.unique(target.values[split.test])
        unseen = np.setdiff1d(tested, target.values[split.train])
        if len(unseen):
            names = one_of(target.classes[code] for code in unseen)
            yield Notice.of("fold_unseen_class", split=split.named, names=names)
        if split.held_out_site is None and len(tested) < 2:
            single.append(f"repeat {split.repeat} fold {split.fold}")
    if single:
        yield Notice.of("single_class_fold", n=len(single), names=", ".join(single[:5]))


def _look_at_sizes(table: pd.DataFrame, target: Target) -> Iterator[Notice]:
    """Yield warnings of few subjects of a class, a rare one of two classes, and changing classes.

    A class changes if scans of one subject differ in it. For a continuous target, the one warning
    is of few subjects in all.
    """
    subjects = table["subject_id"]
    if target.kind == "continuous":
        if subjects.nunique() < 2 * FEW_SUBJECTS:
            yield Notice.of("few_subjects", n=subjects.nunique())
        return
    few = []
    for code, name in enumerate(target.classes):
        n_subjects = subjects[target.values == code].nunique()
        if n_subjects < FEW_SUBJECTS:
            few.append(f"'{name}' has {n_subjects}")
    if few:
        yield Notice.of("few_subjects_of_class", least=FEW_SUBJECTS, classes=", ".join(few))
    shares = np.bincount(target.values, minlength=len(target.classes)) / len(target.values)
    if target.kind == "binary" and shares.min() < RARE_SHARE:
        name = target.classes[int(shares.argmin())]
        yield Notice.of("class_imbalance", name=name, share=shares.min())
    n_classes = pd.Series(target.values).groupby(subjects.to_numpy()).nunique()
    n_changing = int((n_classes > 1).sum())
    if n_changing:
        yield Notice.of("changing_class", n=n_changing)


def _look_at_site_spellings(table: pd.DataFrame, target: Target) -> Iterator[Notice]:
    """Yield a warning for each group of sites whose names differ only in spelling.

    Spelling is case, accents, spaces, hyphens and leading zeros.
    """
    if target.name != "site":
        for group in spelled_alike(site_names(table["site"])):
            yield Notice.of("site_spelling", sites=one_of(group))


def _look_at_sites(table: pd.DataFrame, target: Target, min_site_n: int) -> Iterator[Notice]:
    """Yield warnings of scans without a site, a single site, small sites, or sites of one class."""
    if target.name == "site":
        return
    sites = site_names(table["site"])
    n_missing = int((sites == NO_SITE).sum())
    if n_missing:
        yield _site_missing(n_missing, len(table))
    sizes = table["subject_id"].groupby(sites).nunique()
    if len(sizes) == 1:
        if not n_missing:
            yield Notice.of("single_site", site=sizes.index[0])
        return
    small = [f"'{site}' ({n})" for site, n in sizes.items() if n < min_site_n]
    if small:
        yield Notice.of("small_site", least=min_site_n, sites=listed(small, _N_SITES_SHOWN))
    if target.kind != "continuous":
        yield from _look_at_classes_of_sites(target, sites, n_sites=len(sizes))


def _site_missing(n: int, n_all: int) -> Notice:
    """Return the warning that `n` of `n_all` scans have no site."""
    rest = ""
    if n < n_all:
        rest = f"; they form the group '{NO_SITE}'"
    return Notice.of("site_missing", n=n, n_all=n_all, rest=rest)


def _look_at_classes_of_sites(target: Target, sites: Texts, *, n_sites: int) -> Iterator[Notice]:
    """Yield a warning of the sites whose scans are all of one class."""
    single = []
    for site, codes in pd.Series(target.values).groupby(sites):
        if codes.nunique() == 1:
            single.append(f"'{site}' ({target.classes[codes.iloc[0]]})")
    if single:
        names = listed(single, _N_SITES_SHOWN)
        yield Notice.of("single_class_site", n=len(single), n_all=n_sites, sites=names)


def _look_at_site_association(people: pd.DataFrame, target: Target) -> Iterator[Notice]:
    """Yield a warning if the target's association with the site is above `SITE_ASSOCIATION`.

    The association is √ε² for numbers, and Cramér's V for classes. `people` has one row a subject,
    with the column ``site``.
    """
    has_site = people["site"].notna().to_numpy()
    values = target.values[has_site]
    sites = people["site"][has_site].to_numpy()
    if target.name == "site" or len(set(sites)) < 2:
        return
    if target.kind == "continuous":
        strength = np.sqrt(variance_explained(values.astype(float), sites))
        measure = "√ε²"
        means = "the target's mean differs between sites"
    else:
        strength = cramers_v(values, sites)
        measure = "bias-corrected Cramér's V"
        means = "the classes are spread unevenly over sites"
    if strength > SITE_ASSOCIATION:
        yield Notice.of(
            "site_confounded",
            what="site",
            target=target.name,
            measure=measure,
            strength=strength,
            limit=SITE_ASSOCIATION,
            means=means,
            unlike=_unlike_sites(target, values, sites),
        )


def _unlike_sites(target: Target, values: Labels, sites: Texts) -> str:
    """Return a text with values of the three sites whose target is least like the whole cohort's.

    `values` has the target and `sites` the site of each subject. For numbers, the text gives the
    mean target at each of the sites and in the whole cohort. For classes, the text gives the share
    of a single class at the sites and in the cohort: the class whose share differs most between a
    site and the cohort.
    """
    if target.kind == "continuous":
        return _unlike_means(pd.Series(values.astype(float)), sites)
    return _unlike_shares(target, values, sites)


def _unlike_means(values: pd.Series, sites: Texts) -> str:
    """Return a text with the mean targets of the three sites that differ most from the cohort.

    The text gives the mean target of the whole cohort too. `values` has the target and `sites` the
    site of each subject.
    """
    overall = values.mean()
    means = values.groupby(sites).mean()
    names = []
    for site in _farthest(means, overall):
        names.append(f"'{site}' mean {means[site]:.4g}")
    return f"{', '.join(names)}; all {overall:.4g}"


def _unlike_shares(target: Target, values: Labels, sites: Texts) -> str:
    """Return a text with a class's shares at the three sites that differ most from the cohort.

    The class is the one whose share at a site is farthest from that in the whole cohort, and the
    text gives its share there too. `values` has the code of each subject's class, and `sites` the
    subject's site.
    """
    members = pd.DataFrame(np.eye(len(target.classes))[values.astype(int)])
    overall = members.mean()
    shares = members.groupby(sites).mean()
    code = int((shares - overall).abs().max().to_numpy().argmax())
    names = []
    for site in _farthest(shares[code], overall[code]):
        names.append(f"'{site}' {shares[code][site]:.0%}")
    return f"{target.classes[code]}: {', '.join(names)}; all {overall[code]:.0%}"


def _farthest(of_sites: pd.Series, overall: float) -> Iterable[str]:
    """Return the sites whose value is farthest from the whole cohort's, the farthest first.

    `of_sites` has a value for each site, and `overall` is the cohort's. At most `_N_UNLIKE_SHOWN`
    sites are returned.
    """
    distances = (of_sites - overall).abs()
    names: Iterable[str] = distances.sort_values(ascending=False, kind="stable").index
    return list(names)[:_N_UNLIKE_SHOWN]


def _look_at_age(people: pd.DataFrame, target: Target) -> Iterator[Notice]:
    """Yield a warning if the ages of the target's classes differ.

    `people` has one row a subject. For two classes, the difference of mean ages in standard
    deviations is compared with `AGE_DIFFERENCE`; for more, √ε², the root of the share of the age's
    variance that classes explain, with `AGE_ASSOCIATION`. The share would not do for two classes: a
    rare class explains little, however far its mean is from the other.
    """
    has_age = people["age"].notna().to_numpy()
    ages = people["age"].to_numpy()[has_age]
    codes = target.values[has_age]
    if target.name == "age" or not len(ages):
        return
    explained = variance_explained(ages, codes)
    present = np.unique(codes).astype(int)
    strength = float(np.sqrt(explained))
    limit = AGE_ASSOCIATION
    measure = "√ε²"
    if target.kind == "binary" and len(present) == 2:
        share = float(codes.mean())
        spread = max(1 - explained, np.finfo(float).tiny) * share * (1 - share)
        strength = float(np.sqrt(explained / spread))
        limit = AGE_DIFFERENCE
        measure = "difference in standard deviations"
    if strength > limit:
        means = []
        for code in present:
            means.append(f"{target.classes[code]} {ages[codes == code].mean():.1f}")
        how = f"{measure} {strength:.2f} > {limit}; means {', '.join(means)}"
        yield Notice.of("imbalance", what="age", how=how, target=target.name)


def _look_at_sex(people: pd.DataFrame, target: Target) -> Iterator[Notice]:
    """Yield a warning if classes differ in the shares of the sexes among their subjects.

    `people` has one row a subject, and Cramér's V of class and sex is compared with
    `SEX_ASSOCIATION`.
    """
    sexes = np.array([sex or "" for sex in cell_texts(people["sex"])])
    has_sex = sexes != ""
    if target.name == "sex" or not has_sex.any():
        return
    strength = cramers_v(target.values[has_sex], sexes[has_sex])
    if strength > SEX_ASSOCIATION:
        how = f"bias-corrected Cramér's V {strength:.2f} > {SEX_ASSOCIATION}"
        yield Notice.of("imbalance", what="sex", how=how, target=target.name)
