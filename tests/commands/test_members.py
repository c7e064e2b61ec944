"""A run of several members: each a run of its own, embedded together, predicted by their mean."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_run import (
    FASTEST,
    MEASURES,
    OF_MEASURES,
    PEOPLE,
    TABLES,
    Listening,
    metrics,
    read_json,
    weights,
)

import neurocontrast as nc
from neurocontrast.cli import run as command
from neurocontrast.config import load_config
from neurocontrast.data import Cohort
from neurocontrast.data.sources import RegionalMeasures
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import (
    CheckpointError,
    ConfigError,
    DataError,
    NeurocontrastWarning,
)
from neurocontrast.provenance import subject_digest
from neurocontrast.runs.members import share_sites

SITES = ("a", "b", "c", "d")
N = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("members")


@pytest.fixture(scope="module")
def people(folder):
    """The people of the sample, dealt to four sites."""
    table = pd.read_csv(PEOPLE, sep="\t", dtype=str)
    table["site"] = np.array(SITES)[np.arange(len(table)) % len(SITES)]
    path = folder / "people.tsv"
    table.to_csv(path, sep="\t", index=False)
    return path


def config_of(people, **training):
    """Configure a small run of members on measures."""
    members = {"epochs": 1, "batch_size": 64, "members": N, **training}
    return OF_MEASURES | {
        "data": {"participants": str(people), "measures": TABLES},
        "encoder": {"name": "mlp", "widths": [32, 16], "beside": {"n_components": 6}},
        "training": members,
    }


@pytest.fixture(scope="module")
def run(folder, people):
    return nc.pretrain(config_of(people, members_leave="sites"), out=folder / "run").location


@pytest.fixture(scope="module")
def table(run, people, folder):
    return nc.embed(run, participants=people, out=folder / "all.parquet", config=MEASURES).location


OPTIONS = {**FASTEST, "allow_overlap": True}


@pytest.fixture(scope="module")
def evaluated(table, folder):
    """The members' evaluation, which no test changes."""
    return nc.evaluate(table, target="sex", out=folder / "sex", **OPTIONS)


@pytest.fixture(scope="module")
def of_two_epochs(people, folder):
    """A run that was never stopped."""
    return nc.pretrain(config_of(people, epochs=2), out=folder / "two").location


def test_each_member_is_the_run_that_its_own_configuration_makes(run, tmp_path):
    again = nc.pretrain(run / "members/1/config.yaml", out=tmp_path / "alone").location
    assert weights(again) == weights(run / "members/1")
    assert metrics(again) == metrics(run / "members/1")


def test_members_have_seeds_and_weights_of_their_own(run):
    record = read_json(run / "members.json")
    assert len(set(record["seeds"])) == len(set(record["weights"])) == N
    for number, seed in enumerate(record["seeds"]):
        contract = read_json(run / f"members/{number}/encoder.json")
        assert contract["seed"] == seed
        assert contract["weights"]["sha256"] == record["weights"][number]
        assert load_config(run / f"members/{number}/config.yaml").training.members == 1


def test_each_site_is_left_out_by_one_member_which_saw_nobody_of_it(run, people):
    left_out = read_json(run / "members.json")["left_out"]
    assert sorted(site for share in left_out for site in share) == list(SITES)
    table = pd.read_csv(people, sep="\t", dtype=str)
    everybody = set(map(subject_digest, table["participant_id"]))
    seen_by_any = set()
    for number, share in enumerate(left_out):
        absent = set(map(subject_digest, table.loc[table["site"].isin(share), "participant_id"]))
        seen = set(read_json(run / f"members/{number}/provenance.json")["pretraining_subjects"])
        assert absent
        assert not seen & absent
        seen_by_any |= seen
    outer = read_json(run / "provenance.json")
    assert set(outer["pretraining_subjects"]) == seen_by_any <= everybody
    assert outer["pretraining_contents_complete"]


