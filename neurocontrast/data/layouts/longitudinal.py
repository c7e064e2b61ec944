"""Choose among longitudinal results of FreeSurfer or CAT12: scans, templates, registered copies."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from neurocontrast.data.layouts.tree import FoundScan, Tree, joined_path
from neurocontrast.exceptions import ConfigError, one_of

STREAMS = {
    "cross": "scans as they were taken",
    "long": "longitudinal copies",
    "base": "templates of several scans of a person",
}
"""Value of ``--choose stream=`` → meaning in words, for notes."""
MARK = ".long."
_TIME_POINTS = "base-tps"
"""File in a FreeSurfer template's folder that lists the scans which the template averages."""
_ENDING_OF_TEMPLATES = ".base"
_AVERAGE_OF_CAT12 = "avg_"
_REALIGNED_BY_CAT12 = "rsub-"


@dataclass(frozen=True)
class StreamChoice:
    """Chosen longitudinal stream, positions of the stream's subjects, and a note on other streams.

    Made by `choose_stream`: `rows` are positions in the list `subjects` given to `choose_stream`.
    The note is "" if no stream is left out.
    """

    stream: str
    rows: list[int]
    note: str = ""


def stream_of(name: str, *, is_template: bool = False) -> str:
    """Return the longitudinal stream of a subject by its name: ``cross``, ``long`` or ``base``.

    ``long`` are copies registered to a template: FreeSurfer's ``A.long.B`` and CAT12's ``rsub-X``.
    ``base`` are templates, averages of a person's scans: names that begin with CAT12's ``avg_`` or
    end with ``.base``, and any name if `is_template` is true and the name is not of a copy. All
    other names are ``cross``, scans as they were taken.
    """
    if MARK in name or name.startswith(_REALIGNED_BY_CAT12):
        return "long"
    if is_template or name.startswith(_AVERAGE_OF_CAT12) or name.endswith(_ENDING_OF_TEMPLATES):
        return "base"
    return "cross"


def streams_of(subjects: Sequence[str]) -> list[str]:
    """Return the longitudinal stream of each of `subjects`: ``cross``, ``long`` or ``base``.

    A subject B is a template, of the stream ``base``, if ``A.long.B`` is a subject.
    """
    averages = set()
    for name in subjects:
        averages.add(name.partition(MARK)[2])
    averages.discard("")
    return [stream_of(name, is_template=name in averages) for name in subjects]


def scan_of_stream(name: str) -> str:
    """Return a subject's name without the marks that longitudinal processing adds to the name.

    `name` is the name of a FreeSurfer subject's folder or of a CAT12 file. The result is A for a
    longitudinal copy ``A.long.B``, ``sub-X`` for CAT12's realigned scan ``rsub-X`` or for CAT12's
    average ``avg_sub-X`` of several scans, and any other name unchanged.
    """
    name = name.partition(MARK)[0].removeprefix(_AVERAGE_OF_CAT12)
    if name.startswith(_REALIGNED_BY_CAT12):
        return name[1:]
    return name


def templates_below(tree: Tree) -> set[str]:
    """Return the folders in `tree` of FreeSurfer's templates, averages of a person's scans.

    A template's folder has a file ``base-tps``, or is B of a longitudinal copy ``A.long.B``.
    """
    folders = set()
    for folder, names in tree.folders.items():
        if _TIME_POINTS in names:
            folders.add(folder)
        parents, _, last = folder.rpartition("/")
        above, _, subject = parents.rpartition("/")
        if last in ("mri", "stats") and MARK in subject:
            folders.add(joined_path(above, subject.partition(MARK)[2]))
    return folders


def choose_stream(subjects: Sequence[str], streams: Sequence[str], stream: str) -> StreamChoice:
    """Choose one longitudinal stream among `subjects`, by the name `stream` or by a default.

    Return a `StreamChoice`, with the positions in `subjects` that are of the chosen stream.
    `streams` has the stream of each subject, ``cross``, ``long`` or ``base``. If `stream` is "",
    the choice is ``cross``, or ``long`` if there are copies registered to a template and no
    ``cross``.
    """
    if stream and stream not in STREAMS:
        raise ConfigError(f"choose: found stream={stream}; there are {one_of(STREAMS)}.")
    rows: dict[str, list[int]] = defaultdict(list)
    members: dict[str, set[str]] = defaultdict(set)
    for row, (subject, name) in enumerate(zip(subjects, streams, strict=True)):
        rows[name].append(row)
        members[name].add(subject)
    taken = stream
    if not stream:
        taken = "cross"
        if rows["long"] and not rows["cross"]:
            taken = "long"
    counts = []
    for name, meaning in STREAMS.items():
        if members[name] and name != taken:
            n_members = len(members[name])
            example = min(members[name])
            counts.append(f"{meaning} ({n_members}, such as {example}; stream={name})")
    note = ""
    if counts:
        note = (
            f"Of a longitudinal stream, left out are {' and '.join(counts)}; "
            "'neurocontrast index' with --choose stream=… takes them instead."
        )
    return StreamChoice(taken, rows[taken], note)


def scans_of_stream(
    scans: Iterable[FoundScan], stream: str
) -> tuple[list[FoundScan], list[FoundScan], str]:
    """Return the scans of one longitudinal stream, all other scans, and a note on the others.

    A stream is one sort of results of longitudinal processing: scans as they were taken
    (``cross``), copies registered to the person's template (``long``), or these templates
    (``base``). `stream` is the user's choice of the three; if "", ``cross`` is taken, or ``long``
    if there is no ``cross``. The note is "" if no scan is left out.
    """
    listed = list(scans)
    names = []
    streams = []
    for scan in listed:
        folder, _, file = scan.path.rpartition("/")
        name = file
        if file.endswith(".mgz"):
            name = folder.split("/")[-2]
        names.append(name)
        streams.append(scan.entities.get("stream", "cross"))
    choice = choose_stream(names, streams, stream)
    chosen = []
    others = []
    for scan, name in zip(listed, streams, strict=True):
        if name == choice.stream:
            chosen.append(scan)
        else:
            others.append(scan)
    return chosen, others, choice.note
