"""A folder of DICOM series becomes a BIDS tree that says nothing about the patient, or nothing is written."""

import gzip
import json
import os
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dcm2niix")
pytest.importorskip("pydicom")

from neurocontrast import convert, index
from neurocontrast.cli.app import run
from neurocontrast.data import read_cohort
from neurocontrast.exceptions import DataError, MissingDependencyError
from neurocontrast.prepare.dicom import Series, find_series_folders, holds_name
from tests.dicom_series import SECRETS, write_series


@pytest.fixture
def voxels():
    return np.random.default_rng(0).integers(1, 1000, (12, 14, 10))


@pytest.fixture
def export(tmp_path, voxels):
    """Two people as a PACS sends them: a T1-weighted volume each, and what else was acquired."""
    root = tmp_path / "export"
    write_series(root / "p-01" / "MR1" / "003", voxels)
    write_series(root / "p-01" / "MR1" / "001", voxels[..., :3], description="localizer", number=1)
    write_series(root / "p-01" / "MR1" / "004", voxels, description="t2_space_sag", number=4)
    write_series(
        root / "p-01" / "MR1" / "005", voxels, number=5, ImageType=["DERIVED", "PRIMARY", "MPR"]
    )
    write_series(
        root / "sub-02",
        voxels,
        PatientAge="092Y",
        PatientSex="M",
        PatientName="Muster^Max",
        PatientID="7731",
    )
    (root / "notes.txt").write_text("no scan")
    return root


def converted(root, out, *options):
    """Return the exit code of the command, which works in this process."""
    return run(["convert", str(root), "--out", str(out), "--n-workers", "0", *options])


def said_in(capsys):
    """Return what was said on either stream, without its line breaks."""
    shown = capsys.readouterr()
    return " ".join((shown.out + shown.err).split())


