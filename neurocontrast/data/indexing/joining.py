"""Join scans with tables of people to rows of the index; note scans and people without a match."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from neurocontrast.data.indexing.index import N_NAMED, Index, SiteFrom
from neurocontrast.data.layouts.tree import (
    FoundScan,
    Tree,
    identity_of,
    problem_of_file,
    problem_of_names,
    problem_of_path,
)
from neurocontrast.data.people_tables import PeopleTables, ScanFacts
from neurocontrast.data.problems import Problems, first_names
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import Progress
from neurocontrast.reading import read_json


def check_files(
    scans: Sequence[FoundScan], tree: Tree, problems: Problems, progress: Progress
) -> None:
    """Add a problem for each image that is empty, oddly named, or of another kind than most.

    The problems are added to `problems`, by the name of the scan. An odd name cannot be written in
    a table, or contradicts the names of the image's folders. The kind is the space, such as MNI152,
    and the stage of preprocessing; each is compared with the commonest among `scans`.
    """
    if not any(scan.path for scan in scans):
        return
    with progress.task("Looking at images", total=len(scans), unit="scan") as task:
        for scan in scans:
            problem = (
                problem_of_path(scan.path)
                or problem_of_names(scan.path)
                or problem_of_file(tree.root / scan.path)
            )
            if problem:
                problems.add(f"{scan.path}: {problem}", name=scan.name)
            task.advance(1)
    spaces = Counter(scan.space for scan in scans)
    if len(spaces) > 1:
        counts = ", ".join(f"{space} ({n} images)" for space, n in spaces.most_common())
        common = spaces.most_common(1)[0][0]
        flag = f"space={common}"
        if ":cohort-" in common:
            flag = f"cohort={common.rpartition('-')[2]}"
        for scan in scans:
            if scan.space != common:
                problems.add(
                    f"{scan.path}: is in space '{scan.space}', not '{common}'", name=scan.name
                )
        problems.hint(f"Images are in several spaces: {counts}. Decide with --choose {flag}.")
    _check_stages(scans, problems)


def _check_stages(scans: Sequence[FoundScan], problems: Problems) -> None:
    """Add to `problems` each image of another stage of preprocessing than most images.

    A map of grey matter beside whole heads, for example, cannot be told apart by its voxels.
    """
    stages = Counter(scan.stage for scan in scans)
    if len(stages) < 2:
        return
    common = stages.most_common(1)[0][0]
    for scan in scans:
        if scan.stage != common:
            problems.add(f"{scan.path}: is of stage '{scan.stage}', not '{common}'", name=scan.name)
    counts = ", ".join(f"{stage} ({n} images)" for stage, n in stages.most_common())
    flags = " or ".join(f"--choose stage={stage}" for stage, _ in stages.most_common())
    problems.hint(
        f"Images are of several stages: {counts}. Make the missing images, or decide with {flags}."
    )
    if any(scan.stage != "tissue" and scan.maps.get("gm") for scan in scans):
        problems.hint("--choose stage=tissue takes maps of grey matter, also of people with heads.")


def scanner_settings_of(scan: FoundScan, tree: Tree, problems: Problems) -> dict[str, str]:
    """Return setting → text, such as ``MagneticFieldStrength``, from the JSON files of a scan.

    A more specific file replaces values of a more general one. For a file that cannot be read, a
    problem of the scan is added to `problems`.
    """
    settings: dict[str, str] = {}
    for sidecar in scan.sidecars:
        try:
            content = read_json(tree.root / sidecar)
        except DataError as error:
            problems.add(str(error).removeprefix(f"{tree.root}/"), name=scan.name)
            continue
        for key, value in content.items():
            if isinstance(value, str | int | float):
                settings[key] = " ".join(str(value).split())
    return settings


def row_of(
    scan: FoundScan,
    facts: ScanFacts,
    settings: Mapping[str, str],
    *,
    layout: str,
    site_from: SiteFrom,
) -> dict[str, str]:
    """Return a scan's row in the table that `index` writes: column → cell.

    Parameters
    ----------
    scan : FoundScan
        Scan of a layout.
    facts : ScanFacts
        Cells of the scan's person and session in tables of people: column → cell.
    settings : dict of str to str
        Settings of the scanner: name → text, from `scanner_settings_of`.
    layout : str
        Name of the layout.
    site_from : {"column", "folder", "scanner"}
        Origin of the site: a cell of the column ``site``, the first folder of the scan's path, or
        the scanner's name and serial number in `settings`.
    """
    scanner = _joined(settings.get("Manufacturer"), settings.get("ManufacturersModelName"))
    cells = {**scan.facts, **facts.cells}
    sex = ""
    sex_recorded = cells.get("sex", "")
    if sex_recorded in ("F", "M"):
        sex = sex_recorded
        sex_recorded = ""
    if site_from == "column":
        site = cells.get("site", "")
    elif site_from == "scanner":
        site = _joined(scanner, settings.get("DeviceSerialNumber"))
    else:
        site = _site_of_folder(scan)
    return {
        **cells,
        **scan.maps,
        "participant_id": f"sub-{scan.person}",
        "session": scan.session,
        "run": scan.entities.get("run", ""),
        "path": scan.path,
        "space": scan.space,
        "stage": scan.stage,
        "layout": layout,
        "age_source": facts.sources.get("age", ""),
        "sex": sex,
        "sex_recorded": sex_recorded,
        "site": site,
        "scanner": scanner,
        "field_strength": settings.get("MagneticFieldStrength", ""),
    }


def _joined(*words: str | None) -> str:
    """Join words by spaces, leaving out empty ones."""
    return " ".join(filter(None, words))


def _site_of_folder(scan: FoundScan) -> str:
    """Return a scan's site: the name of the first folder in the path below the indexed folder.

    A `ConfigError` is raised if this folder is named after the scan's subject, as ``sub-01``, or if
    the path has no folder.
    """
    if not scan.path:
        raise ConfigError(
            "site_from: 'folder' is of images, and tables of measures have none; give a column."
        )
    first, below, _ = scan.path.partition("/")
    if not below or identity_of(first)[0] == scan.subject:
        raise ConfigError(
            f"site_from: 'folder' takes '{first}' as a site, which is of one person; give a column."
        )
    return first


def compare_with_tables(
    scans: Sequence[FoundScan],
    facts: Sequence[ScanFacts],
    with_scan: set[str],
    people: PeopleTables,
    index: Index,
    problems: Problems,
) -> None:
    """Compare scans with tables of people, and add to `problems` the scans without a row there.

    Notes name tables in which a scan's person has rows for other sessions only. People in tables
    who are not among `with_scan`, the people with a scan, are added to the left-out list of
    `index`.
    """
    _note_averages(scans, index)
    if not any(of_scan.tables for of_scan in facts):
        index.notes.append("No table says anything of these people; --phenotype FILE joins one.")
    _note_other_sessions(scans, facts, people, index)
    _check_rows(scans, facts, people, problems)
    absent = _people_without_scan(people, with_scan)
    if not absent:
        return
    nothing = "no image"
    if scans and not scans[0].path:
        nothing = "no measures"
    for person, source in absent.items():
        index.left_out.append((f"sub-{person}", f"{source} has a row, and there is {nothing}"))
    listed = first_names(list(map("sub-{}".format, absent)), N_NAMED)
    index.notes.append(f"People in a table with {nothing}: {listed}.")
    in_short = {_without_zeros(person): person for person in sorted(with_scan)}
    for person, source in absent.items():
        alike = in_short.get(_without_zeros(person))
        if alike is not None:
            problems.hint(
                f"sub-{person} of {source} and sub-{alike} differ in zeros, which spreadsheets "
                "drop."
            )


def _people_without_scan(people: PeopleTables, with_scan: set[str]) -> dict[str, str]:
    """Return person → name of a table of people, for people who are not among `with_scan`.

    `with_scan` are the people with a scan. A person in several tables gets the last one's name.
    """
    tables = people.people()
    return {person: tables[person] for person in sorted(tables.keys() - with_scan)}


def _check_rows(
    scans: Sequence[FoundScan], facts: Sequence[ScanFacts], people: PeopleTables, problems: Problems
) -> None:
    """Add to `problems` each scan without a row in tables of people, or with another session there.

    Another session is a problem only if the two names differ in leading zeros alone, as M48 and
    M048.
    """
    for scan, of_scan in zip(scans, facts, strict=True):
        if people.general(scan.dataset) and not of_scan.tables:
            there_is = "there are measures"
            if scan.path:
                there_is = "there is an image"
            problems.add(f"{there_is}, and no table has a row", name=scan.name)
        for session in sorted(people.sessions_of(scan)):
            are_alike = _without_zeros(session) == _without_zeros(scan.session)  # M48 is M048
            if scan.session and session != scan.session and are_alike:
                problems.add(
                    f"the image is of ses-{scan.session}, and a table has ses-{session}",
                    name=scan.name,
                )


def _note_other_sessions(
    scans: Sequence[FoundScan], facts: Sequence[ScanFacts], people: PeopleTables, index: Index
) -> None:
    """Add a note to `index` on each table with rows of a scan's person, but none of the session.

    A table gets one note, even for a single scan. The note counts the scans of other sessions, and
    says that the table's rows were not joined to these scans.
    """
    names: dict[str, list[str]] = defaultdict(list)
    for scan, of_scan in zip(scans, facts, strict=True):
        for table in people.general(scan.dataset):
            if table.of(scan) and table.source not in of_scan.tables:
                names[table.source].append(scan.name)
        for table in people.of_subject(scan):
            if table.source not in of_scan.tables:
                names["sub-*_sessions.tsv"].append(scan.name)
    for source, of_scans in names.items():
        index.notes.append(
            f"{source}: of {len(of_scans)} scans, such as {of_scans[0]}, it has rows of other "
            "sessions alone; not joined."
        )


def _note_averages(scans: Sequence[FoundScan], index: Index) -> None:
    """Add a note to `index` on people with a scan without session and other scans with sessions.

    Such a scan may be the average or template of the person's other scans.
    """
    sessions: dict[str, set[str]] = defaultdict(set)
    for scan in scans:
        sessions[scan.person].add(scan.session)
    doubtful = []
    for person, names in sessions.items():
        if {""} < names:
            doubtful.append(f"sub-{person}")
    if doubtful:
        index.notes.append(
            f"{len(doubtful)} people have a scan without session beside scans of sessions: "
            f"{first_names(doubtful)}. If it is an average or template of them, remove its row."
        )


def _without_zeros(label: str) -> str:
    """Return a label without leading zeros in its numbers, to compare M48 with M048."""
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", label)
