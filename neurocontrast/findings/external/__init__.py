"""The result on people from elsewhere."""

from neurocontrast.findings.external.measure import External, ExternalTest, measure_external_test, plan_external
from neurocontrast.findings.external.show import show_external
from neurocontrast.findings.finding import Finding

__all__ = ["EXTERNAL", "External", "plan_external"]

EXTERNAL = Finding(
    "external", show_external, measure_external_test, record=ExternalTest, methods="methods_external.j2", of=("scans",)
)
