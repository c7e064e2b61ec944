"""People who lack measures: named with the ways out, and left out or filled at every door where that is asked for."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import neurocontrast
from neurocontrast.cli.app import run as command_line
from neurocontrast.config import load_config
from neurocontrast.data.sources import source_of_run
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.encoders import read_contract
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import SILENT
from neurocontrast.reading import read_json

N = 40
REGIONS = [f"lh_r{number:02d}_thickness" for number in range(30)] + ["Left-Hippocampus", "eTIV"]
FAST = ["training.epochs=1", "training.batch_size=16", "encoder.projection=[4]", "seed=3"]
FAST += ["training.schedule=constant"]
RULE = "objective={loss: ntxent}"


class Heard(type(SILENT)):
    """Keeps the warnings."""

    def __init__(self):
        self.warned = []

    def warning(self, text):
        self.warned.append(text)


def write(folder: Path, measures: pd.DataFrame, people: pd.DataFrame) -> Path:
    folder.mkdir(exist_ok=True)
    measures.to_csv(folder / "measures.tsv", sep="\t", index=False, na_rep="n/a")
    people.to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder / "participants.tsv"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Write people whose measures are whole, and the same people, three of whom lack some.

    sub-03 lacks two of 32 (6 %), sub-07 lacks twelve, and sub-11 has no row.
    """
    root = tmp_path_factory.mktemp("people")
    random = np.random.default_rng(0)
    names = [f"sub-{row:02d}" for row in range(N)]
    typical = [2.5] * 30 + [4000.0, 1.5e6]
    measures = pd.DataFrame(random.normal(1, 0.1, (N, 32)) * typical, columns=REGIONS)
    measures.insert(0, "participant_id", names)
    people = pd.DataFrame({"participant_id": names, "age": random.uniform(20, 80, N)})
    people["diagnosis"] = ["control", "patient"] * (N // 2)
    whole = write(root / "whole", measures, people)
    lacking = measures.copy()
    lacking.iloc[3, 5:7] = np.nan
    lacking.iloc[7, 5:17] = np.nan
    lacking = lacking.drop(index=11)
    bad = [3, 7, 11]
    rest = write(root / "rest", measures.drop(index=bad), people.drop(index=bad))
    return whole, write(root / "lacking", lacking, people), rest


def config(table, *more):
    measures = table.with_name("measures.tsv")
    given = [f"data={{measures: [{measures}], participants: {table}}}"]
    return load_config(None, [*given, *FAST, RULE, *more])


@pytest.fixture(scope="module")
def run(tables, tmp_path_factory):
    return neurocontrast.pretrain(config(tables[0]), out=tmp_path_factory.mktemp("run") / "run")


def weights(run):
    return read_json(run / "encoder.json")["weights"]["sha256"]


def test_training_leaves_them_out_as_if_they_were_not_in_the_table(tables, tmp_path):
    _, lacking, rest = tables
    with pytest.raises(DataError, match=r"(?s)sub-11: no table.*Hint: --skip \(data\.skip_unr"):
        neurocontrast.pretrain(config(lacking), out=tmp_path / "refused")
    heard = Heard()
    settings = config(lacking, "data.skip_unreadable=true")
    run = neurocontrast.pretrain(settings, out=tmp_path / "run", progress=heard)
    skipped = pd.read_csv(run / "skipped.tsv", sep="\t")
    assert set(skipped["scan"]) == {"sub-03", "sub-07", "sub-11"}
    assert any("3 of 40 scans cannot be used and are left out" in text for text in heard.warned)
    assert read_json(run / "provenance.json")["n_skipped"] == 3
    shorter = neurocontrast.pretrain(config(rest), out=tmp_path / "shorter")
    assert weights(run) == weights(shorter)
    longer = config(lacking, "data.skip_unreadable=true", "training.epochs=2")
    neurocontrast.pretrain(longer, out=run, resume=True)
    assert len(pd.read_csv(run / "metrics.csv")) == 2


def test_every_member_of_a_run_leaves_them_out(tables, tmp_path):
    options = [*FAST, RULE, "training.members=2", "data.skip_unreadable=true"]
    config = load_config("measures", [f"data.participants={tables[1]}", *options])
    run = neurocontrast.pretrain(config, out=tmp_path / "run")
    for number in range(2):
        skipped = pd.read_csv(run / "members" / str(number) / "skipped.tsv", sep="\t")
        assert set(skipped["scan"]) == {"sub-03", "sub-07", "sub-11"}
    strict = load_config("measures", [f"data.participants={tables[1]}", *options[:-1]])
    with pytest.raises(DataError, match="sub-11: no table"):
        neurocontrast.pretrain(strict, out=tmp_path / "strict")


def test_doctor_counts_them(tables):
    _, lacking, _ = tables
    with pytest.raises(DataError, match="sub-11: no table"):
        neurocontrast.doctor(config(lacking))
    found = neurocontrast.doctor(config(lacking, "data.skip_unreadable=true"))
    assert (found.run.n_skipped, found.run.n_training_scans) == (3, 33)
    assert "3 left out (data.skip_unreadable)" in found.to_text()


def embed(run, table, out, *options):
    given = ["embed", str(run), "--participants", str(table), "--out", str(out), "--overwrite"]
    return command_line([*given, *options])


def test_embed_names_the_ways_out_and_each_of_them_works(tables, run, tmp_path, capsys):
    whole, lacking, _ = tables
    table = pd.read_csv(lacking, sep="\t")
    measured = write(
        tmp_path / "measured",
        pd.read_csv(lacking.with_name("measures.tsv"), sep="\t"),
        table[table["participant_id"] != "sub-11"],
    )
    out = tmp_path / "e.parquet"
    assert embed(run, measured, out) == 2
    error = capsys.readouterr().err
    assert "sub-03: lacks 2 of 32 measures, 'lh_r04_thickness' first; at most 2 %" in error
    assert "sub-07: lacks 12 of 32 measures" in error
    assert "--skip (data.skip_unreadable=true) leaves such people out; --set data.max_miss" in error
    assert not out.exists()
    assert embed(run, lacking, out, "--skip") == 0
    skipped = pd.read_csv(tmp_path / "e.skipped.tsv", sep="\t")
    assert set(skipped["scan"]) == {"sub-03", "sub-07", "sub-11"}
    read = read_embeddings(out)
    assert len(read.table) == 37
    assert read.info.flow[-1].n_subjects == 3
    assert not read.info.has("max_missing")
    assert embed(run, measured, out, "--set", "data.max_missing=0.4") == 0
    assert not (tmp_path / "e.skipped.tsv").exists()
    filled = read_embeddings(out)
    assert (len(filled.table), filled.info.max_missing) == (39, 0.4)
    assert embed(run, lacking, out, "--set", "data.max_missing=0.1", "--skip") == 0
    assert set(pd.read_csv(tmp_path / "e.skipped.tsv", sep="\t")["scan"]) == {"sub-07", "sub-11"}
    assert embed(run, whole, tmp_path / "w.parquet") == 0
    both = filled.table["participant_id"].isin(read.table["participant_id"]).to_numpy()
    np.testing.assert_array_equal(filled.features[both], read.features)


def test_medians_of_the_run_take_their_place_and_the_run_stays_as_it_is(tables, run):
    _, lacking, _ = tables
    contract = read_contract(run)
    data = config(lacking).data.model_copy()
    settings = load_config(None, ["data.max_missing=0.4", "data.skip_unreadable=true"]).data
    settings = settings.model_copy(update={"measures": data.measures})
    source = source_of_run(run, contract, settings)
    known = source.known.model_dump()
    assert known | {"max_missing": 0.02} == {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in contract.preprocessing.content().items()
        if name in known
    }
    cohort = source.read_cohort(lacking)
    assert any("data.max_missing is 0.4, and 0.02 in the run" in text for text in cohort.warnings)
    assert set(source.failures(cohort, SILENT)) == {11}
    row = [cohort.names().index("sub-03")]
    made = source.images(cohort.subset(row)).values[0]
    places = [source.known.columns.index(name) for name in REGIONS[4:6]]
    expected = (np.array(source.known.medians) - source.known.means) / source.known.sds
    np.testing.assert_allclose(made[places], expected[places], rtol=1e-5)


def test_other_settings_of_a_run_are_still_the_runs(tables, run, tmp_path):
    options = {"participants": tables[0], "out": tmp_path / "e.parquet"}
    for given in ({"clip": 3.0}, {"log_volumes": False}):
        with pytest.raises(ConfigError, match=rf"data\.{next(iter(given))}: is"):
            neurocontrast.embed(run, **options, config={"data": given})


def test_finetune_leaves_them_out(tables, run, tmp_path, capsys):
    _, lacking, _ = tables
    given = ["finetune", str(run), "--participants", str(lacking), "--out", str(tmp_path / "ft")]
    given += ["--n-folds", "2", "--allow-overlap", "--set", "finetune.epochs=1"]
    given += ["--set", "evaluation.n_bootstraps=0"]
    assert command_line(given) == 2
    assert "--skip (data.skip_unreadable=true) leaves" in capsys.readouterr().err
    assert command_line([*given, "--skip", "--set", "data.max_missing=0.1"]) == 0
    skipped = pd.read_csv(tmp_path / "ft" / "skipped.tsv", sep="\t")
    assert set(skipped["scan"]) == {"sub-07", "sub-11"}
    predictions = pd.read_csv(tmp_path / "ft" / "predictions.tsv", sep="\t")
    assert predictions["participant_id"].nunique() == 38


@pytest.mark.slow
def test_predict_and_explain_follow(tables, run, tmp_path):
    whole, lacking, _ = tables
    options = {"participants": whole, "out": tmp_path / "e.parquet"}
    table = neurocontrast.embed(run, **options)
    evaluation = neurocontrast.evaluate(
        table, out=tmp_path / "ev", n_folds=2, n_inner_folds=2, n_bootstraps=0, allow_overlap=True
    )
    for share, n_failed in ((0.02, 3), (0.1, 2), (0.4, 1)):
        out = tmp_path / f"{share}.tsv"
        settings = {"data": {"max_missing": share}}
        neurocontrast.predict(evaluation, lacking, out=out, run=run, config=settings)
        origin = json.loads(out.with_suffix(".json").read_text())
        assert origin["scans"]["n_failed"] == n_failed
    measured = pd.read_csv(lacking, sep="\t").query("participant_id != 'sub-11'")
    people = write(
        tmp_path / "again", pd.read_csv(lacking.with_name("measures.tsv"), sep="\t"), measured
    )
    settings = {"data": {"max_missing": 0.4}}
    again = neurocontrast.embed(
        run, participants=people, out=tmp_path / "f.parquet", config=settings
    )
    second = neurocontrast.evaluate(
        again, out=tmp_path / "ev2", n_folds=2, n_inner_folds=2, n_bootstraps=0, allow_overlap=True
    )
    assert neurocontrast.explain(second, run=run, participants=people).exists()


def test_columns_that_nobody_has_are_refused_once_and_filled_where_that_is_asked(
    tables, run, tmp_path
):
    whole, _, _ = tables
    people = pd.read_csv(whole, sep="\t")
    measures = pd.read_csv(whole.with_name("measures.tsv"), sep="\t")
    for name, changed in {
        "empty": measures.assign(**dict.fromkeys(REGIONS[:2], np.nan)),
        "absent": measures.drop(columns=REGIONS[:2]),
    }.items():
        table = write(tmp_path / name, changed, people)
        options = {"participants": table, "out": tmp_path / f"{name}.parquet"}
        with pytest.raises(
            DataError, match=r"2 of the 32 measures .*--set data\.max_missing=0\.07"
        ):
            neurocontrast.embed(run, **options)
        heard = Heard()
        settings = {"data": {"max_missing": 0.07}}
        neurocontrast.embed(run, **options, config=settings, progress=heard)
        assert any(
            "nobody has a value of 'lh_r00_thickness', 'lh_" in text for text in heard.warned
        )
    one, other = (read_embeddings(tmp_path / f"{name}.parquet") for name in ("empty", "absent"))
    np.testing.assert_array_equal(one.features, other.features)


def test_everybody_who_lacks_too_much_is_one_refusal(tables, run, tmp_path):
    _, lacking, _ = tables
    people = pd.read_csv(lacking, sep="\t").query("participant_id == 'sub-11'")
    measures = pd.read_csv(lacking.with_name("measures.tsv"), sep="\t")
    table = write(tmp_path / "nobody", measures, people)
    settings = {"data": {"skip_unreadable": True}}
    with pytest.raises(DataError, match="none of 1 scans can be used"):
        neurocontrast.embed(run, participants=table, out=tmp_path / "e.parquet", config=settings)


def test_keys_of_measures_say_the_kind(tmp_path):
    for key, value in {"max_missing": 0.1, "atlas": "aparc", "head_size": "residual"}.items():
        assert load_config(None, [f"data.{key}={value}"]).data.kind == "measures"
    with pytest.raises(ConfigError, match="skip_unreadable"):
        load_config(None, ["data.kind=images", "data.skip_unreadable=true"])


def test_an_embedder_names_its_own_way_out_and_that_works(tables, run):
    _, lacking, _ = tables
    rows = pd.read_csv(lacking.with_name("measures.tsv"), sep="\t").head(6)
    with pytest.raises(DataError, match=r"row 3: lacks 2 of 32(?s:.)*max_missing=0\.07") as caught:
        ScanEmbedder(run, overlap="ignore").fit().transform(rows)
    assert "--s" not in str(caught.value)
    embedder = ScanEmbedder(run, overlap="ignore", max_missing=0.07).fit()
    assert embedder.transform(rows).shape == (6, embedder.n_features_out_)
    with pytest.raises(ConfigError, match="max_missing: must be a share"):
        ScanEmbedder(run, max_missing=2).fit()


@pytest.mark.slow
def test_explain_reads_the_people_that_were_embedded_and_leaves_out_by_skip(tables, run, tmp_path):
    _, lacking, _ = tables
    people = pd.read_csv(lacking, sep="\t")
    measures = pd.read_csv(lacking.with_name("measures.tsv"), sep="\t")
    table = write(tmp_path / "t", measures, people[people["participant_id"] != "sub-11"])
    out = tmp_path / "e.parquet"
    where = "embedding.where.participant_id.not=[sub-00]"
    assert embed(run, table, out, "--set", "data.max_missing=0.4", "--set", where) == 0
    evaluated = tmp_path / "evaluation"
    command = ["evaluate", str(out), "--target", "age", "--out", str(evaluated), "--allow-overlap"]
    assert command_line([*command, "--set", "evaluation.n_bootstraps=20"]) == 0
    origin = read_json(evaluated / "evaluation.json")["embeddings"]
    assert origin["max_missing"] == 0.4
    explain = ["explain", str(evaluated), "--run", str(run), "--participants", str(table)]
    assert command_line(explain) == 0
    of_all = read_json(evaluated / "explanation" / "explain.json")
    assert of_all["n_subjects"] == 38
    assert command_line([*explain, "--overwrite", "--set", "data.max_missing=0.02"]) == 2
    skipping = [*explain, "--overwrite", "--skip", "--set", "data.max_missing=0.02"]
    assert command_line(skipping) == 0
    assert read_json(evaluated / "explanation" / "explain.json")["n_subjects"] == 36
