"""Two thousand damaged files, over every reader of the package: one sentence of its own, or it is read.

No traceback, no hang, nothing written, no name of a person in any message. A failure says the seed; that of a reader
alone: ``pytest -m slow tests/fuzz -k "test_a_damaged_file and sidecar"``.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutation import mutated
from specimens import PERSON, Specimen, specimens

from neurocontrast.exceptions import NeurocontrastError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
N_INPUTS = 2_000
NAMES = (
    *("recipe", "cohort.tsv", "cohort.csv", "phenotype.tsv", "phenotype.json", "phenotype.xlsx", "workbook"),
    *("parquet", "splits", "sidecar", "scans.tsv", "index.json", "journal", "a.nii", "two.nii", "b.nii.gz"),
    *("a.npy", "a.mgz", "phi a.nii", "phi b.nii.gz", "phi a.mgz", "phi json", "space", "array", "arrays"),
    *("store", "qc", "picture", "archive", "stats", "stats folder", "measures table", "measures.tsv"),
    *("catROI", "openbhb", "resources.json", "aseg.stats", "cat report", "encoder.json", "contract"),
    *("cache entry", "shared cache entry"),
    *("weights", "tensors", "provenance", "metrics", "checkpoint", "foreign.pt", "evaluation evaluation.json"),
    *("evaluation predictions.tsv", "evaluation folds.tsv", "evaluation sites.tsv", "evaluation cohort.tsv"),
    *("embeddings", "probe.json", "probe.npz"),
)
WRITERS = ("index.json", "journal", "qc", "cache entry", "shared cache entry")
"""Their calls write or remove a file when the input is read."""


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> dict[str, Specimen]:
    found = specimens(tmp_path_factory.mktemp("specimens"))
    assert set(found) == set(NAMES)
    return found


def _said_by(specimen: Specimen) -> str:
    """Return all that reading a file says: its error, output and warnings."""
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        warnings.catch_warnings(record=True) as heard,
    ):
        warnings.simplefilter("always")
        try:
            specimen.read(specimen.path)
        except NeurocontrastError as error:
            text = str(error)
            lines = text.split("\n")
            assert all(line.startswith(("  ", "Hint: ")) for line in lines[1:]), text
            assert all(len(line) < 3_000 for line in lines), text[:5_000]
            assert "Traceback" not in text
            said.write(text)
    return said.getvalue() + " ".join(str(each.message) for each in heard)


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_whole_files_are_read(known):
    for name, specimen in known.items():
        if not name.startswith("phi"):
            specimen.read(specimen.path)
    assert all(PERSON not in _said_by(specimen) for specimen in known.values())


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_one_sentence(known, name):
    specimen = known[name]
    whole, root = specimen.path.read_bytes(), specimen.path.parent
    before = _files(root)

    @settings(
        max_examples=N_INPUTS // len(NAMES) + 1, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, 2**32 - 1))
    def check(seed: int) -> None:
        content = mutated(whole, seed)
        specimen.path.write_bytes(content)
        said = _said_by(specimen)
        assert PERSON not in said, said
        assert said.isprintable() or not set(said) & set("\x1b\r\0\u2028\u202e"), said
        if name not in WRITERS:
            assert specimen.path.read_bytes() == content
            assert _files(root) == before
        assert not [path for path in _files(root) if ".tmp-" in path]

    try:
        check()
    finally:
        specimen.path.write_bytes(whole)
