"""Folders and tables that look like FreeSurfer's and FastSurfer's, with invented numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

DESIKAN = """
bankssts caudalanteriorcingulate caudalmiddlefrontal cuneus entorhinal frontalpole fusiform
inferiorparietal inferiortemporal insula isthmuscingulate lateraloccipital lateralorbitofrontal
lingual medialorbitofrontal middletemporal paracentral parahippocampal parsopercularis parsorbitalis
parstriangularis pericalcarine postcentral posteriorcingulate precentral precuneus
rostralanteriorcingulate rostralmiddlefrontal superiorfrontal superiorparietal superiortemporal
supramarginal temporalpole transversetemporal
""".split()
DKT = [name for name in DESIKAN if name not in ("bankssts", "frontalpole", "temporalpole")]
VOLUMES_MM3 = {
    "Left-Hippocampus": 4000,
    "Right-Hippocampus": 4100,
    "Left-Putamen": 5000,
    "Right-Putamen": 5000,
    "Left-Amygdala": 1600,
    "Right-Amygdala": 1600,
    "Left-Caudate": 3600,
    "Right-Caudate": 3600,
    "Brain-Stem": 21000,
    "3rd-Ventricle": 1000,
    "CSF": 1100,
    "Left-Lateral-Ventricle": 8000,
    "Right-Lateral-Ventricle": 7600,
}


def write_aseg(
    path: Path,
    random: np.random.Generator,
    *,
    version: str | None = "7.4.1",
    by_fastsurfer: bool = False,
    factor: float = 1.0,
    thalamus: str = "Thalamus",
    with_etiv: bool = True,
    further_measures: Sequence[str] = (),
    volumes: Mapping[str, float] = VOLUMES_MM3,
) -> None:
    """Write ``aseg.stats`` of one scan; every volume is multiplied by `factor`."""
    lines = ["# Title Segmentation Statistics", "#"]
    if by_fastsurfer:
        lines.append("# FastSurfer_version 2.5.0")
    if version is not None:
        lines += [f"# cvs_version {version}", "# subjectname x"]
    brain = 1.2e6 * factor * random.normal(1, 0.05)
    lines.append(f"# Measure BrainSeg, BrainSegVol, Brain Segmentation Volume, {brain:.6f}, mm^3")
    if with_etiv:
        head = 1.5e6 * random.normal(1, 0.06)
        name = "EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume"
        lines.append(f"# Measure {name}, {head:.6f}, mm^3")
    lines += further_measures
    lines.append("# NTableCols 10")
    columns = "Index SegId NVoxels Volume_mm3 StructName normMean normStdDev normMin normMax"
    lines.append(f"# ColHeaders  {columns} normRange")
    structures = {**volumes, f"Left-{thalamus}": 7500, f"Right-{thalamus}": 7400}
    for number, (name, typical) in enumerate(structures.items(), start=1):
        volume = typical * factor * random.normal(1, 0.08)
        cells = f"{number:2d} {number + 3:3d} {int(volume):8d} {volume:10.1f}"
        lines.append(f"  {cells}  {name}  80.0 9.0 20.0 140.0 120.0")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def write_aparc(
    path: Path,
    random: np.random.Generator,
    *,
    version: str | None = "7.4.1",
    regions: Sequence[str] = DESIKAN,
    by_fastsurfer: bool = False,
    missing_comma: bool = False,
) -> None:
    """Write ``?h.aparc.stats`` of one hemisphere of one scan."""
    lines = ["# Table of FreeSurfer cortical parcellation anatomical statistics", "#"]
    if by_fastsurfer:
        lines.append("# FastSurfer_version 2.5.0")
    if version is not None:
        lines.append(f"# cvs_version {version}")
    n_vertices = int(140_000 * random.normal(1, 0.05))
    area = 90_000 * random.normal(1, 0.05)
    thickness = 2.5 * random.normal(1, 0.03)
    lines += [
        f"# Measure Cortex, NumVert, Number of Vertices, {n_vertices}, unitless",
        f"# Measure Cortex, WhiteSurfArea, White Surface Total Area, {area:.1f}, mm^2",
        f"# Measure Cortex, MeanThickness, Mean Thickness, {thickness:.5f}, mm",
    ]
    if missing_comma:
        lines.append(
            "# Measure Cortex, CortexVol Total cortical gray matter volume, 390925.9, mm^3"
        )
    columns = "NumVert SurfArea GrayVol ThickAvg ThickStd MeanCurv GausCurv FoldInd CurvInd"
    lines.append(f"# ColHeaders StructName {columns}")
    for region in regions:
        vertices = int(1500 * random.normal(1, 0.1))
        surface = 1000 * random.normal(1, 0.1)
        grey = 2700 * random.normal(1, 0.1)
        thick = 2.5 * random.normal(1, 0.06)
        cells = f"{vertices} {surface:.0f} {grey:.0f} {thick:.3f} 0.5 0.12 0.03 10 1.0"
        lines.append(f"{region}  {cells}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def write_people(
    path: Path, participants: Sequence[str], random: np.random.Generator, **columns: Sequence[str]
) -> None:
    """Write a table of people of 20 to 80 years at two sites, with further columns."""
    rows = ["\t".join(["participant_id", "age", "sex", "site", *columns])]
    for number, participant in enumerate(participants):
        site = ("paris", "lyon")[number // 2 % 2]
        cells = [participant, f"{random.uniform(20, 80):.1f}", "FM"[number % 2], site]
        rows.append("\t".join([*cells, *(values[number] for values in columns.values())]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")
