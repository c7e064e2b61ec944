"""The stage: a table of scans becomes qc.tsv and a page; nothing is dropped, and an interrupted call continues."""

import base64
import hashlib
import html
import importlib
import json
import re
import shutil

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import neurocontrast
from neurocontrast import qc as stage
from neurocontrast.cli.app import run
from neurocontrast.data.cohort import read_cohort
from neurocontrast.exceptions import ConfigError, DataError


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Twelve simulated brains; the second is moved by 12 mm and has an odd name."""
    folder = tmp_path_factory.mktemp("study")
    table = neurocontrast.simulate(
        folder / "scans", n_subjects=12, n_sites=1, spacing_mm=5.0, seed=0
    )
    frame = pd.read_csv(table, sep="\t", dtype=str)
    path = table.parent / frame["path"][1]
    image = nib.load(path)
    affine = image.affine.copy()
    affine[0, 3] += 12
    nib.save(nib.Nifti1Image(np.asarray(image.dataobj), affine), path)
    frame["site"] = "<b>Site & Co</b>"
    frame["iqr"] = ["4.5", *["2.1"] * 10, "n/a"]
    frame.to_csv(table, sep="\t", index=False)
    scales = pd.DataFrame(
        {"participant_id": frame["participant_id"], "scales": "[1.02, 0.98, 0.9]"}
    )
    scales.loc[2, "scales"] = "[1.7, 1.0, 0.9]"
    scales.to_csv(table.parent / "quality.tsv", sep="\t", index=False)
    return table, stage(table, folder / "qc", n_workers=0), frame["participant_id"]


def read(found):
    return pd.read_csv(found.page.with_name("qc.tsv"), sep="\t", dtype={"flags": str}).set_index(
        "participant_id"
    )


def test_every_scan_has_a_row_with_its_flags_and_the_worst_comes_first(study):
    _, found, names = study
    table = read(found)
    assert sorted(table.index) == sorted(names)
    assert (table["n_flags"].diff().dropna() <= 0).all()
    assert re.search(r"shift \(mm\) 1[0-9.]+ is above ", table.loc[names[1], "flags"])
    assert "CAT12's IQR 4.5 is above 4" in table.loc[names[0], "flags"]
    assert "largest affine scale 1.7 is above 1.5" in table.loc[names[2], "flags"]
    assert np.isnan(table.loc[names[11], "iqr"])
    assert {
        "correlation",
        "dice",
        "brain_ml",
        "cjv",
        "efc",
        "site_correlation",
        "asymmetry",
    } <= set(table)


def test_the_page_holds_everything_and_escapes_names(study):
    _, found, _ = study
    page = found.page.read_text(encoding="utf-8")
    (code,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert html.unescape(policy).endswith(f"; script-src 'sha256-{digest}'")
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert "<b>Site" not in page
    assert "&lt;b&gt;Site &amp; Co&lt;/b&gt;" in page
    assert page.count("<img") == page.count(' alt="')
    assert page.count("data:image/jpeg;base64,") == 12
    assert "SIMULATED" in page
    order = re.findall(r"<h3>(\S+?),", page)
    assert order == list(read(found).index)
    assert "gallery:has(#flag-0:checked) .scan:not(.of-flag-0)" in page
    assert len(re.findall(r'class="scan [^"]*of-flag-0', page)) == int(
        (read(found)["n_flags"] > 0).sum()
    )


def test_the_same_call_measures_nothing_again(study):
    table, found, _ = study
    kept = sorted((found.page.parent / "scans").iterdir())
    times = [file.stat().st_mtime_ns for file in kept]
    before = [found.page.with_name(name).read_bytes() for name in ("qc.tsv", "qc.html")]
    kept[0].unlink()  # as if the call had been killed before the last scan
    stage(table, found.page.parent, n_workers=0)
    assert [found.page.with_name(name).read_bytes() for name in ("qc.tsv", "qc.html")] == before
    assert [file.stat().st_mtime_ns for file in kept[1:]] == times[1:]


@pytest.mark.slow  # two processes start
def test_any_number_of_processes_gives_the_same_bits(study, tmp_path, monkeypatch):
    table, found, _ = study
    before = [found.page.with_name(name).read_bytes() for name in ("qc.tsv", "qc.html")]
    monkeypatch.setattr(
        importlib.import_module("neurocontrast.commands.qc_scans"), "N_SCANS_A_WORKER", 6
    )
    several = stage(table, tmp_path / "qc", n_workers=2)
    assert [several.page.with_name(name).read_bytes() for name in ("qc.tsv", "qc.html")] == before


def test_images_that_cannot_be_read_are_flagged_and_come_first(study, tmp_path, capsys):
    table, _, names = study
    shutil.copytree(table.parent, tmp_path / "scans")
    copy = tmp_path / "scans" / "participants.tsv"
    frame = pd.read_csv(copy, sep="\t", dtype=str, keep_default_na=False)
    (copy.parent / frame["path"][0]).write_bytes(b"no image")
    (copy.parent / frame["path"][3]).write_bytes(
        (copy.parent / frame["path"][3]).read_bytes()[:2000]
    )
    assert run(["qc", str(copy), "--out", str(tmp_path / "qc"), "-q"]) == 1
    assert f"{names[0]}: cannot be read: " in capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "qc" / "qc.tsv", sep="\t")
    assert set(rows["participant_id"][:2]) == {names[0], names[3]}
    assert rows["flags"][:2].str.startswith("cannot be read: ").all()
    assert len(rows) == 12
    page = (tmp_path / "qc" / "qc.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg;base64,") == 12
    assert "cannot be read: " in page


def test_wrong_columns_are_refused_before_a_scan_is_read(study, tmp_path, capsys):
    table, _, names = study
    frame = pd.read_csv(table, sep="\t", dtype=str, keep_default_na=False)
    frame["path"] = [str(table.parent / path) for path in frame["path"]]
    for column, value, said in (
        ("iqr", "good", "column 'iqr': found 'good'; a number or n/a"),
        ("gm", frame["path"][4], "this is a map of grey matter"),
        ("path", "images.npy#3", "there is no such file"),
    ):
        wrong = frame.copy()
        wrong[column] = wrong.get(column, "")
        wrong.loc[4, column] = value
        wrong.to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
        assert run(["qc", str(tmp_path / "participants.tsv"), "--out", str(tmp_path / "qc")]) == 2
        message = capsys.readouterr().err
        assert said in message
        assert names[4] in message
        assert not (tmp_path / "qc").exists()


@pytest.mark.slow
def test_ratings_of_the_page_become_a_column_by_which_scans_are_left_out(study, tmp_path, capsys):
    table, found, names = study
    ratings = tmp_path / "ratings.tsv"
    header = "participant_id\tsession\tqc_rating\n"
    ratings.write_text(f"{header}{names[1]}\tNA\tFail\n{names[0]}\t\tdoubt\n{names[2]}\t\tNone\n")
    out = found.page.parent
    assert run(["qc", str(table), "--out", str(out), "--ratings", str(ratings), "-q"]) == 0
    shown = capsys.readouterr().out
    assert (
        f"--participants {out / 'participants.tsv'} --set 'data.where.qc_rating.not=[fail]'"
        in shown
    )
    assert f"{names[1]}: " in shown
    assert shown.splitlines()[-1] == str(found.page)
    rated = read_cohort(out / "participants.tsv")
    assert rated.table["qc_rating"].fillna("n/a").tolist() == ["doubt", "fail", *["n/a"] * 10]
    assert rated.simulated
    assert names[1] not in set(
        rated.select({"qc_rating": {"not": ["fail"]}}).table["participant_id"]
    )
    page = found.page.read_text(encoding="utf-8")
    assert re.findall(r'value="(\w+)" checked', page).count("fail") == 1
    assert read(found).loc[names[1], "qc_rating"] == "fail"
    ratings.write_text(f"{header}sub-x\t\tfail\n{names[0]}\t\tpass\n{names[0]}\t\tfail\n")
    with pytest.raises(
        DataError, match=r"(?s)line 2, sub-x: is no scan of .*line 4, \S+: is rated twice"
    ):
        stage(table, out, ratings=ratings)
    ratings = tmp_path / "ratings.csv"
    ratings.write_text(f"participant_id;rating\n{names[0]};pass\n")
    with pytest.raises(DataError, match="no column 'qc_rating'"):
        stage(table, out, ratings=ratings)
    ratings.write_text(f"participant_id;qc_rating\n{names[0]};pass\n")
    assert run(["qc", str(table), "--out", str(out), "--ratings", str(ratings), "-q"]) == 0
    assert (
        "not=[fail]" not in capsys.readouterr().out
    )  # which would leave out nobody, and is refused
    with pytest.raises(ConfigError, match="holds the table of scans"):
        stage(table, table.parent, ratings=ratings)


def test_codes_of_ratings_are_those_of_the_json_file(study, tmp_path):
    table, found, names = study
    ratings = tmp_path / "codes.tsv"
    ratings.write_text(f"participant_id\tqc_rating\n{names[0]}\t0\n{names[1]}\t1\n")
    described = {"qc_rating": {"Levels": {"0": "fail", "1": "pass"}}}
    ratings.with_suffix(".json").write_text(json.dumps(described))
    out = found.page.parent
    stage(table, out, ratings=ratings)
    rated = read_cohort(out / "participants.tsv")
    assert rated.table["qc_rating"].tolist()[:2] == ["fail", "pass"]
    ratings.write_text(f"participant_id\tqc_rating\n{names[0]}\t5\n")
    with pytest.raises(DataError, match="line 2: found '5'; Levels of the JSON file has '0', '1'"):
        stage(table, out, ratings=ratings)


@pytest.mark.slow
def test_a_site_of_ten_scans_of_five_people_has_no_bounds_of_its_own(study, tmp_path):
    table, _, _ = study
    frame = pd.read_csv(table, sep="\t", dtype=str).head(10)
    frame["path"] = [str(table.parent / path) for path in frame["path"]]
    frame["iqr"] = [*["2.1", "2.2", "2.3"] * 3, "3.9"]
    frame["subject_id"] = [f"p{row // 2}" for row in range(10)]
    frame["session"] = [f"{row % 2}" for row in range(10)]
    frame.to_csv(tmp_path / "visits.tsv", sep="\t", index=False)
    visits = read(stage(tmp_path / "visits.tsv", tmp_path / "qc", n_workers=0))
    assert visits["asymmetry"].isna().all()
    assert not visits["flags"].fillna("").str.contains("median").any()
    assert "subject_id" not in visits
    frame["subject_id"] = [f"p{row}" for row in range(10)]
    frame.to_csv(tmp_path / "people.tsv", sep="\t", index=False)
    people = read(stage(tmp_path / "people.tsv", tmp_path / "qc2", n_workers=0))
    assert people["flags"].fillna("").str.contains("of 10 people").any()
