"""Scans unlike those that the model learned from."""

from neurocontrast.findings.finding import Finding
from neurocontrast.findings.outside.measure import Outlyingness, measure_outlyingness
from neurocontrast.findings.outside.show import show_outside

__all__ = ["OUTSIDE"]

OUTSIDE = Finding(
    "outlyingness", show_outside, measure_outlyingness, record=Outlyingness, methods="methods_outside.j2", of=("scans",)
)
