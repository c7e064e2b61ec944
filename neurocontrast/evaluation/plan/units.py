"""Choose the subjects or sites that a bootstrap resamples together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from neurocontrast.data.connected import number_connected
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.rows import NO_SITE, Texts
from neurocontrast.exceptions import ConfigError

ENOUGH_SITES = 20
"""Fewest sites at which ``bootstrap_unit=auto`` resamples sites; fewer give too short intervals."""
MIN_SITES = 5
"""Fewest sites that can be resampled with ``bootstrap_unit=site``."""


@dataclass(frozen=True)
class Units:
    """Groups of scans that a bootstrap draws together: all scans of a subject, or of a site.

    `name` is ``subject`` or ``site``. `labels` (n,) name the group of each scan; sites that share a
    subject are one group.
    """

    name: str
    labels: Texts
    notices: tuple[Notice, ...] = ()

    @property
    def n(self) -> int:
        """Number of groups, subjects or sites, that the scans belong to."""
        return len(set(self.labels))


def choose_units(asked: str, sites: Texts, subjects: Texts, *, target: str) -> Units:
    """Return the subject or site of each scan, by which a bootstrap resamples scans, as `Units`.

    `asked` is ``subject``, ``site`` or ``auto``. With ``auto``, sites are resampled if there are
    `ENOUGH_SITES`, every scan has one, and the site is not the target. If sites are resampled,
    sites that share a subject form one unit.
    """
    by_subject = Units("subject", subjects)
    by_site = Units("site", _linked_sites(sites, subjects))
    n = by_site.n
    n_missing = int((sites == NO_SITE).sum())
    if asked == "subject":
        return by_subject
    if asked == "auto":
        return by_site if not n_missing and target != "site" and n >= ENOUGH_SITES else by_subject
    remedy = "Use bootstrap_unit=subject"
    if target == "site":
        raise ConfigError(
            f"bootstrap_unit: sites cannot be resampled to predict the site. {remedy}."
        )
    if n_missing:
        raise ConfigError(
            f"bootstrap_unit: 'site' needs a site of each scan, and {n_missing} of {len(sites)} "
            "scans have no site. "
            f"{remedy}, or choose scans with where."
        )
    if n < MIN_SITES:
        raise ConfigError(
            f"bootstrap_unit: 'site' needs at least {MIN_SITES} sites that share no subject, found "
            f"{n}: an interval "
            f"would be far too short. {remedy}, or choose scans with where."
        )
    few = [Notice.of("few_sites_resampled", n=n, enough=ENOUGH_SITES)] if n < ENOUGH_SITES else []
    return replace(by_site, notices=tuple(few))


def _linked_sites(sites: Texts, subjects: Texts) -> Texts:
    """Return a number for each scan, the same for scans of sites that subjects link.

    Two sites that share a subject are linked, and so are sites that are linked to the same site.
    """
    places = pd.factorize(sites)[0]
    owners = pd.factorize(subjects)[0]
    return number_connected(places, owners)[places].astype(object)
