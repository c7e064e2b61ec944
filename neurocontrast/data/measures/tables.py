"""Read tables of regional measures as one table: a row a scan, a column a region."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path
from typing import NoReturn

import pandas as pd

from neurocontrast.cells import Refusal, is_missing, text_of
from neurocontrast.data.codes import base_name
from neurocontrast.data.decoding import decode_column
from neurocontrast.data.descriptions import (
    NOTHING,
    Description,
    description_of,
    read_descriptions,
)
from neurocontrast.data.measures.choosing import Choice
from neurocontrast.data.measures.finding import sheets_at
from neurocontrast.data.measures.keys import index_of
from neurocontrast.data.measures.merging import (
    Merged,
    add_versions,
    holds_numbers,
    numbers_of,
    region_of_column,
    scan_name,
    without_zeros,
)
from neurocontrast.data.measures.names import Kind
from neurocontrast.data.measures.sheets import SUBJECT, Sheet, sheet_of_frame, without_templates
from neurocontrast.data.measures.units import People, check_units, check_units_of_people
from neurocontrast.data.measures.unmarked import check_codes
from neurocontrast.data.problems import Problems, shown
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.provenance import subject_label

Table = str | os.PathLike[str] | pd.DataFrame
Tables = Table | Sequence[Table]
"""Tables of measures: paths of files or folders, or DataFrames."""


@dataclass(frozen=True, eq=False)
class MeasuresTable:
    """Regional measures of scans, with kinds, units, software and notes.

    Parameters
    ----------
    values : DataFrame
        One row a scan, indexed by ``participant_id`` and ``session`` ("" if the tables name none),
        sorted; one float64 column a region, by its canonical name. Thickness in mm, volumes in mm³,
        areas in mm². Missing is NaN.
    kinds : dict of str to {"thickness", "volume", "area", "other"}
        Kind of measure of each column, which gives its unit.
    atlas : str
        FreeSurfer's names of the atlases, such as ``aparc.a2009s+aseg``.
    software : str
        Program and version, such as ``FreeSurfer 6.0.1``; several are joined by ``; ``. Empty if
        no table states a program.
    sources : tuple of Path
        Files that were read.
    notes : tuple of str
        Warnings about the tables, for instance columns that were left out.
    left_out : tuple of str
        Numeric columns whose names are no known region, and that were not asked for.
    empty : tuple of str
        Measures of the tables that are empty for everybody; they are not in `values`.
    """

    values: pd.DataFrame
    kinds: Mapping[str, Kind]
    atlas: str = ""
    software: str = ""
    sources: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    subjects: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Participant and session → subject, if the tables have a column ``subject_id``."""
    unread: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Participant and session → reasons, for skipped scans, which are not in `values`."""
    facts: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    """Participant and session → column → cell of age, sex or site, as the tables of measures
    write.
    """
    listed: Sequence[tuple[str, str]] = ()
    """Participant and session of all scans in the order of the tables; rows of `values` are
    sorted.
    """
    zeros: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """Participant and session → measures that were an impossible 0, and are missing in `values`."""
    versions: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Participant and session → program and version that measured the scan, if stated.

    Files or a column state them.
    """

    def facts_of(self, participant: str, session: str) -> dict[str, str]:
        """Return ``{"subject_id": …}`` for a scan; empty if the tables state no subject.

        The tables are those of the measures.
        """
        subject = self.subjects.get((participant, session))
        if subject is None:
            return {}
        return {SUBJECT: subject}

    @property
    def parcellation(self) -> str:
        """Names of the atlases joined by ``+``, without aseg, which goes with any parcellation."""
        return "+".join(name for name in self.atlas.split("+") if name != "aseg")


