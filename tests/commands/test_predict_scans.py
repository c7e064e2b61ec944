"""Scans of a folder or a table, embedded by a run and predicted by an evaluation."""

import json
import shutil

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from small_run import changed_run, read_json

import neurocontrast as nc
from neurocontrast.cli.app import run as neurocontrast
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from tests.pipelines.snakemake_runs import link_repository, run_snakemake


@pytest.fixture
def evaluation(of_others):
    return of_others.evaluation


@pytest.fixture
def inbox(cohort, tmp_path):
    """Return a folder of three scans of people whom the probe has not seen, named as in BIDS."""
    folder = tmp_path / "inbox"
    table = pd.read_csv(cohort, sep="\t").head(3)
    for number, path in enumerate(table["path"]):
        target = folder / f"sub-new{number}" / f"sub-new{number}_ses-1_T1w.nii.gz"
        target.parent.mkdir(parents=True)
        shutil.copy(cohort.parent / path, target)
    return folder


def test_scans_of_a_table_are_predicted_as_their_embeddings_are(of_others, others, tmp_path):
    whole, embeddings, evaluation = of_others
    by_features = pd.read_csv(nc.predict(evaluation, embeddings, out=tmp_path / "e.tsv"), sep="\t")
    by_scans = pd.read_csv(
        nc.predict(evaluation, others, run=whole, out=tmp_path / "s.tsv"), sep="\t"
    )
    assert by_scans["participant_id"].tolist() == by_features["participant_id"].tolist()
    for name in ("y_score", "mahalanobis", "mahalanobis_percentile"):
        np.testing.assert_allclose(
            by_scans[name], by_features[name], rtol=1e-4, atol=1e-2, err_msg=name
        )
    assert by_scans[["y_pred", "trained_on"]].equals(by_features[["y_pred", "trained_on"]])
    assert by_scans["error"].isna().all()


def test_a_folder_gives_one_row_a_scan(whole, evaluation, inbox, tmp_path):
    seen = []
    for name in ("p.tsv", "p.json"):  # as a killed call leaves them
        (tmp_path / f".tmp-0123456789ab-{name}").write_text("half")
    out = nc.predict(evaluation, inbox, run=whole, out=tmp_path / "p.tsv", on_scan=seen.append)
    assert [(each["participant_id"], each["session"]) for each in seen] == [
        (f"sub-new{n}", "1") for n in range(3)
    ]
    table = pd.read_csv(out, sep="\t")
    np.testing.assert_allclose(table["y_score"], [each["y_score"] for each in seen])
    assert not table["trained_on"].any()
    about = read_json(tmp_path / "p.json")
    assert about["scans"] == {"source": "inbox", "n_failed": 0, "failed": []}
    assert {path.name for path in tmp_path.iterdir()} == {"p.tsv", "p.json", "inbox"}
    scan = next(inbox.rglob("sub-new1*.nii.gz"))
    names = {
        scan.name: ("sub-new1", 1),
        "sub-new1.nii.gz": ("sub-new1", float("nan")),
        "sub-HH-1_ses-2.nii.gz": ("sub-HH-1", 2),
    }
    for name, (person, session) in names.items():
        scan = scan.rename(scan.with_name(name))
        one = pd.read_csv(
            nc.predict(evaluation, scan, run=whole, out=tmp_path / f"{name}.tsv"), sep="\t"
        )
        assert one[["participant_id", "session"]].equals(
            pd.DataFrame({"participant_id": [person], "session": session})
        )
    assert one["mahalanobis"].tolist() == pytest.approx([table["mahalanobis"][1]])


def test_names_with_points_stay_whole(whole, evaluation, inbox, tmp_path):
    """Folders of DICOM are named by identifiers with points, which must not become one person."""
    for number, path in enumerate(sorted(inbox.rglob("*.nii.gz"))):
        study = inbox / f"1.2.840.{number}"
        study.mkdir()
        path.rename(study / "T1.nii.gz")
    table = nc.predict(evaluation, inbox, run=whole, out=tmp_path / "p.tsv").table
    assert table["participant_id"].tolist() == [f"1.2.840.{number}/T1" for number in range(3)]


def test_a_bad_scan_stops_no_other_and_the_exit_code_says_so(
    whole, evaluation, inbox, tmp_path, capsys
):
    bad = next(inbox.rglob("sub-new1*.nii.gz"))
    bad.write_bytes(bad.read_bytes()[:500])
    out = tmp_path / "p.tsv"
    given = [
        "predict",
        f"{evaluation}",
        str(inbox),
        "--run",
        str(whole),
        "--out",
        str(out),
        "--jsonl",
    ]
    assert neurocontrast(given) == 1
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["error"] is None for each in printed] == [True, False, True]
    assert "cannot be decompressed" in printed[1]["error"] or "truncated" in printed[1]["error"]
    assert printed[1]["y_score"] is None
    table = pd.read_csv(out, sep="\t")
    assert table["y_score"].notna().tolist() == [True, False, True]
    assert neurocontrast([*given[:-1], "--overwrite"]) == 1
    said = capsys.readouterr().out
    assert "failed: sub-new1: " in said
    assert "repeat the command with --overwrite" in said


