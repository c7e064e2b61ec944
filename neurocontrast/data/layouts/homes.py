"""Decide whether subjects of one name in several folders are one person.

The folder that holds a subject's folder, such as the folder of one data set, is called the
subject's home here.
"""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from neurocontrast.data.layouts.longitudinal import scan_of_stream
from neurocontrast.data.layouts.tree import FoundScan, identity_of
from neurocontrast.data.problems import first_names
from neurocontrast.exceptions import ConfigError, suggestion

_BELOW_SUBJECTS = ("mri", "anat", "label", "report", "stats", "surf")
_N_SHOWN = 3
"""Largest number of names that a message shows."""
Kind = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Member:
    """Subject of a scan or of a row of measures, with the subject's home.

    The home is the folder that holds the subject's folder: ``a`` for ``a/sub-01/anat/T1w.nii``.
    `choose_homes` compares members, to find one subject in several folders.
    """

    subject: str
    home: str
    kind: Kind = ()
    """Entities that tell two images of one person apart, such as ``space``."""


@dataclass(frozen=True)
class HomeChoice:
    """Result of `choose_homes`: positions of subjects to keep, and data sets to name them after.

    `rows` are positions in the list `members` of `choose_homes`. `datasets` has one text for each
    of `rows`: the name of the folder (data set) that is put in front of the subject's name, if
    subjects of one name in several folders are different people, and else "".
    """

    rows: list[int]
    datasets: list[str]


def home_of(path: str, subject: str) -> str:
    """Return the folder that holds a subject's folder: ``a`` for ``a/sub-01/anat/T1w.nii``."""
    folders = path.split("/")[:-1]
    for depth, folder in enumerate(folders):
        if folder == subject or identity_of(scan_of_stream(folder))[0] == subject:
            return "/".join(folders[:depth])
    while folders and (folders[-1] in _BELOW_SUBJECTS or folders[-1].startswith("ses-")):
        folders.pop()
    return "/".join(folders)


def names_of_homes(homes: Collection[str]) -> dict[str, str]:
    """Return folder → short name, for `homes`, the folders that hold the subjects' folders.

    A home is most often the folder of a data set, such as ``all/paris`` for ``all/paris/sub-01``.
    Its short name is the first folder below the path that all `homes` share. If two of these names
    are the same, the name of every home is its whole path below the shared path, with "-" for "/".
    """
    ordered = sorted(homes)
    shared = ""
    if ordered and all(ordered):
        shared = os.path.commonpath(ordered)
    below = dict.fromkeys(ordered, "")
    for home in ordered:
        below[home] = home.removeprefix(shared).strip("/")
    first = dict.fromkeys(ordered, "")
    for home, path in below.items():
        first[home] = path.partition("/")[0]
    if len(set(first.values())) == len(first):
        return first
    for home, path in below.items():
        first[home] = path.replace("/", "-")
    return first


def choose_homes(members: Sequence[Member], dataset: str) -> HomeChoice:
    """Choose among subjects of one name in several folders (homes), by a rule of the user.

    Return a `HomeChoice`: the positions of the chosen `members`, and for each the name of the
    folder to put in front of the subject's name, or "".

    Parameters
    ----------
    members : sequence of Member
        Subjects with their folders.
    dataset : str
        ``all``: people of different folders are different, and are named after their folder;
        ``same``: a name is one person everywhere; the name of a folder: only the subjects in
        this folder; "": refuse subjects' names that are in several folders.
    """
    everything = list(range(len(members)))
    homes = [member.home for member in members]
    names = names_of_homes(set(homes))
    if dataset == "all":
        return HomeChoice(everything, [names[home] for home in homes])
    if dataset == "same":
        return HomeChoice(everything, [""] * len(members))
    if dataset:
        rows = [row for row, home in enumerate(homes) if dataset in (names[home], home)]
        if not rows:
            hint = suggestion(dataset, names.values())
            raise ConfigError(f"choose: found dataset={dataset}; no scan is in this folder.{hint}")
        return HomeChoice(rows, [""] * len(rows))
    _check_one_home(members, names)
    return HomeChoice(everything, [""] * len(members))


def _check_one_home(members: Sequence[Member], names: dict[str, str]) -> None:
    """Raise a `ConfigError` if subjects of one name are in several folders (homes).

    The message has the flags that decide whether they are one person. `names` is folder → short
    name, for the message.
    """
    homes: dict[tuple[str, Kind], set[str]] = defaultdict(set)
    doubled: dict[str, list[str]] = {}
    for member in members:
        folders = homes[member.subject, member.kind]
        folders.add(member.home)
        if len(folders) > 1:
            doubled[member.subject] = sorted(folders)
    if not doubled:
        return
    listed = []
    for subject, folders_of_subject in sorted(doubled.items()):
        shown = ", ".join(folder or "." for folder in folders_of_subject)
        listed.append(f"sub-{subject} ({shown})")
    subject = min(doubled)
    name = names[doubled[subject][-1]]
    raise ConfigError(
        f"{len(doubled)} names of subjects are in several folders: "
        f"{first_names(listed, _N_SHOWN)}. Different people: --choose dataset=all, which names "
        f"them as {name}_{subject}; one person: --choose dataset=same; one folder alone: --choose "
        f"dataset={name}."
    )


def scans_of_homes(scans: Iterable[FoundScan], dataset: str) -> list[FoundScan]:
    """Return the scans to keep by the rule `dataset`, on subjects of one name in several folders.

    The rule is the user's. ``all``: subjects in different folders are different people; all scans
    are kept, and each scan's data set is named after the folder that holds its subject's folder.
    ``same``: all scans are kept unchanged. The name of a folder: only the scans of this folder are
    kept. "": all scans are kept unchanged, and a subject's name that is in several folders is an
    error, as in `choose_homes`.
    """
    listed = list(scans)
    members = []
    for scan in listed:
        entities = {**scan.entities, "run": ""}
        home = home_of(scan.path, scan.subject)
        members.append(Member(scan.person, home, tuple(sorted(entities.items()))))
    choice = choose_homes(members, dataset)
    chosen = []
    for row, name in zip(choice.rows, choice.datasets, strict=True):
        scan = listed[row]
        if name:
            scan = replace(scan, dataset=name)
        chosen.append(scan)
    return chosen
