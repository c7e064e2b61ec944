"""From a folder of scans to one table: scans are found, chosen and joined with tables of people."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from neurocontrast.cells import number_of
from neurocontrast.data.layouts import LAYOUTS, derived_among_raw
from neurocontrast.data.layouts.homes import scans_of_homes
from neurocontrast.data.layouts.longitudinal import scans_of_stream
from neurocontrast.data.layouts.tree import (
    FoundScan,
    Tree,
    identity_of,
    links_to_others,
    problem_of_file,
    problem_of_names,
    problem_of_path,
)
from neurocontrast.data.measures.finding import Choice, files_of_measures
from neurocontrast.data.measures.names import HEAD_SIZE, MM3_PER_ML
from neurocontrast.data.measures.tables import MeasuresTable, read_chosen
from neurocontrast.data.people import notes_on_sexes
from neurocontrast.data.phenotype import Known, PeopleTables
from neurocontrast.data.problems import Problems, first_names
from neurocontrast.data.roots import tree_at
from neurocontrast.data.subjects import subjects_of_participants
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.files import composed
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import subject_label
from neurocontrast.reading import read_json

SiteFrom = Literal["column", "folder", "scanner"]

_MAPS = ("mask_path", "gm", "wm", "csf")
COLUMNS = (
    *("participant_id", "subject_id", "session", "run", "path", *_MAPS, "space", "stage"),
    *(
        "layout",
        "age",
        "age_source",
        "sex",
        "sex_recorded",
        "site",
        "scanner",
        "field_strength",
        "diagnosis",
        "tiv",
    ),
    *("iqr", "euler", "qc_rating"),
)
"""Columns of the table, in order; further ones that were asked for follow. The last three are CAT12's grade, the Euler
number of FreeSurfer's surfaces, and a rating by eye."""
MEASURES = "measures"
"""Name of the layout of a folder that holds tables of regional measures, and no images."""

_N_SHOWN = 4
_DICOM = " Make a BIDS tree of DICOM files first, with heudiconv or dcm2bids."


@dataclass
class Index:
    """The scans of a folder, and how they were chosen."""

    table: pd.DataFrame  # one row a scan, all cells text, with the columns `COLUMNS`
    layout: str
    n_found: int
    left_out: list[tuple[str, str]] = field(default_factory=list)  # path or person, and the reason
    notes: list[str] = field(default_factory=list)  # what was decided without being asked
    tables: list[str] = field(default_factory=list)  # those that were joined
    cells_not_read: list[str] = field(default_factory=list)
    """Problems with cells of tables; by ``--skip`` the scan is kept, and the cell is missing."""
    path: Path = Path()  # of the table, once it is written
    record_path: Path = Path()  # of the record beside the table
    measures_path: Path | None = None  # of the table of regional measures, if there are any
    measures: MeasuresTable | None = (
        None  # of these scans and others, if tables of regional measures are there
    )

    def __str__(self) -> str:
        n_people = self.table["subject_id"].nunique()
        title = f"{len(self.table):,} scans of {n_people:,} people, layout {self.layout}"
        n_left_out = f"left out: {len(self.left_out):,}"
        return "\n".join([title, n_left_out, *self.notes, str(self.path)])


