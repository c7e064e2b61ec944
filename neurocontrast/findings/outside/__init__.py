"""Scans unlike those that the model learned from."""

from neurocontrast.findings.finding import Finding
from neurocontrast.findings.outside.measure import Outlyingness, measure_outlyingness
from neurocontrast.findings.outside.show import METHODS, show_outside

__all__ = ["OUTSIDE"]

OUTSIDE = Finding(
    "outlyingness", show_outside, measure_outlyingness, record=Outlyingness, methods=METHODS, of=("scans",)
)