def test_a_path_to_no_file_fails_for_that_scan_alone_and_none_is_an_error(
    whole, others, evaluation, tmp_path
):
    table = pd.read_csv(others, sep="\t").head(2)
    table["path"] = [str(others.parent / table["path"][0]), "nowhere.nii.gz"]
    table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    found = pd.read_csv(
        nc.predict(evaluation, tmp_path / "t.tsv", run=whole, out=tmp_path / "p.tsv"), sep="\t"
    )
    assert found["error"].notna().tolist() == [False, True]
    table[1:].to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match="none of 1 scans can be embedded"):
        nc.predict(evaluation, tmp_path / "t.tsv", run=whole, out=tmp_path / "q.tsv")


def test_calibration_passes_over_scans_that_failed(whole, others, evaluation, tmp_path):
    table = pd.read_csv(others, sep="\t").head(12)
    table["participant_id"] = table["subject_id"] = [f"sub-other{n}" for n in range(12)]
    random = np.random.default_rng(0)
    for row, path in enumerate(table["path"]):
        image = nib.load(others.parent / path)
        noisy = image.get_fdata() + random.normal(0, 1, image.shape)
        nib.save(nib.Nifti1Image(noisy, image.affine), tmp_path / f"{row}.nii.gz")
    table["path"] = ["nowhere.nii.gz", *(f"{row}.nii.gz" for row in range(1, 12))]
    table["site"] = "new"
    table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    out = nc.predict(
        evaluation,
        tmp_path / "t.tsv",
        run=whole,
        calibrate=tmp_path / "t.tsv",
        out=tmp_path / "p.tsv",
    )
    found = pd.read_csv(out, sep="\t")
    assert found["calibrated_on"].tolist() == [False] + [True] * 11
    assert pd.isna(found["y_pred"][0])
    np.testing.assert_allclose(
        found["y_score"].mean(), (table["diagnosis"][1:] == "patient").mean(), atol=1e-3
    )


def test_bad_input_is_refused_before_any_scan_is_read(whole, evaluation, inbox, cohort, tmp_path):
    out = tmp_path / "out" / "p.tsv"
    (tmp_path / "empty").mkdir()
    twice = (
        pd.read_csv(cohort, sep="\t")
        .head(2)
        .assign(participant_id="a", subject_id="a", session="1")
    )
    twice.to_csv(tmp_path / "twice.tsv", sep="\t", index=False)
    two = changed_run(whole, tmp_path / "two", channels=["gm", "wm"])
    wrong = [
        (
            (evaluation, inbox, two),
            DataError,
            r"has 2 files \(gm, wm\), and their names do not say",
        ),
        ((evaluation, tmp_path / "empty", whole), DataError, "there is no scan in this folder"),
        ((evaluation, tmp_path / "nowhere", whole), DataError, "nowhere"),
        ((evaluation, tmp_path / "twice.tsv", whole), DataError, "twice.tsv"),
        ((evaluation, inbox, tmp_path / "empty"), CheckpointError, r"no encoder\.json there"),
        ((tmp_path / "empty", inbox, whole), CheckpointError, "there is no probe"),
        (
            (evaluation, inbox, None),
            ConfigError,
            "are scans or measures. Say which run embeds them",
        ),
        (
            (evaluation, cohort, None),
            ConfigError,
            "are scans or measures. Say which run embeds them",
        ),
    ]
    for (probe, scans, run), error, message in wrong:
        with pytest.raises(error, match=message):
            nc.predict(probe, scans, run=run, out=out)
    with pytest.raises(ConfigError, match="images_root: is for the paths in a table"):
        nc.predict(evaluation, inbox, run=whole, out=out, images_root=tmp_path)
    with pytest.raises(
        DataError, match=r"features of the encoder .* Embed the scans with the same run"
    ):
        nc.predict(
            evaluation, inbox, run=whole, out=out, config={"embedding": {"precision": "bf16-mixed"}}
        )
    assert not out.parent.exists()


@pytest.mark.slow
def test_the_workflow_predicts_every_scan_of_an_inbox_once(of_others, cohort, tmp_path):
    link_repository(tmp_path)
    given = (f"run={of_others.run}", f"evaluation={of_others.evaluation}", "out=predicted")
    (tmp_path / "inbox").mkdir()
    for number, path in enumerate(pd.read_csv(cohort, sep="\t")["path"].head(2)):
        shutil.copy(cohort.parent / path, tmp_path / "inbox" / f"new{number}.nii.gz")
    (tmp_path / "inbox" / "bad.nii.gz").write_bytes(b"no image")
    done = run_snakemake(tmp_path, "new_scan.smk", "inbox=inbox", *given)
    assert done.returncode == 1, done.stderr
    assert sorted(path.name for path in (tmp_path / "predicted").glob("*.jsonl")) == [
        "new0.jsonl",
        "new1.jsonl",
    ]
    record = read_json(tmp_path / "predicted" / "new0.jsonl")
    assert record["error"] is None
    assert 0 <= record["y_score"] <= 1
    assert "not a NIfTI image" in (tmp_path / "predicted" / "logs" / "bad.log").read_text()
    (tmp_path / "inbox" / "bad.nii.gz").unlink()
    done = run_snakemake(tmp_path, "new_scan.smk", "inbox=inbox", *given)
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in done.stderr
    (tmp_path / "empty").mkdir()
    assert (
        "no file that ends in"
        in run_snakemake(tmp_path, "new_scan.smk", "inbox=empty", *given).stderr
    )
