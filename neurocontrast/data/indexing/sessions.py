"""Choose one image of each session, or all its runs, by the rules of ``--choose``."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from neurocontrast.cells import number_of
from neurocontrast.data.indexing.index import N_NAMED, Index
from neurocontrast.data.layouts.tree import FoundScan
from neurocontrast.data.problems import Problems, first_names

_Entities = tuple[tuple[str, str], ...]
"""Entities of a BIDS name as pairs of key and value, sorted by key."""


def choose_scans(
    scans: Iterable[FoundScan], rules: Mapping[str, str], index: Index, problems: Problems
) -> list[FoundScan]:
    """Return one image of each session, or all runs of the session, by the rules of ``--choose``.

    `rules` is key → value. A run is a repeated image of a session in BIDS (``run-1``, ``run-2``):
    with ``run=all`` every run is taken, and with ``run=first`` the first. Images that differ in
    another entity too, such as ``acq``, are no runs of each other. Images that are not
    chosen are added to the left-out list of `index`. For each session that still has several
    images, a problem is added to `problems`, unless the images are different runs of the session
    and ``run=all`` is given.

    Without a rule for the space, an image in MNI space is taken and the native one of the session
    left out. With ``stage=tissue`` the image of a scan is its map of grey matter.
    """
    entities = dict(rules)
    if entities.get("run") in ("first", "all"):
        del entities["run"]
    scans = _of_stage(scans, entities.pop("stage", ""), index)
    groups: dict[tuple[str, str], list[FoundScan]] = defaultdict(list)
    for scan in scans:
        groups[scan.person, scan.session].append(scan)
    chosen: list[FoundScan] = []
    native: list[FoundScan] = []
    for group in groups.values():
        candidates = _with_entities(group, entities, index)
        if "space" not in rules and any(scan.space.startswith("MNI") for scan in candidates):
            native += [scan for scan in candidates if scan.space == "native"]
            candidates = [scan for scan in candidates if scan.space != "native"]
        if rules.get("run") == "first":
            candidates = _of_first_run(candidates, index)
        are_runs = rules.get("run") == "all" and _differ_by_run_alone(candidates)
        if len(candidates) > 1 and not are_runs:
            problems.add(_ambiguous(candidates), name=candidates[0].name)
        chosen += candidates
    if native:
        _leave_out_native(native, index)
    return chosen


def _leave_out_native(scans: Sequence[FoundScan], index: Index) -> None:
    """Add native images, which `choose_scans` has not taken, to the left-out list of `index`.

    `scans` are these images; the session of each has an image in MNI space. One note in `index`
    counts all of them.
    """
    for scan in scans:
        index.left_out.append((scan.path, "native; the session has an image in MNI space"))
    index.notes.append(
        f"Images in MNI space are taken, not {len(scans)} native ones; --choose space=native "
        "decides otherwise."
    )


def _of_stage(scans: Iterable[FoundScan], stage: str, index: Index) -> list[FoundScan]:
    """Return the scans whose images are of one stage of preprocessing, such as ``stripped``.

    With ``tissue``, each scan that has a map of grey matter gets the map as its image, in place of
    a head or brain. The other scans are added to the left-out list of `index`. If `stage` is "",
    all scans are returned as they are.
    """
    if not stage:
        return list(scans)
    chosen = []
    for scan in scans:
        gm = scan.maps.get("gm", "")
        if stage == "tissue" and gm:
            chosen.append(replace(scan, path=gm, stage=stage))
        elif scan.stage == stage:
            chosen.append(scan)
        else:
            index.left_out.append((scan.path, "not chosen by --choose"))
    return chosen


def _with_entities(
    scans: Sequence[FoundScan], entities: Mapping[str, str], index: Index
) -> list[FoundScan]:
    """Return the scans whose BIDS entities match the user's `entities`, as ``acq=mprage``.

    The other scans are added to the left-out list of `index`. An entity that a name lacks has the
    value ``none``.
    """
    candidates = []
    for scan in scans:
        if all(scan.entities.get(key, "none") == value for key, value in entities.items()):
            candidates.append(scan)
        else:
            index.left_out.append((scan.path, "not chosen by --choose"))
    return candidates


def _of_first_run(scans: list[FoundScan], index: Index) -> list[FoundScan]:
    """Return the scans of a session's first run; add later runs to the left-out list of `index`.

    Runs are repeated images of a session in BIDS, ``run-1``, ``run-2``; a scan without a run comes
    first. Scans that differ in another entity, such as ``acq``, have a first run each.
    """
    first: dict[_Entities, tuple[float, str]] = {}
    for scan in scans:
        entities = _entities_besides_run(scan)
        first[entities] = min(first.get(entities, _run_of(scan)), _run_of(scan))
    of_first = []
    for scan in scans:
        if _run_of(scan) == first[_entities_besides_run(scan)]:
            of_first.append(scan)
        else:
            index.left_out.append((scan.path, "a later run"))
    return of_first


def _differ_by_run_alone(scans: Sequence[FoundScan]) -> bool:
    """Return whether no two scans have the same run, and all are alike in the other entities."""
    n_runs = len(set(map(_run_of, scans)))
    return n_runs == len(scans) and len(set(map(_entities_besides_run, scans))) == 1


def _entities_besides_run(scan: FoundScan) -> _Entities:
    """Return a scan's BIDS entities but the run, such as ``acq`` and its value, in a fixed order.

    Only scans that are alike in them can be runs of each other.
    """
    return tuple(sorted(item for item in scan.entities.items() if item[0] != "run"))


def _run_of(scan: FoundScan) -> tuple[float, str]:
    """Return a key that sorts scans by BIDS run (``run-1``): the run as a number, then as text.

    The key of a scan without a run is (0, "").
    """
    run = scan.entities.get("run", "")
    return number_of(run) or 0.0, run


def _ambiguous(candidates: Sequence[FoundScan]) -> str:
    """Return the message for a session with several images, with the flags that choose one.

    Flags for the run are named only if no other entity tells the images apart.
    """
    names = [scan.path.rpartition("/")[2] for scan in candidates]
    entities = pd.DataFrame([dict(scan.entities) for scan in candidates]).fillna("none")
    flags = []
    for key in sorted(entities.columns.difference(["run"])):
        if entities[key].nunique() > 1:
            flags += [f"--choose {key}={value}" for value in sorted(entities[key].unique())]
    if not flags and "run" in entities and entities["run"].nunique() > 1:
        flags += ["--choose run=first", "--choose run=all"]
    decide = " or ".join(flags) or "remove all but one"
    return f"{len(names)} images: {first_names(names, N_NAMED)}; decide with {decide}"
