"""Longitudinal streams of FreeSurfer and CAT12: scans as they were taken, templates, and longitudinal copies."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from neurocontrast.data.layouts.tree import FoundScan, Tree, joined_path
from neurocontrast.exceptions import ConfigError, one_of

STREAMS = {
    "cross": "scans as they were taken",
    "long": "longitudinal copies",
    "base": "templates of several scans of a person",
}
"""Value of ``--choose stream=``, and its meaning in notes."""
MARK = ".long."
_TIME_POINTS = "base-tps"
"""File in the folder of a template, with the names of the scans that it is the average of."""
_ENDING_OF_TEMPLATES = ".base"
_AVERAGE_OF_CAT12 = "avg_"
_REALIGNED_BY_CAT12 = "rsub-"


@dataclass(frozen=True)
class StreamChoice:
    """Stream that is taken, positions of its subjects, and a note on the streams that are left out."""

    stream: str
    rows: list[int]
    note: str = ""


def streams_of(subjects: Sequence[str], templates: Collection[str] = ()) -> list[str]:
    """Return the stream of each subject's name: ``A.long.B`` is longitudinal, and B is then a template.

    CAT12 puts ``avg_`` before the names of averages, and ``r`` before those of realigned scans.

    Parameters
    ----------
    subjects : sequence of str
        Names of folders of a SUBJECTS_DIR, or of rows of a table made of one.
    templates : collection of str
        Names that are known to be templates, whatever they look like.
    """
    averages = {name.partition(MARK)[2] for name in subjects if MARK in name}
    averages.update(templates)
    streams = []
    for name in subjects:
        is_average = name in averages or name.startswith(_AVERAGE_OF_CAT12)
        if MARK in name or name.startswith(_REALIGNED_BY_CAT12):
            streams.append("long")
        elif is_average or name.endswith(_ENDING_OF_TEMPLATES):
            streams.append("base")
        else:
            streams.append("cross")
    return streams


def scan_of_stream(name: str) -> str:
    """Return the name of the scan that a longitudinal copy or an average is named after."""
    name = name.partition(MARK)[0].removeprefix(_AVERAGE_OF_CAT12)
    return name[1:] if name.startswith(_REALIGNED_BY_CAT12) else name


def templates_below(tree: Tree) -> set[str]:
    """Return the folders of a tree that hold a template of FreeSurfer's longitudinal stream, by any name."""
    folders = {folder for folder, names in tree.folders.items() if _TIME_POINTS in names}
    for folder in tree.folders:
        parents, _, last = folder.rpartition("/")
        above, _, subject = parents.rpartition("/")
        if last in ("mri", "stats") and MARK in subject:
            folders.add(joined_path(above, subject.partition(MARK)[2]))
    return folders


def choose_stream(subjects: Sequence[str], streams: Sequence[str], stream: str) -> StreamChoice:
    """Choose one stream: the one that is asked for, else scans as they were taken, else longitudinal copies."""
    if stream and stream not in STREAMS:
        raise ConfigError(f"choose: found stream={stream}; there are {one_of(STREAMS)}.")
    present = set(streams)
    taken = stream or ("long" if "long" in present and "cross" not in present else "cross")
    rows = [row for row, name in enumerate(streams) if name == taken]
    counts = []
    for name in STREAMS:
        members = [subjects[row] for row, other in enumerate(streams) if other == name]
        members = sorted(set(members))
        if members and name != taken:
            counts.append(f"{STREAMS[name]} ({len(members)}, such as {members[0]}; stream={name})")
    note = ""
    if counts:
        note = (
            f"Of a longitudinal stream, left out are {' and '.join(counts)}; "
            "'neurocontrast index' with --choose stream=… takes them instead."
        )
    return StreamChoice(taken, rows, note)


def scans_of_stream(
    scans: Iterable[FoundScan], stream: str
) -> tuple[list[FoundScan], list[FoundScan], str]:
    """Return the scans of one stream, scans of the other streams, and a note on the latter."""
    listed = list(scans)
    names = []
    for scan in listed:
        folder, _, file = scan.path.rpartition("/")
        is_freesurfer = file.endswith(".mgz")
        names.append(folder.split("/")[-2] if is_freesurfer else file)
    streams = [scan.entities.get("stream", "cross") for scan in listed]
    choice = choose_stream(names, streams, stream)
    chosen = set(choice.rows)
    others = [scan for row, scan in enumerate(listed) if row not in chosen]
    return [listed[row] for row in choice.rows], others, choice.note
