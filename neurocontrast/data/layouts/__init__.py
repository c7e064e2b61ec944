"""Layouts of scans on a disk: BIDS, programs that preprocess, public sets; a function and a line of `LAYOUTS` each."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

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
"""Parts of a name by which BIDS marks an image that a program made of a raw one."""
_PREPROCESSED = "_desc-preproc_T1w.nii"
_CAPS = r"(?:.*/)?sub-[^/]+/ses-[^/]+"
_CLINICA_TISSUES = {"gm": "graymatter", "wm": "whitematter", "csf": "csf"}


def bids(tree: Tree) -> Iterator[FoundScan]:
    """Give the T1-weighted images of a BIDS data set, or of several side by side, without those of derivatives."""
    described = {
        folder: [each for each in names if each.endswith("T1w.json")]
        for folder, names in tree.folders.items()
    }
    for path, placed, _ in tree.matching(_BIDS, _RAW_T1W):
        folder, _, name = path.rpartition("/")
        subject, session, entities = identity_of(name)
        if _DERIVED & set(entities):
            continue
        dataset = placed[1] or ""
        parts = {*re.sub(r"(?i)\.nii(\.gz)?$", "", name).split("_")}
        # A JSON file holds for all images below it whose names have all parts of its own (BIDS:
        # inheritance).
        sidecars = [
            joined_path(place, each)
            for place in itertools.accumulate(
                [dataset, *folder.removeprefix(f"{dataset}/").split("/")], joined_path
            )
            for each in sorted(described.get(place, ()), key=lambda name: name.count("_"))
            if parts.issuperset(each.removesuffix(".json").split("_"))
        ]
        yield FoundScan(subject, path, session, dataset, entities, sidecars=tuple(sidecars))


def derived_among_raw(tree: Tree) -> list[str]:
    """Return the images that lie where `bids` looks, and whose names say that they are not raw."""
    paths = []
    for path, _, _ in tree.matching(_BIDS, _RAW_T1W):
        _, _, entities = identity_of(path.rpartition("/")[2])
        if _DERIVED & set(entities):
            paths.append(path)
    return paths


def fmriprep(tree: Tree) -> Iterator[FoundScan]:
    """Give the whole heads of fMRIPrep or sMRIPrep, ``…_desc-preproc_T1w.nii.gz``, with brain mask and tissue maps."""
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
        endings = {"mask_path": "desc-brain_mask"} | {
            key: f"label-{key.upper()}_probseg" for key in ("gm", "wm", "csf")
        }
        beside = {
            key: tree.first(f"{prefix}_{end}.nii.gz", f"{prefix}_{end}.nii")
            for key, end in endings.items()
        }
        yield FoundScan(
            subject,
            path,
            session,
            entities=entities,
            space=space,
            stage="preprocessed",
            maps=beside,
        )


def caps(tree: Tree) -> Iterator[FoundScan]:
    """Give the affinely registered images of Clinica (``t1_linear``), or else its modulated grey-matter maps."""
    is_there = False
    for path, _, _ in tree.matching(rf"{_CAPS}/t1_linear", r"sub-.+_space-.+_T1w\.nii(?:\.gz)?"):
        is_there = True
        subject, session, entities = identity_of(path.rpartition("/")[2])
        entities.setdefault("desc", "none")
        yield FoundScan(
            subject, path, session, entities=entities, space=entities["space"], stage="preprocessed"
        )
    name = r"sub-.+_segm-graymatter_space-.+_modulated-on_probability\.nii(?:\.gz)?"
    for path, _, _ in (
        () if is_there else tree.matching(rf"{_CAPS}/t1/spm/segmentation/normalized_space", name)
    ):
        subject, session, entities = identity_of(path.rpartition("/")[2])
        del entities["segm"]
        maps = {
            key: tree.first(path.replace("graymatter", tissue))
            for key, tissue in _CLINICA_TISSUES.items()
        }
        yield FoundScan(
            subject,
            path,
            session,
            entities=entities,
            space=entities["space"],
            stage="tissue",
            maps=maps,
        )


_OF_CAT12 = {"gm": "mwp1", "wm": "mwp2", "csf": "mwp3", "head": "wm"}
_IN_REPORT = {"tiv": r"<vol_TIV>\s*\[?([0-9]+\.?[0-9]*)", "iqr": r"<IQR>\s*\[?([0-9]+\.?[0-9]*)"}
_OF_FREESURFER = {"brainmask.mgz": "stripped", "norm.mgz": "stripped", "T1.mgz": "preprocessed"}
_TIV = re.compile(r"# Measure EstimatedTotalIntraCranialVol,.*?,\s*([0-9]+\.?[0-9]*),\s*mm\^3")
_HOLES = re.compile(r"# Measure SurfaceHoles,.*?,\s*([0-9]{1,9}),\s*unitless")


def cat12(tree: Tree) -> Iterator[FoundScan]:
    """Give the modulated grey-matter maps ``mwp1*`` of CAT12, with the other files of the same scan.

    These are white matter ``mwp2*``, fluid ``mwp3*``, the normalised head ``wm*``, which is the
    image where it is there, and the report's XML, whose IQR is CAT12's grade of the image (lower is
    better).
    """
    for path, _, named in tree.matching(r"(?:.*/)?[^/]*", r"mwp1(.+?)\.nii(\.gz)?"):
        folder = path.rpartition("/")[0]
        stem = named[1]
        end = f".nii{named[2] or ''}"
        subject, session, entities = identity_of(scan_of_stream(stem))
        stream = stream_of(stem)
        if stream != "cross":
            entities["stream"] = stream
        found = {
            key: tree.first(joined_path(folder, f"{prefix}{stem}{end}"))
            for key, prefix in _OF_CAT12.items()
        }
        head = found.pop("head")
        above = folder.rpartition("/")[0]
        text = _text(
            tree,
            *(
                joined_path(each, f"cat_{stem}.xml")
                for each in (joined_path(above, "report"), folder)
            ),
        )
        matches = {key: re.search(pattern, text) for key, pattern in _IN_REPORT.items()}
        yield FoundScan(
            subject,
            head or path,
            session,
            entities=entities,
            space="MNI152NLin2009cAsym",
            stage="preprocessed" if head else "tissue",
            facts={key: match[1] for key, match in matches.items() if match},
            maps=found,
        )


def freesurfer(tree: Tree) -> Iterator[FoundScan]:
    """Give an image for each subject of a SUBJECTS_DIR: the stripped brain, else the whole head.

    ``fsaverage`` is left out. The entity ``stream`` tells templates of a person's scans (a folder
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
    """Return head size and Euler number as ``aseg.stats`` has them."""
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
    """Return the text of the first of some files that is there, or ""."""
    found = tree.first(*paths)
    return read_bytes(tree.root / found).decode("utf-8", errors="replace") if found else ""


