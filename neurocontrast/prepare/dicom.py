"""Series of DICOM files, read by dcm2niix: what their headers say, and an image that says nothing of the patient."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd

from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path, write_json
from neurocontrast.lazy import require

__all__ = ["Series", "convert_series", "find_series_folders", "read_series"]

KEPT = (
    *("Modality", "Manufacturer", "ManufacturersModelName", "MagneticFieldStrength", "MRAcquisitionType"),
    *("EchoTime", "RepetitionTime", "InversionTime", "FlipAngle", "SliceThickness"),
)
"""What the JSON file beside an image says: settings of the scanner. dcm2niix leaves the hospital and the time in."""
N_VOXELS_MIN = 8
_N_FILES_LOOKED_AT = 3
_T1 = re.compile(r"t1|mp2?-?rage|bravo|spgr|tfe|tfl", re.IGNORECASE)
_OTHER = re.compile(
    r"t2|flair|loc|scout|survey|dwi|dti|bold|swi|tof|post|contrast|gad|(?<![a-z])(?:gd|km)(?![a-z])", re.I
)


@dataclass(frozen=True)
class Series:
    """One series of a folder, by what dcm2niix reads from its headers.

    Parameters
    ----------
    folder : Path
        Where its files are.
    header : dict
        Fields as dcm2niix calls them, with those that identify the patient.
    """

    folder: Path
    header: dict[str, Any]

    @property
    def description(self) -> str:
        """What the people at the scanner called the series."""
        return str(self.header.get("SeriesDescription") or self.header.get("ProtocolName") or "")

    def why_not_t1(self) -> str:
        """Return why this is no T1-weighted volume as it was acquired, or ""."""
        if self.header.get("Modality") != "MR":
            return f"is of modality {self.header.get('Modality', 'unknown')}, not MR"
        if "DERIVED" in self.header.get("ImageType", ()):
            return "is derived from another series"
        if self.header.get("MRAcquisitionType") == "2D":
            return "is of single slices (2D)"
        if not _T1.search(self.description) or _OTHER.search(self.description):
            return "is not T1-weighted by its name"
        return ""

    def why_not_called(self, text: str) -> str:
        """Return why this is not the series that is asked for by a text in its description, or ""."""
        return "" if text.lower() in self.description.lower() else f"is not called '{text}'"

    def sex(self) -> str:
        """Return F, M, or "" where the header says neither."""
        recorded = str(self.header.get("PatientSex", ""))
        return recorded if recorded in ("F", "M") else ""

    def age(self) -> str:
        """Return the age at the scan in years, "89+" from 90 on, or "" where the header does not say."""
        years = self.header.get("PatientAge")
        born, seen = (self.header.get(name) for name in ("PatientBirthDate", "AcquisitionDateTime"))
        if not years and born and seen:
            years = (pd.Timestamp(seen) - pd.Timestamp(born)).days / 365.25
        if not years:
            return ""
        return "89+" if float(years) >= 90 else f"{float(years):.4g}"

    def is_called(self, text: str) -> bool:
        """Tell whether a text holds the patient's name; a name that is the number too is a pseudonym."""
        name, number = (str(self.header.get(key, "")).lower() for key in ("PatientName", "PatientID"))
        words = re.findall(r"(?!anon|pseudo|patient|sub)[^\W\d_]{3,}", name) if name != number else []
        return any(word in text.lower() for word in words)

    def is_numbered(self, label: str) -> bool:
        """Tell whether a label is the patient's number, a pseudonym's or the hospital's."""
        number = re.sub(r"[^A-Za-z0-9]", "", str(self.header.get("PatientID", "")))
        return bool(number) and number.lower() in label.lower()


def find_series_folders(root: Path) -> list[Path]:
    """Return the folders below a folder that hold DICOM files, sorted; hidden files are passed over."""
    found = []
    for folder, _, names in os.walk(root):
        files = sorted(name for name in names if not name.startswith((".", "DICOMDIR")))
        if any(_is_dicom(Path(folder) / name) for name in files[:_N_FILES_LOOKED_AT]):
            found.append(Path(folder))
    return sorted(found)


def _is_dicom(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(132)[128:] == b"DICM"


def read_series(folder: Path) -> list[Series]:
    """Read the headers of the series of one folder, not of those below it."""
    with TemporaryDirectory(prefix="neurocontrast-") as temporary:
        _run(folder, Path(temporary), "-b", "o", "-ba", "n")
        found = sorted(Path(temporary).glob("*.json"))
        headers = [json.loads(path.read_text(encoding="utf-8", errors="replace")) for path in found]
    return [Series(folder, header) for header in headers]


def convert_series(folder: Path, target: Path) -> None:
    """Write the one series of a folder as ``target``, a ``.nii.gz`` file with a header of its own, and a JSON file."""
    with TemporaryDirectory(prefix="neurocontrast-") as temporary:
        said = _run(folder, Path(temporary), "-b", "y", "-ba", "y", "-z", "n")
        images = sorted(Path(temporary).glob("*.nii"))
        if len(images) != 1:
            raise DataError(f"{folder}: dcm2niix made {len(images)} images of it, not one. {said}")
        image = nib.load(images[0])
        if len(image.shape) != 3 or min(image.shape) < N_VOXELS_MIN:
            raise DataError(f"{folder}: the image has the shape {image.shape}; a T1-weighted scan is one volume.")
        header = json.loads(images[0].with_suffix(".json").read_text(encoding="utf-8", errors="replace"))
        fresh = nib.Nifti1Image(np.asanyarray(image.dataobj), image.affine)
    fresh.header.set_xyzt_units("mm")
    fresh.set_sform(image.affine, code=1)
    fresh.set_qform(image.affine, code=1)
    with atomic_path(target) as temporary_file:
        nib.save(fresh, temporary_file)
    sidecar = target.with_name(target.name.replace(".nii.gz", ".json"))
    write_json(sidecar, {name: header[name] for name in KEPT if name in header})


def _run(folder: Path, out: Path, *options: str) -> str:
    """Run dcm2niix on one folder, without the user's defaults; return its warnings and errors in one line."""
    program = require("dcm2niix", extra="prepare", purpose="Reading DICOM").bin
    command = [program, "-g", "i", "-d", "0", *options, "-f", "series%s_%j", "-o", str(out), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = (done.stdout + done.stderr).splitlines()
    told = [line.strip() for line in lines if line.startswith(("Warning", "Error")) and "Patient" not in line]
    return " ".join(told)