def files(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def everything_in(folder):
    """Return the bytes of all files of a folder, decompressed, and their paths."""
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    plain = [gzip.decompress(each) if each[:2] == b"\x1f\x8b" else each for each in written]
    return b"".join(plain) + "".join(files(folder)).encode()


def test_a_series_behind_files_of_another_kind_is_found(export):
    folders = find_series_folders(export)
    for number in range(5):
        (export / "sub-02" / f"0{number}.txt").write_text("no scan")
    assert find_series_folders(export) == folders
    assert export / "sub-02" in folders


def test_a_folder_that_may_not_be_read_is_a_problem(export, tmp_path, monkeypatch):
    for name in ("scandir", "listdir"):
        real = getattr(os, name)

        def refuse(path=".", real=real):
            if str(path).endswith("sub-02"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        monkeypatch.setattr(os, name, refuse)
    with pytest.raises(
        DataError, match=r"series folder 5 of 5: cannot be read \(Permission denied\)"
    ):
        convert(export, tmp_path / "bids", n_workers=0)


def test_the_tree_holds_one_scan_a_person_and_index_reads_it(export, tmp_path, voxels):
    out = convert(export, tmp_path / "bids", n_workers=0)
    scans = [
        f"{name}/anat/{name}_T1w.{end}"
        for name in ("sub-02", "sub-p01")
        for end in ("json", "nii.gz")
    ]
    assert files(out) == ["convert.json", "dataset_description.json", "participants.tsv", *scans]
    left_out = json.loads((out / "convert.json").read_text())["left_out"]
    assert {each["what"] for each in left_out} == {"sub-p01"}
    reasons = {each["reason"] for each in left_out}
    assert reasons == {
        "series folder 1 of 4 (number 1) is not T1-weighted by its name",
        "series folder 3 of 4 (number 4) is not T1-weighted by its name",
        "series folder 4 of 4 (number 5) is derived from another series",
    }
    image = nib.as_closest_canonical(nib.load(out / "sub-p01/anat/sub-p01_T1w.nii.gz"))
    assert np.array_equal(image.get_fdata(), voxels[::-1, ::-1])
    assert np.allclose(image.header.get_zooms(), 2)
    cohort = read_cohort(index(out, tmp_path / "indexed/participants.tsv").path)
    assert list(cohort.table["participant_id"]) == ["sub-02", "sub-p01"]
    assert set(cohort.table["scanner"]) == {"Siemens Prisma"}
    assert "age" not in pd.read_csv(out / "participants.tsv", sep="\t")
    with pytest.raises(
        DataError, match="Make a BIDS tree of DICOM files first: neurocontrast convert"
    ):
        index(export, tmp_path / "other.tsv")


def test_nothing_of_the_patient_is_written(export, tmp_path, capsys):
    assert converted(export, tmp_path / "bids", "--metadata-from-dicom") == 0
    said = said_in(capsys)
    written = everything_in(tmp_path / "bids")
    for secret in SECRETS:
        assert secret.encode() not in written
        assert secret not in said
    assert run(["index", str(tmp_path / "bids"), "--out", str(tmp_path / "participants.tsv")]) == 0
    assert run(["check", str(tmp_path / "participants.tsv"), "--phi"]) == 0


def test_a_missing_dcm2niix_is_named(export, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dcm2niix", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'neurocontrast\[prepare\]'"):
        convert(export, tmp_path / "bids", n_workers=0)


def test_age_and_sex_are_taken_when_asked_for(export, tmp_path, voxels):
    later = {"PatientAge": None, "AcquisitionDate": "20120203", "StudyDate": "20120203"}
    write_series(export / "p-01" / "MR2" / "003", voxels, **later)
    out = convert(export, tmp_path / "bids", metadata_from_dicom=True, n_workers=0)
    people = pd.read_csv(out / "participants.tsv", sep="\t", dtype=str).set_index("participant_id")
    assert people.to_dict("index") == {
        "sub-02": {"age": "89+", "sex": "M"},
        "sub-p01": {"age": "79", "sex": "F"},
    }
    sessions = pd.read_csv(out / "sub-p01" / "sub-p01_sessions.tsv", sep="\t", dtype=str)
    assert list(sessions["session_id"]) == ["ses-1", "ses-2"]
    assert [float(age) for age in sessions["age"]] == pytest.approx([79, 81], abs=0.01)


def test_all_problems_come_at_once_and_nothing_is_written(export, tmp_path, voxels, capsys):
    write_series(export / "p-01" / "MR1" / "006", voxels, description="t1_repeat", number=6)
    write_series(export / "p-03" / "all", voxels)
    write_series(export / "p-03" / "all2", voxels)
    for path in (export / "p-03" / "all2").iterdir():
        path.rename(export / "p-03" / "all" / f"second-{path.name}")
    write_series(export / "mustermann_e", voxels)
    write_series(export / "p01", voxels)
    out = tmp_path / "bids"
    assert converted(export, out) == 2
    said = said_in(capsys)
    for expected in (
        "sub-p01: 2 T1-weighted series, numbers 3, 6; decide with --series TEXT",
        "sub-p03: series folder 1 of 1 (number 3): holds 2 series or echoes",
        "person folder 1 of 5: its path holds the patient's name",
        "sub-p01: person folder 4 of 5 and folder 2 have one label in BIDS",
        "Hint: --show-names shows folders and descriptions, which can hold names.",
    ):
        assert expected in said
    assert not any(text in said for text in ("t1_repeat", "p-03", "mustermann"))
    assert not out.exists()
    assert converted(export, out, "--skip") == 0
    assert [path.name for path in sorted(out.glob("sub-*"))] == ["sub-02"]


def test_pseudonyms_as_names_of_folders_are_allowed_and_numbers_are_warned_of(
    tmp_path, voxels, capsys
):
    write_series(tmp_path / "export" / "P001", voxels, PatientName="P001", PatientID="P001")
    write_series(tmp_path / "export" / "anon-2", voxels, PatientName="Anonymous", PatientID="77")
    (tmp_path / "export" / "P003").mkdir()
    assert converted(tmp_path / "export", tmp_path / "bids") == 0
    shown = said_in(capsys)
    assert "1 of 2 labels hold the PatientID of the headers" in shown
    assert "1 folders of people hold no DICOM files" in shown


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda root: root.rename(root.with_name("elsewhere")), "there is no such folder"),
        (
            lambda root: [path.unlink() for path in root.rglob("*.dcm")],
            "there are no DICOM files below it",
        ),
        (
            lambda root: (root.parent / "bids").mkdir() or (root.parent / "bids/x").touch(),
            "is not empty",
        ),
        (lambda root: [path.unlink() for path in root.rglob("IM0004.dcm")], "Missing images?"),
        (
            lambda root: [path.unlink() for path in root.rglob("IM000[2-9].dcm")],
            "a T1-weighted scan is one volume",
        ),
        (
            lambda root: [
                path.write_bytes(path.read_bytes()[:900]) for path in root.rglob("*.dcm")
            ],
            "no T1-weighted",
        ),
    ],
)
def test_wrong_input_ends_with_2_and_one_message(export, tmp_path, capsys, change, said):
    change(export)
    before = files(tmp_path / "bids")
    assert converted(export, tmp_path / "bids") == 2
    shown = said_in(capsys)
    assert said in shown
    assert "unexpected" not in shown
    assert files(tmp_path / "bids") == before
    assert not list(tmp_path.glob(".tmp-*"))


