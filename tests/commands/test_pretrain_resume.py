import json
import shutil
import signal

import pandas as pd
import pytest
from small_run import Interrupting, Listening, metrics, read_json, weights

import neurocontrast
from neurocontrast import locks
from neurocontrast.cli import run
from neurocontrast.config import load_config
from neurocontrast.exceptions import CheckpointError, ConfigError, TrainingInterrupted
from neurocontrast.progress import SILENT
from neurocontrast.runs.folder import check_can_continue


@pytest.mark.parametrize(
    "lost", [["encoder.json"], ["encoder.json", "encoder.safetensors"], ["metrics.csv"]]
)
def test_killed_while_the_last_files_were_written(whole, settings, tmp_path, lost):
    shutil.copytree(whole, tmp_path / "run")
    for name in {*lost, "encoder.json"}:
        (tmp_path / "run" / name).unlink()
    (tmp_path / "run/checkpoints/.tmp-left-epoch-0002.pt").write_text("half")
    neurocontrast.pretrain(settings(), out=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(whole)
    assert metrics(tmp_path / "run") == metrics(whole)
    assert not list((tmp_path / "run").rglob(".tmp-*"))


def test_a_run_can_become_longer(whole, settings, tmp_path):
    out = tmp_path / "run"
    progress = Listening()
    shutil.copytree(whole, out)
    longer = settings("training.epochs=3")
    neurocontrast.pretrain(longer, out=out, resume=True, progress=progress)
    assert f"{out}: now 3 epochs, in place of 2." in progress.said
    neurocontrast.pretrain(longer, out=tmp_path / "straight")
    assert weights(out) == weights(tmp_path / "straight")
    assert metrics(out) == metrics(tmp_path / "straight")
    assert load_config(out / "config.yaml") == load_config(tmp_path / "straight/config.yaml")
    with pytest.raises(CheckpointError, match=r"training\.epochs: was 3, is 1, and 3 are done"):
        neurocontrast.pretrain(settings("training.epochs=1"), out=out, resume=True)


@pytest.mark.parametrize("revision", [None, 1, 2])
def test_a_run_that_goes_on_with_other_views_is_warned(whole, settings, tmp_path, revision):
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    provenance = read_json(out / "provenance.json")
    assert provenance.pop("views_revision") == 2
    if revision is not None:
        provenance["views_revision"] = revision
    (out / "provenance.json").write_text(json.dumps(provenance))
    progress = Listening()
    neurocontrast.pretrain(settings("training.epochs=3"), out=out, resume=True, progress=progress)
    version = provenance["environment"]["neurocontrast"]
    warned = [text for text in progress.warned if "other random numbers" in text]
    if revision == 2:
        assert not warned
    else:
        (warning,) = warned
        assert f"begun by neurocontrast {version} with views of revision 1" in warning


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            ["training.epochs=5", "training.schedule=cosine"],
            r"training\.epochs: was 2, is 5, and a cosine schedule",
        ),
        (
            ["training.devices=2", "training.sync_batchnorm=false"],
            r"num_nodes: was 1, is 2, and each",
        ),
        (
            ["training.devices=2", "training.micro_batch_size=2"],
            r"num_nodes: was 1, is 2, and each",
        ),
        (
            ["training.learning_rate=0.02"],
            r"^(?!.*n_workers: was).*training\.learning_rate: was 0\.01, is 0\.02",
        ),
        (
            ["data.val_fraction=0.2"],
            r"data\.val_fraction: was 0\.3, is 0\.2\n.*What may change: .*training\.devices",
        ),
    ],
)
def test_what_would_change_the_weights_is_refused(whole, settings, changes, told):
    with pytest.raises(CheckpointError, match=f"(?s){told}"):
        check_can_continue(whole, settings(*changes, "data.n_workers=2"), None)


def test_what_changes_no_weight_may_change(whole, settings):
    free = [
        "training.devices=2",
        "training.checkpoint_minutes=1",
        "training.accelerator=auto",
        "data.n_workers=3",
    ]
    check_can_continue(whole, settings(*free), None)


def test_a_run_in_use_is_refused(whole, settings, monkeypatch):
    monkeypatch.setattr(locks, "_PATIENCE", 0.1)
    with (
        locks.hold(whole, SILENT),
        pytest.raises(ConfigError, match="another process is training in"),
    ):
        neurocontrast.pretrain(settings("training.epochs=3"), out=whole, resume=True)
    assert load_config(whole / "config.yaml").training.epochs == 2


def test_sigterm_saves_and_resume_without_configuration_continues(whole, settings, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(TrainingInterrupted, match="stopped by SIGTERM after 1 of 2 epochs"):
        neurocontrast.pretrain(settings(), out=out, progress=Interrupting("epoch 1/"))
    neurocontrast.pretrain(out=out, resume=True)
    assert weights(out) == weights(whole)


def test_the_command_resumes_without_a_configuration_below_its_own_keys(settings, tmp_path):
    said = Listening()
    out = tmp_path / "run"
    shorter = settings(
        "training.epochs=1", "data.val_fraction=0", "training.probe_every=1", "data.where.sex=[F]"
    )
    neurocontrast.pretrain(shorter, out=out, progress=said)
    constant, unscored = said.warned
    assert "column 'sex' has one value or none in" in constant
    assert "no probe is fitted" in unscored
    assert run(["pretrain", "--out", str(out), "--resume", "--set", "training.epochs=2", "-q"]) == 0
    assert load_config(out / "config.yaml").training.epochs == 2


def test_resume_of_a_finished_run_says_so(whole, settings):
    before = weights(whole), (whole / "encoder.json").stat().st_mtime_ns
    progress = Listening()
    assert neurocontrast.pretrain(settings(), out=whole, resume=True, progress=progress) == whole
    assert progress.said == [f"{whole}: this run is finished; there is nothing to continue."]
    assert (weights(whole), (whole / "encoder.json").stat().st_mtime_ns) == before


def test_another_cohort_is_refused(settings, cohort, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        neurocontrast.pretrain(
            settings(), out=out, progress=Interrupting("epoch 1/", signal.SIGINT)
        )
    table = pd.read_csv(cohort, sep="\t", dtype=str, keep_default_na=False)
    table.loc[0, "age"] = "33.3"
    changed = cohort.parent / "changed.tsv"
    table.to_csv(changed, sep="\t", index=False)
    other = settings(f"data.participants={changed}")
    said = r"cohort: was participants\.tsv \(14 scans, .*is changed\.tsv \(14 scans"
    with pytest.raises(CheckpointError, match=said):
        neurocontrast.pretrain(other, out=out, resume=True)
    copied = shutil.copytree(cohort.parent, tmp_path / "copied")
    shutil.copy(*sorted((copied / "images").rglob("*.nii.gz"))[:2])
    with pytest.raises(CheckpointError, match=r"the files of the samples hold .* bytes, and held"):
        neurocontrast.pretrain(
            settings(f"data.participants={copied / cohort.name}"), out=out, resume=True
        )


def test_resume_where_nothing_began_begins(whole, settings, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.tmp-x-config.yaml").write_text("half")
    neurocontrast.pretrain(settings(), out=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(whole)
