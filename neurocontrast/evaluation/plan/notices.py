"""Warn, before the figures, of leaks and of peculiarities of cohort and folds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import chi2_contingency
from scipy.stats.contingency import crosstab

from neurocontrast.data.identifiers import text_of_visits, visits_of_people
from neurocontrast.data.levels import spelled_alike
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.rows import (
    NO_SITE,
    Labels,
    Texts,
    cell_texts,
    listed,
    scan_codes,
    site_names,
)
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import LeakageError, one_of
from neurocontrast.provenance import CONTENT, Recognised

_OF_OVERLAP = ("overlap_unknown", "contents_unknown", "pretraining_copies", "pretraining_overlap")
"""Codes of the warnings of `check_overlap`."""
ALLOWED_COPIES = 0.01
"""Largest share of an official test set that may be copies of images of pretraining."""
FEW_SUBJECTS = 20
"""A class with fewer subjects is warned about."""
RARE_SHARE = 0.3
"""A class of two with a smaller share of the scans is warned about."""
SITE_ASSOCIATION = 0.3
SEX_ASSOCIATION = 0.2
"""Bias-corrected Cramér's V with the class; of the site also the root of the variance of a number that it explains."""
AGE_DIFFERENCE = 0.3
AGE_ASSOCIATION = 0.15
"""Mean ages of two classes apart, in standard deviations; of several, root of the variance of age that they explain."""


def look_at_cohort(
    table: pd.DataFrame, target: Target, splits: Sequence[Split], *, min_site_n: int
) -> list[Notice]:
    """Return warnings about class sizes, sites, what goes together with the target, and the folds."""
    first = np.flatnonzero(~table["subject_id"].duplicated().to_numpy())
    people = table.iloc[first]
    own = target.subset(first)
    found = [
        *_class_sizes(table, target),
        *_site_spellings(table, target),
        *_sites(table, target, min_site_n),
        *_site_association(people, own),
    ]
    if target.kind != "continuous":
        found += [*_age(people, own), *_sex(people, own)]
    return [*found, *_look_at_splits(splits, target, table["subject_id"].to_numpy(dtype=object))]


def look_at_covariates(used: Sequence[str], dropped: Mapping[str, str]) -> list[Notice]:
    """Return warnings about a baseline that lacks what it should have."""
    expected = ("is the target", "is held out") if used else ()
    reasons = "; ".join(f"{name} {why}" for name, why in dropped.items() if why not in expected)
    if not used:
        return [Notice.of("baseline_empty", reasons=reasons)]
    return [Notice.of("baseline_incomplete", used=one_of(used), reasons=reasons)] if reasons else []


def look_at_size(splits: Sequence[Split], settings: EvaluationSettings) -> list[Notice]:
    """Return what is done otherwise for more scans than a large table has."""
    n_train = max(len(split.train) for split in splits)
    if n_train <= settings.large_table:
        return []
    dealt = settings.split_column is None and settings.inner_splits == "stratified"
    strengths = ", and strengths are chosen on the first of the inner folds" if dealt else ""
    return [
        Notice.of("large_table", n_train=n_train, limit=settings.large_table, strengths=strengths)
    ]


def _look_at_splits(
    splits: Sequence[Split], target: Target, subjects: npt.NDArray[np.object_]
) -> Iterable[Notice]:
    for split in splits if target.kind != "continuous" else ():
        unseen = np.setdiff1d(target.values[split.test], target.values[split.train])
        if len(unseen):
            names = one_of(target.classes[code] for code in unseen)
            yield Notice.of("fold_unseen_class", split=split.named, names=names)
    # The warning on single-class sites says it of a site that is held out.
    dealt = [
        split for split in splits if target.kind != "continuous" and split.held_out_site is None
    ]
    single = [split for split in dealt if len(np.unique(target.values[split.test])) < 2]
    if single:
        names = ", ".join(f"repeat {split.repeat} fold {split.fold}" for split in single[:5])
        yield Notice.of("single_class_fold", n=len(single), names=names)
    everything = np.arange(len(subjects))
    untested = np.setdiff1d(everything, np.concatenate([split.test for split in splits]))
    if len(untested):
        yield Notice.of("fold_untested", n=len(untested), n_all=len(subjects))
    held_out = [split for split in splits if split.held_out_site is not None]
    idle = [
        np.setdiff1d(everything, np.concatenate([split.train, split.test])) for split in held_out
    ]
    sat_out = {owner for rows in idle for owner in subjects[rows]}
    if sat_out:
        yield Notice.of("site_shared_subjects", n=len(sat_out))


