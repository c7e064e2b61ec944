"""Runs of several recipes made one: a member each, prepared as its own run, predicted by their mean."""

import json
import os
import shutil
from typing import NamedTuple

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
    read_json,
    weights,
    with_maps,
)

import neurocontrast as nc
from neurocontrast.cli import run as command
from neurocontrast.embedding import ScanEmbedder, read_embeddings, write_embeddings
from neurocontrast.exceptions import (
    CheckpointError,
    ConfigError,
    DataError,
    LeakageError,
    NeurocontrastWarning,
)
from neurocontrast.weights import load

OPTIONS = {**FASTEST, "allow_overlap": True, "regional": []}
ONE_EPOCH = {"epochs": 1, "batch_size": 64}


def config_of(people=PEOPLE, *, encoder, data=None, **training):
    measured = {"participants": str(people), "measures": TABLES, **(data or {})}
    return OF_MEASURES | {
        "data": measured,
        "encoder": encoder,
        "training": ONE_EPOCH | training,
    }


NET = {"name": "mlp", "widths": [32, 16], "beside": {"n_components": 6}}
PCA = {"name": "pca", "n_components": 8}


class Runs(NamedTuple):
    """A network with components, a linear model prepared otherwise, two members, and all joined."""

    net: object
    linear: object
    two: object
    joined: object


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("joined")


@pytest.fixture(scope="module")
def people(folder):
    """The people of the sample, dealt to four sites."""
    table = pd.read_csv(PEOPLE, sep="\t", dtype=str)
    table["site"] = np.array(["a", "b", "c", "d"])[np.arange(len(table)) % 4]
    path = folder / "people.tsv"
    table.to_csv(path, sep="\t", index=False)
    return path


@pytest.fixture(scope="module")
def runs(folder, people):
    otherwise = {"head_size": "proportion", "where": {"site": ["a", "b"]}}
    net = nc.pretrain(config_of(people, encoder=NET), out=folder / "net").location
    linear = nc.pretrain(
        config_of(people, encoder=PCA, data=otherwise), out=folder / "linear"
    ).location
    alone = {"name": "mlp", "widths": [16, 8]}
    two = nc.pretrain(
        config_of(people, encoder=alone, members=2, members_leave="sites"), out=folder / "two"
    ).location
    joined = nc.join([net, linear, two], out=folder / "joined")
    return Runs(net, linear, two, joined)


@pytest.fixture(scope="module")
def tables(runs, people, folder):
    """Embeddings by the first two runs, each alone and joined."""
    both = nc.join([runs.net, runs.linear], out=folder / "both")
    tables = {}
    for name, run in {"net": runs.net, "linear": runs.linear, "both": both}.items():
        out = folder / f"{name}.parquet"
        tables[name] = nc.embed(run, participants=people, out=out, config=MEASURES).location
    return tables


