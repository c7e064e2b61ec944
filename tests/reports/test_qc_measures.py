"""`qc` of regional measures: who is outside, missing and zero values, sites and versions, in a table and on a page."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest

import neurocontrast
from neurocontrast.cli.app import run as command_line
from neurocontrast.config import load_config
from neurocontrast.exceptions import ConfigError
from tests.reports.measured import THICKNESSES, people_with_measures


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Sixty people: one outside in ten measures, one with zeros, one copied, one without a row."""
    folder = tmp_path_factory.mktemp("study")
    measured = people_with_measures()
    measured.people["site"] = measured.people["site"].replace("site-2", "<b>Two & Co</b>")
    measured.people["freesurfer_version"] = ["5.3.0", "6.0.1", "6.0.1"] * 20
    measures = measured.measures
    measures.loc[3, THICKNESSES[:10]] *= 2
    measures.loc[7, THICKNESSES[4:8]] = 0
    measures.loc[9, measures.columns[1:]] = measures.loc[8, measures.columns[1:]]
    measured.measures = measures.drop(index=12)
    table = measured.write(folder)
    return table, neurocontrast.qc(table, folder / "qc"), measured


def test_every_person_has_a_row_and_the_worst_come_first(study):
    _, found, _ = study
    written = pd.read_csv(found.page.with_name("qc.tsv"), sep="\t").set_index("participant_id")
    assert len(written) == 60
    assert (found.kind, found.n_unreadable) == ("measures", 1)
    assert written.index[0] == "sub-003"
    assert written.loc["sub-003", ["n_outside", "n_missing", "flagged"]].tolist() == [10, 0, "yes"]
    worst = written.loc["sub-003", "worst"].split(", ")
    assert len(worst) == 3
    assert {text.partition(" ")[0] for text in worst} <= set(THICKNESSES[:10])
    assert all(float(text.split(" ")[1]) > 5 for text in worst)
    assert written.loc["sub-007", ["n_missing", "n_zero", "flagged"]].tolist() == [4, 4, "yes"]
    assert written.loc["sub-007", "why"].startswith("lacks 4 of 44 measures, 4 of them 0")
    assert "has the measures of sub-008" in written.loc["sub-009", "why"]
    assert written.loc["sub-012", "why"] == "no table of measures has a row of this scan"
    flagged = written.index[written["flagged"] == "yes"]
    assert set(flagged) >= {"sub-003", "sub-007", "sub-008", "sub-009", "sub-012"}
    assert len(flagged) < 12  # of a small site some are outside by chance
    assert written.loc[written["flagged"] == "no", "why"].isna().all()
    assert set(found.flagged) == set(flagged)


def test_every_measure_at_every_site_has_its_numbers(study):
    _, found, measured = study
    table = pd.read_csv(found.page.with_name("qc_measures.tsv"), sep="\t")
    assert len(table) == 44 * 3
    measures = measured.measures.merge(measured.people)
    row = table[(table["measure"] == "Left-Putamen") & (table["site"] == "site-0")].iloc[0]
    expected = measures.loc[measures["site"] == "site-0", "Left-Putamen"]
    assert row["n"] == len(expected)
    assert row[["q05", "q50", "q95"]].tolist() == pytest.approx(
        np.quantile(expected, [0.05, 0.5, 0.95]).tolist()
    )
    outside = table.groupby("measure")["n_outside"].sum()
    assert set(outside.index[outside > 0]) >= set(THICKNESSES[:10])
    assert outside.sum() == found.table["n_outside"].sum()


def test_the_page_shows_all_of_it_loads_nothing_and_escapes_names(study):
    _, found, _ = study
    page = found.page.read_text("utf-8")
    assert f"{len(found.flagged)} of 60 people of participants.tsv are flagged" in page
    assert "<b>Two" not in page
    assert "&lt;b&gt;Two &amp; Co&lt;/b&gt;" in page
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert "script-src 'sha256-" in html.unescape(page)
    assert page.count("<figure") == 20
    for measure in THICKNESSES:
        assert f'<th scope="row">{measure}</th>' in page
    assert "sub-003" in page
    is_silent = (found.table["n_outside"] == 0) & (found.table["flagged"] == "no")
    assert is_silent.any()
    for name in found.table.loc[is_silent, "participant_id"]:
        assert name not in page
    assert "5.3.0" in page
    assert len(page) < 1_000_000


