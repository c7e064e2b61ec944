"""Layouts named like BIDS: scans as the scanner made them, and what fMRIPrep, sMRIPrep and Clinica made of them."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.tree import FoundScan, Tree, identity_of, joined_path

__all__ = ["bids", "caps", "fmriprep"]

_BIDS = r"(?:(?!derivatives/|sourcedata/|code/|phenotype/)([^/]+)/)?sub-[^/]+(?:/ses-[^/]+)?/anat"
_PREPROCESSED = "_desc-preproc_T1w.nii"
_CAPS = r"(?:.*/)?sub-[^/]+/ses-[^/]+"
_CLINICA_TISSUES = {"gm": "graymatter", "wm": "whitematter", "csf": "csf"}


def bids(tree: Tree) -> Iterator[FoundScan]:
    """Give the T1-weighted images of a BIDS data set, or of several side by side, without those of derivatives."""
    for path, placed, _ in tree.matching(_BIDS, r"sub-.+_T1w\.nii(?:\.gz)?"):
        folder, _, name = path.rpartition("/")
        subject, session, entities = identity_of(name)
        if "desc" in entities or "space" in entities:
            continue
        dataset, stem = placed[1] or "", name.partition(".")[0]
        of_all = (joined_path(dataset, each) for each in ("T1w.json", f"sub-{subject}/sub-{subject}_T1w.json"))
        sidecars = (each for each in (*of_all, joined_path(folder, f"{stem}.json")) if tree.has(each))
        yield FoundScan(subject, path, session, dataset, entities, sidecars=tuple(sidecars))


def fmriprep(tree: Tree) -> Iterator[FoundScan]:
    """Give the whole heads of fMRIPrep or sMRIPrep, ``…_desc-preproc_T1w.nii.gz``, with brain mask and tissue maps."""
    for path, _, _ in tree.matching(r"(?:.*/)?sub-[^/]+(?:/ses-[^/]+)?/anat", rf"sub-.+{_PREPROCESSED}(?:\.gz)?"):
        subject, session, entities = identity_of(path.rpartition("/")[2])
        del entities["desc"]
        entities.setdefault("space", "native")
        prefix = path.rpartition(_PREPROCESSED)[0]
        endings = {"mask_path": "desc-brain_mask"} | {
            key: f"label-{key.upper()}_probseg" for key in ("gm", "wm", "csf")
        }
        beside = {key: tree.first(f"{prefix}_{end}.nii.gz", f"{prefix}_{end}.nii") for key, end in endings.items()}
        yield FoundScan(
            subject, path, session, entities=entities, space=entities["space"], stage="preprocessed", maps=beside
        )


def caps(tree: Tree) -> Iterator[FoundScan]:
    """Give the affinely registered images of Clinica (``t1_linear``), or else its modulated grey-matter maps."""
    linear = list(_caps_linear(tree))
    yield from linear or _caps_tissue(tree)


def _caps_linear(tree: Tree) -> Iterator[FoundScan]:
    for path, _, _ in tree.matching(rf"{_CAPS}/t1_linear", r"sub-.+_space-.+_T1w\.nii(?:\.gz)?"):
        subject, session, entities = identity_of(path.rpartition("/")[2])
        entities.setdefault("desc", "none")
        yield FoundScan(subject, path, session, entities=entities, space=entities["space"], stage="preprocessed")


def _caps_tissue(tree: Tree) -> Iterator[FoundScan]:
    name = r"sub-.+_segm-graymatter_space-.+_modulated-on_probability\.nii(?:\.gz)?"
    for path, _, _ in tree.matching(rf"{_CAPS}/t1/spm/segmentation/normalized_space", name):
        subject, session, entities = identity_of(path.rpartition("/")[2])
        del entities["segm"]
        maps = {key: tree.first(path.replace("graymatter", tissue)) for key, tissue in _CLINICA_TISSUES.items()}
        yield FoundScan(subject, path, session, entities=entities, space=entities["space"], stage="tissue", maps=maps)
