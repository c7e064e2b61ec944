"""Which sites can be left out to see what a probe does at a new one, and the folds that do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import one_of

__all__ = ["MAX_GROUPS", "MIN_SITE_SUBJECTS", "SitesLeftOut", "plan_sites_left_out"]

Rows = npt.NDArray[np.intp]

MIN_SITE_SUBJECTS = 5
"""A site with fewer subjects is not left out: its error would say nothing."""
MAX_GROUPS = 20
"""More sites than this are left out in so many groups of about equal size, so that the cost stays that of 20 fits."""


@dataclass(frozen=True)
class SitesLeftOut:
    """Folds that each leave sites out, and what could not be left out.

    Attributes
    ----------
    splits : list of Split
        One a site, or one a group of sites.
    site_of : array (n,)
        Site of each scan; None where it is not known.
    sites : tuple of str
        That are tested while unseen.
    skipped : list of dict
        ``site`` and ``why`` of the others.
    why_not : str or None
        Why nothing is left out.
    """

    splits: list[Split]
    site_of: npt.NDArray[np.object_]
    sites: tuple[str, ...]
    skipped: list[dict[str, str]] = field(default_factory=list)
    why_not: str | None = None

    @property
    def rows(self) -> Rows:
        """Scans that are tested while their site is unseen."""
        return np.sort(np.concatenate([split.test for split in self.splits]))

    @property
    def design(self) -> str:
        """What was done, in a few words."""
        grouped = len(self.splits) < len(self.sites)
        return f"leave-sites-out in {len(self.splits)} groups" if grouped else "leave-one-site-out"


def plan_sites_left_out(study: Study) -> SitesLeftOut:
    """Return folds that leave out each site whose people the main folds test while their site is known."""
    sites = study.sites
    why_not = _why_not(study, sites)
    if why_not is not None:
        return SitesLeftOut([], sites, (), why_not=why_not)
    home = _tested_at_home(study.splits, sites)
    if not home.any():
        text = "the main folds hold sites out already: their figures are those of unseen sites"
        return SitesLeftOut([], sites, (), why_not=text)
    skipped, chosen = [], []
    for site in sorted({site for site in sites if site is not None}):
        why = _why_skipped(study, np.flatnonzero(home & (sites == site)))
        if why is None:
            chosen.append(site)
        else:
            skipped.append({"site": site, "why": why})
    splits: list[Split] = []
    for group in _groups(chosen, sites):
        split = _split(study, sites, home, group, fold=len(splits))
        why = _why_untrainable(study.target, study.subjects, split)
        if why is None:
            splits.append(split)
        else:
            skipped += [{"site": site, "why": why} for site in group]
            chosen = [site for site in chosen if site not in group]
    skipped.sort(key=lambda each: each["site"])
    why_not = None if splits else "no site can be left out: " + _shown(skipped)
    return SitesLeftOut(splits, sites, tuple(chosen), skipped, why_not)


def _why_not(study: Study, sites: npt.NDArray[np.object_]) -> str | None:
    known = {site for site in sites if site is not None}
    if study.fixed:
        return "a column says what is tested (split_column), and no site is left out"
    if study.target.name == "site":
        return "the site is the target, and a site that is left out cannot be predicted"
    if len(known) < 2:
        return "no scan has a site" if not known else f"one site only ('{next(iter(known))}')"
    if study.settings.harmonise == "combat" or "site" in study.settings.residualise:
        return "harmonise=combat and residualise=[site] learn a site from its training scans; an unseen one has none"
    return None


def _tested_at_home(splits: Sequence[Split], sites: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    """Return which scans have a site and are tested by the main folds, always with their site in training."""
    tested, unknown = np.zeros((2, len(sites)), dtype=bool)
    for split in splits:
        seen = {site for site in sites[split.train] if site is not None}
        tested[split.test] = True
        unknown[split.test] |= np.array([site not in seen for site in sites[split.test]], dtype=bool)
    return tested & ~unknown


def _why_skipped(study: Study, rows: Rows) -> str | None:
    n = len(set(study.subjects[rows]))
    if n < MIN_SITE_SUBJECTS:
        return f"fewer than {MIN_SITE_SUBJECTS} subjects ({n}) tested while the site is known"
    if study.target.kind == "continuous":
        return None
    present = np.unique(study.target.values[rows])
    return f"single class ({study.target.classes[int(present[0])]})" if len(present) < 2 else None


def _groups(chosen: Sequence[str], sites: npt.NDArray[np.object_]) -> list[list[str]]:
    if len(chosen) <= MAX_GROUPS:
        return [[site] for site in chosen]
    groups: list[list[str]] = [[] for _ in range(MAX_GROUPS)]
    filled = np.zeros(MAX_GROUPS)
    sizes = {site: int((sites == site).sum()) for site in chosen}
    for site in sorted(chosen, key=lambda name: (-sizes[name], name)):
        least = int(filled.argmin())
        groups[least].append(site)
        filled[least] += sizes[site]
    return groups


def _split(
    study: Study, sites: npt.NDArray[np.object_], home: npt.NDArray[np.bool_], group: Sequence[str], *, fold: int
) -> Split:
    """Train on scans of other, known sites; a subject that was at a site of the group too is not trained on."""
    members = np.isin(sites.astype(str), list(group)) & np.array([site is not None for site in sites])
    known = np.array([site is not None for site in sites])
    owners = study.subjects.astype(str)
    train = known & ~members & ~np.isin(owners, owners[members])
    return Split(0, fold, np.flatnonzero(train), np.flatnonzero(members & home), ", ".join(group))


def _why_untrainable(target: Target, subjects: npt.NDArray[np.object_], split: Split) -> str | None:
    if target.kind == "continuous":
        varies = len(split.train) >= 2 and np.ptp(target.values[split.train].astype(float)) > 0
        return None if varies else f"'{target.name}' does not vary in the {len(split.train)} scans of the other sites"
    owners, values = subjects[split.train].astype(str), target.values[split.train]
    counts = [len(set(owners[values == code])) for code in range(len(target.classes))]
    needed = range(2) if target.kind == "binary" else np.unique(target.values[split.test]).astype(int)
    lacking = [target.classes[code] for code in needed if counts[code] < 2]
    return f"fewer than two subjects of {one_of(lacking)} at the other sites" if lacking else None


def _shown(skipped: Sequence[dict[str, str]]) -> str:
    listed = "; ".join(f"{each['site']}: {each['why']}" for each in skipped[:8])
    return listed + (f"; and {len(skipped) - 8} more" if len(skipped) > 8 else "")
