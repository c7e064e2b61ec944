"""Choose among the scans of a folder: one layout, one longitudinal stream, data sets, measures.

A longitudinal stream is one sort of results of FreeSurfer's or CAT12's longitudinal processing:
scans as they were taken (``cross``), copies registered to the person's template (``long``), or
these templates (``base``).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

import pandas as pd

from neurocontrast.data.indexing.index import MEASURES, N_NAMED, Index, IndexSettings
from neurocontrast.data.layouts import LAYOUTS, derived_among_raw
from neurocontrast.data.layouts.homes import scans_of_homes
from neurocontrast.data.layouts.longitudinal import scans_of_stream
from neurocontrast.data.layouts.tree import FoundScan, Tree, links_to_others
from neurocontrast.data.measures.choosing import Choice
from neurocontrast.data.measures.finding import files_of_measures
from neurocontrast.data.measures.names import HEAD_SIZE, MM3_PER_ML
from neurocontrast.data.measures.tables import MeasuresTable, read_chosen
from neurocontrast.data.problems import Problems, first_names
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.files import composed

_DICOM = " Make a BIDS tree of DICOM files first, with heudiconv or dcm2bids."


def read_rules(choose: Sequence[str]) -> dict[str, str]:
    """Parse the values of ``--choose``, such as ``run=first``, to key → value."""
    rules: dict[str, str] = {}
    for rule in choose:
        key, equals, value = composed(rule).partition("=")
        if not (key and equals and value):
            raise ConfigError(
                f"choose: found '{rule}'; write run=first, run=all, or an entity and value as "
                "acq=mprage."
            )
        if rules.setdefault(key, value) != value:
            raise ConfigError(f"choose: found {key}={rules[key]} and {key}={value}; give one.")
    return rules


def find_scans(
    tree: Tree,
    tables: Path | list[Path],
    rules: dict[str, str],
    keep: list[str],
    settings: IndexSettings,
) -> tuple[Index, list[FoundScan]]:
    """Find the scans of one layout and the regional measures, in a folder and its subfolders.

    Return an index whose `table` is still empty, and the scans. `tables` are tables of measures, or
    the folder that holds them. `rules` has key → value of ``--choose``, and `keep` the columns to
    keep; both are changed: rules that choose between tables of measures are removed from `rules`,
    and columns that are measures from `keep`.
    """
    images: dict[str, list[FoundScan]] = {}
    if settings.layout != MEASURES:
        images = _images(tree, settings.layout)
    stream = rules.get("stream", "")
    dataset = rules.get("dataset", "")
    measures, unread = _measures_below(
        tables, tree, rules, keep, needed=not images, skip=settings.skip
    )
    layout, scans, notes = _only_layout(tree, settings.layout, images, measures)
    index = Index(
        pd.DataFrame(), layout, len(scans), [*tree.skipped, *unread], notes, measures=measures
    )
    if layout == "bids":
        index.notes += _notes_on_derived(tree, images)
    scans = _without_links(scans, tree, index)
    if any("stream" in scan.entities for scan in scans):
        scans = _of_stream(scans, stream, index)
    if layout != MEASURES:
        scans = _of_homes(scans, dataset, index)
    return index, scans


def _images(tree: Tree, layout: str) -> dict[str, list[FoundScan]]:
    """Return layout → scans with images in `tree`, for one layout, or for all if "auto".

    Layouts without any image are left out; an unknown layout is refused.
    """
    names = [*LAYOUTS, MEASURES]
    if layout not in ("auto", *names):
        hints = {"table": " A table with paths needs no index.", "dicom": _DICOM}
        hint = hints.get(layout) or suggestion(layout, names)
        raise ConfigError(f"layout: found '{layout}'.{hint} Allowed: 'auto', {one_of(names)}.")
    images = {}
    for name, scans_in in LAYOUTS.items():
        if layout in ("auto", name):
            scans = list(scans_in(tree))
            if scans:
                images[name] = scans
    return images


def _only_layout(
    tree: Tree, layout: str, images: Mapping[str, list[FoundScan]], measures: MeasuresTable | None
) -> tuple[str, list[FoundScan], list[str]]:
    """Return the name of the one layout to use, the scans found by the layout, and notes on others.

    `images` is layout (a program's way to arrange files) → scans. Raw images of BIDS come first,
    then images of one other layout, then FreeSurfer's. If two layouts other than BIDS and
    FreeSurfer have images, a `DataError` asks for ``--layout``. Without images, the scans are the
    people of `measures`; a folder without images and measures is a `DataError`, too.
    """
    preferred = _preferred(list(images))
    if preferred:
        notes = []
        for name, scans in images.items():
            if name != preferred:
                notes.append(
                    f"{len(scans)} images of the layout {name} are left out; --layout {name} takes "
                    "them instead."
                )
        return preferred, images[preferred], notes
    if images:
        counts = ", ".join(f"{name} ({len(scans)} images)" for name, scans in images.items())
        raise DataError(
            f"{tree.root}: several layouts are there: {counts}. Name one with --layout."
        )
    if measures is not None and layout in ("auto", MEASURES):
        return MEASURES, _scans_of_measures(measures), []
    raise _no_scan(tree, layout)


def _no_scan(tree: Tree, layout: str) -> DataError:
    """Return the error for a folder without scans of `layout`, with the number of files there."""
    wanted = [layout]
    if layout == "auto":
        wanted = [*LAYOUTS, MEASURES]
    n_files = 0
    hint = " Is it the right folder?"
    for names in tree.folders.values():
        n_files += len(names)
        if any(name.lower().endswith((".dcm", ".ima")) for name in names):
            hint = _DICOM
    return DataError(f"{tree.root}: no scan of {one_of(wanted)} among {n_files} files.{hint}")


def _preferred(layouts: Sequence[str]) -> str:
    """Return the one of `layouts` to prefer: BIDS first, FreeSurfer last; "" if undecided."""
    if "bids" in layouts:
        return "bids"
    if len(layouts) == 1:
        return layouts[0]
    without_freesurfer = [name for name in layouts if name != "freesurfer"]
    if len(without_freesurfer) == 1:
        return without_freesurfer[0]
    return ""


def _notes_on_derived(tree: Tree, images: Mapping[str, list[FoundScan]]) -> list[str]:
    """Return a list of one note, on derived images in BIDS' raw folders that are left out.

    A derived image has ``desc-`` or ``space-`` in its name. `images` is layout, such as
    ``fmriprep`` → scans found; images of these scans are not left out. The list is empty if no
    image is.
    """
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


def _without_links(scans: Sequence[FoundScan], tree: Tree, index: Index) -> list[FoundScan]:
    """Return `scans` without the links to another scan's image.

    Each link is added to the left-out list of `index`, and a note counts the links.
    """
    links = links_to_others(tree.root, filter(None, map(attrgetter("path"), scans)))
    for path in sorted(links):
        index.left_out.append((path, "a link to the image of another scan that is found"))
    if links:
        index.notes.append(
            f"{len(links)} links to images of other scans are left out, such as {min(links)}."
        )
    return list(filter(lambda scan: scan.path not in links, scans))


def _of_stream(scans: Sequence[FoundScan], stream: str, index: Index) -> list[FoundScan]:
    """Return the scans of one longitudinal stream of FreeSurfer or CAT12; leave out the others.

    `stream` is the value of ``--choose stream=``: ``cross``, ``long`` or ``base``. If "", it is
    ``cross``, or ``long`` if there are only longitudinal copies. Scans of other streams are added
    to the list of left-out scans in `index`, with a note.
    """
    chosen, others, note = scans_of_stream(scans, stream)
    for scan in others:
        stream_of_scan = scan.entities.get("stream", "cross")
        index.left_out.append((scan.path, f"of another stream ({stream_of_scan})"))
    if note:
        index.notes.append(note)
    return chosen


def _of_homes(scans: Sequence[FoundScan], dataset: str, index: Index) -> list[FoundScan]:
    """Return the scans of all data sets (folders), or of the one that the user chooses.

    `dataset` is the user's ``--choose dataset=``: the name of one folder, or ``all``, ``same`` or
    "", which keep all scans (see `scans_of_homes`). Scans outside the named folder are added to
    ``index.left_out``.
    """
    chosen = scans_of_homes(scans, dataset)
    reason = f"not in the folder of --choose dataset={dataset}"
    paths = dict.fromkeys(map(attrgetter("path"), scans), reason)
    for scan in chosen:
        del paths[scan.path]
    index.left_out += paths.items()
    return chosen


def _measures_below(
    root: Path | list[Path],
    tree: Tree,
    rules: dict[str, str],
    keep: list[str],
    *,
    needed: bool,
    skip: bool,
) -> tuple[MeasuresTable | None, list[tuple[str, str]]]:
    """Return the regional measures below a folder as one table, and a list of left-out measures.

    `root` is the folder, or a list of tables in `tree`. If there are no measures below the folder,
    the table is None and the list empty. If the measures as a whole cannot be read, a `DataError`
    is raised if `needed`; if not, the table is None, and the list has one entry, ``measures`` with
    the reason.

    If `needed` or `skip` is true, single scans whose files or cells cannot be read are no error:
    the table lists the scans in its attribute `unread`.

    `rules` has key → value of ``--choose``, and `keep` the columns to keep by ``--keep``. Both are
    changed in place: rules that choose between tables of measures (atlas, measure, stream, dataset)
    are removed from `rules`, and columns that are measures from `keep`.
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
        wanted = [name for name in keep if name in table.left_out]
        if wanted:
            table = read(keep=wanted)
    except DataError as error:
        if needed:
            raise
        return None, [(MEASURES, str(error))]
    keep[:] = [name for name in keep if name not in table.values]
    return table, []


def add_unread(root: Path, index: Index, problems: Problems) -> None:
    """Add the scans whose regional measures could not be read to `problems` or to `index`.

    In an index of measures alone, each reason becomes a problem of the scan in `problems`. In an
    index of images, the scan stays; "measures of" the scan, with the reason, is added to
    ``index.left_out``, and one note counts these scans. `root` is the indexed folder; its path is
    cut from the reasons.
    """
    if index.measures is None or not index.measures.unread:
        return
    names = []
    for (person, session), reasons in index.measures.unread.items():
        scan = FoundScan(person.removeprefix("sub-"), "", session, space="", stage="")
        names.append(scan.name)
        for reason in reasons:
            reason = reason.removeprefix(f"{root}/")
            if index.layout == MEASURES:
                problems.add(reason, name=scan.name)
            else:
                index.left_out.append((f"{MEASURES} of {scan.name}", reason))
    if index.layout != MEASURES:
        listed = first_names(names, N_NAMED)
        index.notes.append(f"--skip left out the measures of {len(names)} scans: {listed}.")


def _scans_of_measures(measures: MeasuresTable) -> list[FoundScan]:
    """Return a `FoundScan` without an image for each row (person and session) of `measures`.

    Scans whose measures could not be read are last.
    """
    scans = []
    sizes = measures.values.get(HEAD_SIZE, pd.Series(pd.NA, measures.values.index))
    for (person, session), size in zip(measures.values.index, sizes, strict=True):
        facts = {}
        if pd.notna(size):
            facts["tiv"] = f"{size / MM3_PER_ML:.1f}"
        scans.append(_scan_of_measures(measures, person, session, facts))
    for person, session in measures.unread:
        scans.append(_scan_of_measures(measures, person, session, {}))
    return scans


def _scan_of_measures(
    measures: MeasuresTable, person: str, session: str, facts: dict[str, str]
) -> FoundScan:
    """Return a `FoundScan` without an image, for a person's session in tables of measures.

    `facts` has the head size, if known. The `FoundScan` has these facts, and the subject if the
    tables state one.
    """
    all_facts = {**facts, **measures.facts_of(person, session)}
    label = person.removeprefix("sub-")
    return FoundScan(label, "", session, space="", stage="", facts=all_facts)
