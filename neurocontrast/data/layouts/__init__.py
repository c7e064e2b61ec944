"""Find scans by layout of folders, one function each: BIDS, preprocessing programs, public data."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from neurocontrast.data.layouts.longitudinal import (
    scan_of_stream,
    stream_of,
    templates_below,
)
from neurocontrast.data.layouts.tree import FoundScan, Tree, identity_of, joined_path
from neurocontrast.reading import read_bytes

__all__ = ["LAYOUTS", "derived_among_raw"]

_BIDS = r"(?:(?!derivatives/|sourcedata/|code/|phenotype/)([^/]+)/)?sub-[^/]+(?:/ses-[^/]+)?/anat"
_RAW_T1W = r"sub-.+_T1w(?i:\.nii(?:\.gz)?)"
_DERIVED = {"desc", "space"}
"""Entities by which BIDS marks an image that a program derived from a raw image."""
_PREPROCESSED = "_desc-preproc_T1w.nii"
_OF_FMRIPREP = {
    "mask_path": "desc-brain_mask",
    "gm": "label-GM_probseg",
    "wm": "label-WM_probseg",
    "csf": "label-CSF_probseg",
}
"""Column for the mask or a tissue map of fMRIPrep → end of the file name."""
_CAPS = r"(?:.*/)?sub-[^/]+/ses-[^/]+"
_CLINICA_TISSUES = {"gm": "graymatter", "wm": "whitematter", "csf": "csf"}


def bids(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each raw T1-weighted image of a BIDS data set, or of several sets.

    `tree` lists the files of the data set, or of a folder with several sets. Images whose names say
    that a program made them (``desc-``, ``space-``) are left out.
    """
    described = {}
    for folder, names in tree.folders.items():
        described[folder] = [name for name in names if name.endswith("T1w.json")]
    for path, folder_match, _ in tree.matching(_BIDS, _RAW_T1W):
        subject, session, entities = identity_of(path.rpartition("/")[2])
        if _DERIVED & set(entities):
            continue
        dataset = folder_match[1] or ""
        sidecars = _sidecars_of(path, dataset, described)
        yield FoundScan(subject, path, session, dataset, entities, sidecars=tuple(sidecars))


