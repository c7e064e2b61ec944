import re
import signal

import numpy as np
import pytest
import tiny
import torch
from monai.transforms import Compose, RandAffined, RandAxisFlipd
from tiny import (
    N_SCANS,
    Contrast,
    Images,
    after,
    assert_resumes,
    data,
    model,
    rows_of,
    run,
    views,
    weights,
)

from neurocontrast import losses
from neurocontrast.encoders import EncoderSettings, build_model, load_encoder
from neurocontrast.exceptions import ConfigError, DataError, TrainingError
from neurocontrast.training.validation import _score
from neurocontrast.transforms import RandBrainRiciand, RandMaskEdged, RandNoised, TwoViews


def test_training_lowers_the_loss_and_ends_in_a_loadable_encoder(tmp_path):
    trained, result = run(tmp_path, epochs=12)
    losses = [row["train_loss"] for row in result.metrics]
    assert losses[-1] < losses[0] - 0.2
    loaded, contract = load_encoder(tmp_path)
    volumes = torch.stack([Images()[row]["image"] for row in range(3)])
    assert torch.equal(loaded(volumes), trained.encoder.eval()(volumes))
    assert contract.content()["batchnorm"]["n_scans"] == 10


def test_one_row_an_epoch_with_terms_validation_and_schedule(tmp_path):
    _, result = run(tmp_path)
    rows = rows_of(tmp_path)
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [float(row["learning_rate"]) for row in rows] == [0.01, 0.01, 0.005]
    for row in result.metrics:
        assert row["train_loss"] == pytest.approx(
            row["train_term_alignment"] + row["train_term_uniformity"]
        )
        assert 1 <= row["val_effective_rank"] <= 4
        assert 0 <= row["val_alignment"] <= 4
        assert row["val_uniformity"] <= 0
        assert row["gradient_norm"] > 0
        assert row["samples_per_second"] > 0


def test_neither_validation_nor_probe_nor_readers_change_the_weights(tmp_path):
    run(tmp_path / "plain", given=data(validation_rows=()))
    run(tmp_path / "measured", given=data(n_readers=3), probe_every=1)
    assert weights(tmp_path / "plain") == weights(tmp_path / "measured")
    assert "val_loss" not in rows_of(tmp_path / "plain")[0]


def test_validation_views_are_those_of_a_fixed_epoch(tmp_path):
    seen = []

    def recording(volumes, names, *, epoch):
        seen.append((epoch, tuple(int(name.removeprefix("sub-")) for name in names)))
        return views(volumes, names, epoch=epoch)

    run(tmp_path, made_views=recording, epochs=2)
    validation = [epoch for epoch, rows in seen if rows[0] >= 10]
    assert validation == [-1, -1]
    training = [(epoch, rows) for epoch, rows in seen if rows[0] < 10]
    for epoch in (0, 1):
        assert sorted(row for e, rows in training if e == epoch for row in rows) == list(range(10))
    assert [rows for e, rows in training if e == 0] != [rows for e, rows in training if e == 1]
    assert {len(rows) for _, rows in training} == {3, 4}


def test_probe_scores_numbers_and_classes_every_k_epochs(tmp_path):
    _, result = run(tmp_path, probe_every=2, epochs=3)
    assert ["probe_age_r2" in row for row in result.metrics] == [False, True, False]
    assert 0 <= result.metrics[1]["probe_sex_balanced_accuracy"] <= 1
    assert rows_of(tmp_path)[0]["probe_age_r2"] == ""
    assert (
        float(rows_of(tmp_path)[1]["probe_age_r2"]) == result.metrics[1]["probe_age_r2"]
    )  # with all digits


def test_probe_without_enough_known_values_is_empty(tmp_path):
    targets = {"age": np.full(N_SCANS, np.nan), "sex": np.array([None] * N_SCANS, dtype=object)}
    _, result = run(tmp_path, given=data(targets=targets), probe_every=1, epochs=1)
    assert result.metrics[0]["probe_age_r2"] is None
    assert result.metrics[0]["probe_sex_balanced_accuracy"] is None


