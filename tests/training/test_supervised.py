import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from tiny import N_SCANS, Images

from neurocontrast.encoders import ContrastiveModel, EncoderSettings, build_encoder
from neurocontrast.encoders.encoder import ProjectionHead
from neurocontrast.exceptions import TrainingError
from neurocontrast.training import FinetuneSettings, TrainingData, TrainingOutput
from neurocontrast.training.supervised import fit_supervised
from neurocontrast.training.supervised_state import (
    LabelledData,
    Labels,
    SupervisedState,
    parameter_groups,
)

NUMBERS = np.arange(N_SCANS) / N_SCANS
CLASSES = Labels((np.arange(N_SCANS) % 2).astype(int), 2)
TRAIN = [0, 2, 3, 5, 6, 8, 9, 11, 12]
VALIDATION = [1, 7, 13]
TEST = [4, 10]


def data(validation=VALIDATION):
    names = [f"sub-{row:02d}" for row in range(N_SCANS)]
    return TrainingData(Images(), names, {}, TRAIN, validation)


def settings(**choices):
    return FinetuneSettings(
        **{"epochs": 4, "batch_size": 4, "learning_rate": 1e-2, "accelerator": "cpu", **choices}
    )


def fitted(folder, labels, *, pretrained=True, validation=VALIDATION, test=TEST, **choices):
    encoder = build_encoder(EncoderSettings(name="lenet"), seed=1)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    result = fit_supervised(
        encoder,
        LabelledData(data(validation), labels, test),
        settings=settings(**choices),
        pretrained=pretrained,
        seed=0,
        output=TrainingOutput(folder, resume=True),
    )
    changed = {
        name
        for name, tensor in encoder.state_dict().items()
        if not torch.equal(tensor, before[name])
    }
    return result, changed


def test_a_number_that_the_image_shows_is_learnt(tmp_path):
    result, _ = fitted(tmp_path, Labels(NUMBERS), pretrained=False, epochs=40, patience=None)
    assert np.abs(result.predictions - NUMBERS[TEST]).max() < 0.2


def test_the_weights_of_the_best_epoch_predict_and_a_fold_ends_when_patience_does(tmp_path):
    result, _ = fitted(tmp_path, CLASSES, pretrained=False, epochs=30, patience=2)
    losses = [row["val_loss"] for row in result.metrics]
    assert result.best_epoch == 1 + int(np.argmin(losses))
    assert len(losses) == min(30, result.best_epoch + 2)
    again, _ = fitted(
        tmp_path / "tried", CLASSES, pretrained=False, epochs=30, patience=2, test=VALIDATION
    )
    likely = again.predictions[np.arange(3), CLASSES.values[VALIDATION]]
    assert -np.log(likely).mean() == pytest.approx(min(losses), rel=1e-4)


@pytest.mark.parametrize(
    "labels", [CLASSES, Labels(np.arange(N_SCANS) // 2 % 3, 3), Labels(NUMBERS)]
)
def test_the_head_begins_as_a_probe_of_frozen_features(tmp_path, labels):
    encoder = build_encoder(EncoderSettings(name="lenet"), seed=1).eval()
    with torch.no_grad():
        x = (
            encoder(torch.stack([Images()[row]["image"] for row in range(N_SCANS)]))
            .double()
            .numpy()
        )
    x = (x - x[TRAIN].mean(axis=0)) / np.sqrt(x[TRAIN].var(axis=0) + 1e-5)
    result, _ = fitted(tmp_path, labels, epochs=1, learning_rate=1e-12)
    wanted = []
    for strength in 10.0 ** np.arange(6):
        if labels.n_classes is None:
            wanted.append(Ridge(strength).fit(x[TRAIN], NUMBERS[TRAIN]).predict(x[TEST]))
        else:
            probe = LogisticRegression(C=1 / strength, max_iter=1000).fit(
                x[TRAIN], labels.values[TRAIN]
            )
            wanted.append(probe.predict_proba(x[TEST]))
    assert min(np.abs(result.predictions - each).max() for each in wanted) < 2e-3


def test_where_no_epoch_is_better_the_probe_is_taken_until_patience_ends(tmp_path):
    result, _ = fitted(tmp_path, Labels(NUMBERS), epochs=9, patience=3, learning_rate=10.0)
    assert (result.best_epoch, len(result.metrics)) == (0, 3)
    assert result.best_loss < min(row["val_loss"] for row in result.metrics)


def test_without_validation_scans_the_last_epoch_predicts(tmp_path):
    result, _ = fitted(tmp_path, CLASSES, validation=[], patience=1)
    assert result.best_epoch == len(result.metrics) == 4


@pytest.mark.parametrize("pretrained", [True, False])
def test_statistics_of_pretraining_stay_and_others_are_estimated_anew(tmp_path, pretrained):
    _, changed = fitted(tmp_path, CLASSES, pretrained=pretrained)
    assert bool({name for name in changed if "running_mean" in name}) != pretrained


def test_rates_fall_from_block_to_block_towards_the_input():
    encoder = build_encoder(EncoderSettings(name="lenet"))
    model = ContrastiveModel(encoder, ProjectionHead(encoder.n_features, [2]))
    groups = parameter_groups(model, settings(encoder_factor=0.5, layer_decay=0.1), pretrained=True)
    assert [group["factor"] for group in groups] == pytest.approx([1.0, 0.5, 0.05, 0.005])
    n_parameters = sum(len(group["params"]) for group in groups)
    assert n_parameters == len(list(model.parameters()))
    assert len(parameter_groups(model, settings(), pretrained=False)) == 1


def test_the_head_from_scratch_begins_at_the_shares_of_the_training_rows():
    encoder = build_encoder(EncoderSettings(name="lenet"))
    labels = Labels((np.arange(N_SCANS) == 2).astype(int), 2)
    state = SupervisedState(
        ContrastiveModel(encoder, ProjectionHead(encoder.n_features, [2])), labels, data(), view=None,
        settings=settings(), pretrained=False, seed=0,
    )  # fmt: skip
    assert state.linear.bias.exp().tolist() == pytest.approx([8 / 9, 1 / 9])
    state.linear.bias.data[0] = math.nan
    with pytest.raises(TrainingError, match="loss on 3 validation scans is not finite"):
        state.validation_loss(lambda: None)


def test_views_are_shown_in_training_alone(tmp_path):
    seen = []

    def view(images, names, *, epoch):
        seen.append((epoch, len(names)))
        return images.float()

    encoder = build_encoder(EncoderSettings(name="lenet"), seed=1)
    fit_supervised(
        encoder,
        LabelledData(data(), CLASSES, TEST),
        settings=settings(epochs=2),
        pretrained=True,
        seed=0,
        output=TrainingOutput(tmp_path),
        view=view,
    )
    assert {epoch for epoch, _ in seen} == {0, 1}
    assert sum(n for _, n in seen) == 2 * len(TRAIN)
