"""Where the figures of each epoch go."""

import pytest
from lightning_fabric.loggers import Logger
from tiny import after, rows_of, run


class Own(Logger):
    """A logger of a user's, with Fabric's interface."""

    name, version = "own", 0

    def __init__(self):
        self.calls = []

    def log_hyperparams(self, params):
        self.calls.append(params)

    def log_metrics(self, metrics, step):
        self.calls.append((step, metrics))

    def finalize(self, status):
        self.calls.append(status)


def stop():
    raise KeyboardInterrupt


def test_a_run_logs_its_epochs_to_the_user_s_loggers_and_a_continued_one_those_of_its_own(tmp_path):
    own, again = Own(), Own()
    _, result = run(tmp_path, own=[own], epochs=2)
    assert [step for step, _ in own.calls[1:-1]] == [1, 2]
    assert own.calls[1][1]["train_loss"] == result.metrics[0]["train_loss"]
    assert (own.calls[0], own.calls[-1]) == ({}, "success")
    (tmp_path / "checkpoints/epoch-0002.pt").unlink()
    before = rows_of(tmp_path)
    run(tmp_path, own=[again], epochs=2, resume=True)
    assert [step for step, _ in again.calls[1:-1]] == [2]
    assert rows_of(tmp_path) == before


def test_a_logger_of_the_user_s_is_told_of_an_interruption(tmp_path):
    own = Own()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, made_views=after(2, stop), own=[own])
    assert own.calls == [{}, "failed"]
