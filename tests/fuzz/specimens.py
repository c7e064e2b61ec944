"""A valid file of every kind that the package reads, and the call that reads it."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np
import pandas as pd
import torch
from evaluation_folders import make_binary

from neurocontrast.commands.index import index as index_folder
from neurocontrast.config import load_config
from neurocontrast.data.cache import VolumeCache
from neurocontrast.data.cohort import inspect_cohort
from neurocontrast.data.indexing import index_scans
from neurocontrast.data.measures.tables import read_tables
from neurocontrast.data.natural.pictures import decode, open_files
from neurocontrast.data.natural.store import ImageStore
from neurocontrast.data.phenotype import read_phenotype
from neurocontrast.data.privacy import look_for_identities
from neurocontrast.data.problems import Problems
from neurocontrast.embedding.table import read_embeddings, write_embeddings
from neurocontrast.encoders import EncoderSettings, build_model, load_model, read_contract, save_encoder
from neurocontrast.encoders.architectures import ARCHITECTURES, read_state
from neurocontrast.encoders.weights import load_tensors
from neurocontrast.evaluation import EvaluationSettings, load_probe, plan_study, save_probe
from neurocontrast.evaluation.comparison import load_evaluated
from neurocontrast.evaluation.distribution import fit_distribution
from neurocontrast.evaluation.splits.given import read_split_file, splits_from_table
from neurocontrast.evaluation.stored_probe import fit_on_all
from neurocontrast.files import digest_of_file
from neurocontrast.reading import read_array, read_arrays
from neurocontrast.reporting import read as reporting
from neurocontrast.runs import folder as run_folder
from neurocontrast.stages import voxels
from neurocontrast.tables import read_parquet, read_workbook
from neurocontrast.training.checkpoints import load_checkpoint, save_checkpoint
from neurocontrast.training.session import Position
from neurocontrast.transforms.loading import read_scan, read_scan_header
from neurocontrast.transforms.preprocessing import Preprocessing

PERSON = "Mustermann"
"""Stands where scanners write the patient's name, and in no output."""


class Specimen(NamedTuple):
    """A valid file, and what reads it."""

    path: Path
    read: Callable[[Path], Any]


def _put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _table(rows: str, separator: str = "\t") -> str:
    return "\n".join(separator.join(line.split()) for line in rows.strip().splitlines()) + "\n"


def specimens(root: Path) -> dict[str, Specimen]:
    """Write every file below a folder; the values read a file at its own place."""
    return _tables(root) | _images(root) | _measures(root) | _networks(root) | _evaluations(root)


def _tables(root: Path) -> dict[str, Specimen]:
    people = _table("participant_id path age sex site\nsub-1 a.nii 30.5 F london\nsub-2 b.nii 89+ M paris")
    found: dict[str, Specimen] = {}

    def cohort(path: Path) -> Any:
        problems = inspect_cohort(path, check_images=False).problems
        problems.raise_if_any()

    def phenotype(path: Path) -> Any:
        problems = Problems(path.name)
        read_phenotype(path, problems, source=path.name)
        problems.raise_if_any()

    folder = root / "tables"
    recipe = "seed: 3\ntraining: &t {epochs: 2, learning_rate: 1e-4}\nfinetune: {epochs: 3}\ndata: {shape: [8, 8, 8]}\n"
    found["recipe"] = Specimen(_put(folder / "recipe.yaml", recipe), load_config)
    found["cohort.tsv"] = Specimen(_put(folder / "cohort.tsv", people), cohort)
    found["cohort.csv"] = Specimen(_put(folder / "cohort.csv", people.replace("\t", ",")), cohort)
    found["phenotype.tsv"] = Specimen(_put(folder / "phenotype.tsv", people), phenotype)
    described = {"age": {"Units": "years"}, "sex": {"Levels": {"F": "female", "M": {"Description": "male"}}}}
    _put(folder / "described.tsv", people)
    found["phenotype.json"] = Specimen(
        _put(folder / "described.json", described), lambda path: phenotype(path.with_suffix(".tsv"))
    )
    frame = pd.read_csv(folder / "cohort.tsv", sep="\t", dtype=str)
    frame.to_excel(folder / "people.xlsx", index=False)
    found["phenotype.xlsx"] = Specimen(folder / "people.xlsx", phenotype)
    found["workbook"] = Specimen(folder / "people.xlsx", read_workbook)
    frame.to_parquet(folder / "people.parquet")
    found["parquet"] = Specimen(folder / "people.parquet", read_parquet)
    splits = "participant_id session repeat fold\nsub-1 n/a 0 0\nsub-2 n/a 0 1\nsub-3 n/a 0 0"
    scans = pd.DataFrame({"participant_id": ["sub-1", "sub-2", "sub-3"], "session": "", "site": ["a", "b", "a"]})
    scans["subject_id"] = scans["participant_id"]
    found["splits"] = Specimen(
        _put(folder / "splits.tsv", _table(splits)), lambda path: splits_from_table(read_split_file(path), scans)
    )
    tree = root / "bids"
    _put(tree / "sub-1/anat/sub-1_T1w.nii.gz", "image")
    _put(tree / "participants.tsv", _table("participant_id age sex\nsub-1 30 F"))
    sidecar = {"PatientName": PERSON, "Manufacturer": "Siemens", "MagneticFieldStrength": 3, "Nested": [{"a": 1.5}]}
    found["sidecar"] = Specimen(_put(tree / "sub-1/anat/sub-1_T1w.json", sidecar), lambda _: index_scans(tree))
    found["scans.tsv"] = Specimen(
        _put(tree / "sub-1/sub-1_scans.tsv", _table("filename age\nanat/sub-1_T1w.nii.gz 30")),
        lambda _: index_scans(tree),
    )
    record = {"layout": "bids", "n_found": 1, "left_out": [], "PatientName": PERSON}
    (root / "index").mkdir()
    _put(root / "index/participants.tsv", people)

    def index(path: Path) -> Any:
        before = path.read_bytes()
        try:
            index_folder(tree, path.with_name("participants.tsv"), overwrite=True)
        except Exception:
            assert path.read_bytes() == before
            raise

    found["index.json"] = Specimen(_put(root / "index/index.json", record), index)
    return found


