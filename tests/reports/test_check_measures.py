"""`check` of regional measures: every problem at once, exit code 2, and a table of the rows without one."""

import json

import numpy as np
import pandas as pd
import pytest

from neurocontrast import check, index
from neurocontrast.cli.app import run
from neurocontrast.data.measures import read_tables
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.exceptions import ConfigError, DataError
from tests.reports.folders import write_aparc, write_aseg, write_people
from tests.reports.measured import THICKNESSES, people_with_measures


@pytest.fixture
def good(tmp_path):
    return people_with_measures().write(tmp_path)


def problems_of(table):
    report = check(table)
    return {problem.name: problem for problem in report.problems.found}, report


def test_good_measures_pass_with_counts_by_site(good, capsys):
    report = check(good)
    assert report.passed
    assert (report.kind, report.n_scans) == ("measures", 60)
    assert report.summary.loc["site-0", ["scans", "missing", "zero"]].tolist() == [20, 0, 0]
    assert "60 subjects, 44 measures (aparc+aseg); checked table and measures." in str(report)
    assert run(["check", str(good)]) == 0
    following = capsys.readouterr().out.splitlines()[-1]
    assert following.startswith("Next: neurocontrast pretrain --config measures_linear")
    assert f"--participants {good}" in following


def test_all_problems_are_named_at_once_with_line_and_person(tmp_path, capsys):
    measured = people_with_measures()
    measures = measured.measures.astype(object)
    measures.loc[0, THICKNESSES[2]] = "abc"
    measures.loc[1, THICKNESSES[3]] = -2
    measures.loc[2, THICKNESSES] = measures.loc[2, THICKNESSES].astype(float) / 10
    measures.loc[3, THICKNESSES[:3]] = 0
    measures.loc[4, THICKNESSES[5:15]] = np.nan
    measures.loc[5, "Left-Hippocampus":] = measures.loc[6, "Left-Hippocampus":]
    measures.loc[5, THICKNESSES] = measures.loc[6, THICKNESSES]
    measures.loc[7, THICKNESSES] = 2.5
    measures.loc[8, THICKNESSES[9]] = 999
    again = measures.iloc[[9]]
    measured.measures = pd.concat([measures.drop(index=10), again])
    measured.people["age"] = measured.people["age"].astype(object)
    measured.people.loc[11, "age"] = 250
    found, report = problems_of(measured.write(tmp_path))
    texts = {name: str(problem) for name, problem in found.items()}
    expected = {
        "sub-000": "found 'abc'; a number with a decimal point",
        "sub-001": "found '-2'; a thickness is not below 0",
        "sub-002": "It seems to be in cm",
        "sub-003": f"lacks 3 of 44 measures, 3 of them 0, '{THICKNESSES[0]}' first; at most 2 %",
        "sub-004": "lacks 10 of 44 measures, 'lh",
        "sub-005": "has the measures of sub-006, every number",
        "sub-006": "has the measures of sub-005, every number",
        "sub-007": "all 40 measures of thickness are 2.5 mm",
        "sub-008": "found 999, and the others are at most",
        "sub-009": "the scan has an earlier row",
        "sub-010": "no table of measures has a row of this scan",
        "sub-011": "found '250'; an age is a number of years",
    }
    assert sorted(texts) == sorted(expected)
    for number, (name, text) in enumerate(expected.items(), start=2):
        assert text in texts[name]
        assert found[name].line == number
    assert not report.passed
    assert "--skip (data.skip_unreadable=true)" in report.problems.to_text()
    assert run(["check", str(tmp_path / "participants.tsv"), "--json"]) == 2
    facts = json.loads(capsys.readouterr().out)
    assert (facts["n_measures"], len(facts["problems"])) == (44, 12)


def test_rows_without_a_problem_are_written_and_learned_from(tmp_path, capsys):
    measured = people_with_measures()
    measured.measures.loc[3, THICKNESSES[:3]] = 0
    measured.measures = measured.measures.drop(index=10)
    table = measured.write(tmp_path)
    target = tmp_path / "good.tsv"
    assert run(["check", str(table), "--write-good", str(target)]) == 0
    assert "data.measures" not in capsys.readouterr().out
    kept = pd.read_csv(target, sep="\t")["participant_id"].tolist()
    assert len(kept) == 58
    assert {"sub-003", "sub-010"}.isdisjoint(kept)
    assert check(target).passed
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "good.tsv"
    assert run(["check", str(table), "--write-good", str(target)]) == 0
    measures = tmp_path / "measures.tsv"
    assert f"--set 'data.measures=[{measures}]'" in capsys.readouterr().out
    assert check(target, measures=MeasureDataSettings(measures=(measures,))).passed


def test_a_structure_that_is_0_for_a_site_is_a_warning_that_names_the_site(tmp_path):
    measured = people_with_measures(n_sites=2)
    measured.people["site"] = ["paris", "lyon"] * 30
    measured.measures.loc[measured.people["site"] == "lyon", "Left-Putamen"] = 0
    settings = MeasureDataSettings(max_missing=0.03)
    report = check(measured.write(tmp_path), measures=settings)
    assert report.passed
    zero = "'Left-Putamen' is missing in 30 of 60 scans, 0 in 30 (sites lyon)"
    assert zero in report.warnings
    assert report.summary["zero"].tolist() == [30, 0, 30]
    assert not check(tmp_path / "participants.tsv").passed  # 1 of 44 is more than 2 %