def test_names_in_descriptions_and_folders_reach_neither_messages_nor_files(
    export, tmp_path, voxels, capsys
):
    named = {"ProtocolName": "Mustermann Erika 0815"}
    write_series(
        export / "p-01/MR1/Mustermann_loc",
        voxels,
        description="Mustermann Erika loc",
        number=7,
        **named,
    )
    write_series(
        export / "p-01/MR1/007", voxels, description="Mustermann t2 0815", number=8, **named
    )
    write_series(
        export / "p-04/Mustermann/1", voxels, ManufacturerModelName="Prisma Mustermann", number=9
    )
    write_series(export / "p-05/1", voxels, ManufacturerModelName="Prisma Mustermann")
    for path in (export / "p-05/1").iterdir():
        path.rename(path.with_name(f"Mustermann-{path.name}"))
    (export / "p-05/1/Mustermann-IM0004.dcm").unlink()
    out = tmp_path / "bids"
    assert converted(export, out) == 2
    said = said_in(capsys)
    assert "sub-p05: dcm2niix made" in said or "sub-p05: the image has" in said
    assert converted(export, out, "--skip") == 0
    for text in (said, said_in(capsys), everything_in(out).decode("latin-1")):
        assert "ustermann" not in text
        assert "0815" not in text
    assert "command" not in json.loads((out / "convert.json").read_text())["environment"]
    assert sorted(path.name for path in out.glob("sub-*")) == ["sub-02"]
    assert converted(export, out, "--skip", "--show-names", "--overwrite") == 0
    assert "Mustermann t2 0815" in said_in(capsys)
    assert b"ustermann" not in everything_in(out)


def test_a_name_in_the_settings_of_the_scanner_is_not_stored(tmp_path, voxels):
    write_series(tmp_path / "export/p-1/1", voxels, ManufacturerModelName="Prisma Mustermann")
    out = convert(tmp_path / "export", tmp_path / "bids", n_workers=0)
    sidecar = json.loads((out / "sub-p1/anat/sub-p1_T1w.json").read_text())
    assert "ManufacturersModelName" not in sidecar
    assert sidecar["Manufacturer"] == "Siemens"


@pytest.mark.parametrize(
    ("name", "holding", "others"),
    [
        ("Wu^Li", ["Li_Wu", "liwu", "WuLi01"], ["p-01/Silicon/limit"]),
        ("Mueller^Hans", ["MÜLLER"], []),
        ("M\u00fcller^Hans", ["muller-3", "h.m.u.e.l.l.e.r"], ["p-01/MR1/t1_mprage"]),
        ("Muller^H", ["Mu\u0308ller"], []),
        ("Strauß^A", ["strauss"], []),
        ("æ\x9d\x8e^ä¼\x9f", ["李伟", "李/1"], []),
        ("¸ÒÐÝÞÒ^¿ñâà", ["Иванов"], []),
        ("Doe^John^^^Mr", [], ["p-01/MR1/t1_mprage"]),
        ("Anonymous^Patient", [], ["sub-01/anat"]),
        ("van der Berg^X", [], ["p-01/van_der_tal"]),
    ],
)
def test_a_name_is_recognised_however_it_is_spelled(name, holding, others):
    assert [path for path in holding + others if holds_name(Path(path).parts, name)] == holding


def test_a_name_that_is_also_the_number_is_a_pseudonym_only_with_digits():
    called = {"PatientName": "Mueller", "PatientID": "Mueller"}
    assert Series(Path(), called).is_called(Path("mueller/1"))
    assert not Series(Path(), {"PatientName": "P001x", "PatientID": "P001x"}).is_called(
        Path("P001x")
    )


@pytest.mark.parametrize(
    ("header", "age"),
    [
        ({"PatientAge": "079Y"}, "79"),
        ({"PatientAge": "018M"}, "1.5"),
        (
            {
                "PatientAge": "old",
                "PatientBirthDate": "1931-02-03",
                "AcquisitionDateTime": "2010-02-03T10:00:00",
            },
            "79",
        ),
        ({"PatientBirthDate": [1, 2], "AcquisitionDateTime": "99999-01-01"}, ""),
        ({"PatientBirthDate": "2011-01-01", "AcquisitionDateTime": "2010-01-01"}, ""),
        ({"PatientAge": "999Y"}, ""),
        ({"PatientAge": "090Y"}, "89+"),
    ],
)
def test_ages_that_make_no_sense_are_missing(header, age):
    assert Series(Path(), header).age() == age


def test_a_series_is_chosen_by_its_description(export, tmp_path, voxels):
    write_series(export / "p-01" / "MR1" / "006", voxels, description="t1_repeat", number=6)
    out = convert(export, tmp_path / "bids", series="REPEAT", n_workers=0)
    assert [path.name for path in out.glob("sub-*")] == ["sub-p01"]


def test_people_without_a_label_and_pipes_are_named_by_counters(export, tmp_path, voxels, capsys):
    write_series(export / "李" / "1", voxels)
    os.mkfifo(export / "sub-02" / "pipe")
    assert converted(export, tmp_path / "bids") == 2
    said = said_in(capsys)
    assert "person folder 2 of 2: its name has no letter or digit (A-Z, 0-9) for a label" in said
    assert "series folder 5 of 6: holds a pipe, a socket or a device" in said


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


@pytest.mark.slow
def test_damaged_series_are_refused_or_converted_and_say_no_name(tmp_path, capsys):
    chance = np.random.default_rng(27)
    voxels = np.random.default_rng(0).integers(1, 1000, (10, 9, 8))
    codes = []
    for number in range(N_INPUTS):
        root = tmp_path / f"{number}" / "export"
        out = tmp_path / f"{number}" / "bids"
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
