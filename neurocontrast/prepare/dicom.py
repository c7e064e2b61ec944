"""Series of DICOM files, read by dcm2niix: what their headers say, and an image that says nothing of the patient."""

import contextlib
import itertools
import os
import re
import subprocess
import unicodedata
from collections.abc import Sequence
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
from neurocontrast.reading import parse_json, problem_of_place
from neurocontrast.transforms.preprocessing import N_VOXELS_MIN

KEPT = (
    *(
        "Modality",
        "Manufacturer",
        "ManufacturersModelName",
        "MagneticFieldStrength",
        "MRAcquisitionType",
    ),
    *("EchoTime", "RepetitionTime", "InversionTime", "FlipAngle", "SliceThickness"),
)
"""Fields of the JSON file next to an image: settings of the scanner. dcm2niix would add the hospital and the time."""
_AGE = re.compile(r"(\d{1,4}(?:\.\d+)?)([YMWD]?)")
_PER_YEAR = {"Y": 1.0, "M": 12.0, "W": 365.25 / 7, "D": 365.25}
_OLDEST = 120  # as in tables (neurocontrast.data.columns)
_KNOWN_WORDS = re.compile(
    r"missing images\?|interslice distance varies|unsupported transfer syntax|unable to (?:open|read|decode|find)|"
    r"(?:not a|no) valid dicom|slices? (?:not|stacked)|corrupt|truncated",
    re.IGNORECASE,
)
_T1 = re.compile(r"t1|mp2?-?rage|bravo|spgr|tfe|tfl", re.IGNORECASE)
_OTHER = re.compile(
    r"t2|flair|loc|scout|survey|dwi|dti|bold|swi|tof|post|contrast|gad|(?<![a-z])(?:gd|km)(?![a-z])",
    re.I,
)

_ENCODINGS = ("utf-8", "iso8859-2", "iso8859-5", "iso8859-7", "gb18030")
"""dcm2niix takes every name for Latin-1; others are tried too, since a wrong one gives words that no path holds."""
_WORD = re.compile(r"[^\W\d_]+")
_PLACEHOLDER = re.compile(r"anon|pseudo|patient|sub", re.IGNORECASE)
_NO_NAMES = {
    *("mr", "ms", "mrs", "dr", "prof", "jr", "sr", "ii", "iii", "iv"),
    *("de", "da", "di", "do", "el", "al", "la", "st", "van", "von", "der", "den", "del", "dos"),
}
_LETTERS = str.maketrans(
    {"ø": "o", "æ": "a", "œ": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
)
_DIGRAPHS = re.compile(r"(?<=[aou])e|(?<=a)a|(?<=s)s")


@dataclass(frozen=True)
class Series:
    """One series of a folder, by what dcm2niix reads from its headers."""

    folder: Path
    header: dict[str, Any]  # as dcm2niix calls the fields, with those that identify the patient

    @property
    def description(self) -> str:
        """What the people at the scanner called the series."""
        return str(self.header.get("SeriesDescription") or self.header.get("ProtocolName") or "")

    def why_not_t1(self) -> str:
        """Return why this is no T1-weighted volume as it was acquired, or ""."""
        if self.header.get("Modality") != "MR":
            return "is not of modality MR"
        if "DERIVED" in str(self.header.get("ImageType")):
            return "is derived from another series"
        if self.header.get("MRAcquisitionType") == "2D":
            return "is of single slices (2D)"
        if not _T1.search(self.description) or _OTHER.search(self.description):
            return "is not T1-weighted by its name"
        return ""

    def why_not_called(self, text: str) -> str:
        """Return why this is not the series that is asked for by a text in its description, or ""."""
        return (
            ""
            if text.lower() in self.description.lower()
            else "has no such text in its description"
        )

    @property
    def number(self) -> str:
        """The number of the series, or "?"."""
        number = self.header.get("SeriesNumber")
        return str(number) if isinstance(number, int) else "?"

    def sex(self) -> str:
        """Return F, M, or "" where the header says neither."""
        recorded = str(self.header.get("PatientSex", ""))
        return recorded if recorded in ("F", "M") else ""

    def age(self) -> str:
        """Return the age at the scan in years, "89+" from 90 on, or "" where the header does not say."""
        found = _AGE.fullmatch(str(self.header.get("PatientAge", "")).strip())
        years = float(found[1]) / _PER_YEAR[found[2] or "Y"] if found else 0.0
        if not years:
            dates = [self.header.get(name) for name in ("PatientBirthDate", "AcquisitionDateTime")]
            born, seen = (pd.to_datetime(str(date or ""), errors="coerce") for date in dates)
            years = 0.0 if pd.isna(born) or pd.isna(seen) else (seen - born).days / 365.25
        if not 0 < years <= _OLDEST:
            return ""
        return "89+" if years >= 90 else f"{years:.4g}"

    def is_called(self, place: Path) -> bool:
        """Tell whether a path holds the patient's name; a name with digits that is the number too is a pseudonym."""
        name, number = (str(self.header.get(key, "")) for key in ("PatientName", "PatientID"))
        is_pseudonym = name.lower() == number.lower() and any(
            character.isdigit() for character in name
        )
        return not is_pseudonym and holds_name(place.parts, name)

    def is_numbered(self, label: str) -> bool:
        """Tell whether a label is the patient's number, a pseudonym's or the hospital's."""
        number = re.sub(r"[^A-Za-z0-9]", "", str(self.header.get("PatientID", "")))
        return bool(number) and number.lower() in label.lower()


def find_series_folders(root: Path) -> list[Path]:
    """Return the folders below a folder that hold DICOM files, or cannot be read, sorted; hidden files do not count."""
    found = []
    for folder, _, names in os.walk(root, onerror=lambda error: found.append(Path(error.filename))):
        if any(
            _is_dicom(Path(folder) / name)
            for name in names
            if not name.startswith((".", "DICOMDIR"))
        ):
            found.append(Path(folder))
    return sorted(found)


def _is_dicom(path: Path) -> bool:
    if problem_of_place(path):
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(132)[128:] == b"DICM"
    except PermissionError:  # dcm2niix will read no series of this folder, and a message says so
        return True


def read_series(folder: Path, scratch: Path) -> list[Series]:
    """Read the headers of the series of one folder, not of those below it; `scratch` is a folder for what names people.

    Messages name neither paths nor what headers say; the notes of an error do.
    """
    try:
        if any(
            entry.is_fifo() or entry.is_socket() or entry.is_char_device()
            for entry in folder.iterdir()
        ):
            raise DataError("holds a pipe, a socket or a device")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})") from None
    with TemporaryDirectory(dir=scratch) as temporary:
        _run(folder, Path(temporary), "-b", "o", "-ba", "n")
        return [Series(folder, _header_in(path)) for path in sorted(Path(temporary).glob("*.json"))]


