"""The result in parts: by site, by sex, by age band, by fold."""

from neurocontrast.findings.finding import Finding
from neurocontrast.findings.groups.measure import measure_groups
from neurocontrast.findings.groups.show import show_folds, show_groups, show_sites

__all__ = ["FOLDS", "GROUPS", "SITES"]

SITES = Finding("sites", show_sites, measure_groups, of=("scans",))
GROUPS = Finding("groups", show_groups, of=("scans",))
FOLDS = Finding("folds", show_folds)