def test_zero_epochs_keep_the_initial_weights_and_estimate_statistics(tmp_path):
    trained, result = run(tmp_path, epochs=0)
    initial = model().state_dict()
    for name, tensor in trained.state_dict().items():
        changed = "running" in name or "num_batches" in name
        assert torch.equal(tensor, initial[name]) != changed
    assert result.metrics == []
    assert (tmp_path / "metrics.csv").read_text() == "epoch\n"


# Within an epoch, at its end, in validation, in the next.
@pytest.mark.parametrize(
    ("n_batches", "number"), zip((2, 3, 4, 6), 2 * [signal.SIGINT, signal.SIGTERM], strict=True)
)
def test_signal_saves_and_resume_gives_the_uninterrupted_run(tmp_path, n_batches, number):
    before = signal.getsignal(number)
    _, said = assert_resumes(tmp_path, n_batches, number)
    assert re.match(rf"stopped by {number.name} after \d of 3 epochs.*--resume", said)
    assert signal.getsignal(number) == before


def test_second_interruption_acts_at_once(tmp_path):
    def twice():
        # Not os.kill: another thread may get that one, and two that wait become one.
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    # As in a program of its own: whatever runs the tests may have left signals ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, made_views=after(2, twice))
    finally:
        signal.signal(signal.SIGINT, before)


def test_non_finite_scan_stops_with_its_name_and_keeps_the_checkpoint(tmp_path):
    run(tmp_path, epochs=1)
    kept = (tmp_path / "checkpoints/epoch-0001.pt").read_bytes()
    with pytest.raises(TrainingError) as caught:
        run(tmp_path, given=data(images=Images(broken=[3])), resume=True)
    message = str(caught.value)
    assert message.startswith("the loss is nan in epoch 2, batch ")
    assert "sub-03" in message
    assert "(learning rate 0.01)" in message
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["epoch-0001.pt"]
    assert (tmp_path / "checkpoints/epoch-0001.pt").read_bytes() == kept


def test_non_finite_gradient_stops(tmp_path):
    class Steep(Contrast):
        def forward(self, z1, z2, metadata=None):
            distance = (z1 - z1).square().sum().sqrt()  # 0, with an infinite slope
            return super().forward(z1, z2) + distance

    with pytest.raises(
        TrainingError,
        match=r"the gradient norm is nan in epoch 1, batch 1 .*Samples of the batch: sub-",
    ):
        run(tmp_path, objective=Steep())
    assert not list(tmp_path.glob("checkpoints/*"))


def test_kernel_is_checked_on_all_rows_and_fitted_on_training_rows(tmp_path):
    class Kernel:
        def check(self, metadata, *, names):
            self.checked = metadata["age"], list(names)

        def fit(self, metadata):
            self.fitted = metadata["age"]

    objective = Contrast()
    objective.kernel = Kernel()
    age = torch.arange(N_SCANS, dtype=torch.float32)
    run(tmp_path, objective=objective, given=data(metadata={"age": age}), epochs=0)
    assert torch.equal(objective.kernel.checked[0], age)
    assert objective.kernel.checked[1][3] == "sub-03"
    assert torch.equal(objective.kernel.fitted, age[:10])


def test_a_temperature_that_learns_is_trained_recorded_and_resumed(tmp_path):
    def one(folder, **changes):
        return run(tmp_path / folder, objective=losses.NTXent(temperature="learnable"), **changes)[
            1
        ]

    whole = one("whole", epochs=2, weight_decay=0.1)
    found = [row["train_temperature"] for row in whole.metrics]
    assert found[0] != found[1]
    assert found == pytest.approx([0.07, 0.07], abs=0.02)
    one("cut", epochs=1, weight_decay=0.1)
    assert (
        one("cut", epochs=2, weight_decay=0.1, resume=True).metrics[1]["train_temperature"]
        == found[1]
    )
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_too_few_scans_are_refused(tmp_path):
    with pytest.raises(DataError, match="at least two training samples, found 1"):
        run(tmp_path, given=data(training_rows=[0]))
    with pytest.raises(ConfigError, match=r"data\.val_fraction leaves a single validation sample"):
        run(tmp_path, given=data(validation_rows=[12]))