def _images(root: Path) -> dict[str, Specimen]:
    folder = root / "images"
    folder.mkdir()
    data = np.random.default_rng(0).normal(size=(8, 9, 10)).astype(np.float32)
    image = nib.Nifti1Image(data, np.eye(4))
    image.header["descrip"] = PERSON.encode()
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", PERSON.encode()))
    nib.save(image, folder / "a.nii")
    nib.save(nib.Nifti2Image(data, np.eye(4)), folder / "two.nii")
    nib.save(nib.MGHImage(data, np.eye(4)), folder / "a.mgz")
    np.save(folder / "a.npy", data)
    with open(folder / "b.nii.gz", "wb") as stream, gzip.GzipFile(f"{PERSON}.nii", "wb", fileobj=stream) as packed:
        packed.write((folder / "a.nii").read_bytes())

    def both(path: Path) -> Any:
        read_scan_header(path)
        return read_scan(path)

    def phi(path: Path) -> Any:
        table = path.with_name("table.tsv")
        problems = Problems(table.name)
        look_for_identities(table, [path], problems)
        problems.raise_if_any()

    _put(folder / "table.tsv", _table("participant_id path\nsub-1 a.nii"))
    found = {path.name: Specimen(path, both) for path in sorted(folder.glob("*.n*"))} | {
        "a.mgz": Specimen(folder / "a.mgz", both)
    }
    scan = _put(folder / "cached/scan.nii", (folder / "a.nii").read_bytes())
    for name, shared in (("cache entry", False), ("shared cache entry", True)):
        cache = VolumeCache(folder / name, Preprocessing(spacing_mm=1.0, shape=(8, 9, 10)), shared=shared)
        volume = cache.read(scan)
        (entry,) = cache.folder.glob("*.safetensors")

        def cached(path: Path, cache: VolumeCache = cache, volume: Any = volume, shared: bool = shared) -> Any:
            read = cache.read(scan)
            assert read.shape == volume.shape
            assert shared or np.array_equal(read, volume)

        found[name] = Specimen(entry, cached)
    found |= {f"phi {name}": Specimen(folder / name, phi) for name in ("a.nii", "b.nii.gz", "a.mgz")}
    beside = _put(folder / "a.json", {"PatientName": PERSON, "x": [{"OperatorsName": PERSON}], "EchoTime": 1})
    found["phi json"] = Specimen(beside, lambda path: phi(path.with_name("a.nii")))
    found["space"] = Specimen(folder / "a.nii", lambda path: voxels._read_header(str(path)))
    found["array"] = Specimen(folder / "a.npy", read_array)
    np.savez(folder / "a.npz", a=data, b=np.arange(3))
    found["arrays"] = Specimen(folder / "a.npz", lambda path: read_arrays(path, shapes={"b": (3,)}))
    np.save(folder / "store.npy", np.zeros((4, 3, 5, 6), np.uint8))
    found["store"] = Specimen(folder / "store.npy", ImageStore.open)
    measures = json.dumps({"mean": 0.5})
    np.savez(folder / "qc.npz", measures=measures, vector=np.zeros(3), thumbnail=np.zeros(4, np.uint8))
    found["qc"] = Specimen(folder / "qc.npz", importlib.import_module("neurocontrast.commands.qc")._is_kept)
    from PIL import Image

    picture = io.BytesIO()
    Image.fromarray(np.zeros((6, 7, 3), np.uint8)).save(picture, "PNG")
    found["picture"] = Specimen(_put(folder / "a.png", picture.getvalue()), lambda path: decode(path.read_bytes()))
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        archive.add(folder / "a.png", "class/a.png")

    def unpack(path: Path) -> Any:
        with open_files(path) as files:
            return files.names

    found["archive"] = Specimen(folder / "a.tar.gz", unpack)
    return found


