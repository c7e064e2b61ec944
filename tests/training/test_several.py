"""Several processes are one: the same curve and weights, the same stops, and no process that waits for another."""

import signal

import pytest
import torch
from safetensors.torch import load_file
from several import finish, run_in, start
from tiny import assert_same, rows_of, weights

from neurocontrast.parallel.collectives import Processes, of_all_processes, on_this_process_only

RATE = {"learning_rate": 1e-3}  # what rounding does to a steep loss grows with it


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return run_in(1, tmp_path_factory.mktemp("one"), probe_every=2, **RATE)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return run_in(2, tmp_path_factory.mktemp("two"), probe_every=2, **RATE)


def assert_same_run(folder, other):
    ours = rows_of(folder)
    theirs = rows_of(other)
    assert [row.keys() for row in ours] == [row.keys() for row in theirs]
    for row, expected in zip(ours, theirs, strict=True):
        for name in row:
            tolerance = 1e-5 if "loss" in name else 1e-3
            found, wanted = (float(each[name] or 0) for each in (row, expected))
            assert found == pytest.approx(wanted, rel=tolerance, abs=tolerance), name
    tensors = load_file(other / "encoder.safetensors")
    for name, tensor in load_file(folder / "encoder.safetensors").items():
        torch.testing.assert_close(tensor, tensors[name], rtol=1e-3, atol=5e-5)


def test_two_processes_with_uneven_shares_are_one(one, two):
    assert_same_run(two, one)  # batches of 4, 3 and 3 scans


GROUP = {"name": "lenet", "norm": "group", "projection": [8, 4]}
DENSENET = GROUP | {"name": "densenet121"}
FIVE_SCANS = {"training_rows": [0, 1, 2, 3, 4], "validation_rows": []}
SMALL_RESNET = {"name": "resnet_small", "projection": [16, 8], "projection_norm": "layers"}
# Adam turns a gradient that is zero but for rounding into a whole step, of any sign.
DESCENT = {"optimizer": "sgd", "learning_rate": 1e-3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_processes", "changes"),
    [
        (3, {"data": {"validation_rows": [10, 11]}}),  # fewer validation scans than processes
        # Each micro-batch adds its rounding; faster, the gradients of the third epoch part by a
        # thousandth.
        (2, {"micro_batch_size": 1, "encoder": GROUP, **DESCENT, "learning_rate": 3e-4}),
        (2, {"clip_norm": 0.1, "data": {"validation_rows": []}, **DESCENT}),
        # The gradient of few scans holds rounding of 5e-5, all from the encoder.
        (
            2,
            {
                "encoder": DENSENET,
                "side": 32,
                "epochs": 2,
                **DESCENT,
                "learning_rate": 1e-6,
                "data": FIVE_SCANS,
            },
        ),
        # Its steep loss makes rounding a hundred times larger in the gradient; faster, the two runs
        # part from there.
        (2, {"encoder": SMALL_RESNET, "optimizer": "sgd", "learning_rate": 1e-6}),
    ],
    ids=["three", "micro-batches", "averaged", "densenet", "images"],
)
def test_other_configurations_are_one_too(tmp_path, n_processes, changes):
    changes = {**RATE, "probe_every": 2, **changes}
    for name, n in (("one", 1), ("several", n_processes)):
        run_in(n, tmp_path / name, **changes)
    assert_same_run(tmp_path / "several", tmp_path / "one")


@pytest.mark.slow
def test_without_synchronisation_every_process_has_statistics_of_its_own(one, tmp_path):
    apart = run_in(2, tmp_path, probe_every=2, sync_batchnorm=False, **RATE)
    losses = [[float(row["train_loss"]) for row in rows_of(folder)] for folder in (apart, one)]
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


@pytest.mark.slow
def test_signal_to_one_process_stops_all_at_the_same_batch_and_resumes_to_the_same_bytes(
    two, tmp_path
):
    ended = finish(
        start(
            tmp_path,
            2,
            probe_every=2,
            act={"rank": "1", "call": 2, "signal": signal.SIGUSR1},
            **RATE,
        )
    )
    assert [code for code, _ in ended] == [75, 75]
    for _, said in ended:
        assert "stopped by SIGUSR1 after 0 of 3 epochs and 2 batches" in said
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [
        "epoch-0000-batch-000002.pt"
    ]
    ended = finish(start(tmp_path, 2, resume=True, probe_every=2, **RATE))
    assert [code for code, _ in ended] == [0, 0], ended
    assert_same(tmp_path, two)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"micro_batch_size": 1, "encoder": GROUP}], ids=["whole", "micro-batches"]
)
def test_three_processes_resume_to_the_same_bytes(tmp_path, changes):
    """The sum of three processes' gradients depends on where in a bucket a weight lies."""
    changes = {**RATE, **changes, "batch_size": 8, "data": {"validation_rows": []}}
    whole = run_in(3, tmp_path / "whole", **changes)
    act = {"rank": "1", "call": 5 if "encoder" in changes else 2, "signal": signal.SIGUSR1}
    assert [code for code, _ in finish(start(tmp_path / "cut", 3, act=act, **changes))] == [75] * 3
    assert list((tmp_path / "cut/checkpoints").iterdir())
    assert [code for code, _ in finish(start(tmp_path / "cut", 3, resume=True, **changes))] == [
        0
    ] * 3
    assert weights(tmp_path / "cut") == weights(whole)


@pytest.mark.slow
def test_what_is_not_finite_in_one_process_stops_all_with_its_scans(tmp_path):
    ended = finish(start(tmp_path, 2, act={"rank": "1", "call": 2, "do": "nan"}, **RATE))
    assert [code for code, _ in ended] == [1, 1]
    for _, said in ended:
        assert "TrainingError: the loss is nan in epoch 1, batch 2" in said
        assert said.count("sub-") >= 3
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.slow
def test_a_process_that_fails_leaves_none_waiting(tmp_path):
    ended = finish(
        start(tmp_path, 2, act={"rank": "1", "call": 2, "do": "fail"}, **RATE), timeout=60
    )
    assert all(code for code, _ in ended)


def test_shares_are_contiguous_nearly_equal_and_of_every_row():
    for n_rows in range(3, 12):
        shares = [Processes(rank, 3).share(range(n_rows)) for rank in range(3)]
        assert [row for share in shares for row in share] == list(range(n_rows))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_one_process_talks_to_nobody():
    alone = Processes()
    samples = torch.arange(3)
    assert (alone.largest(7), alone.from_first({"a": [1]})) == (7, {"a": [1]})
    with alone.divided([[3, 1], [2]]) as shares:
        assert shares == [[3, 1], [2]]
    with on_this_process_only():
        assert of_all_processes(samples) is samples


def test_a_batch_too_small_to_divide_is_measured_whole_by_everybody():
    with Processes(1, 3).divided([[5, 6, 7, 8], [1, 2]]) as shares:
        assert shares == [[5, 6, 7, 8], [1, 2]]
    with Processes(1, 3).divided([[5, 6, 7, 8], [1, 2, 3]]) as shares:
        assert shares == [[6], [2]]
