"""Where in the brain a frozen encoder and its probe look: maps of what a scan's score depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.explanation.settings import ExplanationSettings
from neurocontrast.lazy import lazy_exports

if TYPE_CHECKING:
    from neurocontrast.explanation.maps import LinearScore, explain_scans

__all__ = ["ExplanationSettings", "LinearScore", "explain_scans"]

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(__name__, {"maps": ["LinearScore", "explain_scans"]})
