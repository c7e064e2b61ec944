"""The process around a call: encodings of output, PyTorch's switches, aliases in YAML, and names in NFD."""

import io
import json
import os
import sys
import unicodedata
from contextlib import contextmanager

import nibabel as nib
import numpy as np
import pytest
import torch

import neurocontrast
from neurocontrast.cli.app import run
from neurocontrast.config import load_config
from neurocontrast.data import read_cohort
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.encoders.weights import digest_of_weights
from neurocontrast.exceptions import ConfigError


@contextmanager
def output(monkeypatch, encoding):
    """Replace standard output and errors by streams of an encoding."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    yield streams
    monkeypatch.undo()


def texts_of(streams):
    """Return the decoded content of streams."""
    for stream in streams:
        stream.flush()
    return [stream.buffer.getvalue().decode(stream.encoding) for stream in streams]


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
@pytest.mark.parametrize(
    ("command", "code"),
    [(["config", "list"], 0), (["config", "show", "yaware"], 0), (["evaluate", "Æ→.parquet"], 2)],
)
def test_output_of_any_encoding_is_printed(monkeypatch, encoding, command, code):
    with output(monkeypatch, encoding) as streams:
        found = run(command)
        texts = texts_of(streams)
    assert found == code
    assert "defect" not in texts[1]
    assert any(texts)


def test_json_keeps_every_character_in_ascii(monkeypatch):
    with output(monkeypatch, "ascii") as streams:
        assert run(["config", "list", "--json"]) == 0
        printed = json.loads(texts_of(streams)[0])
    assert "…" in printed["recipes"]["yaware_age_sex_reference"]


def nested(n_levels, form="[{}]", first="x"):
    """Return YAML whose every line repeats the one above nine times."""
    lines = [f"a0: &a0 {form.format(','.join([first] * 9))}"]
    for level in range(1, n_levels):
        lines.append(f"a{level}: &a{level} {form.format(','.join([f'*a{level - 1}'] * 9))}")
    return "\n".join(lines)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [nested(10), nested(10, "{{<<: [{}]}}", "{y: 1}"), "a: &a {b: *a}"],
    ids=["lists", "merged", "itself"],
)
def test_aliases_that_stand_for_billions_are_refused_at_every_door(tmp_path, text):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"x\.yaml: .*more than 100,000 values"):
        load_config(tmp_path / "x.yaml")
    value = "{" + text.replace("\n", ", ") + "}"
    with pytest.raises(ConfigError, match=r"--set data=.*more than 100,000 values"):
        load_config(None, [f"data={value}"])
    few = "training: &a {epochs: 2}\nfinetune: *a"
    (tmp_path / "few.yaml").write_text(few)
    assert load_config(tmp_path / "few.yaml").finetune.epochs == 2


@pytest.mark.timeout(60)
def test_a_mapping_is_a_configuration_and_has_the_same_limit():
    config = load_config({"training": {"epochs": 3}}, ["training.batch_size=4"])
    assert (config.training.epochs, config.training.batch_size) == (3, 4)
    assert load_config(config).training.epochs == 3
    assert load_config(config, ["training.epochs=5"]).training.epochs == 5
    with pytest.raises(ConfigError, match=r"configuration: training\.epoch.*epochs"):
        load_config({"training": {"epoch": 3}})
    with pytest.raises(ConfigError, match=r"config: must be a path.*got list"):
        load_config([1])
    shared = ["x"] * 9
    for _ in range(9):
        shared = [shared] * 9
    for load in (load_config, neurocontrast.doctor):
        with pytest.raises(ConfigError, match="configuration: more than 100,000 values"):
            load({"data": {"transforms": shared}})


@pytest.mark.parametrize("forms", [("NFD", "NFC"), ("NFC", "NFD")])
def test_files_on_the_command_line_are_found_in_either_form(forms, cohort, tmp_path, capsys):
    on_disk, typed = (tmp_path / unicodedata.normalize(form, "étude") for form in forms)
    on_disk.mkdir()
    out = typed / "ü" / "participants.tsv"
    assert run(["simulate", str(out.parent), "--n-subjects", "8", "--spacing-mm", "10"]) == 0
    assert (on_disk / "ü" / "participants.tsv").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [on_disk.name]
    assert run(["check", str(out), "--set", "data.shape=[12,14,12]", "--json"]) in (0, 2)
    assert "no such file" not in capsys.readouterr().err


@contextmanager
def other_default(dtype):
    """Set another default dtype, as a user's program does."""
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


STATES = {
    "float64": lambda: other_default(torch.float64),
    "float16": lambda: other_default(torch.float16),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "meta device": lambda: torch.device("meta"),
}


