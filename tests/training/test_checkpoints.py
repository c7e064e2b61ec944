"""What is saved, when, and what becomes of a run whose disk fails it."""

import errno
import os
import pickle
import resource
import zipfile

import pytest
import torch
from tiny import after, assert_same, run, views

from neurocontrast.exceptions import CheckpointError, TrainingSuspended
from neurocontrast.training.checkpoints import load_checkpoint, newest_checkpoint, save_checkpoint
from neurocontrast.training.position import Position
from neurocontrast.training.signals import suspending

AT_ONCE = 1e-9
"""Minutes: after every batch."""


def names(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def saved(folder, **tensors):
    return save_checkpoint(folder, Position(epoch=1), tensors, keep=1)


def test_within_an_epoch_checkpoints_change_no_bit(tmp_path):
    run(tmp_path / "whole")
    for n_batches in (1, 2, 4, 6):

        def vanish():
            raise KeyboardInterrupt  # as a kill: nothing is saved on the way out

        out = tmp_path / str(n_batches)
        with pytest.raises(KeyboardInterrupt):
            run(
                out,
                made_views=after(n_batches, vanish),
                checkpoint_minutes=AT_ONCE,
                keep_checkpoints=1,
            )
        run(out, resume=True)
        assert_same(out, tmp_path / "whole")


def test_checkpoints_fall_due_by_the_clock(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("neurocontrast.training.checkpoints.time.monotonic", lambda: now[0])

    def half_a_minute_later(volumes, names, *, epoch):
        now[0] += 30.0 if epoch >= 0 else 0.0
        return views(volumes, names, epoch=epoch)

    run(
        tmp_path,
        made_views=half_a_minute_later,
        checkpoint_minutes=1.0,
        epochs=2,
        keep_checkpoints=9,
    )
    saved = ("0000-batch-000002", "0001-batch-000002", "0001", "0002")
    assert names(tmp_path) == [f"epoch-{each}.pt" for each in saved]
    run(tmp_path / "never", checkpoint_minutes=0, epochs=1)
    assert names(tmp_path / "never") == ["epoch-0001.pt"]


def test_a_full_disk_ends_with_the_checkpoint_before_intact(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(OSError, match=r"epoch-0002\.pt"):
            run(
                tmp_path,
                made_views=after(
                    5, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, before[1]))
                ),
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == ["epoch-0001.pt"]
    run(tmp_path, resume=True)
    assert names(tmp_path) == ["epoch-0002.pt", "epoch-0003.pt"]


def test_sigusr1_before_training_asks_to_be_started_again():
    with pytest.raises(TrainingSuspended, match="--resume goes on") as caught, suspending():
        os.kill(os.getpid(), 10)
    assert caught.value.exit_code == 75


def test_position_and_tensors_survive(tmp_path):
    position = Position(
        epoch=2, batch=5, sums={"loss": 0.1 + 0.2}, seconds=1.5, metrics=[{"epoch": 1, "x": None}]
    )
    path = save_checkpoint(tmp_path, position, {"model": {"w": torch.arange(3)}}, keep=1)
    assert path.name == "epoch-0002-batch-000005.pt"
    loaded = load_checkpoint(path)
    assert loaded.position == position
    assert torch.equal(loaded.state["model"]["w"], torch.arange(3))


def test_newest_is_the_one_that_has_come_furthest(tmp_path):
    assert newest_checkpoint(tmp_path / "absent") is None
    for position in (
        Position(epoch=9, batch=40),
        Position(epoch=10, batch=7),
        Position(epoch=10),
        Position(epoch=9),
    ):
        save_checkpoint(tmp_path, position, {}, keep=9)
    (tmp_path / ".tmp-1-epoch-0011.pt").write_text("left by a kill")
    assert newest_checkpoint(tmp_path).name == "epoch-0010-batch-000007.pt"


def test_older_ones_are_removed(tmp_path):
    for epoch in range(1, 6):
        save_checkpoint(tmp_path, Position(epoch=epoch), {}, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-0004.pt", "epoch-0005.pt"]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "text"])
def test_damaged_checkpoint_is_refused_with_what_to_do(tmp_path, damage):
    path = saved(tmp_path, w=torch.arange(1000.0))
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[content.index(torch.arange(1000.0).numpy().tobytes()[:64]) + 40] ^= 1
    path.write_bytes(
        {"truncate": content[:-200], "flip": content, "empty": b"", "text": b"hello"}[damage]
    )
    said = r"epoch-0001\.pt: the checkpoint is damaged.*Remove this file to continue"
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(path)


def test_no_damage_of_its_table_of_contents_goes_unnoticed_or_stops_with_another_error(tmp_path):
    wanted = torch.arange(20.0)
    path = saved(tmp_path, w=wanted, other=torch.zeros(3))
    content = path.read_bytes()
    n_refused = 0
    for place in range(content.index(b"PK\x01\x02"), len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x90]) + content[place + 1 :])
        try:
            assert torch.equal(load_checkpoint(path).state["w"], wanted)
        except CheckpointError:
            n_refused += 1
    assert n_refused > 100


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, "denied"), OSError(errno.ESTALE, "stale")]
)
def test_checkpoint_that_is_out_of_reach_is_not_called_damaged(tmp_path, monkeypatch, error):
    path = saved(tmp_path)

    def unreachable(*args, **kwargs):
        raise error

    monkeypatch.setattr(zipfile, "ZipFile", unreachable)
    with pytest.raises(CheckpointError, match=r"cannot be read now .*continue with --resume"):
        load_checkpoint(path)


def test_no_code_of_a_checkpoint_is_run(tmp_path):
    ran = tmp_path / "ran"

    class Trap:
        def __reduce__(self):
            return (open, (str(ran), "w"))

    torch.save(
        {"format": 1, "position": {}, "model": Trap()},
        tmp_path / "epoch-0001.pt",
        pickle_module=pickle,
    )
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path / "epoch-0001.pt")
    assert not ran.exists()


def test_other_format_is_refused(tmp_path):
    torch.save({"format": 2}, tmp_path / "epoch-0001.pt")
    with pytest.raises(CheckpointError, match="format 2 is not known"):
        load_checkpoint(tmp_path / "epoch-0001.pt")