def _measures(root: Path) -> dict[str, Specimen]:
    stats = (
        "# Title Segmentation Statistics\n# cvs_version 7.2.0\n"
        "# Measure Cortex, MeanThickness, Mean Thickness, 2.5, mm\n"
        "# Measure EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume, 1500000.5, mm^3\n"
        "# ColHeaders StructName NumVert SurfArea GrayVol ThickAvg ThickStd MeanCurv GausCurv FoldInd CurvInd\n"
        "bankssts 1359 931 2390 2.543 0.451 0.104 0.022 10 1.2\ncuneus 2000 1400 2900 1.9 0.4 0.15 0.03 20 2.1\n"
    )
    regions = ("bankssts", "cuneus", "fusiform", "insula", "lingual", "precuneus")
    header = "\t".join(f"lh_{region}_thickness" for region in regions)
    values = "\t".join(f"2.{n}1" for n in range(len(regions)))
    table = f"lh.aparc.thickness\t{header}\nsub-1\t{values}\nsub-2\t{values}\n"
    cat12 = (
        "<?xml version='1.0'?><S><neuromorphometrics><names><item>lAmy</item><item>rAmy</item></names>"
        "<data><Vgm>[1.5;1.25]</Vgm></data></neuromorphometrics><version><version_cat>12.8</version_cat></version></S>"
    )
    folder = root / "measures"
    found = {
        "stats": Specimen(_put(folder / "fs/sub-1/stats/lh.aparc.stats", stats), read_tables),
        "stats folder": Specimen(
            _put(folder / "other/sub-1/stats/lh.aparc.stats", stats), lambda _: read_tables(folder / "other")
        ),
        "measures table": Specimen(_put(folder / "lh.tsv", table), read_tables),
        "measures.tsv": Specimen(
            _put(folder / "m.tsv", table.replace("lh.aparc.thickness", "participant_id")), read_tables
        ),
        "catROI": Specimen(_put(folder / "cat/label/catROI_sub-1_T1w.xml", cat12), read_tables),
    }
    resource = {"vbm_roi": {"features": ["lAmy_GM_Vol", "rAmy_GM_Vol"], "channels": ["volume"]}}
    _put(folder / "openbhb/resource/resources.json", resource)
    array = folder / "openbhb/sub-1_preproc-cat12vbm_desc-gm_ROI.npy"
    np.save(array, np.ones((1, 1, 2)))
    found["openbhb"] = Specimen(array, read_tables)
    found["resources.json"] = Specimen(folder / "openbhb/resource/resources.json", lambda _: read_tables(array))
    for name, path, text in (
        ("aseg.stats", "sub-1/stats/aseg.stats", stats + "# Measure SurfaceHoles, SurfaceHoles, holes, 12, unitless\n"),
        ("cat report", "report/cat_sub-1_T1w.xml", "<S><vol_TIV>[1500.5]</vol_TIV><IQR>2.1</IQR></S>"),
    ):
        tree = root / path.rpartition(".")[2]
        _put(tree / "sub-1/mri/T1.mgz", "image")
        _put(tree / "mri/mwp1sub-1_T1w.nii", "image")
        layout = "freesurfer" if name == "aseg.stats" else "cat12"
        found[name] = Specimen(
            _put(tree / path, text), lambda _, tree=tree, layout=layout: index_scans(tree, layout=layout)
        )
    return found