def test_global_switches_and_random_state_are_left_alone(tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    run(tmp_path, epochs=1)
    assert torch.equal(torch.rand(2), expected)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("validation_rows", [range(10, N_SCANS), ()])
def test_weights_that_the_last_step_has_blown_up_are_not_saved(tmp_path, validation_rows):
    with pytest.raises(
        TrainingError, match=r"learning rate 1e\+38\) the embeddings of .* not finite: sub-"
    ):
        run(
            tmp_path,
            given=data(validation_rows=validation_rows),
            epochs=1,
            batch_size=10,
            learning_rate=1e38,
        )
    assert not list(tmp_path.glob("checkpoints/*"))
    assert not (tmp_path / "encoder.json").exists()


def test_the_probe_is_scored_on_others_than_it_was_fitted_to():
    x = np.random.default_rng(0).normal(size=(60, 3))
    assert _score(x[:40], x[:40, 0], x[40:], x[40:, 0])["r2"] > 0.9
    assert _score(x[:40], x[:40, 0], x[40:], -x[40:, 0])["r2"] < 0


def mine() -> Compose:
    """Return a pipeline of a user's: MONAI's transforms, this package's, and a function of the user's own."""
    return Compose([
        RandAxisFlipd("image", prob=0.5),
        RandAffined("image", prob=0.5, rotate_range=0.1, padding_mode="border"),
        RandBrainRiciand("image", prob=0.5),
        RandMaskEdged("image", prob=0.3),
        lambda sample: {**sample, "image": sample["image"].clamp(-4.0, 4.0)},
        RandNoised("image", prob=0.8),
    ])  # fmt: skip


def test_a_run_on_a_users_own_transforms_resumes_to_the_same_weights(tmp_path):
    assert_resumes(tmp_path, 4, made_views=TwoViews(mine(), seed=3))
    run(tmp_path / "other", made_views=TwoViews(mine(), seed=4))
    assert weights(tmp_path / "other") != weights(tmp_path / "whole")


ENCODER = EncoderSettings(name="resnet_small", projection=(16, 8), projection_norm="layers")
OF_PICTURES = {"encoder": ENCODER, "made_views": tiny.views_of_pictures}


def pictures(rows):
    return torch.stack([tiny.Pictures()[row]["image"] for row in rows])


def test_statistics_of_encoder_and_head_are_those_of_unaugmented_pictures(tmp_path):
    # With one batch an epoch, statistics that are estimated anew are those of all training
    # pictures.
    model, result = run(
        tmp_path, given=data(images=tiny.Pictures()), batch_size=10, probe_every=1, **OF_PICTURES
    )
    encoder = model.encoder
    head = model.head
    n_layers = sum(isinstance(module, torch.nn.BatchNorm2d) for module in encoder.modules())
    assert result.batchnorm == {
        **result.batchnorm,
        "n_layers": n_layers,
        "n_scans": 10,
        "n_batches": 1,
    }
    with torch.no_grad():
        first = encoder.features.layers.conv1(pictures(range(10)).float() / 255)
        torch.testing.assert_close(
            encoder.features.layers.bn1.running_mean, first.mean(dim=(0, 2, 3))
        )
        still = build_model(ENCODER)
        still.load_state_dict(model.state_dict())
        hidden = still.head[0](still.train().encoder(pictures(range(10))))
        torch.testing.assert_close(head[1].running_mean, hidden.mean(dim=0), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(head[1].running_var, hidden.var(dim=0), rtol=1e-4, atol=1e-5)


def test_a_resumed_run_of_pictures_is_the_uninterrupted_one(tmp_path):
    assert_resumes(tmp_path, 5, given=data(images=tiny.Pictures()), epochs=2, **OF_PICTURES)