def read_tables(
    paths: Tables,
    *,
    atlas: str = "",
    measure: str = "thickness",
    stream: str = "",
    dataset: str = "",
    keep: Sequence[str] = (),
    sites: Mapping[str, str] | None = None,
) -> MeasuresTable:
    """Read tables of regional measures, merge columns and scans, and return a `MeasuresTable`.

    Values that two tables have for the same region and scan must be equal. One `DataError` lists
    all that is wrong.

    Parameters
    ----------
    paths : path, DataFrame or sequence of them
        Tables in any format of `neurocontrast.data.measures.formats.FORMATS`, and folders of them.
        A DataFrame has a column ``participant_id``, perhaps ``session``, and measures in mm, mm²
        and mm³.
    atlas : str, optional
        Parcellation to take from folders, such as ``aparc``; by default the first present one of
        Destrieux (``aparc.a2009s``), Desikan (``aparc``), DKT (``aparc.DKTatlas``) and
        Neuromorphometrics. Or the file of segmented structures, such as ``aseg.VINN``; by default
        ``aseg``, the volumes corrected with the help of FreeSurfer's surfaces. A parcellation and
        such a file are given together as ``aparc,aseg.VINN``.
    measure : str, default="thickness"
        Measure of the cortex to take from folders: ``thickness``, ``area``, ``volume`` or ``all``.
    stream : {"cross", "long", "base"}, optional
        Stream of FreeSurfer's longitudinal processing: scans as they were taken, longitudinal
        copies (``X.long.Y``) or templates (``Y``, with ``base-tps``); by default the first present
        stream, without templates.
    dataset : str, optional
        Rule for subjects of one name in several folders below a folder: ``all`` for different
        people, who are named after the folder, ``same`` for one person, or the name of one
        folder, which alone is read; by default such subjects are refused.
    keep : sequence of str
        Further numeric columns to take, by their exact names. Other columns of unknown names are
        left out, and listed in `notes` of the returned table.
    sites : dict of str to str, optional
        Participant's name without ``sub-`` → site. If measures of a site are in another unit than
        the measures of other sites, the error then names the site and a few of the site's people,
        in place of every person.
    """
    choice = Choice(atlas, measure, stream, dataset)
    return read_chosen(paths, choice, keep=keep, sites=sites)


def read_chosen(
    paths: Tables,
    choice: Choice,
    *,
    keep: Sequence[str] = (),
    sites: Mapping[str, str] | None = None,
    skip: bool = False,
    with_facts: bool = False,
    collected: Problems | None = None,
) -> MeasuresTable:
    """Read tables of regional measures as `read_tables` does, with the options of a `Choice`.

    With `skip`, scans whose files or cells cannot be read are left out; the table has them in
    `unread`. With `with_facts`, columns of age, sex and site are taken, too. With `collected`,
    all problems are added to `collected`, and none is an error: a cell with a problem is missing,
    and of several rows of a scan the first is taken.
    """
    notes: list[str] = []
    sheets = _sheets_of(paths, choice, notes)
    columns: set[str] = set()
    for sheet in sheets:
        columns.update(sheet.cells)
    absent = [name for name in keep if name not in columns]
    if absent:
        hint = suggestion(absent[0], columns)
        raise DataError(f"keep: no table of measures has a column '{absent[0]}'.{hint}")
    source = "measures"
    if len(sheets) == 1:
        source = sheets[0].source.name
        if sheets[0].damage:
            raise DataError(f"{sheets[0].source}: {sheets[0].damage}")
    merged = Merged(Problems(source), notes=notes, collected=collected, with_facts=with_facts)
    return _merge(merged, sheets, keep, sites or {}, skip=skip)


def _sheets_of(paths: Tables, choice: Choice, notes: list[str]) -> list[Sheet]:
    """Read all tables of measures in `paths` as `Sheet` objects, each the text of one table.

    An empty list is refused. `choice` chooses among the tables of a folder, and `notes` gets lines
    on tables left out.
    """
    if isinstance(paths, str | os.PathLike | pd.DataFrame):
        paths = [paths]
    listed = list(paths)
    if not listed:
        raise DataError("measures: no table is named.")
    sheets: list[Sheet] = []
    for path in listed:
        if isinstance(path, pd.DataFrame):
            sheets.append(sheet_of_frame(path, "measures"))
        else:
            sheets += sheets_at(Path(path).expanduser(), choice, notes)
    return sheets


def measures_of(frame: pd.DataFrame, *, name: str, keep: Sequence[str] = ()) -> MeasuresTable:
    """Return the regional measures in a DataFrame, one row a scan; other columns are left out.

    Parameters
    ----------
    frame : DataFrame
        One row a scan, one column a region, in mm, mm² and mm³.
    name : str
        Name of the table in messages.
    keep : sequence of str
        Further numeric columns to take, if the table has them.
    """
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"{name}: has several columns '{twice}'. Take out all but one.")
    cells = {str(column): list(map(text_of, frame[column])) for column in frame}
    rows = [f"row {row}" for row in range(len(frame))]
    sheets = [Sheet(Path(name), rows, cells)]
    merged = _merge(Merged(Problems(name)), sheets, keep, _sites_of(frame, rows))
    values = merged.values.droplevel("session").loc[rows].reset_index(drop=True)
    return replace(merged, values=values)