def index_scans(
    root: Path,
    *,
    tables: Sequence[Path] = (),
    layout: str = "auto",
    phenotypes: Sequence[Path] = (),
    id_column: str | None = None,
    site_from: SiteFrom = "column",
    choose: Sequence[str] = (),
    keep: Sequence[str] = (),
    skip: bool = False,
    progress: Progress = SILENT,
) -> Index:
    """Find the scans below a folder and join them with tables; see `neurocontrast.index`.

    With `tables`, several tables of measures below `root`, they are read and nothing else.
    """
    rules = _rules(choose)
    keep = [name for name in dict.fromkeys(keep) if name not in COLUMNS]
    if site_from not in get_args(SiteFrom):
        raise ConfigError(
            f"site_from: must be one of {one_of(get_args(SiteFrom))}, found '{site_from}'."
        )
    tree = tree_at(root, tables)
    images = {} if layout == MEASURES else _images(tree, layout)
    stream = rules.get("stream", "")
    dataset = rules.get("dataset", "")
    places = list(tables) or root
    measures, unread = _measures_below(places, tree, rules, keep, needed=not images, skip=skip)
    name, scans, notes = _scans(tree, layout, images, measures)
    index = Index(
        pd.DataFrame(), name, len(scans), [*tree.skipped, *unread], notes, measures=measures
    )
    if name == "bids":
        index.notes += _notes_on_derived(tree, images)
    scans = _without_links(scans, tree, index)
    if any("stream" in scan.entities for scan in scans):
        scans = _of_stream(scans, stream, index)
    if name != MEASURES:
        scans = _of_homes(scans, dataset, index)
    problems = Problems(str(root))
    _add_unread(measures, root, index, problems)
    people = PeopleTables(tree, problems, phenotypes, id_column, keep)
    chosen = _choose(scans, rules, index, problems)
    _check_files(chosen, tree, problems, progress)
    known = [people.known_of(scan) for scan in chosen]
    if unknown := [name for name in keep if not any(name in each.cells for each in known)]:
        raise ConfigError(
            f"keep: no table says {one_of(unknown)} of these scans; --phenotype FILE joins a table."
        )
    _compare_with_tables(
        chosen, known, {subject_label(scan.person) for scan in scans}, people, index, problems
    )
    subjects = subjects_of_participants(chosen, known, problems, index.notes)
    rows = [
        _row(scan, each, _settings_of(scan, tree, problems), name, site_from)
        | {"subject_id": subjects.get(scan.person, subject_label(scan.person))}
        for scan, each in zip(chosen, known, strict=True)
    ]
    # As objects: a path that no text can hold is named below.
    table = pd.DataFrame(rows, columns=list(dict.fromkeys([*COLUMNS, *keep])), dtype=object).fillna(
        ""
    )
    # The cohort tells scans of one participant apart by their session.
    several = table.duplicated(["participant_id", "session"], keep=False) & (table["run"] != "")
    table.loc[several, "session"] = (table["session"] + "_run-" + table["run"]).str.removeprefix(
        "_"
    )
    if problems.found and not skip:
        problems.hint("--skip leaves out the scans with problems, and the record says which.")
        problems.raise_if_any()
    kept = _without_problems(chosen, problems)
    _add_left_out(chosen, kept, problems, index)
    index.notes += people.notes(table.columns[(table != "").any()])
    index.notes += notes_on_sexes(table["sex"])
    index.tables = [
        table.source
        for name in sorted({scan.dataset for scan in scans})
        for table in people.general(name)
    ]
    table = table[kept].reset_index(drop=True)
    if table.empty:
        what, reason = index.left_out[0]
        raise DataError(
            f"{root}: no scan is left; {len(index.left_out)} were left out, such as {what}: {reason}."
        )
    return replace(index, table=table)


def _without_links(scans: Sequence[FoundScan], tree: Tree, index: Index) -> list[FoundScan]:
    """Return scans without links to the image of another scan: of both, the target is taken."""
    links = links_to_others(tree.root, filter(None, map(attrgetter("path"), scans)))
    for path in sorted(links):
        index.left_out.append((path, "a link to the image of another scan that is found"))
    if links:
        index.notes.append(
            f"{len(links)} links to images of other scans are left out, such as {min(links)}."
        )
    return list(filter(lambda scan: scan.path not in links, scans))


def _of_homes(scans: Sequence[FoundScan], dataset: str, index: Index) -> list[FoundScan]:
    """Return scans named after their folder, or the scans of one folder, as `dataset` says."""
    chosen = scans_of_homes(scans, dataset)
    reason = f"not in the folder of --choose dataset={dataset}"
    paths = dict.fromkeys(map(attrgetter("path"), scans), reason)
    for scan in chosen:
        del paths[scan.path]
    index.left_out += paths.items()
    return chosen


