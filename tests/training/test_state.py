import errno
import pickle
import zipfile

import pytest
import torch

from neurocontrast.exceptions import CheckpointError
from neurocontrast.training.checkpoints import (
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
)
from neurocontrast.training.session import Position


def test_position_and_tensors_survive(tmp_path):
    position = Position(epoch=2, batch=5, sums={"loss": 0.1 + 0.2}, seconds=1.5, metrics=[{"epoch": 1, "x": None}])
    path = save_checkpoint(tmp_path, position, {"model": {"w": torch.arange(3)}}, keep=1)
    assert path.name == "epoch-0002-batch-000005.pt"
    loaded, tensors = load_checkpoint(path)
    assert loaded == position
    assert torch.equal(tensors["model"]["w"], torch.arange(3))


def test_newest_is_the_one_that_has_come_furthest(tmp_path):
    assert newest_checkpoint(tmp_path / "absent") is None
    for position in (Position(epoch=9, batch=40), Position(epoch=10, batch=7), Position(epoch=10), Position(epoch=9)):
        save_checkpoint(tmp_path, position, {}, keep=9)
    (tmp_path / ".tmp-1-epoch-0011.pt").write_text("left by a kill")
    assert newest_checkpoint(tmp_path).name == "epoch-0010-batch-000007.pt"


def test_older_ones_are_removed(tmp_path):
    for epoch in range(1, 6):
        save_checkpoint(tmp_path, Position(epoch=epoch), {}, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-0004.pt", "epoch-0005.pt"]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "text"])
def test_damaged_checkpoint_is_refused_with_what_to_do(tmp_path, damage):
    path = save_checkpoint(tmp_path, Position(epoch=1), {"model": {"w": torch.arange(1000.0)}}, keep=1)
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[content.index(torch.arange(1000.0).numpy().tobytes()[:64]) + 40] ^= 1
    path.write_bytes({"truncate": content[:-200], "flip": content, "empty": b"", "text": b"hello"}[damage])
    with pytest.raises(
        CheckpointError, match=r"epoch-0001\.pt: the checkpoint is damaged.*Remove this file to continue"
    ):
        load_checkpoint(path)


def test_no_damage_of_its_table_of_contents_goes_unnoticed_or_stops_with_another_error(tmp_path):
    wanted = torch.arange(20.0)
    path = save_checkpoint(tmp_path, Position(epoch=1), {"w": wanted, "other": torch.zeros(3)}, keep=1)
    content = path.read_bytes()
    n_refused = 0
    for place in range(content.index(b"PK\x01\x02"), len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x90]) + content[place + 1 :])
        try:
            assert torch.equal(load_checkpoint(path)[1]["w"], wanted)
        except CheckpointError:
            n_refused += 1
    assert n_refused > 100


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "denied"), OSError(errno.ESTALE, "stale")])
def test_checkpoint_that_is_out_of_reach_is_not_called_damaged(tmp_path, monkeypatch, error):
    path = save_checkpoint(tmp_path, Position(epoch=1), {}, keep=1)

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

    torch.save({"format": 1, "position": {}, "model": Trap()}, tmp_path / "epoch-0001.pt", pickle_module=pickle)
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path / "epoch-0001.pt")
    assert not ran.exists()


def test_other_format_is_refused(tmp_path):
    torch.save({"format": 2}, tmp_path / "epoch-0001.pt")
    with pytest.raises(CheckpointError, match="format 2 is not known"):
        load_checkpoint(tmp_path / "epoch-0001.pt")