def _sites_of(frame: pd.DataFrame, rows: Sequence[str]) -> dict[str, str]:
    """Return name → site, for the rows of `frame` with a site in column ``site``.

    `rows` are the names of the rows.
    """
    if "site" not in frame:
        return {}
    sites = frame["site"].map(text_of).set_axis(list(rows))
    return dict(sites[~sites.map(is_missing)])


def _merge(
    merged: Merged,
    sheets: Sequence[Sheet],
    keep: Sequence[str],
    sites: Mapping[str, str],
    *,
    skip: bool = False,
) -> MeasuresTable:
    """Merge `sheets`, tables of measures as text, into one `MeasuresTable` with the scans of all.

    A `DataError` is raised for measures that seem to be in another unit than mm, mm² or mm³, for
    some people or for all. `keep` names further columns to take, and `sites` is participant → site.
    With `skip`, scans with problems are left out, and no error.
    """
    notes = merged.notes
    for sheet in sheets:
        if sheet.damage:
            _add_damage(sheet, merged)
        else:
            _add(sheet, merged, keep, several=len(sheets) > 1)
    sheets = list(filter(lambda sheet: not sheet.damage, sheets))
    merged.settle(skip=skip)
    values = merged.joined()
    merged.settle(skip=skip)
    values = merged.without_unread(values)
    notes += merged.lacking(values)
    if values.empty:
        _refuse_empty(merged, sheets)
    empty = values.columns[values.isna().all()].astype(str).tolist()
    if empty:
        notes.append(f"left out {one_of(empty)}: empty for everybody.")
        values = values.drop(columns=empty)
    kinds = {name: merged.regions[name].kind for name in values.columns.astype(str)}
    people = people_of(values, merged.problems.source, sites)
    _check_values(values, kinds, people, merged.collected)
    versions = _versions_of(merged, sheets)
    if len(versions) > 1:
        notes.append(f"The tables are of several programs or versions: {', '.join(versions)}.")
    atlases = {region.atlas for region in merged.regions.values()} - {""}
    return MeasuresTable(
        values,
        kinds,
        atlas="+".join(sorted(atlases)),
        software="; ".join(versions),
        sources=_sources_of(sheets),
        notes=tuple(notes),
        left_out=tuple(dict.fromkeys(merged.left_out)),
        empty=tuple(empty),
        subjects=merged.subjects,
        unread={key: tuple(reasons) for key, reasons in merged.unread.items()},
        zeros=merged.zeros,
        versions={key: "; ".join(programs) for key, programs in merged.versions.items()},
        facts=merged.facts,
        listed=merged.listed(),
    )


def _versions_of(merged: Merged, sheets: Sequence[Sheet]) -> list[str]:
    """Return a sorted list of texts: each program and version named by a table or for a scan.

    `sheets` are the tables, and ``merged.versions`` has the programs of scans.
    """
    programs = {sheet.software for sheet in sheets}
    for of_scan in merged.versions.values():
        programs.update(of_scan)
    return sorted(programs - {""})


def _sources_of(sheets: Sequence[Sheet]) -> tuple[Path, ...]:
    """Return the files that the tables `sheets` were read from, without repetitions."""
    sources: dict[Path, None] = {}
    for sheet in sheets:
        sources.update(dict.fromkeys(sheet.files or [sheet.source]))
    return tuple(sources)


def _check_values(
    values: pd.DataFrame, kinds: Mapping[str, Kind], people: People, collected: Problems | None
) -> None:
    """Refuse measures in wrong units, and codes for missing values.

    If `collected` is given, problems are added to `collected`, and none is an error.
    """
    try:
        check_units(values, kinds)
    except DataError as error:
        if collected is None:
            raise
        collected.add(str(error))
        return  # units of people would say the same once more
    check_units_of_people(values, kinds, people, collected=collected)
    check_codes(values, kinds, people, collected=collected)


def _refuse_empty(merged: Merged, sheets: Sequence[Sheet]) -> NoReturn:
    """Raise a `DataError` for tables without any readable scan, or without any known measure.

    The error has the reasons of all unreadable scans, or names the tables.
    """
    for (participant, session), reasons in merged.unread.items():
        merged.problems.add("; ".join(reasons), name=scan_name(participant, session))
    merged.problems.raise_if_any()
    names = ", ".join(dict.fromkeys(str(sheet.source) for sheet in sheets))
    raise DataError(
        f"{names}: no column is a regional measure that is known. {' '.join(merged.notes)}".rstrip()
    )


def _add_damage(sheet: Sheet, merged: Merged) -> None:
    """Add to ``merged.problems`` that the file of `sheet` is damaged, naming the scan if known."""
    name = ""
    if len(sheet.identifiers):
        name = next(starmap(scan_name, index_of(sheet, merged, "")))
    merged.problems.add(f"{sheet.source}: {sheet.damage}", name=name)


