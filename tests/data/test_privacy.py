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
    image = nib.Nifti1Image(np.random.default_rng(0).normal(size=(8, 9, 10)).astype(np.float32), np.eye(4))
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
    sidecar = {"PatientName": "Erika", "Nested": [{"PatientBirthDate": "1931-02-03"}], "PatientPosition": "HFS"}
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


def test_without_the_option_nothing_is_looked_for(planted, capsys):
    run(["check", str(planted)])
    assert "identify" not in capsys.readouterr().out


def test_a_clean_cohort_passes(tmp_path, capsys):
    image = nib.Nifti1Image(np.random.default_rng(0).normal(size=(8, 9, 10)).astype(np.float32), np.eye(4))
    image.header["descrip"] = b"FSL5.0"
    nib.save(image, tmp_path / "a.nii.gz")
    (tmp_path / "a.json").write_text(json.dumps({"Manufacturer": "Siemens", "RepetitionTime": 2.3}))
    (tmp_path / "participants.tsv").write_text("participant_id\tpath\tage\tsex\tsite\na\ta.nii.gz\t89+\tF\tlondon\n")
    assert run(["check", str(tmp_path / "participants.tsv"), "--phi"]) == 0
    assert "No problems" in capsys.readouterr().out