def _networks(root: Path) -> dict[str, Specimen]:
    run = root / "run"
    model = build_model(EncoderSettings(), n_channels=1)
    save_encoder(run, model.encoder, {"preprocessing": {"shape": [8, 8, 8]}, "PatientName": PERSON}, head=model.head)

    def rehashed(path: Path) -> Any:
        contract = json.loads((run / "encoder.json").read_text())
        contract["weights"]["sha256"] = digest_of_file(path)
        whole = (run / "encoder.json").read_bytes()
        try:
            _put(run / "encoder.json", contract)
            return load_model(run)
        finally:
            (run / "encoder.json").write_bytes(whole)

    found = {
        "encoder.json": Specimen(run / "encoder.json", lambda _: load_model(run)),
        "contract": Specimen(run / "encoder.json", lambda _: read_contract(run)),
        "weights": Specimen(run / "encoder.safetensors", rehashed),
        "tensors": Specimen(run / "encoder.safetensors", load_tensors),
    }
    provenance = {
        "environment": {"neurocontrast": "1"},
        "cohort": {"source": "p.tsv", "digest": "a", "n_scans": 3},
        "pretraining_subjects": ["ab"],
        "PatientName": PERSON,
    }
    found["provenance"] = Specimen(_put(run / "provenance.json", provenance), lambda _: run_folder.read_provenance(run))
    course = "epoch,loss,val_loss\n0,1.5,\n1,1.25,2.5\n"
    found["metrics"] = Specimen(_put(run / "metrics.csv", course), lambda _: run_folder.read_metrics(run))
    saved = save_checkpoint(root / "checkpoints", Position(1), {"model": model.encoder.state_dict()}, keep=1)
    found["checkpoint"] = Specimen(saved, load_checkpoint)
    architecture = next(iter(ARCHITECTURES.values()))
    state = {f"{architecture.anchor}": torch.zeros(3, 2), "note": PERSON}
    torch.save(state, root / "foreign.pt")
    found["foreign.pt"] = Specimen(root / "foreign.pt", lambda path: read_state(path, architecture))
    return found


def _evaluations(root: Path) -> dict[str, Specimen]:
    folder = make_binary(root / "evaluation", n=24, sites=("a", "b"), n_folds=3, n_boot=10)
    predictions = pd.read_csv(folder / "predictions.tsv", sep="\t", dtype=str)
    predictions.assign(y_pred="control").to_csv(folder / "predictions.tsv", sep="\t", index=False)

    def evaluated(_: Path) -> Any:
        reporting.read_evaluation(folder)
        load_evaluated(folder)

    found = {
        f"evaluation {name}": Specimen(folder / name, evaluated)
        for name in ("evaluation.json", "predictions.tsv", "folds.tsv", "sites.tsv", "cohort.tsv")
    }
    generator, names = np.random.default_rng(0), [f"sub-{n}" for n in range(60)]
    table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": "", "site": ["a", "b"] * 30})
    table["diagnosis"] = np.array(["control", "patient"])[generator.integers(2, size=60)]
    features = generator.normal(size=(60, 5)).astype(np.float32)
    write_embeddings(root / "e.parquet", table, features, {"pretraining_subjects": [], "PatientName": PERSON})
    found["embeddings"] = Specimen(root / "e.parquet", read_embeddings)
    fast = {"n_bootstraps": 0, "confounds": False, "new_site": False, "outlyingness": False, "n_inner_folds": 3}
    study = plan_study(table, features, settings=EvaluationSettings(target="diagnosis", **fast))
    inside = fit_distribution(study.features, ["a"] * 60, study.subjects, seed=0)
    save_probe(root / "probe", fit_on_all(study, encoder=None, distribution=inside)[1])

    def rehashed(path: Path) -> Any:
        about = json.loads((root / "probe/probe.json").read_text())
        about["arrays"]["sha256"] = digest_of_file(path)
        whole = (root / "probe/probe.json").read_bytes()
        try:
            _put(root / "probe/probe.json", about)
            return load_probe(root / "probe")
        finally:
            (root / "probe/probe.json").write_bytes(whole)

    found["probe.json"] = Specimen(root / "probe/probe.json", lambda _: load_probe(root / "probe"))
    found["probe.npz"] = Specimen(root / "probe/probe.npz", rehashed)
    return found
