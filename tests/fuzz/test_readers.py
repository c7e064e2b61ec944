"""Damaged files of the kinds that users bring: each is read, or refused in words of the package that name no person.

A failure says the seed; a reader alone: ``pytest -m slow tests/fuzz/test_readers.py -k sidecar``.
"""

import contextlib
import gzip
import io
import json
import random
import re
import warnings
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neurocontrast.config import load_config
from neurocontrast.data.cohort import inspect_cohort
from neurocontrast.data.indexing import index_scans
from neurocontrast.data.listing import read_parquet
from neurocontrast.data.measures.tables import read_tables
from neurocontrast.data.phenotype import PhenotypeFile, read_phenotype
from neurocontrast.data.problems import Problems
from neurocontrast.documents.embeddings import read_embeddings, write_embeddings
from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.encoders import EncoderSettings, build_model, load_model, save_encoder
from neurocontrast.exceptions import NeurocontrastError
from neurocontrast.transforms.loading import read_scan, read_scan_header

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PERSON = "Mustermann"
"""Planted where scanners write the patient's name; no message may hold it."""
N_INPUTS = 40
NAMES = ("recipe", "cohort", "phenotype.json", "phenotype.xlsx", "parquet", "sidecar", "scans.tsv", "nii", "nii.gz",
         "mgz", "stats", "measures", "catROI", "encoder.json", "weights", "embeddings")  # fmt: skip
WORDS = ("", "n/a", "nan", "1e999", "9" * 5_000, "true", "[]", "\0", "\x1b[31m", "\u202e", "\ud7ff", '"', "../../etc",
         "/dev/zero", "%s%n", "&a [*a]", "!!python/name:os.system", "a" * 70_000)  # fmt: skip
VALUES = (
    None,
    True,
    -1,
    2**63,
    1e308,
    "",
    "\x1b[31m",
    "\ud800",
    "x" * 70_000,
    [],
    {},
    [[]],
    {"": {}},
    [None] * 50,
)
COHORT = "participant_id\tpath\tage\tsex\tsite\nsub-1\ta.nii\t30.5\tF\tlondon\nsub-2\tb.nii\t89+\tM\tparis\n"
STATS = (
    "# Title Segmentation Statistics\n# Measure Cortex, MeanThickness, Mean Thickness, 2.5, mm\n"
    "# ColHeaders StructName NumVert SurfArea GrayVol ThickAvg ThickStd MeanCurv GausCurv FoldInd CurvInd\n"
    "bankssts 1359 931 2390 2.543 0.451 0.104 0.022 10 1.2\ncuneus 2000 1400 2900 1.9 0.4 0.15 0.03 20 2.1\n"
)
CAT12 = (
    "<?xml version='1.0'?><S><neuromorphometrics><names><item>lAmy</item><item>rAmy</item></names>"
    "<data><Vgm>[1.5;1.25]</Vgm></data></neuromorphometrics></S>"
)


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def cohort(path):
    inspect_cohort(path, check_images=False).problems.raise_if_any()