def _of_stream(scans: Sequence[FoundScan], stream: str, index: Index) -> list[FoundScan]:
    """Return FreeSurfer's scans of one longitudinal stream; the others are left out with a note."""
    chosen, others, note = scans_of_stream(scans, stream)
    for scan in others:
        stream_of_scan = scan.entities.get("stream", "cross")
        index.left_out.append((scan.path, f"of another stream ({stream_of_scan})"))
    if note:
        index.notes.append(note)
    return chosen


def _without_problems(scans: Sequence[FoundScan], problems: Problems) -> list[bool]:
    """Return which scans have no problem: one with a line of a table is of a person and all scans of that person."""
    of_people = {problem.name for problem in problems.found if problem.line is not None}
    of_scans = {problem.name for problem in problems.found if problem.line is None}
    return [scan.name not in of_scans and f"sub-{scan.person}" not in of_people for scan in scans]


def _add_left_out(
    scans: Sequence[FoundScan], kept: Sequence[bool], problems: Problems, index: Index
) -> None:
    """List each scan or person that problems leave out once, with all reasons, and count them."""
    people = {True: set[str](), False: set[str]()}
    sessions = {True: set[str](), False: set[str]()}
    for scan, is_kept in zip(scans, kept, strict=True):
        sessions[is_kept].add(scan.name)
        people[is_kept].add(scan.person)
    left = sessions[False].union(map("sub-{}".format, people[False]))
    reasons: dict[str, list[str]] = defaultdict(list)
    for problem in problems.found:
        if problem.name in left:
            reasons[problem.name].append(problem.text)
        else:
            index.cells_not_read.append(str(problem))
    for name, texts in reasons.items():
        index.left_out.append((name, "; ".join(texts)))
    if left:
        n_lost = len(people[False] - people[True])
        n_people = len(people[False] | people[True])
        n_scans = len(sessions[False] | sessions[True])
        index.notes.append(
            f"--skip left out {len(sessions[False])} of {n_scans} scans; of {n_people} people, "
            f"{n_lost} are left out altogether."
        )
    if index.cells_not_read:
        index.notes.append(
            f"--skip: {len(index.cells_not_read)} cells or rows of tables cannot be read and are "
            f"missing, their scans are kept; the first: {index.cells_not_read[0]}."
        )


def _rules(choose: Sequence[str]) -> dict[str, str]:
    rules: dict[str, str] = {}
    for each in choose:
        key, equals, value = composed(each).partition("=")
        if not (key and equals and value):
            raise ConfigError(
                f"choose: found '{each}'; write run=first, run=all, or an entity and value as acq=mprage."
            )
        if rules.setdefault(key, value) != value:
            raise ConfigError(f"choose: found {key}={rules[key]} and {key}={value}; give one.")
    return rules


def _images(tree: Tree, layout: str) -> dict[str, list[FoundScan]]:
    """Return the images of each layout that has any, of all layouts or of one."""
    known = [*LAYOUTS, MEASURES]
    if layout not in ("auto", *known):
        hints = {"table": " A table with paths needs no index.", "dicom": _DICOM}
        hint = hints.get(layout) or suggestion(layout, known)
        raise ConfigError(f"layout: found '{layout}'.{hint} Allowed: 'auto', {one_of(known)}.")
    asked = LAYOUTS if layout == "auto" else {layout: LAYOUTS[layout]}
    return {name: scans for name, find in asked.items() if (scans := list(find(tree)))}


def _scans(
    tree: Tree, layout: str, found: Mapping[str, list[FoundScan]], measures: MeasuresTable | None
) -> tuple[str, list[FoundScan], list[str]]:
    """Return the only layout that is there with its scans: images, or regional measures where no images are.

    Raw images of a BIDS tree come before those of its derivatives, and those of one other layout
    before FreeSurfer's; notes say so.
    """
    others = [name for name in found if name != "freesurfer"]
    first = "bids" if "bids" in found else others[0] if len(others) == 1 else None
    notes = []
    if first is not None:
        notes = [
            f"{len(scans)} images of the layout {name} are left out; --layout {name} takes them instead."
            for name, scans in found.items()
            if name != first
        ]
        found = {first: found[first]}
    if len(found) == 1:
        return *next(iter(found.items())), notes
    if found:
        counts = ", ".join(f"{name} ({len(scans)} images)" for name, scans in found.items())
        raise DataError(
            f"{tree.root}: several layouts are there: {counts}. Name one with --layout."
        )
    if measures is not None and layout in ("auto", MEASURES):
        return MEASURES, _measured(measures), notes
    asked = [*LAYOUTS, MEASURES] if layout == "auto" else [layout]
    files = [name for names in tree.folders.values() for name in names]
    hint = (
        _DICOM
        if any(name.lower().endswith((".dcm", ".ima")) for name in files)
        else " Is it the right folder?"
    )
    raise DataError(f"{tree.root}: no scan of {one_of(asked)} among {len(files)} files.{hint}")


