"""Small made-up files as FreeSurfer, FastSurfer, CAT12 and OpenBHB write them."""

import json

import numpy as np
import pytest

ASEG = """# Title Segmentation Statistics
# generating_program {program}
# {version}
# Measure BrainSeg, BrainSegVol, Brain Segmentation Volume, 1200000.0, mm^3
# Measure EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume, {etiv}, mm^3
# Measure SurfaceHoles, SurfaceHoles, Total number of defect holes in surfaces prior to fixing, 16, unitless
# ColHeaders  Index SegId NVoxels Volume_mm3 StructName normMean normStdDev normMin normMax normRange
  1   4      4246     4245.9  Left-Lateral-Ventricle            34.2     12.6     12.0     81.0     69.0
  2  17      4280     {hippocampus}  Left-Hippocampus                  74.2      8.6     32.0    110.0     78.0
"""
APARC = """# Table of FreeSurfer cortical parcellation anatomical statistics
# generating_program mris_anatomical_stats
# {version}
# Measure Cortex, MeanThickness, Mean Thickness, {mean}, mm
# Measure Cortex, WhiteSurfArea, White Surface Total Area, 85000.1, mm^2
# Measure EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume, {etiv}, mm^3
# ColHeaders StructName NumVert SurfArea GrayVol ThickAvg ThickStd MeanCurv GausCurv FoldInd CurvInd
{region}  1100    700   2000  {mean} 0.500     0.120     0.030       12     1.5
"""
REGIONS = {"aparc": "bankssts", "aparc.a2009s": "G&S_frontomargin", "aparc.DKTatlas": "cuneus"}


@pytest.fixture
def subject(tmp_path):
    """Write the statistics of a subject; further arguments replace those of the text."""

    def write(
        name,
        *,
        version="cvs_version 7.1.1",
        etiv=1500000.0,
        hippocampus=4280.4,
        mean=2.5,
        atlases=REGIONS,
    ):
        folder = tmp_path / "subjects" / name / "stats"
        folder.mkdir(parents=True)
        about = {"version": version, "etiv": etiv, "hippocampus": hippocampus, "mean": mean}
        (folder / "aseg.stats").write_text(ASEG.format(program="mri_segstats", **about))
        for atlas in atlases:
            for side in ("lh", "rh"):
                (folder / f"{side}.{atlas}.stats").write_text(
                    APARC.format(region=REGIONS[atlas], **about)
                )
        return tmp_path / "subjects"

    return write


@pytest.fixture
def openbhb(tmp_path):
    """Arrays of two scans with the folder that names their columns."""
    resource = tmp_path / "resource"
    resource.mkdir()
    (resource / "freesurfer_atlas-desikan_labels.txt").write_text("lh-bankssts\nrh-bankssts\n")
    (resource / "freesurfer_channels.txt").write_text("surface_area_mm^2\naverage_thickness_mm\n")
    about = {"vbm_roi": {"features": ["lHip_GM_Vol", "lHip_CSF_Vol"], "channels": ["GM"]}}
    arrays = tmp_path / "train" / "derivatives"
    arrays.mkdir(parents=True)
    for n, name in enumerate(("sub-100000000001", "sub-100000000002")):
        desikan = np.array([[[1000.0, 1100.0 + n], [2.5, 2.25]]])
        np.save(arrays / f"{name}_preproc-freesurfer_desc-desikan_ROI.npy", desikan)
        np.save(arrays / f"{name}_preproc-cat12vbm_desc-gm_ROI.npy", np.array([[[3.25, 0.5 + n]]]))
    return tmp_path, lambda: (resource / "resources.json").write_text(json.dumps(about))
