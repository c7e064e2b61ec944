"""The fuzzer's own modules, and the makers of evaluation folders, are imported by name."""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "reporting")]
