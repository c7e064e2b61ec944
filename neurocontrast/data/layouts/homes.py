"""Folders of subjects: whether subjects of one name in several folders are one person."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from neurocontrast.data.layouts.longitudinal import scan_of_stream
from neurocontrast.data.layouts.tree import FoundScan, identity_of
from neurocontrast.exceptions import ConfigError, suggestion

_BELOW_SUBJECTS = ("mri", "anat", "label", "report", "stats", "surf")
_N_SHOWN = 3


@dataclass(frozen=True)
class Member:
    """Subject of a scan or of a row, in the folder that holds the folders of subjects."""

    subject: str
    home: str
    kind: tuple[tuple[str, str], ...] = ()
    """Entities that tell two images of one person apart, such as ``space``."""


@dataclass(frozen=True)
class HomeChoice:
    """Positions of the members that are taken, and the data set in front of the name of each."""

    rows: list[int]
    datasets: list[str]


def home_of(path: str, subject: str) -> str:
    """Return the folder that holds the folder of a subject: ``siteA`` of ``siteA/sub-01/anat/sub-01_T1w.nii``."""
    folders = path.split("/")[:-1]
    for depth, folder in enumerate(folders):
        if folder == subject or identity_of(scan_of_stream(folder))[0] == subject:
            return "/".join(folders[:depth])
    while folders and (folders[-1] in _BELOW_SUBJECTS or folders[-1].startswith("ses-")):
        folders.pop()
    return "/".join(folders)


def names_of_homes(homes: Collection[str]) -> dict[str, str]:
    """Return a short name for each folder: the first part by which all of them differ, else the whole path."""
    parts = {home: home.split("/") if home else [] for home in sorted(homes)}
    shortest = min((len(folders) for folders in parts.values()), default=0)
    depth = 0
    while depth < shortest and len({folders[depth] for folders in parts.values()}) == 1:
        depth += 1
    first = {home: "".join(folders[depth : depth + 1]) for home, folders in parts.items()}
    if len(set(first.values())) == len(first):
        return first
    return {home: "-".join(folders[depth:]) for home, folders in parts.items()}


def choose_homes(members: Sequence[Member], dataset: str) -> HomeChoice:
    """Choose among subjects of one name in several folders.

    Parameters
    ----------
    members : sequence of Member
        Subjects with their folders.
    dataset : str
        ``all``: people of different folders are different, and are named after their folder;
        ``same``: a name is one person everywhere; another name: that folder alone; "": refuse
        names that are in several folders.
    """
    everything = list(range(len(members)))
    names = names_of_homes({member.home for member in members})
    if dataset == "all":
        return HomeChoice(everything, [names[member.home] for member in members])
    no_datasets = [""] * len(members)
    if dataset == "same":
        return HomeChoice(everything, no_datasets)
    if dataset:
        rows = [
            row
            for row, member in enumerate(members)
            if dataset in (names[member.home], member.home)
        ]
        if not rows:
            hint = suggestion(dataset, names.values())
            raise ConfigError(f"choose: found dataset={dataset}; no scan is in this folder.{hint}")
        return HomeChoice(rows, [""] * len(rows))
    homes: dict[tuple[str, tuple[tuple[str, str], ...]], set[str]] = defaultdict(set)
    for member in members:
        homes[member.subject, member.kind].add(member.home)
    doubled = {subject: found for (subject, _), found in homes.items() if len(found) > 1}
    if doubled:
        raise ConfigError(_ambiguous(doubled, names))
    return HomeChoice(everything, no_datasets)


def _ambiguous(doubled: dict[str, set[str]], names: dict[str, str]) -> str:
    """Return the message on subjects of one name in several folders, with the flags that decide."""
    listed = []
    for subject, homes in sorted(doubled.items())[:_N_SHOWN]:
        listed.append(f"sub-{subject} ({', '.join(home or '.' for home in sorted(homes))})")
    first = min(doubled)
    home = max(doubled[first])
    more = f" and {len(doubled) - _N_SHOWN} more" if len(doubled) > _N_SHOWN else ""
    return (
        f"{len(doubled)} names of subjects are in several folders: {', '.join(listed)}{more}. "
        f"Different people: --choose dataset=all, which names them as {names[home]}_{first}; one "
        f"person: --choose dataset=same; one folder alone: --choose dataset={names[home]}."
    )


def scans_of_homes(scans: Iterable[FoundScan], dataset: str) -> list[FoundScan]:
    """Return scans named after their folder where that is asked for; refuse names in several folders."""
    listed = list(scans)
    members = [
        Member(
            scan.person,
            home_of(scan.path, scan.subject),
            tuple(sorted((key, value) for key, value in scan.entities.items() if key != "run")),
        )
        for scan in listed
    ]
    choice = choose_homes(members, dataset)
    chosen = [listed[row] for row in choice.rows]
    return [
        replace(scan, dataset=name) if name else scan
        for scan, name in zip(chosen, choice.datasets, strict=True)
    ]