def test_the_table_holds_the_features_of_each_member(run, table, people, tmp_path):
    read = read_embeddings(table)
    described = read.info.run.content()["members"]
    assert [member["name"] for member in described] == ["member0", "member1", "member2"]
    assert read.info.run.n_features == read.features.shape[1] == N * 22
    for number, member in enumerate(described):
        one = tmp_path / f"{number}.parquet"
        nc.embed(run / f"members/{number}", participants=people, out=one, config=MEASURES)
        first, last = (int(name.removeprefix("feature_")) for name in member["columns"])
        np.testing.assert_array_equal(
            read.features[:, first : last + 1], read_embeddings(one).features
        )
    with pytest.warns(NeurocontrastWarning, match="are people of the pretraining"):
        embedded = ScanEmbedder(run).fit_transform(read.table)
    np.testing.assert_allclose(embedded, read.features, atol=1e-6)


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.slow
def test_an_evaluation_its_probe_and_its_report_say_that_members_were_averaged(
    run, table, people, evaluated, tmp_path
):
    probe = evaluated.record.probe
    assert (probe.n_members, probe.averaged) == (N, "probabilities")
    report = nc.report(evaluated.folder, out=tmp_path / "report.html").read_text()
    assert "fitted to the features of each of the 3 members by itself" in report
    assert "each without its share of the sites: each site was left out by one member" in report
    of_table = nc.predict(evaluated.folder, table, out=tmp_path / "table.tsv").table
    scans = nc.predict(
        evaluated.folder, people, run=run, config=MEASURES, out=tmp_path / "scans.tsv"
    )
    np.testing.assert_allclose(of_table["y_score"], scans.table["y_score"], atol=1e-5)
    assert read_json(tmp_path / "scans.json")["n_members"] == N
    one = run / "members/0"
    with pytest.raises(DataError, match=r"3 members of a run .* has those of one encoder"):
        nc.predict(evaluated.folder, people, run=one, config=MEASURES, out=tmp_path / "x.tsv")
    nc.embed(one, participants=people, out=tmp_path / "one.parquet", config=MEASURES)
    with pytest.raises(DataError, match=r"3 members of a run .* has those of one encoder"):
        nc.predict(evaluated.folder, tmp_path / "one.parquet", out=tmp_path / "x.tsv")
    with pytest.raises(DataError, match="predictions are averaged and whose columns are not join"):
        nc.join([table, tmp_path / "one.parquet"], out=tmp_path / "joined.parquet")


class Killed(BaseException):
    """Stands for a kill."""


class Killing(Listening):
    """Ends the call once a line begins as given."""

    def __init__(self, line):
        super().__init__()
        self.line = line

    def message(self, text):
        super().message(text)
        if text.startswith(self.line):
            raise Killed


@pytest.mark.slow
def test_a_table_that_pandas_has_read_keeps_its_members(table, evaluated, tmp_path):
    frame = pd.read_parquet(table)
    frame = frame[frame["sex"].notna()]
    result = nc.evaluate(frame, target="sex", out=tmp_path / "sex", **OPTIONS | {"voxels": "off"})
    assert result.record.probe.n_members == N
    nc.report(result.folder, out=tmp_path / "report.html", figures=False)
    other = shutil.copytree(evaluated.folder, tmp_path / "other")
    nc.compare([result.folder, other], out=tmp_path / "compared.html")