@pytest.mark.parametrize("target", ["age", pytest.param("sex", marks=pytest.mark.slow)])
def test_predictions_are_the_mean_of_those_of_each_run_by_itself(tables, tmp_path, target):
    scores = {}
    for name, table in tables.items():
        out = nc.evaluate(table, target=target, out=tmp_path / name, **OPTIONS).folder
        rows = pd.read_csv(out / "predictions.tsv", sep="\t", dtype={"participant_id": str})
        scores[name] = rows.set_index("participant_id")["y_score"]
    mean = (scores["net"] + scores["linear"]) / 2
    assert not np.allclose(scores["net"], scores["linear"])
    pd.testing.assert_series_equal(scores["both"], mean, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_members_of_a_run_count_one_by_one(runs, people, tmp_path):
    record = read_json(runs.joined / "members.json")
    origins = [member["run"] for member in record["joined"]]
    assert origins == ["net", "linear", "two", "two"]
    assert [member["kind"] for member in record["joined"]] == [0, 1, 2, 2]
    assert [member["encoder"] for member in record["joined"]] == ["mlp", "pca", "mlp", "mlp"]
    assert record["left_out"][:2] == [[], []]
    assert record["left_out"][2:] == read_json(runs.two / "members.json")["left_out"]
    originals = [runs.net, runs.linear, runs.two / "members/0", runs.two / "members/1"]
    for number, original in enumerate(originals):
        member = runs.joined / f"members/{number}"
        assert weights(member) == weights(original)
        contract = read_json(original / "encoder.json")
        assert record["weights"][number] == contract["weights"]["sha256"]
        assert record["seeds"][number] == contract["seed"]
        assert not (member / "checkpoints").exists()
    nc.pretrain(None, out=runs.joined / "members/2", resume=True)
    table = nc.embed(
        runs.joined, participants=people, out=tmp_path / "e.parquet", config=MEASURES
    ).location
    read = read_embeddings(table)
    kinds = read.info.run.content()["kinds"]
    assert [(kind["n_members"], kind["runs"]) for kind in kinds] == [
        (1, ["net"]),
        (1, ["linear"]),
        (2, ["two"]),
    ]
    assert [kind["n_features"] for kind in kinds] == [22, 8, 8]
    for number, original in enumerate(originals):
        out = tmp_path / f"{number}.parquet"
        alone = nc.embed(original, participants=people, out=out, config=MEASURES).location
        first, last = read.info.run.content()["members"][number]["columns"]
        columns = slice(int(first[-4:]), int(last[-4:]) + 1)
        np.testing.assert_array_equal(read.features[:, columns], read_embeddings(alone).features)
    with pytest.warns(NeurocontrastWarning, match="are people of the pretraining"):
        embedded = ScanEmbedder(runs.joined).fit_transform(read.table)
    np.testing.assert_allclose(embedded, read.features, atol=1e-6)


def test_a_run_that_was_joined_needs_none_of_those_it_was_made_of(runs, people, tables, tmp_path):
    copies = []
    for run in (runs.net, runs.linear):
        copies.append(shutil.copytree(run, tmp_path / "from" / run.name))
    both = nc.join(copies, out=tmp_path / "both")
    shutil.rmtree(tmp_path / "from")
    table = nc.embed(both, participants=people, out=tmp_path / "e.parquet", config=MEASURES)
    here = read_embeddings(table).features
    np.testing.assert_array_equal(here, read_embeddings(tables["both"]).features)


@pytest.mark.slow
def test_people_of_any_run_are_refused_in_an_evaluation(runs, people, folder, tmp_path):
    listed = pd.read_csv(people, sep="\t", dtype=str)
    for sites, name in ((["a"], "first"), (["b"], "second")):
        data = {"where": {"site": sites}}
        nc.pretrain(config_of(people, encoder=PCA, data=data), out=tmp_path / name)
    joined = nc.join([tmp_path / "first", tmp_path / "second"], out=tmp_path / "joined")
    outer = read_json(joined / "provenance.json")
    for name in ("first", "second"):
        inner = read_json(tmp_path / name / "provenance.json")
        assert set(inner["pretraining_subjects"]) < set(outer["pretraining_subjects"])
        assert set(inner["pretraining_contents"]) < set(outer["pretraining_contents"])
    assert outer["pretraining_contents_complete"]
    assert outer["cohort"]["n_scans"] is None
    assert sorted(outer["cohorts"]) == ["first", "second"]
    for sites in (["a", "c", "d"], ["b", "c", "d"]):
        some = listed[listed["site"].isin(sites)].assign(
            participant_id=lambda t: t["participant_id"]
        )
        some.to_csv(tmp_path / "some.tsv", sep="\t", index=False)
        out = tmp_path / f"{sites[0]}.parquet"
        table = nc.embed(joined, participants=tmp_path / "some.tsv", out=out, config=MEASURES)
        with pytest.raises(LeakageError, match="were in the pretraining cohort"):
            nc.evaluate(
                table, target="sex", out=tmp_path / "e", **OPTIONS | {"allow_overlap": False}
            )
        with pytest.raises(LeakageError, match="the encoder has seen them"):
            ScanEmbedder(joined, overlap="error").fit_transform(read_embeddings(table).table)
    strangers = listed[listed["site"].isin(["c", "d"])]
    strangers.to_csv(tmp_path / "some.tsv", sep="\t", index=False)
    out = tmp_path / "strangers.parquet"
    table = nc.embed(joined, participants=tmp_path / "some.tsv", out=out, config=MEASURES)
    nc.evaluate(table, target="sex", out=tmp_path / "e", **OPTIONS | {"allow_overlap": False})


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.slow
def test_the_report_says_how_many_members_of_which_kinds(runs, people, tmp_path):
    table = nc.embed(
        runs.joined, participants=people, out=tmp_path / "e.parquet", config=MEASURES
    ).location
    evaluated = nc.evaluate(table, target="sex", out=tmp_path / "sex", **OPTIONS)
    assert (evaluated.record.probe.n_members, evaluated.record.probe.averaged) == (
        4,
        "probabilities",
    )
    report = nc.report(evaluated.folder, out=tmp_path / "report.html").read_text()
    assert "4 members of 3 kinds: 1 × " in report
    assert "with 22 features (6 of them components beside the network) (“net”)" in report
    assert "1 × principal components of regional measures with 8 features (“linear”)" in report
    assert "2 × " in report
    assert "in runs of their own (“net”, “linear” and “two”), which were joined" in report
    assert "2 of them were trained without a share of the sites" in report
    assert "1 of the members has principal components of pretraining as a second block" in report
    assert "Members of “linear”: The encoder reads" in report
    assert "Volumes were divided by the intracranial volume" in report
    assert "not recorded" not in report.split("Representation")[-1].split("Prediction.")[0]
    other = nc.evaluate(table, target="sex", out=tmp_path / "other", **OPTIONS)
    nc.compare([evaluated.folder, other.folder], out=tmp_path / "compared.html")


def test_scans_are_predicted_and_bundled_as_their_table_is(runs, people, tables, folder, tmp_path):
    evaluated = nc.evaluate(tables["both"], target="sex", out=tmp_path / "sex", **OPTIONS)
    of_table = nc.predict(evaluated.folder, tables["both"], out=tmp_path / "table.tsv").table
    some = pd.read_csv(people, sep="\t", dtype=str).head(12)
    people = tmp_path / "some.tsv"
    some.to_csv(people, sep="\t", index=False)
    both = folder / "both"
    here = nc.predict(
        evaluated.folder, people, run=both, config=MEASURES, out=tmp_path / "scans.tsv"
    )
    np.testing.assert_allclose(of_table["y_score"][:12], here.table["y_score"], atol=1e-5)
    bundled = nc.bundle(both, evaluated.folder, out=tmp_path / "bundle")
    card = (bundled / "docs/README.md").read_text()
    assert "# 2 encoders of 2 kinds, of regional measures of the brain" in card
    assert "1 × pca with 8 features (linear)" in card
    assert "Data of linear: people.tsv: 114 scans of 114 people." in card
    assert "- Sites: a 57, b 57." in card
    there = nc.predict(
        bundled / "models/probe",
        people,
        run=bundled / "models",
        config=MEASURES,
        out=tmp_path / "bundle.tsv",
    )
    np.testing.assert_array_equal(here.table["y_score"], there.table["y_score"])
    json.loads((bundled / "configs/metadata.json").read_text())
    with pytest.raises(DataError, match=r"2 members of a run .* has those of 4 members"):
        nc.predict(
            evaluated.folder, people, run=runs.joined, config=MEASURES, out=tmp_path / "x.tsv"
        )


def test_joined_runs_can_be_joined_again(runs, people, tmp_path):
    third = nc.pretrain(
        config_of(people, encoder=PCA | {"n_components": 5}), out=tmp_path / "third"
    )
    first = nc.join([runs.net, runs.linear], out=tmp_path / "first")
    second = nc.join([first, third], out=tmp_path / "second")
    record = read_json(second / "members.json")
    assert [member["run"] for member in record["joined"]] == ["first/net", "first/linear", "third"]


def test_seeds_may_be_the_same_and_names_may_be_given(runs, people, tmp_path):
    same = nc.pretrain(config_of(people, encoder=PCA | {"n_components": 5}), out=tmp_path / "net")
    with pytest.raises(
        ConfigError, match=r"names: 2 runs need 2 different names, got 'net', 'net'\. Give"
    ):
        nc.join([runs.net, same], out=tmp_path / "both")
    joined = nc.join([runs.net, same], out=tmp_path / "both", names=["deep", "flat"])
    record = read_json(joined / "members.json")
    assert record["seeds"][0] == record["seeds"][1]
    assert [member["run"] for member in record["joined"]] == ["deep", "flat"]


def changed(run, target, change):
    """Copy a run and change its ``encoder.json``."""
    copy = shutil.copytree(run, target)
    contract = read_json(copy / "encoder.json")
    change(contract)
    (copy / "encoder.json").write_text(json.dumps(contract))
    return copy


def test_runs_that_cannot_be_one_are_refused_by_name(runs, whole, tmp_path):
    out = tmp_path / "joined"
    refused = {}
    refused[r"net of regional measures; whole of scans"] = [runs.net, whole]
    refused[r"the same weights.*two/members/0 = 0"] = [runs.two, runs.two / "members/0"]
    images = changed(
        runs.net,
        tmp_path / "images",
        lambda contract: contract["preprocessing"].update(kind="images"),
    )
    refused[r"images was trained on natural images"] = [runs.linear, images]
    copy = shutil.copytree(runs.net, tmp_path / "copy")
    refused[r"the same weights, which would count twice: net = copy"] = [runs.net, copy]
    refused["embeddings: must be two runs or more"] = [runs.net]
    (tmp_path / "table.parquet").touch()
    refused[r"table.parquet is no folder, and others are"] = [runs.net, tmp_path / "table.parquet"]
    for message, inputs in refused.items():
        with pytest.raises(ConfigError, match=message):
            nc.join(inputs, out=out)
    python = changed(
        runs.linear,
        tmp_path / "python",
        lambda contract: contract["preprocessing"].update(image_shape=[1, 1, 1, 1]),
    )
    with pytest.raises(ConfigError, match="python has transforms from Python"):
        nc.join([runs.net, python], out=out)
    assert not out.exists()


def test_all_unfinished_damaged_and_foreign_folders_are_named(runs, tmp_path):
    out = tmp_path / "joined"
    empty = tmp_path / "nothing"
    empty.mkdir()
    damaged = shutil.copytree(runs.linear, tmp_path / "damaged")
    content = bytearray((damaged / "encoder.safetensors").read_bytes())
    content[-1] ^= 1
    (damaged / "encoder.safetensors").write_bytes(bytes(content))
    unfinished = shutil.copytree(runs.two, tmp_path / "unfinished")
    record = read_json(unfinished / "members.json")
    (unfinished / "members.json").write_text(json.dumps(record | {"weights": None}))
    longer = shutil.copytree(runs.net, tmp_path / "longer")
    config = (longer / "config.yaml").read_text()
    (longer / "config.yaml").write_text(config.replace("epochs: 1\n", "epochs: 9\n"))
    with pytest.raises(CheckpointError) as caught:
        nc.join([runs.net, empty, damaged, unfinished, longer], out=out)
    message = str(caught.value)
    for line in (
        f"{empty}: no encoder.json there",
        f"{damaged / 'encoder.safetensors'}: SHA-256 is",
        f"{unfinished}: not all of its 2 members are trained",
        f"{longer}: the run was to go on after 1 epochs and is not finished",
    ):
        assert line in message
    assert not out.exists()


def test_a_folder_that_exists_is_replaced_only_where_it_was_joined(runs, tmp_path):
    both = [runs.net, runs.linear]
    for occupied in (runs.two, runs.net):
        copy = shutil.copytree(occupied, tmp_path / occupied.name)
        before = sorted(copy.rglob("*"))
        with pytest.raises(ConfigError, match="is not empty"):
            nc.join(both, out=copy)
        with pytest.raises(
            ConfigError, match=r"is not a joined run|is a run that was trained, and"
        ):
            nc.join(both, out=copy, overwrite=True)
        assert sorted(copy.rglob("*")) == before
    with pytest.raises(ConfigError, match="is one of the runs to join, or lies within one"):
        nc.join(both, out=runs.net / "joined")
    joined = nc.join(both, out=tmp_path / "joined")
    before = (joined / "members.json").read_bytes()
    with pytest.raises(ConfigError, match="is not empty"):
        nc.join([runs.two, runs.net], out=joined)
    assert (joined / "members.json").read_bytes() == before
    nc.join([runs.two, runs.net], out=joined, overwrite=True)
    assert len(read_json(joined / "members.json")["weights"]) == 3
    with pytest.raises(ConfigError, match="is one of the runs to join"):
        nc.join([joined, runs.linear], out=joined, overwrite=True)


def test_nothing_is_left_of_a_call_that_fails_half_way(runs, tmp_path, monkeypatch):
    from neurocontrast.runs import joining

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(joining, "write_members", full)
    with pytest.raises(OSError, match="No space left"):
        nc.join([runs.net, runs.linear], out=tmp_path / "joined")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["weights"].reverse(), "weights are not those.*join the runs again"),
        (lambda record: record["seeds"].__setitem__(1, 5), "says 5"),
        (lambda record: record["joined"].pop(), "one entry for each of 4 members, has 3"),
        (lambda record: record.pop("joined"), "'joined' missing or damaged"),
        (lambda record: record.update(format=1), "'joined' missing or damaged"),
        (lambda record: record["weights"].__setitem__(0, record["weights"][1]), "twice"),
    ],
)
def test_changed_members_are_refused_when_they_are_read(runs, people, tmp_path, change, message):
    copy = shutil.copytree(runs.joined, tmp_path / "run")
    record = read_json(copy / "members.json")
    change(record)
    (copy / "members.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=message):
        nc.embed(copy, participants=people, out=tmp_path / "e.parquet", config=MEASURES)
    assert not (tmp_path / "e.parquet").exists()


def test_runs_that_do_not_say_their_people_are_told_wherever_people_are_looked_for(
    runs, people, tmp_path
):
    silent = shutil.copytree(runs.linear, tmp_path / "silent")
    (silent / "provenance.json").unlink()
    listening = Listening()
    joined = nc.join([runs.net, silent], out=tmp_path / "joined", progress=listening)
    assert listening.warned == [
        "silent: does not say who was in pretraining, so no evaluation can look for its subjects."
    ]
    listening = Listening()
    table = nc.embed(
        joined,
        participants=people,
        out=tmp_path / "e.parquet",
        config=MEASURES,
        progress=listening,
    )
    assert any("of which silent does not say who was in" in line for line in listening.warned)
    evaluated = nc.evaluate(table, target="sex", out=tmp_path / "sex", **OPTIONS)
    notices = {notice.code: notice.message for notice in evaluated.record.warnings}
    assert "'silent' does not say who was in pretraining" in notices["overlap_unknown"]
    again = nc.join([joined, runs.two], out=tmp_path / "again", progress=Listening())
    assert read_json(again / "provenance.json")["pretraining_unknown"] == ["joined"]


def test_a_joined_run_is_not_trained_further_and_its_members_are_runs(runs, people):
    config = config_of(people, encoder=NET)
    for settings in (config, None):
        with pytest.raises(ConfigError, match="was joined of several runs, which were trained by"):
            nc.pretrain(settings, out=runs.joined, resume=True)
    nc.doctor(runs.joined / "members/1/config.yaml")


def test_the_command_line_joins_runs(runs, tmp_path, capsys):
    out = tmp_path / "joined"
    arguments = ["join", str(runs.net), str(runs.two), "--out", str(out), "--names", "deep,pair"]
    assert command([*arguments, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in shown["members"]] == ["deep", "pair", "pair"]
    assert command(arguments) == 2
    assert "is not empty" in capsys.readouterr().err


def other_volumes(settings, cache, out, **changes):
    made = settings("training.epochs=1", *(f"{key}={value}" for key, value in changes.items()))
    return nc.pretrain(made, out=out).location


def test_scans_are_prepared_for_each_run_as_its_own_were(
    whole, settings, cache, cohort, others, cached, tmp_path, monkeypatch
):
    run = whole.location
    other = other_volumes(settings, cache, tmp_path / "other", **{"data.normalise": "zscore-brain"})
    alike = other_volumes(settings, cache, tmp_path / "alike", seed=3)
    joined = nc.join([other, run, alike], out=tmp_path / "joined")
    passes = []
    from neurocontrast.commands import embed as module

    def counted(*arguments, **options):
        passes.append(arguments[0].n_features)
        return extract(*arguments, **options)

    extract = module.extract_features
    monkeypatch.setattr(module, "extract_features", counted)
    read = read_embeddings(
        nc.embed(joined, participants=others, out=tmp_path / "e.parquet", config=cached)
    )
    assert len(passes) == 2
    features = []
    for number, member in enumerate((other, run, alike)):
        out = tmp_path / f"{number}.parquet"
        alone = nc.embed(member, participants=others, out=out, config=cached)
        features.append(read_embeddings(alone).features)
    np.testing.assert_allclose(read.features, np.concatenate(features, axis=1), atol=1e-5)
    assert not np.allclose(features[0], features[1])


@pytest.fixture(scope="module")
def maps(others, folder):
    """Scans with maps of dark and of bright voxels beside them, in one table."""
    copy = shutil.copytree(others.parent, folder / "maps")
    return with_maps(copy / others.name)


@pytest.fixture(scope="module")
def of_maps(settings, cohort, folder, whole):
    """Runs of two maps in both orders, and these joined with a run of whole scans."""
    copy = shutil.copytree(cohort.parent, folder / "cohort")
    table = with_maps(copy / cohort.name)
    of_maps = []
    for channels in ("gm,wm", "wm,gm"):
        config = settings("training.epochs=1", f"data.channels=[{channels}]")
        run = nc.pretrain(config, participants=table, out=folder / channels).location
        of_maps.append(run)
    return of_maps, nc.join([whole.location, *of_maps], out=folder / "of_both")


@pytest.mark.slow
def test_members_that_read_other_columns_of_a_table(of_maps, maps, whole, cached, tmp_path):
    runs, joined = of_maps
    table = nc.embed(joined, participants=maps, out=tmp_path / "e.parquet", config=cached).location
    read = read_embeddings(table)
    features = []
    for number, member in enumerate((whole, *runs)):
        out = tmp_path / f"{number}.parquet"
        alone = nc.embed(member, participants=maps, out=out, config=cached)
        features.append(read_embeddings(alone).features)
    np.testing.assert_allclose(read.features, np.concatenate(features, axis=1), atol=1e-5)
    evaluated = nc.evaluate(table, out=tmp_path / "evaluation", **FASTEST)
    of_table = nc.predict(evaluated.folder, table, out=tmp_path / "table.tsv").table
    scans = nc.predict(
        evaluated.folder, maps, run=joined, config=cached, out=tmp_path / "scans.tsv"
    )
    np.testing.assert_allclose(of_table["y_score"], scans.table["y_score"], atol=1e-5)
    embedder = ScanEmbedder(joined, cache_dir=cached["data"]["cache_dir"])
    np.testing.assert_allclose(embedder.fit_transform(read.table), read.features, atol=1e-5)
    message = r"members of this run read other columns of a table \(path; gm, wm; wm, gm\)"
    with pytest.raises(DataError, match=f"X: {message}"):
        embedder.fit_transform(read.table["path"].tolist())
    with pytest.raises(DataError, match=message):
        nc.predict(evaluated.folder, maps.parent, run=joined, out=tmp_path / "folder.tsv")
    card = nc.bundle(joined, evaluated.folder, out=tmp_path / "bundle") / "docs/README.md"
    assert "`PLACE` is a table (`.tsv`) with the columns `path`, `gm`, `wm`." in card.read_text()


def test_a_scan_is_compared_by_each_member_with_the_files_that_it_reads(of_maps, maps, whole):
    _, joined = of_maps
    scan = pd.read_csv(maps, sep="\t", dtype=str).iloc[0]
    folder = maps.parent
    files = [folder / scan["path"], folder / scan["gm"], folder / scan["wm"]]
    verified = nc.verify_weights(joined, scan=files)
    assert verified.passed
    assert len(verified.checks) == 3
    read = []
    for number in range(3):
        names = [fact for fact in verified.facts if fact.startswith(f"member {number}: ")]
        read.append([name.split(": ")[1] for name in names if " MNI space" in name])
    assert read == [
        [files[0].name],
        [files[1].name, files[2].name],
        [files[2].name, files[1].name],
    ]
    with pytest.raises(DataError, match=r"takes 3 files a scan \(path, gm, wm\), got 2"):
        nc.verify_weights(joined, scan=files[1:])


def test_weights_that_ship_are_joined_without_their_probes(of_maps, tmp_path):
    shipped = load("brain-maps-lda")
    joined = nc.join([shipped, of_maps[0][0]], out=tmp_path / "joined")
    record = read_json(joined / "members.json")
    assert [member["encoder"] for member in record["joined"]] == ["lda", "lenet"]
    assert sorted(path.name for path in (joined / "members/0").iterdir()) == [
        "encoder.json",
        "encoder.safetensors",
        "provenance.json",
    ]
    known = set(read_json(shipped.path / "provenance.json")["pretraining_subjects"])
    assert known < set(read_json(joined / "provenance.json")["pretraining_subjects"])


def test_a_changed_map_is_not_taken_from_a_call_that_was_stopped(
    of_maps, maps, folder, cached, tmp_path, monkeypatch
):
    _, joined = of_maps
    from neurocontrast.commands import embed as module

    keys = []

    class Keeping(module.FinishedBatches):
        def __init__(self, target, key):
            keys.append(key)
            super().__init__(target, key)

    monkeypatch.setattr(module, "FinishedBatches", Keeping)
    own = {"data": {"cache_dir": str(tmp_path / "cache"), "n_workers": 1}}
    nc.embed(joined, participants=maps, out=tmp_path / "a.parquet", config=own)
    image = maps.parent / pd.read_csv(maps, sep="\t", dtype=str)["gm"][0]
    before = image.stat()
    os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    nc.embed(joined, participants=maps, out=tmp_path / "a.parquet", config=own, overwrite=True)
    assert keys[0] == keys[3]
    assert keys[1] != keys[4]


@pytest.mark.slow
def test_an_estimator_of_ones_own_and_an_external_test_take_members_of_several_kinds(
    tables, people, runs, tmp_path
):
    from sklearn.linear_model import LogisticRegression

    scores = []
    for name in ("net", "linear", "both"):
        out = tmp_path / name
        nc.evaluate(
            tables[name],
            target="sex",
            out=out,
            estimator=LogisticRegression(C=0.01, max_iter=500),
            **OPTIONS,
        )
        rows = pd.read_csv(out / "predictions.tsv", sep="\t")
        scores.append(rows.set_index("participant_id")["y_score"])
    mean = (scores[0] + scores[1]) / 2
    pd.testing.assert_series_equal(scores[2], mean, rtol=0, atol=1e-12)
    frame = read_embeddings(tables["both"])
    rows = np.arange(len(frame.table)) % 2 == 0
    halves = []
    for number, chosen in enumerate((rows, ~rows)):
        half = tmp_path / f"{number}.parquet"
        write_embeddings(half, frame.table[chosen], frame.features[chosen], frame.info)
        halves.append(half)
    tested = nc.evaluate(halves[0], test=halves[1], target="sex", out=tmp_path / "e", **OPTIONS)
    assert read_json(tested.folder / "evaluation.json")["external"]["metrics"]["auc"]["value"] > 0.5


@pytest.mark.slow
def test_a_joined_run_is_explained_by_the_mean_of_its_members(runs, tables, people, tmp_path):
    both = runs.joined.parent / "both"
    evaluated = nc.evaluate(tables["both"], target="age", out=tmp_path / "age", **OPTIONS)
    explained = nc.explain(
        evaluated.folder, run=both, participants=people, out=tmp_path / "x", config=MEASURES
    )
    about = read_json(explained / "explain.json")
    assert about["n_members"] == 2
    # The linear member is all components; the network has components beside it.
    assert [block["name"] for block in about["blocks"]] == ["network", "components"]
    assert sum(block["share"] for block in about["blocks"]) == pytest.approx(1)
    ranking = pd.read_csv(explained / "regions.tsv", sep="\t")
    np.testing.assert_allclose(ranking["network"] + ranking["components"], ranking["value"])
    predicted = nc.predict(
        evaluated.folder, people, run=both, config=MEASURES, out=tmp_path / "predicted.tsv"
    )
    scores = dict(predicted.table[["participant_id", "y_score"]].to_numpy())
    shown = pd.read_csv(explained / "saliency.tsv", sep="\t")
    expected = sorted(scores.values())
    assert set(np.round(shown["score"], 2)) <= set(np.round(expected, 2))


def test_a_joined_run_is_exported_and_verified_as_one(runs, people, tmp_path):
    exported = nc.export_weights(runs.joined, out=tmp_path / "exported")
    for folder in (runs.joined, exported):
        found = nc.verify_weights(folder)
        assert found.passed
        assert len(found.checks) == 4
    assert read_json(exported / "members.json") == read_json(runs.joined / "members.json")
    config = config_of(people, encoder={"name": "mlp", "widths": [32, 16]}, members=3)
    config["training"]["init"] = str(runs.joined)
    with pytest.raises(CheckpointError, match=r"has 4 members, and this run has 3"):
        nc.pretrain(config, out=tmp_path / "started")


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.slow
def test_a_joined_run_is_fine_tuned_unless_a_member_is_linear(runs, people, tmp_path):
    tuning = {"epochs": 1, "batch_size": 64, "accelerator": "cpu"}
    config = MEASURES | {"finetune": tuning}
    options = {"target": "sex", "n_folds": 2, "n_bootstraps": 0, "allow_overlap": True}
    with pytest.raises(ConfigError, match=r"members/1' is 'pca', whose components"):
        nc.finetune(runs.joined, participants=people, out=tmp_path / "x", config=config, **options)
    networks = nc.join([runs.net, runs.two], out=tmp_path / "networks")
    tuned = nc.finetune(
        networks, participants=people, out=tmp_path / "tuned", config=config, **options
    )
    assert tuned.record.probe.n_members == 3
    assert tuned.record.n.features == 16 + 8 + 8
    page = nc.report(tuned.folder, out=tmp_path / "report.html", figures=False).read_text()
    assert "by the networks of all 3 members, each with a linear head" in page
