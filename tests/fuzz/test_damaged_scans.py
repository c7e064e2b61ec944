"""Damaged and hostile series: no defect, nothing half-written, no planted name in what is said or stored."""

import numpy as np
import pytest

pytest.importorskip("SimpleITK")
pytest.importorskip("dcm2niix")
pytest.importorskip("pydicom")

from tests.dicom_series import write_series
from tests.prepare.test_dicom import converted, everything_in

pytestmark = pytest.mark.slow

N_INPUTS = 120
TEXTS = ("Mustermann", "Mustermann t1", 'Mustermann"},{"x', "../Mustermann", "t1\nMustermann", "%s%n Mustermann t1",
         "\x1b[31mMustermann")  # fmt: skip
TAGS = ("SeriesDescription", "ProtocolName", "ManufacturerModelName", "Manufacturer", "StationName", "StudyDescription",
        "ImageComments", "OperatorsName", "SequenceName", "PatientComments")  # fmt: skip


def damage(path, chance, n_header=2500):
    """Change some bytes of the begin of a file, cut it, or append to it."""
    content = bytearray(path.read_bytes())
    for _ in range(chance.integers(1, 8)):
        content[chance.integers(0, min(len(content), n_header))] = chance.integers(0, 256)
    kind = chance.integers(0, 5)
    if kind == 0:
        content = content[: chance.integers(0, len(content))]
    elif kind == 1:
        content += b"\0" * 1000
    path.write_bytes(bytes(content))


def test_damaged_series_are_refused_or_converted_and_say_no_name(tmp_path, capsys):
    chance, voxels = np.random.default_rng(27), np.random.default_rng(0).integers(1, 1000, (10, 9, 8))
    codes = []
    for number in range(N_INPUTS):
        root, out = tmp_path / f"{number}" / "export", tmp_path / f"{number}" / "bids"
        planted = {str(chance.choice(TAGS)): str(chance.choice(TEXTS)) for _ in range(2)}
        description = planted.pop("SeriesDescription", "t1_mprage")
        write_series(root / "p1" / "1", voxels, description=description, **planted)
        write_series(root / "p2" / "Mustermann" / "1", voxels, PatientName="anon")
        for path in sorted((root / "p1" / "1").iterdir()):
            if chance.random() < 0.5:
                damage(path, chance)
        options = ["--skip"] if number % 2 else []
        codes.append(converted(root, out, "--metadata-from-dicom", *options))
        said = capsys.readouterr()
        assert codes[-1] in (0, 2), said.err
        assert "unexpected" not in said.err
        assert "ustermann" not in said.err + said.out
        assert out.exists() == (codes[-1] == 0)
        assert not [path for path in out.parent.iterdir() if path.name.startswith(".tmp-")]
        assert b"ustermann" not in everything_in(out)
    assert len(set(codes)) == 2