@pytest.mark.parametrize(
    "line",
    [
        "epoch 1/2",
        "{out}/members/1: finished",
        pytest.param("{out}: member 3", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_stopped_ends_with_the_same_numbers(people, of_two_epochs, tmp_path, line):
    config = config_of(people, epochs=2)
    out = tmp_path / "stopped"
    with pytest.raises(Killed):
        nc.pretrain(config, out=out, progress=Killing(line.format(out=out)))
    with pytest.raises(CheckpointError, match=r"not all of its 3 members are trained.*--resume"):
        nc.embed(out, participants=people, out=tmp_path / "e.parquet", config=MEASURES)
    nc.pretrain(None, out=out, resume=True)
    for number in range(N):
        member = f"members/{number}"
        assert weights(out / member) == weights(of_two_epochs / member)
        assert metrics(out / member) == metrics(of_two_epochs / member)
    assert read_json(out / "members.json") == read_json(of_two_epochs / "members.json")


def test_the_table_of_a_new_run_is_read_once_for_all_members(people, tmp_path, monkeypatch):
    read = RegionalMeasures.read_cohort
    tables = []

    def watched(source, participants, **options):
        tables.append(participants)
        return read(source, participants, **options)

    monkeypatch.setattr(RegionalMeasures, "read_cohort", watched)
    nc.pretrain(config_of(people, epochs=0), out=tmp_path / "run")
    assert list(map(str, tables)) == [str(people)]


@pytest.mark.slow
def test_a_finished_run_stays_as_it_is_and_can_become_longer(run, people, tmp_path):
    out = shutil.copytree(run, tmp_path / "run")
    before = (out / "members.json").read_bytes(), (out / "provenance.json").read_bytes()
    nc.pretrain(None, out=out, resume=True)
    assert ((out / "members.json").read_bytes(), (out / "provenance.json").read_bytes()) == before
    nc.pretrain(
        config_of(people, members_leave="sites", epochs=2, schedule="constant"),
        out=tmp_path / "long",
    )
    short = config_of(people, members_leave="sites", schedule="constant")
    longer = config_of(people, members_leave="sites", epochs=2, schedule="constant")
    nc.pretrain(short, out=tmp_path / "grown")
    nc.pretrain(longer, out=tmp_path / "grown", resume=True)
    long = read_json(tmp_path / "long/members.json")
    assert read_json(tmp_path / "grown/members.json") == long
    assert load_config(tmp_path / "grown/config.yaml").training.epochs == 2


def test_a_run_with_another_number_of_members_is_not_continued(run, people, tmp_path):
    with pytest.raises(CheckpointError, match=r"training.members: was 3, is 2"):
        nc.pretrain(config_of(people, members=2), out=run, resume=True)
    with pytest.raises(CheckpointError, match=r"training.members: was 3, is 1"):
        nc.pretrain(config_of(people, members=1), out=run, resume=True)
    with pytest.raises(CheckpointError, match=r'training.members_leave: was "sites", is null'):
        nc.pretrain(config_of(people), out=run, resume=True)
    one = nc.pretrain(config_of(people, members=1), out=tmp_path / "one").location
    with pytest.raises(CheckpointError, match=r"training.members: was 1, is 3"):
        nc.pretrain(config_of(people), out=one, resume=True)
    with pytest.raises(ConfigError, match=r"already holds a run. Continue it with --resume"):
        nc.pretrain(config_of(people), out=run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["seeds"].__setitem__(1, record["seeds"][0]), "'seeds' has .* twice"),
        (
            lambda record: record["weights"].__setitem__(1, record["weights"][0]),
            "'weights' has .* twice",
        ),
        (lambda record: record["weights"].reverse(), "weights are not those of this member"),
        (lambda record: record["weights"].pop(), "one entry for each of 3 members, has 2"),
        (lambda record: record["seeds"].__setitem__(1, 5), "seed is .*says 5"),
        (lambda record: record.pop("seeds"), "'seeds' missing or damaged"),
        (lambda record: record.update(format=9), "'format' missing or damaged"),
    ],
)
def test_a_record_that_does_not_fit_its_members_is_refused(run, people, tmp_path, change, message):
    copy = shutil.copytree(run, tmp_path / "run")
    record = read_json(copy / "members.json")
    change(record)
    (copy / "members.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=message):
        nc.embed(copy, participants=people, out=tmp_path / "e.parquet", config=MEASURES)
    assert not (tmp_path / "e.parquet").exists()


def test_what_takes_one_encoder_says_how_to_take_one_member(run):
    message = r"this run has several members .* Give one of them.*members/0"
    with pytest.raises(CheckpointError, match=message):
        load_encoder(run)
    assert load_encoder(run / "members/0")[0].n_features == 22


@pytest.mark.slow
def test_a_bundle_holds_all_members_and_predicts_as_the_run(run, people, evaluated, tmp_path):
    bundled = nc.bundle(run, evaluated.folder, out=tmp_path / "bundle")
    models = bundled / "models"
    assert "3 frozen encoders" in (bundled / "docs/README.md").read_text()
    assert read_json(bundled / "configs/metadata.json")["pred_classes"].startswith("66 features")
    assert "/members/0" in (bundled / "configs/inference.yaml").read_text()
    here = nc.predict(
        models / "probe", people, run=models, config=MEASURES, out=tmp_path / "bundle.tsv"
    )
    there = nc.predict(evaluated.folder, people, run=run, config=MEASURES, out=tmp_path / "run.tsv")
    np.testing.assert_array_equal(here.table["y_score"], there.table["y_score"])
    one = nc.evaluate(
        nc.embed(
            run / "members/0", participants=people, out=tmp_path / "e.parquet", config=MEASURES
        ),
        target="sex",
        out=tmp_path / "one",
        **OPTIONS | {"voxels": "off"},
    )
    with pytest.raises(DataError, match="one encoder, and this table has those of 3 members"):
        nc.bundle(run, one.folder, out=tmp_path / "wrong")


def cohort_of(sites, subjects=None):
    names = [f"sub-{number:02d}" for number in range(len(sites))]
    subjects = names if subjects is None else subjects
    table = pd.DataFrame({"participant_id": names, "subject_id": subjects, "session": ""})
    return Cohort(table.assign(site=sites), Path("table.tsv"))


def test_shares_are_of_whole_sites_and_nearly_equal():
    sites = ["big"] * 10 + ["mid"] * 6 + ["small"] * 3 + ["tiny"] * 2
    assert share_sites(cohort_of(sites), 2) == (("big",), ("mid", "small", "tiny"))
    assert share_sites(cohort_of(sites), 3) == (("big",), ("mid",), ("small", "tiny"))


def test_sites_that_share_a_person_are_left_out_together():
    sites = ["a", "a", "b", "b", "c", "d"]
    subjects = ["one", "two", "two", "three", "four", "five"]
    shares = share_sites(cohort_of(sites, subjects), 2)
    assert shares == (("a", "b"), ("c", "d"))
    message = r"4 sites .* in 3 groups, since people were scanned at several sites.*3 or fewer"
    with pytest.raises(ConfigError, match=message):
        share_sites(cohort_of(sites, subjects), 4)


def test_scans_without_a_site_and_too_few_sites_are_refused_before_anything_is_written(
    people, tmp_path
):
    with pytest.raises(ConfigError, match=r"5 members need 5 sites or more.*4 sites"):
        nc.pretrain(config_of(people, members=5, members_leave="sites"), out=tmp_path / "run")
    table = pd.read_csv(people, sep="\t", dtype=str)
    table.loc[3, "site"] = "n/a"
    table.to_csv(tmp_path / "gap.tsv", sep="\t", index=False)
    config = config_of(tmp_path / "gap.tsv", members_leave="sites")
    with pytest.raises(DataError, match=r"1 of 226 scans have no site \(sub-0004\)"):
        nc.pretrain(config, out=tmp_path / "run")
    config = config_of(PEOPLE, members_leave="sites")
    with pytest.raises(
        DataError, match=r"members_leave: sites: participants\.tsv has no column 'site'"
    ):
        nc.pretrain(config, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "members_see"),
    [
        ({"site": ["a", "b", "c"]}, [{"b", "c"}, {"a", "c"}, {"a", "b"}]),
        ({"site": {"not": "d"}}, [{"b", "c"}, {"a", "c"}, {"a", "b"}]),
    ],
)
def test_a_selection_of_sites_holds_for_members_too(people, tmp_path, where, members_see):
    config = config_of(people, members_leave="sites", epochs=0)
    config["data"] = config["data"] | {"where": where}
    run = nc.pretrain(config, out=tmp_path / "run").location
    for number, sites in enumerate(members_see):
        cohort = read_json(run / f"members/{number}/provenance.json")["cohort"]
        assert set(cohort["people"]["sites"]) == sites


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"training": {"members_leave": "sites"}}, "members_leave: sites is for two members or mo"),
        ({"training": {"members": 0}}, "members"),
        (
            {"training": {"members": 2}, "encoder": {"name": "pca", "n_components": 4}},
            "fitted without chance",
        ),
        (
            {
                "training": {"members": 2},
                "encoder": {"name": "lenet", "projection": [8]},
                "encoder_2": {"name": "mlp", "projection": [8]},
            },
            "encoder_2 is a second one",
        ),
    ],
)
def test_members_that_make_no_sense_are_refused_by_name(sections, message):
    with pytest.raises(ConfigError, match=message):
        nc.doctor(sections)