def _notes_on_derived(tree: Tree, images: Mapping[str, list[FoundScan]]) -> list[str]:
    """Say which images between raw ones were passed over, unless they are of another layout."""
    paths = set(derived_among_raw(tree))
    for scans in images.values():
        for scan in scans:
            paths.discard(scan.path)
    if not paths:
        return []
    return [
        f"{len(paths)} images beside the raw ones are left out, since their names have desc- or "
        f"space-: they were made of raw images ({min(paths)} first)."
    ]


def _measures_below(
    root: Path | list[Path],
    tree: Tree,
    rules: dict[str, str],
    keep: list[str],
    *,
    needed: bool,
    skip: bool,
) -> tuple[MeasuresTable | None, list[tuple[str, str]]]:
    """Return the measures in tables of the folder; if not `needed`, the reason why they cannot be used.

    Rules that choose between tables are removed from `rules`, and columns that are measures from
    `keep`. Scans that cannot be read are in `unread` of the table, if it is `needed` or by `skip`.
    """
    choice = Choice(
        atlas=rules.pop("atlas", ""),
        measure=rules.pop("measure", "thickness"),
        stream=rules.pop("stream", ""),
        dataset=rules.pop("dataset", ""),
    )
    read = partial(read_chosen, root, choice, skip=needed or skip)
    if isinstance(root, Path) and root.is_dir() and not files_of_measures(tree):
        return None, []
    try:
        table = read()
        if wanted := [name for name in keep if name in table.left_out]:
            table = read(keep=wanted)
    except DataError as error:
        if needed:
            raise
        return None, [(MEASURES, str(error))]
    keep[:] = [name for name in keep if name not in table.values]
    return table, []


def _add_unread(
    measures: MeasuresTable | None, root: Path, index: Index, problems: Problems
) -> None:
    """Add problems for scans whose measures cannot be read; beside images a list and a note do."""
    if measures is None or not measures.unread:
        return
    names = []
    for (person, session), reasons in measures.unread.items():
        scan = FoundScan(person.removeprefix("sub-"), "", session, space="", stage="")
        names.append(scan.name)
        for reason in reasons:
            reason = reason.removeprefix(f"{root}/")
            if index.layout == MEASURES:
                problems.add(reason, name=scan.name)
            else:
                index.left_out.append((f"{MEASURES} of {scan.name}", reason))
    if index.layout != MEASURES:
        listed = first_names(names, _N_SHOWN)
        index.notes.append(f"--skip left out the measures of {len(names)} scans: {listed}.")


def _measured(measures: MeasuresTable) -> list[FoundScan]:
    """Return the people of tables of measures as scans without image, unread ones last."""
    found = []
    sizes = measures.values.get(HEAD_SIZE, pd.Series(pd.NA, measures.values.index))
    for (person, session), size in zip(measures.values.index, sizes, strict=True):
        facts = {"tiv": f"{size / MM3_PER_ML:.1f}"} if pd.notna(size) else {}
        facts |= measures.facts_of(person, session)
        found.append(
            FoundScan(person.removeprefix("sub-"), "", session, space="", stage="", facts=facts)
        )
    for person, session in measures.unread:
        facts = measures.facts_of(person, session)
        found.append(
            FoundScan(person.removeprefix("sub-"), "", session, space="", stage="", facts=facts)
        )
    return found