def switches():
    """Return PyTorch's switches."""
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_default_device(),
    )


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Return a table of simulated scans."""
    folder = tmp_path_factory.mktemp("cohort")
    return neurocontrast.simulate(folder / "s", n_subjects=10, n_sites=2, spacing_mm=10.0, seed=5)


def journey(cohort, folder, cache):
    """Pretrain and embed, and return the digest of the weights with the features."""
    data = {"participants": str(cohort), "cache_dir": str(cache), "n_workers": 1}
    config = {
        "data": {**data, "spacing_mm": 14.0, "shape": [12, 14, 12], "val_fraction": 0.2},
        "encoder": {"name": "lenet", "projection": [8, 4]},
        "training": {"epochs": 1, "batch_size": 4, "accelerator": "cpu"},
    }
    trained = neurocontrast.pretrain(config, out=folder / "run")
    config = {"data": {"cache_dir": str(cache), "n_workers": 1}}
    config["embedding"] = {"accelerator": "cpu"}
    table = neurocontrast.embed(
        trained, participants=cohort, out=folder / "e.parquet", config=config
    )
    read = read_embeddings(table)
    scans = read.table["path"].tolist()[:2]
    scanned = ScanEmbedder(trained, cache_dir=cache).fit().transform(scans)
    return digest_of_weights(trained), read.features, scanned


@pytest.fixture(scope="module")
def expected(cohort, tmp_path_factory):
    """Return the numbers of a process without other switches."""
    folder = tmp_path_factory.mktemp("expected")
    return journey(cohort, folder, folder / "cache")


@pytest.mark.parametrize("state", STATES)
def test_switches_of_pytorch_change_no_number_and_stay(state, cohort, expected, tmp_path):
    digest, features, scanned = expected
    seed = torch.random.get_rng_state()
    with STATES[state]():
        before = switches()
        found = journey(cohort, tmp_path, tmp_path / "cache")
        assert switches() == before
    assert found[0] == digest
    np.testing.assert_array_equal(found[1], features)
    np.testing.assert_array_equal(found[2], scanned)
    assert torch.equal(torch.random.get_rng_state(), seed)


FORMS = [("NFC", "NFD"), ("NFD", "NFC")]


@pytest.mark.parametrize(("on_disk", "in_table"), FORMS)
def test_files_are_found_in_any_form_of_unicode(tmp_path, on_disk, in_table):
    spell = unicodedata.normalize
    folder = tmp_path / spell(on_disk, "Köln") / "ä"
    folder.mkdir(parents=True)
    rows = ["participant_id\tpath\tsite\tage"]
    for number in range(4):
        name = f"müller{number}.npy"
        np.save(folder / spell(on_disk, name), np.random.default_rng(number).random((9, 9, 9)))
        form = (in_table, on_disk)[number % 2]
        site = spell(form, "Zürich")
        rows.append(f"{spell(in_table, f'ü{number}')}\t{spell(form, f'Köln/ä/{name}')}\t{site}\t3")
    table = tmp_path / "p.tsv"
    table.write_text("\n".join(rows))
    cohort = read_cohort(table)
    assert all(map(os.path.isfile, cohort.table["path"]))
    assert cohort.table["site"].nunique() == 1
    assert len(cohort.select({"site": spell("NFD", "Zürich")})) == 4
    assert cohort.table["participant_id"][0] == "ü0"
    assert neurocontrast.check(table, deep=False).passed


@pytest.mark.parametrize(("on_disk", "in_table"), FORMS)
def test_index_joins_people_in_any_form_of_unicode(tmp_path, on_disk, in_table):
    spell = unicodedata.normalize
    for number in range(3):
        folder = tmp_path / "bids" / spell(on_disk, f"sub-é{number}") / "anat"
        folder.mkdir(parents=True)
        for protocol in ("schnell", "gründlich"):
            name = spell(on_disk, f"sub-é{number}_acq-{protocol}_T1w.nii.gz")
            nib.save(
                nib.Nifti1Image(np.ones((5, 5, 5), dtype=np.float32), np.eye(4)), folder / name
            )
    rows = ["participant_id\tage", *(f"sub-é{number}\t{30 + number}" for number in range(3))]
    (tmp_path / "bids" / "participants.tsv").write_text(spell(in_table, "\n".join(rows)))
    choice = spell(in_table, "acq=gründlich")
    index = neurocontrast.index(tmp_path / "bids", out=tmp_path / "p.tsv", choose=[choice])
    assert index.table["age"].tolist() == ["30", "31", "32"]
    cohort = read_cohort(tmp_path / "p.tsv")
    assert cohort.table["participant_id"].tolist() == [f"sub-é{number}" for number in range(3)]
