"""Find fields of tables, images and JSON files that could identify a patient.

Messages show fields, and no values.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import nibabel as nib
from nibabel.filebasedimages import ImageFileError
from nibabel.freesurfer.mghformat import MGHError
from nibabel.spatialimages import HeaderDataError, ImageDataError
from nibabel.wrapstruct import WrapStructError

from neurocontrast.data.columns import AGE_COLUMNS, number_in
from neurocontrast.data.people import read_people
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError
from neurocontrast.reading import DAMAGE, check_place, read_json

_OF_NIBABEL = ImageFileError, HeaderDataError, ImageDataError, MGHError, WrapStructError
IMAGE_DAMAGE: tuple[type[Exception], ...] = (*DAMAGE, *_OF_NIBABEL)
"""Errors that nibabel raises for damaged image files."""
_FAULTS: tuple[type[Exception], ...] = (DataError, *IMAGE_DAMAGE)
TOP_AGE = 89.0
"""Highest age in years that identifies nobody, by the HIPAA rule; older people are written 89+."""

_COLUMNS = re.compile(
    r"(?:patient|family|first|last|given|middle|maiden|full|sur)_?name|name|initials|dob|mrn|ssn|"
    r"nhs_?(?:no|number)|.*birth.?date.*|.*date.?of.?birth.*|medical.?record.*|.*address.*|street|"
    r"post.?code|zip.?code|phone.*|telephone.*|e.?mail.*|.*passport.*|insurance.*|accession.*|"
    r"(?:scan|visit|acq\w*|study|exam|session)_?(?:date|time)|acq_time|date"
)
"""Pattern of column names whose content could identify a patient."""
_JSON_KEYS = re.compile(
    r"patient(?!position).*|.*date|.*datetime|.*physicians?name|.*operatorsname|operator.*|"
    r"institution(?:address|aldepartmentname)|accessionnumber|studyid|stationname|"
    r"requestingphysician|otherpatientids"
)
"""Pattern of JSON keys that could identify a patient, in lower case and without separators."""
_SOFTWARE = re.compile(
    r"(?:FSL|SPM|ANTs|AFNI|Nibabel|NiftyReg|FreeSurfer|dcm2niix|MNI|TE=|TR=|[0-9.:a-f-]*$)",
    re.IGNORECASE,
)
_TEXT_FIELDS = ("descrip", "aux_file", "db_name", "intent_name")
_HAS_EXTRA = 4
_HAS_NAME = 8
_HAS_COMMENT = 16
"""Flag in a gzip header for a comment; `_HAS_EXTRA` and `_HAS_NAME` flag an extra field and a
name.
"""


def look_for_identities(table: Path, images: Sequence[Path], problems: Problems) -> dict[str, int]:
    """Add a problem for each field that could identify a patient; count fields and unread files.

    Parameters
    ----------
    table : Path
        Table of people.
    images : sequence of Path
        Images; a JSON file of the same name is looked at, too.
    problems : Problems
        Receives one problem for each identifying field and each unreadable file.

    Returns
    -------
    dict of str to int
        ``n_found`` fields, and ``n_unread`` files that could not be read.
    """
    n_before = len(problems.found)
    _add_columns(table, problems)
    n_unread = 0
    for image in images:
        for path in _with_sidecar(image):
            try:
                for field in _identifying_fields(path):  # fields before a fault are reported
                    problems.add(f"{path.name}: {field}")
            except _FAULTS as error:
                n_unread += 1
                reason = "it is damaged"
                if isinstance(error, DataError):
                    reason = str(error).removeprefix(f"{path}: ")
                problems.add(
                    f"{path.name}: could not be read, so what it says of a patient is not known "
                    f"({reason})"
                )
    n_found = len(problems.found) - n_before - n_unread
    if n_found:
        problems.hint("Values are not shown here on purpose; look at the named fields yourself.")
    if n_unread:
        problems.hint(
            f"{n_unread} files could not be read. Whether they identify a patient is not known."
        )
    return {"n_found": n_found, "n_unread": n_unread}


def _with_sidecar(image: Path) -> list[Path]:
    """Return an image, and the JSON file of the same name if there is one."""
    sidecar = image.with_name(re.sub(r"(?i)(\.nii)?\.[^.]+$", "", image.name) + ".json")
    if os.path.lexists(sidecar):
        return [image, sidecar]
    return [image]


def _add_columns(table: Path, problems: Problems) -> None:
    """Add a problem for each column that could identify a patient, and for each with ages above 89.

    The problems are added to `problems`; the one for ages has the number of ages above 89 years.
    """
    cells = read_people(table).cells
    for column in cells.columns:
        if _COLUMNS.fullmatch(column.strip().lower().replace(" ", "_")):
            problems.add(
                "the column could identify patients; drop it from the table", column=column
            )
        if column.strip().lower() in AGE_COLUMNS:
            n_high = 0
            for cell in cells[column]:
                age = number_in("age", cell)
                n_high += age is not None and age > TOP_AGE
            if n_high:
                problems.add(
                    f"{n_high} ages are above {TOP_AGE:g} years; write 89+ instead", column=column
                )


def _identifying_fields(path: Path) -> Iterator[str]:
    """Yield descriptions of the fields of an image or JSON file that could identify a patient."""
    if path.suffix != ".json":
        yield from identifying_fields_of_image(path)
        return
    keys = sorted(_keys(read_json(path, of=object)))
    if keys:
        yield f"has the fields {', '.join(keys)}"


def identifying_fields_of_image(path: Path) -> Iterator[str]:
    """Yield descriptions of an image file's fields that tell of the image's origin.

    Such fields are texts and extensions in the header, and file name and time in gzip's header.
    """
    check_place(path)
    if path.suffix == ".gz":
        yield from _fields_of_gzip(path)
    if path.suffix == ".npy":
        return
    header = nib.load(path).header
    for field in _TEXT_FIELDS:
        if field in header:
            content = bytes(header[field].tobytes()).decode("latin-1").strip("\0 ")
            if content and not _SOFTWARE.match(content):
                yield f"the header's {field} holds text"
    for extension in getattr(header, "extensions", ()):
        yield f"the header has an extension of code {extension.get_code()}"


def _keys(content: object) -> set[str]:
    """Return the keys of JSON `content`, at any depth, that could identify a patient.

    Keys without a value are left out.
    """
    if isinstance(content, list):
        return set[str]().union(*map(_keys, content))
    if not isinstance(content, dict):
        return set()
    keys = set()
    for key, value in content.items():
        plain = re.sub("[^a-z0-9]", "", key.lower())
        if value not in ("", None) and _JSON_KEYS.fullmatch(plain):
            keys.add(key)
    return keys.union(*map(_keys, content.values()))


def _fields_of_gzip(path: Path) -> Iterator[str]:
    """Yield descriptions of the fields of a gzip header that tell of a file's origin."""
    with path.open("rb") as stream:
        start = stream.read(10)
        if len(start) < 10 or start[:2] != b"\x1f\x8b":
            return
        flags = start[3]
        if int.from_bytes(start[4:8], "little"):
            yield "gzip's header holds the time of compression"
        if flags & _HAS_EXTRA:
            length = int.from_bytes(stream.read(2), "little")
            stream.read(length)
        if flags & _HAS_NAME:
            name = stream.read(512).partition(b"\0")[0].decode("latin-1")
            if name and name != path.name.removesuffix(".gz"):
                yield "gzip's header holds another file name"
        if flags & _HAS_COMMENT:
            yield "gzip's header holds a comment"
