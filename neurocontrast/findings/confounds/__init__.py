"""What else the embedding holds: site, age, sex."""

from neurocontrast.findings.confounds.measure import Confounds, measure_confounds
from neurocontrast.findings.confounds.show import show_confounds
from neurocontrast.findings.finding import Finding

__all__ = ["CONFOUNDS"]

CONFOUNDS = Finding(
    "confounds", show_confounds, measure_confounds, record=Confounds, methods="methods_confounds.j2", of=("scans",)
)
