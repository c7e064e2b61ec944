"""What could identify a patient is found wherever it was planted, and no value of it is repeated."""

import gzip
import json

import nibabel as nib
import numpy as np
import pytest

from neurocontrast.cli.app import run

SECRETS = ("Erika", "Mustermann", "1931-02-03", "MRN0042", "Hauptstrasse", "93.5")


@pytest.fixture
def planted(tmp_path):
    image = nib.Nifti1Image(
        np.random.default_rng(0).normal(size=(8, 9, 10)).astype(np.float32), np.eye(4)
    )
    image.header["descrip"] = b"Erika Mustermann"
    image.header["db_name"] = b"MRN0042"
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"Hauptstrasse 1"))
    plain = tmp_path / "plain.nii"
    nib.save(image, plain)
    with (
        (tmp_path / "sub-1_T1w.nii.gz").open("wb") as stream,
        gzip.GzipFile("Mustermann.nii", "wb", fileobj=stream, mtime=1_000_000_000) as packed,
    ):
        packed.write(plain.read_bytes())
    plain.unlink()
    sidecar = {
        "PatientName": "Erika",
        "Nested": [{"PatientBirthDate": "1931-02-03"}],
        "PatientPosition": "HFS",
    }
    (tmp_path / "sub-1_T1w.json").write_text(json.dumps(sidecar))
    header = "participant_id\tpath\tage\tDate of birth\tMRN\tsex\n"
    row = "sub-1\tsub-1_T1w.nii.gz\t93.5\t1931-02-03\tMRN0042\tF\n"
    (tmp_path / "participants.tsv").write_text(header + row)
    return tmp_path / "participants.tsv"


def test_every_planted_field_is_named_and_no_value_is_shown(planted, capsys):
    assert run(["check", str(planted), "--phi"]) == 2
    shown = capsys.readouterr()
    text = shown.out + shown.err
    for expected in (
        "column 'Date of birth': the column could identify patients",
        "column 'MRN'",
        "column 'age': 1 ages are above 89 years",
        "the header's descrip holds text",
        "the header's db_name holds text",
        "the header has an extension of code 6",
        "gzip's header holds the time of compression",
        "gzip's header holds another file name",
        "sub-1_T1w.json: has the fields PatientBirthDate, PatientName",
    ):
        assert expected in text
    assert [secret for secret in SECRETS if secret in text] == []


def _cohort(folder, image, sidecar):
    nib.save(
        nib.Nifti1Image(
            np.random.default_rng(0).normal(size=(8, 9, 10)).astype(np.float32), np.eye(4)
        ),
        image,
    )
    if sidecar is not None:
        image.with_name("a.json").write_bytes(sidecar)
    table = folder / "participants.tsv"
    table.write_text(f"participant_id\tpath\tage\tsex\tsite\na\t{image.name}\t30\tF\tlondon\n")
    return table


@pytest.mark.parametrize(
    "key",
    [
        "patientname",
        "PATIENT_NAME",
        "Patient's Name",
        "acquisition date",
        "referringPhysiciansName",
    ],
)
def test_keys_in_any_case_are_found(tmp_path, capsys, key):
    table = _cohort(tmp_path, tmp_path / "a.nii.gz", json.dumps({"x": [{key: "Erika"}]}).encode())
    assert run(["check", str(table), "--phi"]) == 2
    shown = capsys.readouterr()
    assert f"a.json: has the fields {key}" in shown.out
    assert "Values are not shown here on purpose" in shown.out
    assert not any(text in shown.out + shown.err for text in ("could not be read", "Erika"))


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_json_that_cannot_be_read_is_told_apart(tmp_path, capsys, content):
    table = _cohort(tmp_path, tmp_path / "a.nii.gz", content)
    assert run(["check", str(table), "--phi"]) == 2
    shown = capsys.readouterr().out
    assert "a.json: could not be read, so what it says of a patient is not known" in shown
    assert "1 files could not be read. Whether they identify a patient is not known." in shown
    assert not any(
        text in shown
        for text in ("Values are not shown", "No problems", "Nothing was found", "Erika")
    )


@pytest.mark.parametrize(
    ("image", "beside"), [("a.1.5mm.nii.gz", "a.1.5mm.json"), ("A.NII.GZ", "A.json")]
)
def test_unusual_names_have_their_json_looked_at_and_ages_their_usual_names(
    tmp_path, capsys, image, beside
):
    table = _cohort(tmp_path, tmp_path / image, None)
    (tmp_path / beside).write_text('{"PatientName": "Erika"}')
    table.write_text(
        table.read_text().replace("\tage\t", "\tage_at_scan\t").replace("\t30\t", "\t93\t")
    )
    assert run(["check", str(table), "--phi"]) == 2
    shown = capsys.readouterr().out
    assert f"{beside}: has the fields PatientName" in shown
    assert "column 'age_at_scan': 1 ages are above 89 years" in shown


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "a.mgz"])
@pytest.mark.parametrize(
    "damage",
    [lambda _: b"", lambda b: b[: len(b) // 20], lambda b: b[:40] + b"\xff" * 200 + b[240:]],
)
def test_damaged_images_are_named_and_the_others_looked_at(tmp_path, capsys, name, damage):
    table = _cohort(tmp_path, tmp_path / name, b'{"PatientName": "Erika"}')
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    code = run(["check", str(table), "--phi", "--json"])
    shown = capsys.readouterr()
    assert code == 2, shown
    assert "defect" not in shown.err
    assert "a.json: has the fields PatientName" in shown.out
    assert "Erika" not in shown.out + shown.err


def test_what_the_header_of_gzip_tells_of_a_damaged_image_is_kept(planted, capsys):
    image = planted.with_name("sub-1_T1w.nii.gz")
    image.write_bytes(image.read_bytes()[:40] + bytes(200))
    assert run(["check", str(planted), "--phi"]) == 2
    assert "gzip's header holds another file name" in capsys.readouterr().out


def test_a_clean_cohort_says_that_nothing_was_found(tmp_path, capsys):
    table = _cohort(tmp_path, tmp_path / "a.nii", None)
    assert run(["check", str(table), "--phi"]) == 0
    assert "Nothing was found that could identify a patient." in capsys.readouterr().out
    assert run(["check", str(table), "--phi", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["phi"] == {"n_found": 0, "n_unread": 0}
