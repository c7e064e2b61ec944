import shutil

import pytest
import torch
from small_run import Interrupting, Listening, read_json, weights, with_maps

import neurocontrast
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder, load_model
from neurocontrast.exceptions import CheckpointError, ConfigError, TrainingInterrupted
from neurocontrast.files import digest_of_file


def test_a_run_starts_from_the_weights_of_another_and_says_so(whole, settings, others, tmp_path):
    config = settings(f"data.participants={others}", "training.epochs=0", f"training.init={whole}")
    said = Listening()
    out = neurocontrast.pretrain(config, out=tmp_path / "run", progress=said)
    before = load_model(whole)[0]
    after = load_model(out)[0]
    assert all(map(torch.equal, before.parameters(), after.parameters()))
    assert f"starting from {whole.name}: all weights; projection head taken over" in said.said
    start = read_json(out / "encoder.json")["init"]
    assert start == read_json(out / "provenance.json")["init"]
    assert (start["sha256"], start["subjects_known"]) == (
        digest_of_file(whole / "encoder.safetensors"),
        True,
    )


def test_who_was_in_the_pretraining_before_stays_known(whole, settings, others, cohort, tmp_path):
    config = settings(f"data.participants={others}", f"training.init={whole}")
    out = neurocontrast.pretrain(config, out=tmp_path / "run")
    seen = set(read_json(out / "provenance.json")["pretraining_subjects"])
    assert set(read_json(whole / "provenance.json")["pretraining_subjects"]) < seen
    embedded = neurocontrast.embed(
        out, participants=cohort, out=tmp_path / "e.parquet", config=settings()
    )
    assert set(read_embeddings(embedded).info.pretraining_subjects) == seen


def test_who_was_in_the_pretraining_is_not_known_of_what_began_unknown(
    whole, settings, others, tmp_path
):
    config = (f"data.participants={others}", "training.epochs=0")
    alone = shutil.copytree(
        whole, tmp_path / "alone", ignore=shutil.ignore_patterns("provenance.json")
    )
    first = neurocontrast.pretrain(
        settings(*config, f"training.init={alone}"), out=tmp_path / "first"
    )
    said = Listening()
    neurocontrast.pretrain(
        settings(*config, f"training.init={first}"), out=tmp_path / "second", progress=said
    )
    assert not read_json(tmp_path / "second/encoder.json")["init"]["subjects_known"]
    table = settings().data.participants
    neurocontrast.embed(
        first, participants=table, out=tmp_path / "e.parquet", config=settings(), progress=said
    )
    assert any(
        "started from weights that do not say who was in their pretraining" in text
        for text in said.said
    )


def test_another_head_begins_anew_and_another_preparation_is_told(whole, settings, tmp_path):
    said = Listening()
    other = ("encoder.projection=[8,3]", "data.normalise=zscore-brain", "training.epochs=0")
    out = neurocontrast.pretrain(
        settings(*other, f"training.init={whole}"), out=tmp_path / "run", progress=said
    )
    assert all(
        map(torch.equal, load_encoder(whole)[0].parameters(), load_encoder(out)[0].parameters())
    )
    assert f"starting from {whole.name}: all weights; projection head new" in said.said
    assert any(
        "prepared otherwise for these weights: normalise was zscore, is " in text
        for text in said.said
    )


def test_one_channel_becomes_several_and_several_one(whole, settings, cohort, tmp_path):
    table = with_maps(cohort)
    two = ["data.channels=[gm,wm]", "training.epochs=0"]
    config = settings(f"data.participants={table}", *two, f"training.init={whole}")
    out = neurocontrast.pretrain(config, out=tmp_path / "two")
    one = load_encoder(whole)[0]
    both = load_encoder(out)[0]
    volumes = torch.rand(3, 1, 16, 20, 16, generator=torch.Generator().manual_seed(0))
    # BatchNorm is measured anew on the maps, so weights are compared before it.
    first = [encoder.features.layers[0] for encoder in (one, both)]
    torch.testing.assert_close(first[1](volumes.repeat(1, 2, 1, 1, 1)), first[0](volumes))
    assert (
        read_json(out / "encoder.json")["init"]["encoder"]
        == "all weights, the first convolution adapted"
    )
    again = neurocontrast.pretrain(
        settings("training.epochs=0", f"training.init={out}"), out=tmp_path / "one"
    )
    torch.testing.assert_close(load_encoder(again)[0].features.layers[0].weight, first[0].weight)
    three = settings(
        f"data.participants={table}", "data.channels=[gm,wm,t1]", f"training.init={out}"
    )
    with pytest.raises(
        CheckpointError, match="channels: 2 there, 3 here, and nothing says which of them is which"
    ):
        neurocontrast.pretrain(three, out=tmp_path / "three")
    assert not (tmp_path / "three").exists()


def test_a_run_that_was_stopped_continues_without_the_weights_it_started_from(
    whole, settings, tmp_path
):
    source = shutil.copytree(whole, tmp_path / "source")
    config = settings(f"training.init={source}")
    straight = neurocontrast.pretrain(config, out=tmp_path / "straight")
    assert weights(straight) != weights(whole)
    out = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        neurocontrast.pretrain(config, out=out, progress=Interrupting("epoch 1/"))
    shutil.rmtree(source)
    neurocontrast.pretrain(out=out, resume=True)
    assert weights(out) == weights(straight)
    # Killed before its first checkpoint, it begins at the weights that it keeps.
    for name in ("encoder.json", "metrics.csv"):
        (out / name).unlink()
    shutil.rmtree(out / "checkpoints")
    neurocontrast.pretrain(config, out=out, resume=True)
    assert weights(out) == weights(straight)


def test_a_run_does_not_continue_from_other_weights(whole, settings, tmp_path):
    out = neurocontrast.pretrain(settings(f"training.init={whole}"), out=tmp_path / "run")
    for init in ("null", out):
        with pytest.raises(
            CheckpointError,
            match=r"training\.init: was .*whole, is .*, and these are other weights",
        ):
            neurocontrast.pretrain(
                settings(f"training.init={init}", "training.epochs=3"), out=out, resume=True
            )
    with pytest.raises(CheckpointError, match=r"training\.init: was None, is "):
        neurocontrast.pretrain(settings(f"training.init={out}"), out=whole, resume=True)


def test_all_that_differs_is_named_and_nothing_is_written(whole, settings, tmp_path):
    other = ("encoder.norm=group", "encoder.name=densenet_small", "data.shape=[32,32,32]")
    with pytest.raises(CheckpointError) as caught:
        neurocontrast.pretrain(settings(*other, f"training.init={whole}"), out=tmp_path / "run")
    assert "encoder.name: is lenet there, densenet_small here" in str(caught.value)
    assert "encoder.norm: is batch there, group here" in str(caught.value)
    torch.save({"a": 1}, tmp_path / "w.pt")
    for name, said in (
        ("none", r"none' is no run"),
        ("w.pt", "is no run.*`neurocontrast weights import`"),
    ):
        with pytest.raises(CheckpointError, match=said):
            neurocontrast.pretrain(
                settings(f"training.init={tmp_path / name}"), out=tmp_path / "run"
            )
    assert not (tmp_path / "run").exists()


def test_a_linear_encoder_starts_from_nothing(whole, settings):
    with pytest.raises(ConfigError, match=r"training\.init: encoder 'pca' is fitted in one pass"):
        settings("encoder={name: pca, n_components: 3}", f"training.init={whole}")
