"""What scans outside mean, in sentences that can be quoted."""

from __future__ import annotations

from collections.abc import Sequence

from neurocontrast.reporting.metrics import number_text
from neurocontrast.reporting.naming import join_words
from neurocontrast.reporting.outlyingness import Outside, SiteOutside

__all__ = ["say_check", "say_outside"]


def say_outside(counted: Outside, *, whose: str = "") -> str:
    """Say how many scans lie outside, how many that would be by chance, and at which sites; `whose`: " of …"."""
    text = f"{counted.n_outside:,} of {counted.n:,} scans{whose} lie outside the distribution of {counted.reference}"
    if counted.threshold is not None and counted.expected is not None:
        few = number_text(counted.expected, digits=1)
        text += f" (beyond percentile {counted.threshold:g}; by chance it would be about {few})"
    sites = counted.conspicuous or [site for site in counted.sites if site.n_outside]
    return f"{text}: {_list_sites(sites)}." if sites else f"{text}."


def say_check(counted: Outside) -> str | None:
    """Say what the check would have said of each site, had it been new; None where none was left out."""
    if not counted.unseen:
        return None
    n, n_outside = (sum(getattr(site, name) for site in counted.unseen) for name in ("n", "n_outside"))
    text = (
        f"While their site was left out, {n_outside:,} of {n:,} scans lay outside the distribution of the other sites"
    )
    flagged = counted.stand_out(counted.unseen)
    quiet = [site for site in counted.unseen if site not in flagged]
    text += f": {_list_sites(flagged)}. There the check would have warned a new site." if flagged else "."
    if quiet:
        sites = "anywhere" if not flagged else f"at {join_words([site.site for site in quiet[:8]])}"
        sites += f" and {len(quiet) - 8} more sites" if flagged and len(quiet) > 8 else ""
        text += f" It would have said nothing {sites}: being inside is no promise that the number is right."
    return text


def _list_sites(sites: Sequence[SiteOutside]) -> str:
    shown = [f"{site.site} ({site.n_outside:,} of {site.n:,})" for site in sites[:8]]
    more = [f"{len(sites) - 8} more sites"] if len(sites) > 8 else []
    return join_words([*shown, *more])