def _choose(
    scans: Iterable[FoundScan], rules: Mapping[str, str], index: Index, problems: Problems
) -> list[FoundScan]:
    """Return one image a session (or every run); others are left out by a rule, or are a problem.

    Without a rule for the space, an image in MNI space is taken and the native one of the session
    left out.
    """
    asked = [
        key for key, value in rules.items() if not (key == "run" and value in ("first", "all"))
    ]
    groups: dict[tuple[str, str], list[FoundScan]] = defaultdict(list)
    for scan in scans:
        groups[scan.person, scan.session].append(scan)
    chosen: list[FoundScan] = []
    native: list[FoundScan] = []
    for group in groups.values():
        left = [
            scan
            for scan in group
            if all(scan.entities.get(key, "none") == rules[key] for key in asked)
        ]
        index.left_out += [
            (scan.path, "not chosen by --choose") for scan in group if scan not in left
        ]
        if "space" not in rules and any(scan.space.startswith("MNI") for scan in left):
            native += [scan for scan in left if scan.space == "native"]
            left = [scan for scan in left if scan.space != "native"]
        if rules.get("run") == "first" and len(left) > 1:
            first = min(left, key=_run_of)
            same = [scan for scan in left if _run_of(scan) == _run_of(first)]
            index.left_out += [(scan.path, "a later run") for scan in left if scan not in same]
            left = same
        several_runs = rules.get("run") == "all" and len(set(map(_run_of, left))) == len(left)
        if len(left) > 1 and not several_runs:
            problems.add(_ambiguous(left), name=left[0].name)
        chosen += left
    if native:
        index.left_out += [
            (scan.path, "native; the session has an image in MNI space") for scan in native
        ]
        index.notes.append(
            f"Images in MNI space are taken, not {len(native)} native ones; --choose space=native decides otherwise."
        )
    return chosen


def _run_of(scan: FoundScan) -> tuple[float, str]:
    run = scan.entities.get("run", "")
    return number_of(run) or 0.0, run


def _ambiguous(candidates: Sequence[FoundScan]) -> str:
    names = [scan.path.rpartition("/")[2] for scan in candidates]
    entities = pd.DataFrame([dict(scan.entities) for scan in candidates]).fillna("none")
    flags = []
    for key in sorted(entities.columns.difference(["run"])):
        if entities[key].nunique() > 1:
            flags.append(f"--choose {key}={entities[key].min()}")
    if "run" in entities and entities["run"].nunique() > 1:
        flags += ["--choose run=first", "--choose run=all"]
    decide = " or ".join(flags) or "remove all but one"
    return f"{len(names)} images: {first_names(names, _N_SHOWN)}; decide with {decide}"


def _check_files(
    scans: Sequence[FoundScan], tree: Tree, problems: Problems, progress: Progress
) -> None:
    if not any(scan.path for scan in scans):
        return
    with progress.task("Looking at images", total=len(scans), unit="scan") as task:
        for scan in scans:
            wrong = (
                problem_of_path(scan.path)
                or problem_of_names(scan.path)
                or problem_of_file(tree.root / scan.path)
            )
            if wrong:
                problems.add(f"{scan.path}: {wrong}", name=scan.name)
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


def _row(
    scan: FoundScan, known: Known, settings: Mapping[str, str], layout: str, site_from: SiteFrom
) -> dict[str, str]:
    scanner = " ".join(
        filter(None, (settings.get("Manufacturer"), settings.get("ManufacturersModelName")))
    )
    cells = {**scan.facts, **known.cells}
    sex, (first, below, _) = cells.get("sex", ""), scan.path.partition("/")
    if site_from == "folder" and not scan.path:
        raise ConfigError(
            "site_from: 'folder' is of images, and tables of measures have none; give a column."
        )
    if site_from == "folder" and (not below or identity_of(first)[0] == scan.subject):
        raise ConfigError(
            f"site_from: 'folder' takes '{first}' as a site, which is of one person; give a column."
        )
    site = {
        "column": cells.get("site", ""),
        "folder": first,
        "scanner": " ".join(filter(None, (scanner, settings.get("DeviceSerialNumber")))),
    }[site_from]
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
        "age_source": known.sources.get("age", ""),
        "sex": sex if sex in ("F", "M") else "",
        "sex_recorded": "" if sex in ("F", "M") else sex,
        "site": site,
        "scanner": scanner,
        "field_strength": settings.get("MagneticFieldStrength", ""),
    }