def test_doubts_are_warnings(tmp_path):
    measured = people_with_measures()
    people = measured.people
    people.loc[0, "age"] = 1.2
    people.loc[1, "age"] = np.nan
    people.loc[2, "site"] = "alone"
    people["freesurfer_version"] = "6.0.1"
    people.loc[people["site"] == "site-1", "freesurfer_version"] = ["5.3.0", "6.0.1"] * 10
    measured.measures[THICKNESSES[7]] = 2.4
    measured.measures.loc[people["site"] == "site-0", THICKNESSES[8]] = 2.3
    report = check(measured.write(tmp_path))
    assert report.passed
    warned = "\n".join(report.warnings)
    assert "column 'age': 1 below 4 or above 100 years, sub-000 (1.2): are they years?" in warned
    assert "column 'age' is missing in 1 of 60 scans" in warned
    assert "sites with fewer than 5 people: alone (1)" in warned
    assert "of each): site site-1: 5.3.0 (10), 6.0.1 (10)" in warned
    assert f"nothing is learned of it: {THICKNESSES[7]}" in warned
    assert f"site site-0: one value for everybody of the site in {THICKNESSES[8]}" in warned


def test_versions_of_single_people_are_kept_by_index_and_named_by_check(tmp_path):
    random = np.random.default_rng(0)
    names = [f"sub-{number:02d}" for number in range(1, 9)]
    for number, name in enumerate(names):
        version = "6.0.0" if number % 2 else "7.4.1"
        write_aseg(tmp_path / "fs" / name / "stats" / "aseg.stats", random, version=version)
        path = tmp_path / "fs" / name / "stats" / "lh.aparc.stats"
        write_aparc(path, random, version=version)
    write_people(tmp_path / "people.tsv", names, random)
    found = index(
        tmp_path / "fs", tmp_path / "participants.tsv", phenotypes=[tmp_path / "people.tsv"]
    )
    written = pd.read_csv(found.measures_path, sep="\t")
    assert written["software"].tolist() == ["FreeSurfer 7.4.1", "FreeSurfer 6.0.0"] * 4
    assert set(read_tables(found.measures_path).versions.values()) == set(written["software"])
    report = check(tmp_path / "participants.tsv")
    assert any("FreeSurfer 6.0.0 (" in text and "within a site" in text for text in report.warnings)


def test_a_folder_and_a_table_of_measures_alone_are_checked(tmp_path, capsys):
    measured = people_with_measures()
    measured.measures.loc[3, THICKNESSES[:3]] = 0
    measured.write(tmp_path / "tables")
    both = measured.people.merge(measured.measures)
    both.to_csv(tmp_path / "both.csv", index=False)
    of_table, report = problems_of(tmp_path / "both.csv")
    assert (list(of_table), of_table["sub-003"].line) == (["sub-003"], 5)
    assert report.summary.index.tolist() == ["site-0", "site-1", "site-2", "all"]
    of_file, _ = problems_of(tmp_path / "tables" / "measures.tsv")
    assert list(of_file) == ["sub-003"]
    of_folder, report = problems_of(tmp_path / "tables")
    assert list(of_folder) == ["sub-003"]
    assert "there is no column 'age'" in "\n".join(report.warnings)
    with pytest.raises(ConfigError, match="write_good: is of a table of people"):
        check(tmp_path / "tables", write_good=tmp_path / "good.tsv")
    assert not (tmp_path / "good.tsv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "data.measures=[none.tsv]"], "none.tsv"),
        (["--set", "data.measure=are"], "data.measure"),
        (["--set", "data.measures=[participants.tsv]"], "no column is a regional measure"),
        (["--set", "data.kind=volumes"], "column 'path' is needed"),
        (["--write-good", "participants.tsv"], "exists|is the table that is checked"),
    ],
)
def test_wrong_options_are_refused(good, options, message, monkeypatch, capsys):
    monkeypatch.chdir(good.parent)
    before = sorted(path.name for path in good.parent.iterdir())
    assert run(["check", "participants.tsv", *options]) == 2
    assert pd.Series([capsys.readouterr().err]).str.contains(message).all()
    assert sorted(path.name for path in good.parent.iterdir()) == before


def test_measures_of_a_whole_table_in_another_unit_are_one_problem(tmp_path):
    measured = people_with_measures()
    measured.measures["Left-Hippocampus"] /= 1000
    measured.measures["Right-Hippocampus"] /= 1000
    report = check(measured.write(tmp_path))
    assert len(report.problems.found) == 1
    assert "It seems to be in mL" in report.problems.to_text()


def test_a_table_of_people_alone_still_needs_measures(tmp_path):
    people_with_measures().people.to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match="column 'path' is needed"):
        check(tmp_path / "p.tsv")
    with pytest.raises(DataError, match=r"data\.measures: missing"):
        check(tmp_path / "p.tsv", kind="measures")
