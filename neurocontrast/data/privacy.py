"""What could identify a patient in tables, headers of images and JSON files; messages show fields, not values."""

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
"""What nibabel raises for damaged bytes."""
_FAULTS: tuple[type[Exception], ...] = (DataError, *IMAGE_DAMAGE)
TOP_AGE = 89.0
"""Ages above this number of years identify a person, by the rule of HIPAA."""

_COLUMNS = re.compile(
    r"(?:patient|family|first|last|given|middle|maiden|full|sur)_?name|name|initials|dob|mrn|ssn|nhs_?(?:no|number)|"
    r".*birth.?date.*|.*date.?of.?birth.*|medical.?record.*|.*address.*|street|post.?code|zip.?code|phone.*|telephone.*|"
    r"e.?mail.*|.*passport.*|insurance.*|accession.*|(?:scan|visit|acq\w*|study|exam|session)_?(?:date|time)|acq_time|date"
)
_JSON_KEYS = re.compile(
    r"patient(?!position).*|.*date|.*datetime|.*physicians?name|.*operatorsname|operator.*|institution(?:address|aldepartmentname)|"
    r"accessionnumber|studyid|stationname|requestingphysician|otherpatientids"
)
_SOFTWARE = re.compile(
    r"(?:FSL|SPM|ANTs|AFNI|Nibabel|NiftyReg|FreeSurfer|dcm2niix|MNI|TE=|TR=|[0-9.:a-f-]*$)",
    re.IGNORECASE,
)
_TEXT_FIELDS = ("descrip", "aux_file", "db_name", "intent_name")
_HAS_EXTRA = 4
_HAS_NAME = 8
_HAS_COMMENT = 16


def look_for_identities(table: Path, images: Sequence[Path], problems: Problems) -> dict[str, int]:
    """Note every field of a table, of its images and of their JSON files that could identify a patient.

    Returns how many fields were found, and how many files could not be read.
    """
    n_before = len(problems.found)
    n_unread = 0
    text = read_people(table).cells
    for column in text.columns:
        if _COLUMNS.fullmatch(column.strip().lower().replace(" ", "_")):
            problems.add(
                "the column could identify patients; drop it from the table", column=column
            )
        if column.strip().lower() in AGE_COLUMNS:
            n = sum(
                age > TOP_AGE
                for cell in text[column]
                if (age := number_in("age", cell)) is not None
            )
            if n:
                problems.add(
                    f"{n} ages are above {TOP_AGE:g} years; write 89+ instead", column=column
                )
    for image in images:
        beside = image.with_name(re.sub(r"(?i)(\.nii)?\.[^.]+$", "", image.name) + ".json")
        for path in (image, beside) if os.path.lexists(beside) else (image,):
            try:
                if path.suffix == ".json":
                    fields = sorted(_keys(read_json(path, of=object)))
                    found = iter([f"has the fields {', '.join(fields)}"] if fields else [])
                else:
                    found = identifying_fields_of_image(path)
                for field in found:  # what is given before a fault is told
                    problems.add(f"{path.name}: {field}")
            except _FAULTS as error:
                n_unread += 1
                why = (
                    str(error).removeprefix(f"{path}: ")
                    if isinstance(error, DataError)
                    else "it is damaged"
                )
                problems.add(
                    f"{path.name}: could not be read, so what it says of a patient is not known ({why})"
                )
    n_found = len(problems.found) - n_before - n_unread
    if n_found:
        problems.hint("Values are not shown here on purpose; look at the named fields yourself.")
    if n_unread:
        problems.hint(
            f"{n_unread} files could not be read. Whether they identify a patient is not known."
        )
    return {"n_found": n_found, "n_unread": n_unread}


def identifying_fields_of_image(path: Path) -> Iterator[str]:
    """Give the parts of an image file that tell where it is from: header fields, extensions, gzip's name and time."""
    check_place(path)
    if path.suffix == ".gz":
        yield from _fields_of_gzip(path)
    if path.suffix == ".npy":
        return
    header = nib.load(path).header
    for field in _TEXT_FIELDS:
        if field in header:
            text = bytes(header[field].tobytes()).decode("latin-1").strip("\0 ")
            if text and not _SOFTWARE.match(text):
                yield f"the header's {field} holds text"
    for extension in getattr(header, "extensions", ()):
        yield f"the header has an extension of code {extension.get_code()}"


def _keys(content: object) -> set[str]:
    """Return the keys of JSON content that name a person, a place or a date, those of nested objects included."""
    if isinstance(content, list):
        return {key for each in content for key in _keys(each)}
    if not isinstance(content, dict):
        return set()
    given = [key for key, value in content.items() if value not in ("", None)]
    named = {key for key in given if _JSON_KEYS.fullmatch(re.sub("[^a-z0-9]", "", key.lower()))}
    return named.union(*map(_keys, content.values()))


def _fields_of_gzip(path: Path) -> Iterator[str]:
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