def test_doctor_and_the_command_line_list_members(people, tmp_path, capsys):
    assert "3 members (training.members)" in nc.doctor(config_of(people)).to_text()
    arguments = ["pretrain", "--config", "measures", "--out", str(tmp_path / "run"), "--json"]
    for override in (
        f"data.participants={people}",
        f"data.measures=[{','.join(TABLES)}]",
        "training.members=2",
        "training.epochs=1",
        "encoder.widths=[16, 8]",
    ):
        arguments += ["--set", override]
    assert command(arguments) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["member"] for row in shown["members"]] == [0, 1]


def test_scans_are_read_once_for_all_members(settings, cohort, cached, tmp_path, monkeypatch):
    run = nc.pretrain(settings("training.members=2", "training.epochs=1"), out=tmp_path / "run")
    out = tmp_path / "e.parquet"
    passes = []
    from neurocontrast.commands import embed as module

    def counted(*arguments, **options):
        passes.append(len(arguments[1]))
        return extract(*arguments, **options)

    extract = module.extract_features
    monkeypatch.setattr(module, "extract_features", counted)
    nc.embed(run, participants=cohort, out=out, config=cached)
    read = read_embeddings(out)
    assert passes == [len(read.table)]
    one = nc.embed(
        run.location / "members/1", participants=cohort, out=tmp_path / "one.parquet", config=cached
    )
    half = read.features.shape[1] // 2
    np.testing.assert_allclose(read.features[:, half:], read_embeddings(one).features, atol=1e-6)
