"""Units by their magnitude: a table in mL, cm or shares of the head is refused by name, and never converted."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from neurocontrast.data.measures.names import UNITS, Kind
from neurocontrast.exceptions import DataError

__all__ = ["check_units"]

_TYPICAL = {
    **{"EstimatedTotalIntraCranialVol": 1.5e6, "BrainSegVol": 1.2e6, "BrainSegVolNotVent": 1.2e6, "MaskVol": 1.6e6},
    **{"CortexVol": 4.8e5, "TotalGrayVol": 6.5e5, "CerebralWhiteMatterVol": 4.5e5, "Brain-Stem": 2.1e4},
    **{f"{side}-{name}": volume for side in ("Left", "Right") for name, volume in (
        ("Hippocampus", 4e3), ("Putamen", 5e3), ("Caudate", 3.6e3), ("Thalamus-Proper", 7.5e3),
        ("Cerebellum-Cortex", 5.5e4), ("Amygdala", 1.6e3),
    )},
    **dict.fromkeys(("lHip_Vgm", "rHip_Vgm"), 3.2e3),
    **{f"{side}_{name}": value for side in ("lh", "rh") for name, value in (
        ("WhiteSurfArea_area", 9e4), ("superiorfrontal_volume", 2.2e4), ("superiorfrontal_area", 7e3),
        ("G_front_sup_volume", 1.6e4), ("G_front_sup_area", 5e3),
    )},
}  # fmt: skip
"""What these measures are in adults, in mm³ or mm²; newborns and diseases stay within a factor of ten."""
_THICKNESS = 2.5
_FACTOR = 10.0
_UNITS: Mapping[Kind, Mapping[float, str]] = {
    "thickness": {0.1: "cm", 1e3: "µm", 1e-3: "m"},
    "volume": {1e-3: "mL (cm³)", 1e-6: "L, or a share of the head", 1e9: "µm³"},
    "area": {1e-2: "cm²", 1e-6: "m²", 1e6: "µm²"},
}


def check_units(values: pd.DataFrame, kinds: Mapping[str, Kind]) -> None:
    """Refuse measures whose median over people is far from what it is in mm, mm² or mm³.

    Parameters
    ----------
    values : DataFrame
        Measures by region.
    kinds : dict of str to {"thickness", "volume", "area", "other"}
        Kind of measure of each column.

    Raises
    ------
    DataError
        With the columns, their medians, and the unit that they seem to have.
    """
    medians = values.median()
    of_cortex = medians[[name for name, kind in kinds.items() if kind == "thickness"]].dropna()
    typical = {name: value for name, value in _TYPICAL.items() if name in medians}
    if len(of_cortex):
        typical[str(of_cortex.index[0])] = _THICKNESS
    wrong = [name for name, value in typical.items() if not _is_near(medians[name], value, kinds[name])]
    if not wrong:
        return
    name = wrong[0]
    kind, median = kinds[name], medians[name]
    near = [unit for factor, unit in _UNITS[kind].items() if _is_near(median / factor, typical[name], kind)]
    guess = f"in {near[0]}" if near else "in no unit: standardised, perhaps"
    more = f" and {len(wrong) - 1} more columns" if len(wrong) > 1 else ""
    raise DataError(
        f"measures: '{name}'{more} should be in {UNITS[kind]}, where {typical[name]:,.5g} is usual; the median is "
        f"{median:.4g}. It seems to be {guess}. Convert the table to {UNITS[kind]}, or take it from the program again."
    )


def _is_near(value: float, typical: float, kind: Kind) -> bool:
    factor = 3.0 if kind == "thickness" else _FACTOR
    return bool(pd.isna(value)) or typical / factor <= value <= typical * factor