def _sidecars_of(path: str, dataset: str, described: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the JSON files that describe an image, the most general first.

    A JSON file holds for all images below its folder whose names have all words of its own name
    (the inheritance principle of BIDS). `described` has the names of JSON files by folder.
    """
    folder, _, name = path.rpartition("/")
    words = set(re.sub(r"(?i)\.nii(\.gz)?$", "", name).split("_"))
    steps = [dataset, *folder.removeprefix(f"{dataset}/").split("/")]
    sidecars = []
    for above in itertools.accumulate(steps, joined_path):
        for file in sorted(described.get(above, ()), key=_n_words):
            if words.issuperset(file.removesuffix(".json").split("_")):
                sidecars.append(joined_path(above, file))
    return sidecars


def _n_words(name: str) -> int:
    """Return the number of underscores in a file name: how many words follow the first word."""
    return name.count("_")


def derived_among_raw(tree: Tree) -> list[str]:
    """Return the paths of derived images among the raw images of BIDS data sets.

    Derived images have ``desc-`` or ``space-`` in the name. `tree` lists the files of one or
    several data sets.
    """
    paths = []
    for path, _, _ in tree.matching(_BIDS, _RAW_T1W):
        _, _, entities = identity_of(path.rpartition("/")[2])
        if _DERIVED & set(entities):
            paths.append(path)
    return paths


def fmriprep(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each whole head of fMRIPrep or sMRIPrep among the files of `tree`.

    Heads are ``…_desc-preproc_T1w.nii.gz``, in native space or in the space of a template. Each
    `FoundScan` also has the paths of the brain mask and of the tissue maps.
    """
    for path, _, _ in tree.matching(
        r"(?:.*/)?sub-[^/]+(?:/ses-[^/]+)?/anat", rf"sub-.+{_PREPROCESSED}(?:\.gz)?"
    ):
        subject, session, entities = identity_of(path.rpartition("/")[2])
        del entities["desc"]
        space = entities.setdefault("space", "native")
        # Templates of infants have cohorts by age, which are spaces of their own.
        if "cohort" in entities:
            space = f"{space}:cohort-{entities['cohort']}"
        prefix = path.rpartition(_PREPROCESSED)[0]
        maps = {}
        for key, end in _OF_FMRIPREP.items():
            maps[key] = tree.first(f"{prefix}_{end}.nii.gz", f"{prefix}_{end}.nii")
        yield FoundScan(
            subject,
            path,
            session,
            entities=entities,
            space=space,
            stage="preprocessed",
            maps=maps,
        )


def caps(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each image that Clinica registered (``t1_linear``) in a CAPS folder.

    If `tree` has no such image at all, each modulated map of grey matter is yielded.
    """
    registered = list(tree.matching(rf"{_CAPS}/t1_linear", r"sub-.+_space-.+_T1w\.nii(?:\.gz)?"))
    for path, _, _ in registered:
        subject, session, entities = identity_of(path.rpartition("/")[2])
        entities.setdefault("desc", "none")
        yield FoundScan(
            subject, path, session, entities=entities, space=entities["space"], stage="preprocessed"
        )
    if not registered:
        yield from _tissues_of_caps(tree)


def _tissues_of_caps(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each modulated grey-matter map of Clinica among the files of `tree`.

    `maps` of each also has the paths of the same scan's white matter and fluid.
    """
    folder = rf"{_CAPS}/t1/spm/segmentation/normalized_space"
    name = r"sub-.+_segm-graymatter_space-.+_modulated-on_probability\.nii(?:\.gz)?"
    for path, _, _ in tree.matching(folder, name):
        subject, session, entities = identity_of(path.rpartition("/")[2])
        del entities["segm"]
        maps = {}
        for key, tissue in _CLINICA_TISSUES.items():
            maps[key] = tree.first(path.replace("graymatter", tissue))
        yield FoundScan(
            subject,
            path,
            session,
            entities=entities,
            space=entities["space"],
            stage="tissue",
            maps=maps,
        )


_OF_CAT12 = {"gm": "mwp1", "wm": "mwp2", "csf": "mwp3"}
"""Tissue → beginning of the name of CAT12's tissue map."""
_IN_REPORT = {"tiv": r"<vol_TIV>\s*\[?([0-9]+\.?[0-9]*)", "iqr": r"<IQR>\s*\[?([0-9]+\.?[0-9]*)"}
"""Patterns of the head size in mL and the grade of image quality (IQR) in CAT12's XML report."""
_OF_FREESURFER = {"brainmask.mgz": "stripped", "norm.mgz": "stripped", "T1.mgz": "preprocessed"}
_TIV = re.compile(r"# Measure EstimatedTotalIntraCranialVol,.*?,\s*([0-9]+\.?[0-9]*),\s*mm\^3")
_HOLES = re.compile(r"# Measure SurfaceHoles,.*?,\s*([0-9]{1,9}),\s*unitless")


def cat12(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each modulated grey-matter map ``mwp1*`` of CAT12 in `tree`.

    The scan's image is the normalised head ``wm*`` if it exists, and else the map. `maps` has the
    paths of grey matter, white matter ``mwp2*`` and fluid ``mwp3*``; `facts` has head size and IQR,
    CAT12's grade of the image (lower is better), from the report's XML.
    """
    for path, _, named in tree.matching(r"(?:.*/)?[^/]*", r"mwp1(.+?)\.nii(\.gz)?"):
        folder = path.rpartition("/")[0]
        stem = named[1]
        end = f".nii{named[2] or ''}"
        subject, session, entities = identity_of(scan_of_stream(stem))
        stream = stream_of(stem)
        if stream != "cross":
            entities["stream"] = stream
        maps = {}
        for key, prefix in _OF_CAT12.items():
            maps[key] = tree.first(joined_path(folder, f"{prefix}{stem}{end}"))
        head = tree.first(joined_path(folder, f"wm{stem}{end}"))
        stage = "tissue"
        if head:
            stage = "preprocessed"
        yield FoundScan(
            subject,
            head or path,
            session,
            entities=entities,
            space="MNI152NLin2009cAsym",
            stage=stage,
            facts=_facts_of_cat12(tree, folder, stem),
            maps=maps,
        )


def _facts_of_cat12(tree: Tree, folder: str, stem: str) -> dict[str, str]:
    """Return ``tiv`` (head size in mL) and ``iqr`` (image quality) from CAT12's report on a scan.

    `folder` has the scan's maps, and `stem` is the name of the scan's file without ending. A value
    that the report lacks is left out.
    """
    name = f"cat_{stem}.xml"
    reports = joined_path(folder.rpartition("/")[0], "report")
    report = _text(tree, joined_path(reports, name), joined_path(folder, name))
    facts = {}
    for key, pattern in _IN_REPORT.items():
        match = re.search(pattern, report)
        if match is not None:
            facts[key] = match[1]
    return facts


def freesurfer(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each subject with an image in FreeSurfer's SUBJECTS_DIR.

    The image is the stripped brain, or the whole head if there is no stripped brain; ``fsaverage``
    is left out. The entity ``stream`` tells templates of a person's scans (a folder
    with ``base-tps``) and longitudinal copies (``X.long.Y``) from scans as they were taken.
    """
    templates = templates_below(tree)
    for folder in sorted(tree.folders):
        parent, _, last = folder.rpartition("/")
        subject = parent.rpartition("/")[2]
        image = tree.first(*(f"{folder}/{name}" for name in _OF_FREESURFER))
        if last != "mri" or not subject or not image or subject.startswith("fsaverage"):
            continue
        label, session, entities = identity_of(scan_of_stream(subject))
        entities["stream"] = stream_of(subject, is_template=parent in templates)
        yield FoundScan(
            label,
            image,
            session,
            entities=entities,
            maps={"mask_path": tree.first(f"{folder}/brainmask.mgz")},
            stage=_OF_FREESURFER[image.rpartition("/")[2]],
            facts=_facts_of_freesurfer(_text(tree, f"{parent}/stats/aseg.stats")),
        )


def _facts_of_freesurfer(text: str) -> dict[str, str]:
    """Return ``tiv`` (head size in mL) and ``euler`` from the `text` of ``aseg.stats``.

    The Euler number is the mean of both hemispheres' surfaces. A value that the text lacks is left
    out.
    """
    facts = {}
    volume = _TIV.search(text)
    if volume:
        facts["tiv"] = f"{float(volume[1]) / 1000:.1f}"
    holes = _HOLES.search(text)
    if holes:
        # The Euler number of a hemisphere is 2 - 2 holes; this is the mean of both.
        facts["euler"] = str(2 - int(holes[1]))
    return facts


def _text(tree: Tree, *paths: str) -> str:
    """Return the text of the first of `paths` that is in `tree`, the listing of a folder's files.

    "" is returned if none is there. A file that is there and cannot be read is an error; no further
    path is tried.
    """
    path = tree.first(*paths)
    if not path:
        return ""
    return read_bytes(tree.root / path).decode("utf-8", errors="replace")


_ANYWHERE = r"(?:.*/)?[^/]*"
_HOSPITALS = {
    "HH": "Hammersmith Hospital",
    "Guys": "Guy's Hospital",
    "IOP": "Institute of Psychiatry",
}


def ixi(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each T1-weighted image of IXI, ``IXI012-HH-1211-T1.nii.gz``.

    `facts` of each has the site, read from the second part of the file name: ``HH`` is "Hammersmith
    Hospital".
    """
    for path, _, named in tree.matching(
        _ANYWHERE, r"(IXI[0-9]{3})-([A-Za-z]+)-[0-9]+-T1\.nii(?:\.gz)?"
    ):
        yield FoundScan(named[1], path, facts={"site": _HOSPITALS.get(named[2], named[2])})


def brainprep(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each quasi-raw image ``…_desc-6apply_T1w.nii.gz`` of brainprep.

    Quasi-raw images are stripped, corrected for bias, and affinely registered to MNI152.
    """
    for path, _, named in tree.matching(_ANYWHERE, r"(.+)_desc-6apply_T1w\.nii(?:\.gz)?"):
        subject, session, entities = identity_of(named[1])
        yield FoundScan(subject, path, session, entities=entities, space="MNI152", stage="stripped")


def openbhb(tree: Tree) -> Iterator[FoundScan]:
    """Yield a `FoundScan` for each file with an array of one scan in the OpenBHB data set.

    Arrays are of grey matter (1.5 mm) or of affinely registered brains (1 mm), and are named
    ``sub-ID_preproc-{cat12vbm_desc-gm,quasiraw}_T1w.npy``, with an ID of twelve digits.
    """
    name = r"sub-([0-9]+)_preproc-(cat12vbm|quasiraw)(?:_desc-gm)?_T1w\.npy"
    for path, _, named in tree.matching(_ANYWHERE, name):
        stage = "stripped"
        maps = {}
        if named[2] == "cat12vbm":
            stage = "tissue"
            maps = {"gm": path}
        yield FoundScan(
            named[1],
            path,
            entities={"preproc": named[2]},
            maps=maps,
            space="MNI152NLin2009aSym",
            stage=stage,
        )


LAYOUTS: dict[str, Callable[[Tree], Iterable[FoundScan]]] = {
    "bids": bids,
    "fmriprep": fmriprep,
    "cat12": cat12,
    "freesurfer": freesurfer,
    "caps": caps,
    "openbhb": openbhb,
    "brainprep": brainprep,
    "ixi": ixi,
}
"""Name of a layout → function that yields the scans in a tree of files."""