def phenotype(path):
    problems = Problems(path.name)
    read_phenotype(PhenotypeFile(path, path.name), problems)
    problems.raise_if_any()


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A whole file of each kind, and what reads it."""
    root = tmp_path_factory.mktemp("files")
    people = pd.read_csv(put(root / "people.tsv", COHORT), sep="\t", dtype=str)
    people.to_excel(root / "people.xlsx", index=False)
    people.to_parquet(root / "people.parquet")
    described = {
        "age": {"Units": "years"},
        "sex": {"Levels": {"F": "female", "M": {"Description": "male"}}},
    }
    tree = root / "bids"
    put(tree / "sub-1/anat/sub-1_T1w.nii.gz", "image")
    put(tree / "participants.tsv", "participant_id\tage\tsex\nsub-1\t30\tF\n")
    sidecar = {
        "PatientName": PERSON,
        "Manufacturer": "Siemens",
        "MagneticFieldStrength": 3,
        "Nested": [{"a": 1.5}],
    }
    voxels = np.random.default_rng(0).uniform(size=(8, 9, 10)).astype(np.float32)
    for ending, kind in (
        ("nii", nib.Nifti1Image),
        ("nii.gz", nib.Nifti1Image),
        ("mgz", nib.MGHImage),
    ):
        image = kind(voxels, np.eye(4))
        if ending != "mgz":
            image.header["descrip"] = PERSON.encode()
        nib.save(image, root / f"a.{ending}")
    header = "\t".join(
        f"lh_{region}_thickness"
        for region in ("bankssts", "cuneus", "fusiform", "insula", "lingual")
    )
    values = "\t".join(f"2.{n}1" for n in range(5))
    run = root / "run"
    model = build_model(EncoderSettings(), n_channels=1)
    save_encoder(
        run,
        model.encoder,
        EncoderDescription.model_validate(
            {"preprocessing": {"shape": [8, 8, 8]}, "PatientName": PERSON}
        ),
        head=model.head,
    )
    names = pd.DataFrame({"participant_id": ["a", "b"], "subject_id": ["a", "b"], "session": ""})
    write_embeddings(
        root / "e.parquet", names, np.ones((2, 3), np.float32), {"PatientName": PERSON}
    )
    recipe = "seed: 3\ntraining: &t {epochs: 2, learning_rate: 1e-4}\nfinetune: {epochs: 3}\n"

    def scan(path):
        read_scan_header(path)
        read_scan(path)

    return {
        "recipe": (put(root / "recipe.yaml", recipe), load_config),
        "cohort": (put(root / "cohort.tsv", COHORT), cohort),
        "phenotype.json": (
            put(root / "people.json", described),
            lambda path: phenotype(path.with_suffix(".tsv")),
        ),
        "phenotype.xlsx": (root / "people.xlsx", phenotype),
        "parquet": (root / "people.parquet", read_parquet),
        "sidecar": (put(tree / "sub-1/anat/sub-1_T1w.json", sidecar), lambda _: index_scans(tree)),
        "scans.tsv": (
            put(tree / "sub-1/sub-1_scans.tsv", "filename\tage\nanat/sub-1_T1w.nii.gz\t30\n"),
            lambda _: index_scans(tree),
        ),
        **{ending: (root / f"a.{ending}", scan) for ending in ("nii", "nii.gz", "mgz")},
        "stats": (put(root / "fs/sub-1/stats/lh.aparc.stats", STATS), read_tables),
        "measures": (
            put(root / "m.tsv", f"participant_id\t{header}\nsub-1\t{values}\n"),
            read_tables,
        ),
        "catROI": (put(root / "cat/label/catROI_sub-1_T1w.xml", CAT12), read_tables),
        "encoder.json": (run / "encoder.json", lambda _: load_model(run)),
        "weights": (run / "encoder.safetensors", lambda _: load_model(run)),
        "embeddings": (root / "e.parquet", read_embeddings),
    }


def damaged(content: bytes, seed: int) -> bytes:
    """Return a file's content, damaged in the one way that a number stands for."""
    chance = random.Random(seed)
    if seed % 5 == 4 and content.startswith(b"\x1f\x8b"):
        return gzip.compress(damaged(gzip.decompress(content), seed - 1), 1)
    first, second = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    if seed % 5 == 0:
        changed = bytearray(content)
        for _ in range(chance.choice((1, 2, 8, 64))):
            changed[chance.randrange(min(len(changed), 400))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    if seed % 5 == 1:
        return chance.choice(
            (content[:first], content[second:], content[:first] + content[second:], b"")
        )
    if seed % 5 == 2:
        return chance.choice(
            (content + content, content[:first] + b"[" * 100_000, b'{"a":' * 100_000)
        )
    if seed % 5 == 4 and content.startswith(b"{"):
        tree = json.loads(content)
        tree[chance.choice(list(tree))] = chance.choice(VALUES)
        return json.dumps(tree).encode()
    words = list(re.finditer(rb"[A-Za-z0-9_.+-]+", content[:20_000]))
    found = chance.choice(words)
    return (
        content[: found.start()]
        + chance.choice(WORDS).encode("utf-8", "surrogatepass")
        + content[found.end() :]
    )


def said_by(path: Path, read) -> str:
    """Return all that reading a file says: its error, output and warnings."""
    said = io.StringIO()
    streams = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
    with streams[0], streams[1], warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            read(path)
        except NeurocontrastError as error:
            said.write(str(error))
    return said.getvalue() + " ".join(str(each.message) for each in heard)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_read_or_refused(known, name):
    path, read = known[name]
    whole = path.read_bytes()
    read(path)

    @settings(max_examples=N_INPUTS, derandomize=True, database=None, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.integers(0, 2**32 - 1))
    def check(seed: int) -> None:
        path.write_bytes(damaged(whole, seed))
        said = said_by(path, read)
        assert PERSON not in said, said
        assert not set(said) & set("\x1b\r\0\u2028\u202e"), said

    try:
        check()
    finally:
        path.write_bytes(whole)