@pytest.mark.usefixtures("blank_figures")
def test_a_shifted_site_and_a_version_within_a_site_are_shown(tmp_path):
    measured = people_with_measures()
    is_shifted = (measured.people["site"] == "site-1").to_numpy()
    measured.measures.loc[is_shifted, "Left-Putamen"] *= 1.5
    measured.people["software"] = "FreeSurfer 6"
    measured.people.loc[:10, "software"] = "FreeSurfer 7"
    found = neurocontrast.qc(measured.write(tmp_path), tmp_path / "qc")
    assert len(found.flagged) < 10  # a site is compared with itself
    table = pd.read_csv(tmp_path / "qc" / "qc_measures.tsv", sep="\t")
    putamen = table[table["measure"] == "Left-Putamen"].set_index("site")["shift"]
    assert putamen["site-1"] > 3
    assert "several versions of the program within a site" in found.page.read_text("utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    table = people_with_measures().write(folder)
    options = ["objective={loss: ntxent}", "training.epochs=1", "training.batch_size=16"]
    settings = load_config(None, ["data.kind=measures", *options, "encoder.projection=[4]"])
    return neurocontrast.pretrain(settings, participants=table, out=folder / "run")


@pytest.mark.slow
def test_with_a_run_people_are_compared_with_those_learned_from(run, tmp_path, capsys):
    measured = people_with_measures()
    measured.measures["Left-Putamen"] *= 1.5
    table = measured.write(tmp_path)
    assert len(neurocontrast.qc(table, tmp_path / "alone").flagged) < 10
    command = ["qc", str(table), "--out", str(tmp_path / "qc"), "--run", str(run), "--json"]
    assert command_line(command) == 0
    assert json.loads(capsys.readouterr().out)["n_flagged"] > 50
    written = pd.read_csv(tmp_path / "qc" / "qc.tsv", sep="\t")
    assert written["worst"].str.startswith("Left-Putamen +").sum() > 50
    record = json.loads((tmp_path / "qc" / "qc.json").read_text())
    assert record["compared_with"] == "the people that the run learned from"


def test_options_of_scans_and_other_runs_are_refused(study, tmp_path):
    table, _, _ = study
    with pytest.raises(ConfigError, match="images_root: regional measures have no images"):
        neurocontrast.qc(table, tmp_path / "qc", images_root=tmp_path)
    with pytest.raises(ConfigError, match="ratings: are of scans"):
        neurocontrast.qc(table, tmp_path / "qc", ratings=tmp_path / "ratings.tsv")
    scans = tmp_path / "scans.tsv"
    scans.write_text("participant_id\tpath\ns1\ta.nii\n")
    with pytest.raises(ConfigError, match="run: is of people with regional measures"):
        neurocontrast.qc(scans, tmp_path / "qc", run=tmp_path)
    assert not (tmp_path / "qc").exists()


@pytest.mark.usefixtures("blank_figures")
def test_a_folder_of_measures_alone_has_a_page(study, tmp_path):
    _, _, measured = study
    (tmp_path / "tables").mkdir()
    measured.measures.to_csv(tmp_path / "tables" / "a.csv", index=False)
    found = neurocontrast.qc(tmp_path / "tables", tmp_path / "qc")
    assert len(found.table) == 59
    assert set(found.table["site"]) == {"all"}
    assert found.table["participant_id"].iloc[0] == "sub-003"


def test_weights_go_by_name(study, tmp_path):
    table, _, _ = study
    with pytest.raises(ConfigError, match="was not trained on regional measures"):
        neurocontrast.qc(table, tmp_path / "qc", run="brain-maps-lda")
    with pytest.raises(ConfigError, match="Did you mean 'brain-maps-lda'"):
        neurocontrast.qc(table, tmp_path / "qc", run="brain-map-lda")