def _class_sizes(table: pd.DataFrame, target: Target) -> Iterable[Notice]:
    subjects = table["subject_id"]
    if target.kind == "continuous":
        if subjects.nunique() < 2 * FEW_SUBJECTS:
            yield Notice.of("few_subjects", n=subjects.nunique())
        return
    counts = {
        name: subjects[target.values == code].nunique() for code, name in enumerate(target.classes)
    }
    few = ", ".join(f"'{name}' has {n}" for name, n in counts.items() if n < FEW_SUBJECTS)
    if few:
        yield Notice.of("few_subjects_of_class", least=FEW_SUBJECTS, classes=few)
    shares = np.bincount(target.values, minlength=len(target.classes)) / len(target.values)
    if target.kind == "binary" and shares.min() < RARE_SHARE:
        yield Notice.of(
            "class_imbalance", name=target.classes[int(shares.argmin())], share=shares.min()
        )
    changing = int((pd.Series(target.values).groupby(subjects.to_numpy()).nunique() > 1).sum())
    if changing:
        yield Notice.of("changing_class", n=changing)


def _site_spellings(table: pd.DataFrame, target: Target) -> Iterable[Notice]:
    if target.name != "site":
        for group in spelled_alike(site_names(table["site"])):
            yield Notice.of("site_spelling", sites=one_of(group))


def _sites(table: pd.DataFrame, target: Target, min_site_n: int) -> Iterable[Notice]:
    if target.name == "site":
        return
    sites = site_names(table["site"])
    n_missing = int((sites == NO_SITE).sum())
    if n_missing:
        rest = "" if n_missing == len(table) else f"; they form the group '{NO_SITE}'"
        yield Notice.of("site_missing", n=n_missing, n_all=len(table), rest=rest)
    sizes = table["subject_id"].groupby(sites).nunique()
    if len(sizes) == 1:
        if not n_missing:
            yield Notice.of("single_site", site=sizes.index[0])
        return
    small = [f"'{site}' ({n})" for site, n in sizes.items() if n < min_site_n]
    if small:
        yield Notice.of("small_site", least=min_site_n, sites=listed(small, 8))
    if target.kind == "continuous":
        return
    grouped = pd.Series(target.values).groupby(sites)
    single = [
        f"'{site}' ({target.classes[codes.iloc[0]]})"
        for site, codes in grouped
        if codes.nunique() == 1
    ]
    if single:
        yield Notice.of(
            "single_class_site", n=len(single), n_all=len(sizes), sites=listed(single, 8)
        )


def _site_association(people: pd.DataFrame, target: Target) -> Iterable[Notice]:
    known = people["site"].notna().to_numpy()
    values = target.values[known]
    sites = people["site"][known].to_numpy()
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


def _unlike_sites(target: Target, values: Labels, sites: Texts, n_shown: int = 3) -> str:
    """Return the sites that are least like the whole cohort, and in what."""
    continuous = target.kind == "continuous"
    columns = pd.DataFrame(
        values.astype(float) if continuous else np.eye(len(target.classes))[values.astype(int)]
    )
    overall = columns.mean()
    means = columns.groupby(sites).mean()
    apart = (means - overall).abs()
    code = int(apart.max().to_numpy().argmax())
    least = apart[code].sort_values(ascending=False, kind="stable").index[:n_shown]
    shown, what = ("{:.4g}".format, "mean ") if continuous else ("{:.0%}".format, "")
    names = ", ".join(f"'{site}' {what}{shown(means[code][site])}" for site in least)
    return (
        "" if continuous else f"{target.classes[code]}: "
    ) + f"{names}; all {shown(overall[code])}"