_ANYWHERE = r"(?:.*/)?[^/]*"
_HOSPITALS = {
    "HH": "Hammersmith Hospital",
    "Guys": "Guy's Hospital",
    "IOP": "Institute of Psychiatry",
}


def ixi(tree: Tree) -> Iterator[FoundScan]:
    """Give the T1-weighted images of IXI, ``IXI012-HH-1211-T1.nii.gz``; the site is in the name of the file."""
    for path, _, named in tree.matching(
        _ANYWHERE, r"(IXI[0-9]{3})-([A-Za-z]+)-[0-9]+-T1\.nii(?:\.gz)?"
    ):
        yield FoundScan(named[1], path, facts={"site": _HOSPITALS.get(named[2], named[2])})


def brainprep(tree: Tree) -> Iterator[FoundScan]:
    """Give ``…_desc-6apply_T1w.nii.gz``: stripped, corrected for bias, and affinely registered to MNI152."""
    for path, _, named in tree.matching(_ANYWHERE, r"(.+)_desc-6apply_T1w\.nii(?:\.gz)?"):
        subject, session, entities = identity_of(named[1])
        yield FoundScan(subject, path, session, entities=entities, space="MNI152", stage="stripped")


def openbhb(tree: Tree) -> Iterator[FoundScan]:
    """Give OpenBHB's arrays of grey matter (1.5 mm) and its quasi-raw arrays (1 mm).

    They are named ``sub-ID_preproc-{cat12vbm_desc-gm,quasiraw}_T1w.npy``, with an ID of twelve
    digits.
    """
    name = r"sub-([0-9]+)_preproc-(cat12vbm|quasiraw)(?:_desc-gm)?_T1w\.npy"
    for path, _, named in tree.matching(_ANYWHERE, name):
        tissue = named[2] == "cat12vbm"
        yield FoundScan(
            named[1],
            path,
            entities={"preproc": named[2]},
            maps={"gm": path} if tissue else {},
            space="MNI152NLin2009aSym",
            stage="tissue" if tissue else "stripped",
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
"""Name of a layout → function that gives its scans in a tree of files."""