def convert_series(series: Series, target: Path, scratch: Path) -> None:
    """Write the one series of a folder as ``target``, a ``.nii.gz`` file with a header of its own, and a JSON file."""
    with TemporaryDirectory(dir=scratch) as temporary:
        said = _run(series.folder, Path(temporary), "-b", "y", "-ba", "y", "-z", "n")
        images = sorted(Path(temporary).glob("*.nii"))
        if len(images) != 1:
            raise _refusal(f"dcm2niix made {len(images)} images of it, not one", said)
        image = nib.load(images[0])
        if len(image.shape) != 3 or min(image.shape) < N_VOXELS_MIN:
            raise _refusal(
                f"the image has the shape {image.shape}; a T1-weighted scan is one volume", said
            )
        header = _header_in(images[0].with_suffix(".json"))
        fresh = nib.Nifti1Image(np.asanyarray(image.dataobj), image.affine)
    fresh.header.set_xyzt_units("mm")
    fresh.set_sform(image.affine, code=1)
    fresh.set_qform(image.affine, code=1)
    if not scratch.is_dir():
        raise DataError("convert was stopped while this series was read")
    with atomic_path(target) as temporary_file:
        nib.save(fresh, temporary_file)
    kept = {name: header[name] for name in KEPT if name in header}
    kept = {name: value for name, value in kept.items() if not series.is_called(Path(str(value)))}
    write_json(target.with_name(target.name.replace(".nii.gz", ".json")), kept)


def _header_in(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8", errors="replace")
    header: dict[str, Any] = parse_json(text, place="what dcm2niix reads of the headers")
    return header


def _refusal(text: str, said: str) -> DataError:
    """Return an error with what dcm2niix says of it in known words; all of its words are a note."""
    known = sorted({found.capitalize() for found in _KNOWN_WORDS.findall(said)})
    error = DataError("; ".join([text, *(f"dcm2niix: {words}" for words in known)]))
    if said:
        error.add_note(said)
    return error


def _run(folder: Path, out: Path, *options: str) -> str:
    """Run dcm2niix on one folder, without the user's defaults; return its warnings and errors in one line."""
    program = require("dcm2niix", extra="prepare", purpose="Reading DICOM").bin
    command = [
        program,
        "-g",
        "i",
        "-d",
        "0",
        *options,
        "-f",
        "series%s_%j",
        "-o",
        str(out),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = (done.stdout + done.stderr).splitlines()
    told = [
        line.strip()
        for line in lines
        if line.startswith(("Warning", "Error")) and "Patient" not in line
    ]
    return " ".join(told)


def holds_name(parts: Sequence[str], name: str) -> bool:
    """Tell whether the parts of a path hold a word of a name.

    Case, accents, transliteration (``Müller``, ``Mueller``, ``Muller``), the order of the words and
    characters between letters do not matter. Words of three letters are found anywhere in a part;
    shorter ones (``Li``, ``Wu``) as words of their own or together. Titles, particles and words
    such as ``anonymous`` are not names.
    """
    readings = [name]
    for encoding in _ENCODINGS:
        with contextlib.suppress(UnicodeError):
            readings.append(name.encode("latin-1").decode(encoding))
    # Single letters of English are initials; one character of Chinese is a name.
    found = {
        word
        for text in readings
        for word in _WORD.findall(text)
        if len(word) > 1 or not word.isascii()
    }
    words = {
        _folded(word)
        for word in found
        if word.casefold() not in _NO_NAMES and not _PLACEHOLDER.match(word)
    }
    long = {
        one + other for one, other in itertools.permutations(words, 2) if _is_long(one + other, 4)
    }
    long |= {word for word in words if _is_long(word, 3)}
    for part in parts:
        parted = _WORD.findall(_apart(part))
        tokens = list(map(_folded, parted))
        texts = (
            "".join(tokens),
            _folded("".join(parted)),
        )  # M.u.e.l.l.e.r has its digraph only when joined
        if words.intersection(tokens) or any(word in text for word in long for text in texts):
            return True
    return False


def _is_long(word: str, least: int) -> bool:
    return len(word) >= (least if word.isascii() else 2)


def _apart(text: str) -> str:
    """Return a text with a space where a capital follows a small letter."""
    text = unicodedata.normalize("NFC", text)
    return "".join(
        f" {letter}" if before.islower() and letter.isupper() else letter
        for before, letter in zip(f" {text}", text, strict=False)
    )


def _folded(word: str) -> str:
    """Return letters without case and accents; ``ae``, ``oe``, ``ue``, ``aa`` and ``ss`` become one letter."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter)).translate(
        _LETTERS
    )
    return _DIGRAPHS.sub("", plain)
