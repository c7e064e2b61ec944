"""Pretraining with two encoders, of scans and of regional measures of the same scans."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from small_run import PEOPLE, TABLES, Interrupting, Listening, metrics, read_json

import neurocontrast as nc
from neurocontrast import losses
from neurocontrast.config import load_config
from neurocontrast.data import read_measures
from neurocontrast.data.sources import source_of
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.encoders import build_model, load_encoder
from neurocontrast.exceptions import ConfigError, DataError, TrainingInterrupted
from neurocontrast.runs.run import Run
from neurocontrast.seeds import derive_seed
from neurocontrast.training.checkpoints import load_checkpoint
from neurocontrast.training.sampling import Sampler
from neurocontrast.transforms import MeasureAugmentSettings, RandMeasureViewd, TwoViews, brain_views


@pytest.fixture(scope="module")
def measures(cohort):
    """A table of measures of the simulated people, in another order than theirs: those of real ones."""
    people = pd.read_csv(cohort, sep="\t", dtype=str)["participant_id"]
    real = read_measures(PEOPLE, TABLES).measures.values
    chosen = real.iloc[: len(people), 100:].round(3).set_axis(people, axis="index")
    chosen.sample(frac=1.0, random_state=0).to_csv(cohort.parent / "measures.tsv", sep="\t")
    return cohort.parent / "measures.tsv"


@pytest.fixture(scope="module")
def settings(settings, measures):
    """``settings(*overrides)``: the configuration of a small run of two encoders."""
    two = (
        "encoder_2={widths: [16, 8], projection: [4]}",
        "objective={loss: infonce, temperature: 0.5}",
        "training={epochs: 2, batch_size: 5, learning_rate: 1e-3, accelerator: cpu, probe_every: 0}",
    )
    return lambda *overrides: settings(*two, *overrides)


@pytest.fixture(scope="module")
def pair(settings, tmp_path_factory):
    """The uninterrupted run."""
    return nc.pretrain(settings(), out=tmp_path_factory.mktemp("pair") / "run")


def both(run):
    return [(run / half / "encoder.safetensors").read_bytes() for half in (".", "encoder_2")]


def test_it_trains_as_a_loop_of_your_own(settings, measures, tmp_path):
    chosen = settings(
        "data.val_fraction=0",
        "training.optimizer=sgd",
        "training.momentum=0",
        "training.weight_decay=0",
    )
    nc.pretrain(chosen, out=tmp_path / "run")
    source = source_of(chosen.data, second=chosen.second)
    cohort = Run(chosen, tmp_path, source).read_cohort()
    source = source.prepared(cohort, range(len(cohort)))
    scans = torch.stack(
        [source.halves[0].images(cohort)[row]["image"].float() for row in range(len(cohort))]
    )
    # Of the table of measures, by name alone.
    table = pd.read_csv(measures, sep="\t", index_col=0).loc[cohort.table["participant_id"]]
    contract = source.second.known
    rows = torch.from_numpy(contract.apply(table, cohort.names(), source=""))[..., None]
    f = build_model(chosen.encoder, seed=0)
    g = build_model(chosen.encoder_2, n_channels=rows.shape[1], seed=derive_seed("encoder_2", 0))
    optimizer = torch.optim.SGD([*f.parameters(), *g.parameters()], lr=1e-3)
    loss = losses.InfoNCE(temperature=0.5)
    view_scans = TwoViews(brain_views(chosen.augment), seed=chosen.seed)
    augment = RandMeasureViewd("image", MeasureAugmentSettings(), learned=source.second.learned)
    view_rows = TwoViews(augment, seed=chosen.seed)
    for epoch in range(2):
        for batch in Sampler(range(len(cohort)), 5, 0).batches(epoch):
            names = [cohort.names()[row] for row in batch]
            z1 = f(view_scans.view(scans[batch], names, epoch=epoch, view=0))
            z2 = g(view_rows.view(rows[batch], names, epoch=epoch, view=1))
            optimizer.zero_grad()
            loss(z1, z2).backward()
            optimizer.step()
    for half, model in ((".", f), ("encoder_2", g)):
        trained = dict(load_encoder(tmp_path / "run" / half)[0].named_parameters())
        for name, weight in model.encoder.named_parameters():
            torch.testing.assert_close(trained[name], weight, rtol=1e-4, atol=1e-6)


def test_pairs_are_by_person_and_not_by_order(pair, settings, measures, cohort, tmp_path):
    table = pd.read_csv(measures, sep="\t", dtype=str)
    reordered = table[::-1]
    exchanged = table.assign(participant_id=np.roll(table["participant_id"], 1))
    for name, rows in (("reordered", reordered), ("exchanged", exchanged)):
        rows.to_csv(tmp_path / f"{name}.tsv", sep="\t", index=False)
        nc.pretrain(settings(f"data_2.measures={tmp_path / name}.tsv"), out=tmp_path / name)
    assert both(tmp_path / "reordered") == both(pair)
    assert all(
        now != before for now, before in zip(both(tmp_path / "exchanged"), both(pair), strict=True)
    )


@pytest.mark.parametrize(
    "changes", [(), ("training.micro_batch_size=2", "training.checkpoint_minutes=1e-9")]
)
def test_a_stopped_run_continues_to_the_same_numbers(settings, tmp_path, changes):
    for name in ("whole", "stopped"):
        listening = Interrupting("epoch 1/2") if name == "stopped" else Listening()
        try:
            nc.pretrain(settings(*changes), out=tmp_path / name, progress=listening)
        except TrainingInterrupted:
            nc.pretrain(None, out=tmp_path / name, resume=True)
    assert listening.line == "never again"
    assert both(tmp_path / "whole") == both(tmp_path / "stopped")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "stopped")


def test_another_loss_and_probes_of_either_encoder(settings, tmp_path):
    objective = json.dumps(
        {"loss": "yaware", "kernel": [{"type": "gaussian", "column": "age", "sigma": 5.0}]}
    )
    chosen = settings(f"objective={objective}", "training.probe_every=1", "training.epochs=1")
    row = metrics(nc.pretrain(chosen, out=tmp_path / "run"))[0]
    assert row["val_loss"]
    assert {row["probe_age_r2"], row["val_features_effective_rank"]}.isdisjoint(
        {row["probe_2_age_r2"], row["val_features_2_effective_rank"]}
    )


def test_either_half_embeds_to_the_numbers_of_training(pair, settings, cohort, measures, tmp_path):
    chosen = settings()
    source = source_of(chosen.data, second=chosen.second)
    parts = Run(chosen, tmp_path, source).components()
    trained = load_checkpoint(pair / "checkpoints/epoch-0002.pt").state["model"]
    tables = {
        ".": {"cache_dir": str(chosen.data.cache_dir)},
        "encoder_2": {"measures": str(measures)},
    }
    for number, (half, data) in enumerate(tables.items()):
        encoder, contract = load_encoder(pair / half)
        of_training = f"encoder.encoders.{number}."
        for name, weight in encoder.named_parameters():
            assert torch.equal(weight, trained[of_training + name])
        images = (parts.data.images.first, parts.data.images.second)[number]
        with torch.no_grad():
            expected = encoder(
                torch.stack([images[row]["image"].float() for row in range(len(images))])
            )
        out = nc.embed(
            pair / half,
            participants=cohort,
            out=tmp_path / f"{number}.parquet",
            config={"data": data},
        )
        embedded = read_embeddings(out)
        np.testing.assert_allclose(embedded.features, expected.numpy(), rtol=1e-4, atol=1e-5)
        assert embedded.info.pretraining_subjects
        assert contract.content()["trained_with"] == ("mlp", "lenet")[number]
    features = ScanEmbedder(pair / "encoder_2").fit().transform(pd.read_csv(measures, sep="\t"))
    order = pd.read_csv(measures, sep="\t")["participant_id"]
    people = read_embeddings(tmp_path / "1.parquet").table["participant_id"].tolist()
    np.testing.assert_allclose(
        features[[order.tolist().index(name) for name in people]], embedded.features, atol=1e-5
    )


def test_who_has_no_measures_is_refused_or_left_out(settings, measures, tmp_path):
    table = pd.read_csv(measures, sep="\t", dtype=str)
    lacking = table["participant_id"].iloc[[2, 5]].tolist()
    table.drop([2, 5]).to_csv(tmp_path / "fewer.tsv", sep="\t", index=False)
    fewer = f"data_2.measures={tmp_path / 'fewer.tsv'}"
    with pytest.raises(DataError, match="no table of measures has a row") as refused:
        nc.pretrain(settings(fewer), out=tmp_path / "run")
    assert all(name in str(refused.value) for name in lacking)
    assert "data.skip_unreadable=true" in str(refused.value)
    listening = Listening()
    nc.pretrain(
        settings(fewer, "data.skip_unreadable=true"), out=tmp_path / "run", progress=listening
    )
    warning = next(line for line in listening.said if "left out" in line)
    assert "2 of 14 scans" in warning
    assert all(name in warning for name in lacking)
    assert read_json(tmp_path / "run/provenance.json")["cohort"]["n_scans"] == 12


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            ["encoder_2.projection=[8]"],
            r"encoder\.projection \[8, 4\] and encoder_2\.projection \[8\] must end in the",
        ),
        (["encoder_2={name: lenet}"], r"encoder_2\.name must be mlp, found 'lenet'"),
        (
            ["encoder={name: pca}", "objective.loss=infonce"],
            r"encoder\.name: 'pca' has no loss to share",
        ),
        (
            ["data={kind: images, participants: p.tsv}", "encoder.name=resnet18"],
            r"next to scans .* found 'images'",
        ),
        (["data_2.participants=p.tsv"], r"data_2\.participants"),
        (["data_2.measures=nowhere.tsv"], r"nowhere\.tsv"),
        (["data_2.head_size=residual"], r"data_2\.head_size: 'residual' needs the measure"),
        (
            ["objective={loss: supervised, column: age}"],
            "this one predicts, and two encoders need one that contrasts",
        ),
    ],
)
def test_bad_input_is_one_message(settings, tmp_path, changes, told):
    with pytest.raises((ConfigError, DataError), match=told):
        nc.pretrain(settings(*changes), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_settings_of_a_second_encoder_need_one():
    with pytest.raises(ConfigError, match=r"data_2 is for a second encoder\. Add encoder_2"):
        load_config(None, ["data_2.measures=m.tsv"])


def test_the_scans_may_start_from_weights(pair, settings, tmp_path):
    chosen = settings(f"training.init={pair}", "training.epochs=0")
    nc.pretrain(chosen, out=tmp_path / "run")
    before, now = (
        dict(load_encoder(run)[0].named_parameters()) for run in (pair, tmp_path / "run")
    )
    assert all(torch.equal(now[name], before[name]) for name in before)
    assert both(tmp_path / "run")[1] != both(pair)[1]