def _add(sheet: Sheet, merged: Merged, keep: Sequence[str], *, several: bool) -> None:
    """Add the measures of `sheet`, a table of text, to ``merged.frames``.

    For each bad cell, and for two columns of one region, a problem is added to ``merged.problems``.
    `keep` names further columns to take. If there are `several` tables, messages name this one.
    """
    sheet = without_templates(sheet, merged.notes)
    problems = merged.problems
    source = ""
    if several:
        source = f"{sheet.source.name}: "
    chosen: dict[str, str] = {}
    left_out: list[str] = []
    for column, cells in sheet.cells.items():
        region = region_of_column(column, sheet, keep)
        if region is None:
            if not merged.takes(column) and holds_numbers(cells):
                left_out.append(column)
        elif region.name in chosen:
            problems.add(
                f"{source}columns '{chosen[region.name]}' and '{column}' are both of the region "
                f"'{region.name}'"
            )
        else:
            chosen[region.name] = column
            merged.regions.setdefault(region.name, region)
    _note_other_atlas(sheet, chosen, merged)
    merged.left_out += left_out
    if left_out:
        merged.notes.append(f"{sheet.source.name}: left out {one_of(left_out)}: no known region.")
    index = index_of(sheet, merged, source)
    _add_facts(sheet, index, merged)
    numbers = numbers_of(sheet, chosen, list(starmap(scan_name, index)), merged, source)
    frame = pd.DataFrame(numbers, index=index, columns=list(chosen))
    add_versions(sheet, index, merged)
    first = frame[~frame.index.duplicated()]
    merged.frames.append((sheet.source.name, without_zeros(sheet, first, merged)))


def _note_other_atlas(sheet: Sheet, names: Iterable[str], merged: Merged) -> None:
    """Add a note if `sheet` and an earlier table state different atlases for regions of one name.

    `names` are the regions of `sheet`. A table states its atlas by the file or by the name of a
    column of identifiers, such as ``lh.aparc.DKTatlas.thickness``.
    """
    if not sheet.atlas:
        return
    for name in names:
        if merged.regions[name].atlas == "aseg":
            continue
        first = merged.atlases.setdefault(name, sheet)
        if first.atlas != sheet.atlas:
            merged.notes.append(
                f"{sheet.source.name}: '{name}' is of the atlas {sheet.atlas}, and of "
                f"{first.atlas} in {first.source.name}: regions of one name that differ are "
                "pooled. Give tables of one atlas."
            )
            return


def _add_facts(sheet: Sheet, index: pd.MultiIndex, merged: Merged) -> None:
    """Add columns of age, sex and site to ``merged.facts``, decoded by the table's JSON file.

    The JSON file has the table's name, as ``measures.json``; a DataFrame has none. Cells of a
    column that the file does not describe are added as written.
    """
    columns = list(filter(merged.takes, sheet.cells))
    if not columns:
        return
    descriptions: dict[str, Description] = {}
    if sheet.source.is_file():
        descriptions = read_descriptions([sheet.source.with_suffix(".json")])
    for column in columns:
        description = description_of(column, descriptions)
        if description == NOTHING:
            merged.add_facts(index, column, sheet.cells[column])
        else:
            values = _decoded(sheet, column, description, merged)
            merged.add_facts(index, base_name(column), values)


def _decoded(sheet: Sheet, column: str, description: Description, merged: Merged) -> list[str]:
    """Return the cells of a column of age, sex or site as `description` explains them.

    Cells that are not explained become "", missing, and a note is added to ``merged.notes``.
    """
    cells = sheet.cells[column]
    values = []
    unread = []
    decoded = decode_column(base_name(column), column, cells, description)
    for cell, value in zip(cells, decoded.values, strict=True):
        if isinstance(value, Refusal):
            unread.append(f"{shown(cell)}, {value.rule}")
            value = ""
        values.append(value)
    if unread:
        merged.notes.append(
            f"{sheet.source.name}: {len(unread)} cells of column '{column}' cannot be read and are "
            f"missing; the first: {unread[0]}."
        )
    return values


def people_of(values: pd.DataFrame, source: str, sites: Mapping[str, str]) -> People:
    """Return a `People` for messages: name and site of each row of measures in `values`.

    `sites` is participant's name without ``sub-`` → site.
    """
    names = []
    of_rows = []
    for participant, session in values.index:
        names.append(scan_name(str(participant), str(session)))
        of_rows.append(sites.get(subject_label(str(participant)), ""))
    return People(source, names, of_rows)