def _age(people: pd.DataFrame, target: Target) -> Iterable[Notice]:
    known = people["age"].notna().to_numpy()
    ages = people["age"].to_numpy()[known]
    codes = target.values[known]
    if target.name == "age" or not len(ages):
        return
    explained = variance_explained(ages, codes)
    present = np.unique(codes).astype(int)
    strength = float(np.sqrt(explained))
    limit = AGE_ASSOCIATION
    what = "√ε²"
    if (
        target.kind == "binary" and len(present) == 2
    ):  # a rare class explains little, however far it is from the other
        share = float(codes.mean())
        spread = max(1 - explained, np.finfo(float).tiny) * share * (1 - share)
        strength = float(np.sqrt(explained / spread))
        limit = AGE_DIFFERENCE
        what = "difference in standard deviations"
    if strength > limit:
        means = ", ".join(
            f"{target.classes[code]} {ages[codes == code].mean():.1f}" for code in present
        )
        how = f"{what} {strength:.2f} > {limit}; means {means}"
        yield Notice.of("imbalance", what="age", how=how, target=target.name)


def _sex(people: pd.DataFrame, target: Target) -> Iterable[Notice]:
    texts = np.array([text or "" for text in cell_texts(people["sex"])])
    known = texts != ""
    strength = (
        cramers_v(target.values[known], texts[known])
        if known.any() and target.name != "sex"
        else 0.0
    )
    if strength > SEX_ASSOCIATION:
        how = f"bias-corrected Cramér's V {strength:.2f} > {SEX_ASSOCIATION}"
        yield Notice.of("imbalance", what="sex", how=how, target=target.name)


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
    n = len(values)
    k = int(codes.max()) + 1
    total = float(((values - values.mean()) ** 2).sum())
    if n <= k or total == 0:
        return 0.0
    means = np.bincount(codes, weights=values) / np.bincount(codes)
    within = float(((values - means[codes]) ** 2).sum())
    return max(0.0, 1 - (within / (n - k)) / (total / (n - 1)))


@dataclass(frozen=True)
class Overlap:
    """People of pretraining among the people who are evaluated."""

    subjects: frozenset[str]
    compared: tuple[str, ...]
    """How they were looked for: ``identifiers``, ``contents``; neither where nobody says whom."""
    notices: tuple[Notice, ...]

    def notices_among(self, others: Iterable[Notice]) -> list[Notice]:
        """Return the notices, then the others but warnings of an earlier call of `check_overlap`."""
        notices = list(self.notices)
        for notice in others:
            if notice.code not in _OF_OVERLAP:
                notices.append(notice)
        return notices


def check_overlap(
    table: pd.DataFrame,
    info: EmbeddingsInfo,
    *,
    allow_overlap: bool = False,
    allowed_copies: float = 0.0,
) -> Overlap:
    """Find subjects who were in the pretraining cohort; refuse them unless they are allowed.

    They are found by their identifiers, and by the content of their scans under another name; all
    scans of such a subject count.

    Parameters
    ----------
    table : DataFrame
        Rows that are evaluated, as `tidy_table` returns them.
    info : EmbeddingsInfo
        Description of the embeddings, with the digests of pretraining.
    allow_overlap : bool
        Whether people of pretraining are warned about instead.
    allowed_copies : float
        Largest share of subjects with the content of others in pretraining that is warned about
        instead: official sets of images hold some twice.
    """
    people = _find_pretrained(table, info)
    n_all = table["subject_id"].nunique()
    compared, notices = _look_at_comparison(info, people, n_subjects=n_all)
    if not people.subjects:
        return Overlap(frozenset(), compared, tuple(notices))
    text = f"{len(people.subjects)} of {n_all} subjects were in the pretraining cohort"
    text += people.renamed_text
    if allow_overlap:
        notices.append(Notice.of("pretraining_overlap", text=text))
    elif not people.named and len(people.renamed) <= allowed_copies * n_all:
        notices.append(Notice.of("pretraining_copies", text=text))
    else:
        raise LeakageError(
            f"{text} ({listed(sorted(people.subjects))}): the encoder has seen them, and their "
            "scores would flatter it. Embed other people, keep only others with where, or set "
            "allow_overlap=True, which the report then says."
        )
    return Overlap(people.subjects, compared, tuple(notices))


