"""What happens at a site that the model has not seen."""

from neurocontrast.findings.finding import Finding
from neurocontrast.findings.new_site.measure import NewSite, measure_new_sites
from neurocontrast.findings.new_site.show import show_new_site

__all__ = ["NEW_SITE"]

NEW_SITE = Finding(
    "new_site",
    show_new_site,
    measure_new_sites,
    record=NewSite,
    methods="methods_unseen_sites.j2",
    of=("scans",),
    last=True,
)