def _settings_of(scan: FoundScan, tree: Tree, problems: Problems) -> dict[str, str]:
    settings: dict[str, str] = {}
    for sidecar in scan.sidecars:
        try:
            content = read_json(tree.root / sidecar)
        except DataError as error:
            problems.add(str(error).removeprefix(f"{tree.root}/"), name=scan.name)
            continue
        plain = {
            key: value for key, value in content.items() if isinstance(value, str | int | float)
        }
        settings |= {key: " ".join(str(value).split()) for key, value in plain.items()}
    return settings


def _compare_with_tables(
    scans: Sequence[FoundScan],
    known: Sequence[Known],
    with_image: set[str],
    people: PeopleTables,
    index: Index,
    problems: Problems,
) -> None:
    """Add problems for images without a row and sessions that differ only in zeros.

    Notes name the tables that know a person in other sessions alone, and people without an image.
    """
    _note_averages(scans, index)
    if not any(each.tables for each in known):
        index.notes.append("No table says anything of these people; --phenotype FILE joins one.")
    _note_other_sessions(scans, known, people, index)
    _check_rows(scans, known, people, problems)
    absent = _people_without_scan(people, with_image)
    if not absent:
        return
    nothing = "no measures" if scans and not scans[0].path else "no image"
    for person, source in absent.items():
        index.left_out.append((f"sub-{person}", f"{source} has a row, and there is {nothing}"))
    listed = first_names(list(map("sub-{}".format, absent)), _N_SHOWN)
    index.notes.append(f"People in a table with {nothing}: {listed}.")
    in_short = {_without_zeros(person): person for person in sorted(with_image)}
    for person, source in absent.items():
        if (scan_of := in_short.get(_without_zeros(person))) is not None:
            problems.hint(
                f"sub-{person} of {source} and sub-{scan_of} differ in zeros, which spreadsheets drop."
            )


def _people_without_scan(people: PeopleTables, with_scan: set[str]) -> dict[str, str]:
    """Return people of tables who have no scan, each with the name of the table."""
    return dict(
        sorted(
            (person, table) for person, table in people.people().items() if person not in with_scan
        )
    )


def _check_rows(
    scans: Sequence[FoundScan], known: Sequence[Known], people: PeopleTables, problems: Problems
) -> None:
    """Add problems for scans without a row, and for sessions that differ from a row's in zeros."""
    for scan, found in zip(scans, known, strict=True):
        if people.general(scan.dataset) and not found.tables:
            what = "is an image" if scan.path else "are measures"
            problems.add(f"there {what}, and no table has a row", name=scan.name)
        for session in sorted(people.sessions_of(scan)):
            alike = _without_zeros(session) == _without_zeros(scan.session)  # M48 is M048
            if scan.session and session != scan.session and alike:
                problems.add(
                    f"the image is of ses-{scan.session}, and a table has ses-{session}",
                    name=scan.name,
                )


def _note_other_sessions(
    scans: Sequence[FoundScan], known: Sequence[Known], people: PeopleTables, index: Index
) -> None:
    """Note tables that know people of scans in other sessions alone."""
    names: dict[str, list[str]] = defaultdict(list)
    for scan, joined in zip(scans, known, strict=True):
        for table in people.general(scan.dataset):
            if table.of(scan) and table.source not in joined.tables:
                names[table.source].append(scan.name)
        for table in people.of_subject(scan):
            if table.source not in joined.tables:
                names["sub-*_sessions.tsv"].append(scan.name)
    for source, of_scans in names.items():
        index.notes.append(
            f"{source}: of {len(of_scans)} scans, such as {of_scans[0]}, it has rows of other "
            "sessions alone; not joined."
        )


def _note_averages(scans: Sequence[FoundScan], index: Index) -> None:
    """Note people who have a scan without session, perhaps an average, beside scans of sessions."""
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
    """Return a label without the zeros that begin its numbers."""
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", label)