def _look_at_comparison(
    info: EmbeddingsInfo, people: Recognised, *, n_subjects: int
) -> tuple[tuple[str, ...], list[Notice]]:
    """Return how people of pretraining were looked for, and a warning if contents were not."""
    if info.pretraining_unknown:
        who = f"Of the joined embeddings, {one_of(info.pretraining_unknown)} does"
        return (), [Notice.of("overlap_unknown", who=who)]
    if info.pretraining_subjects is None:
        return (), [Notice.of("overlap_unknown", who="The embeddings do")]
    if people.n_not_compared:
        notice = Notice.of("contents_unknown", n=people.n_not_compared, n_all=n_subjects)
        return ("identifiers",), [notice]
    return ("identifiers", "contents"), []


def pretrained(table: pd.DataFrame, info: EmbeddingsInfo) -> npt.NDArray[np.bool_]:
    """Return which rows are of subjects of the pretraining cohort, as far as the embeddings say."""
    people = _find_pretrained(table, info)
    return table["subject_id"].isin(people.subjects).to_numpy()


def _find_pretrained(table: pd.DataFrame, info: EmbeddingsInfo) -> Recognised:
    return info.known_people().find(table["subject_id"], table[CONTENT])


def check_duplicates(
    table: pd.DataFrame,
    features: Iterable[npt.NDArray[np.floating]],
    *,
    allow_overlap: bool = False,
) -> list[Notice]:
    """Refuse one person under the names of two subjects, or warn where that is allowed.

    They are found by equal features or contents, and by names that hold visits.
    """
    notices = _look_at_visits(table, allow_overlap=allow_overlap)
    codes = scan_codes(features, table.get(CONTENT, [""] * len(table)))
    subjects = pd.Series(table["subject_id"].to_numpy())
    several = (subjects.groupby(codes).transform("nunique") > 1).to_numpy()
    if not several.any():
        return notices
    owners = [
        " = ".join(sorted(names)[:3])
        for names in subjects[several].groupby(codes[several]).unique()
    ]
    text = (
        f"{len(owners)} images have the names of several subjects (equal features, or the same "
        f"content but for rounding): {listed(owners)}"
    )
    if not allow_overlap:
        raise LeakageError(
            f"{text}. They could be on both sides of a fold. Give them one subject_id or leave one out; to evaluate "
            "all the same, set allow_overlap=True."
        )
    return [*notices, Notice.of("duplicate_overlap", text=text)]


def _look_at_visits(table: pd.DataFrame, *, allow_overlap: bool) -> list[Notice]:
    """Refuse subjects whose names hold visits of one person, or warn of them if allowed."""
    subjects = table.drop_duplicates("subject_id")
    groups = visits_of_people(subjects["subject_id"], subjects.get("sex"))
    if not groups:
        return []
    sentence = text_of_visits(groups)
    if not allow_overlap:
        raise LeakageError(
            f"{sentence}. They could be on both sides of a fold. Give visits of one person one "
            "subject_id; to evaluate all the same, set allow_overlap=True."
        )
    return [Notice.of("visits_overlap", text=sentence)]
