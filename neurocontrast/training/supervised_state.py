"""State of a fine-tuning on its device: model, labels, data and the best epoch."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss, softmax

from neurocontrast.encoders.encoder import ContrastiveModel
from neurocontrast.exceptions import TrainingError
from neurocontrast.training.batchnorm import layers_of
from neurocontrast.training.data import TrainingData
from neurocontrast.training.optimizers import ParameterGroup
from neurocontrast.training.position import MetricsRow
from neurocontrast.training.settings import FinetuneSettings
from neurocontrast.training.signals import CheckStop
from neurocontrast.training.state import StateDict, TrainerState

View = Callable[..., Tensor]
"""Function ``view(images, names, epoch=...)`` that returns a random view of each image,
reproducible from epoch and name."""

ADVICE = "lower finetune.learning_rate, or set finetune.warmup_epochs or finetune.clip_norm"
_LEAST_SHARE = 1e-6
_PENALTIES = (5, 4, 3, 2, 1, 0)
"""Logarithms (base 10) of the ridge penalties tried for the head's initial weights, the strongest
first."""
_PENALTY = 3
"""Logarithm (base 10) of the ridge penalty of the head's initial weights without validation
rows."""


@dataclass(frozen=True)
class Labels:
    """True labels of all samples of a training: codes of classes, or numbers, to be predicted.

    Label k belongs to image k of the training data.
    """

    values: npt.NDArray[np.generic]
    """Integer codes of classes from 0, or numbers, (n_samples,)."""
    n_classes: int | None = None
    """Number of classes; None for numbers."""


@dataclass(frozen=True)
class LabelledData:
    """Samples with true labels, and row numbers for training, validation and test."""

    data: TrainingData
    """Images, and rows of training and validation."""
    labels: Labels
    """True labels of all samples."""
    test_rows: Sequence[int]
    """Rows whose labels are predicted after training."""


@dataclass(frozen=True)
class BestEpoch:
    """Copy of the weights after the epoch with the lowest loss on the validation rows so far."""

    epoch: int
    """Number of finished epochs at which the weights were copied; 0 before the first epoch."""
    loss: float
    weights: dict[str, Tensor]


def parameter_groups(
    model: ContrastiveModel, settings: FinetuneSettings, *, pretrained: bool
) -> list[ParameterGroup]:
    """Group parameters by learning rate, lower in earlier blocks of a pretrained encoder.

    The head is the first group.

    Of L blocks, the last has the settings' factor f on the learning rate, and block l has the
    factor f · d^(L - l) with the settings' decay d (Howard & Ruder 2018, section 3.2, with d = 1 /
    2.6 for each layer of a text model). From scratch, all parameters have the factor 1.
    """
    if not pretrained:
        return [{"params": list(model.parameters()), "factor": 1.0}]
    groups: list[ParameterGroup] = [{"params": list(model.head.parameters()), "factor": 1.0}]
    blocks = model.encoder.features.children_of_blocks()
    for depth, block in enumerate(reversed(blocks)):
        parameters: list[nn.Parameter] = []
        for layer in block:
            parameters += layer.parameters()
        if parameters:
            factor = settings.encoder_factor * settings.layer_decay**depth
            groups.append({"params": parameters, "factor": factor})
    return groups


class SupervisedState(TrainerState):
    """State of a supervised training: model, optimiser, labels, data, and the best epoch so far.

    Parameters
    ----------
    model : ContrastiveModel
        Encoder with a linear head.
    labels : Labels
        True labels of all samples.
    data : TrainingData
        Images, and rows of training and validation.
    view : callable or None
        Function that makes the random view of a sample on which to train; None to train on samples
        as they are.
    settings : FinetuneSettings
        Number of epochs, learning rates and patience.
    pretrained : bool
        Whether the encoder is pretrained.
    seed : int
        Seed of the order of samples.
    """

    def __init__(
        self,
        model: ContrastiveModel,
        labels: Labels,
        data: TrainingData,
        *,
        view: View | None,
        settings: FinetuneSettings,
        pretrained: bool,
        seed: int,
    ) -> None:
        groups = parameter_groups(model, settings, pretrained=pretrained)
        of_loop = settings.of_loop
        sampler = data.sampler(of_loop, seed, n_encoders=len(model.halves))
        super().__init__(model, data, settings=of_loop, sampler=sampler, groups=groups)
        normalise, linear = model.head.children()
        self.normalise: Any = normalise
        self.linear: Any = linear
        self.labels = labels
        self.view = view
        self.patience = settings.patience
        self.pretrained = pretrained
        self.best: BestEpoch | None = None
        self.scale = (0.0, 1.0)
        if labels.n_classes is None:
            self._standardise_numbers()
        else:
            self._begin_at_shares(labels.n_classes)

    def _standardise_numbers(self) -> None:
        """Standardise the labels over the training rows, and set the head to predict 0.

        The labels of all samples are stored as `values` on the device, and mean and standard
        deviation as `scale`. The first prediction is then the mean of the training rows' labels.
        """
        values = self.labels.values.astype(float)
        in_training = values[np.asarray(self.data.training_rows)]
        self.scale = float(in_training.mean()), float(in_training.std()) or 1.0
        standard = (values - self.scale[0]) / self.scale[1]
        self.values = torch.as_tensor(standard, dtype=torch.float32, device=self.fabric.device)
        self._set_head(torch.zeros(1))

    def _begin_at_shares(self, n_classes: int) -> None:
        """Set the head to predict, for every sample, the shares of classes among training rows.

        Weights become 0 and the bias the logarithms of the shares. The class codes are sent to the
        device.
        """
        codes = self.labels.values.astype(np.int64)
        self.values = torch.as_tensor(codes, device=self.fabric.device)
        in_training = codes[np.asarray(self.data.training_rows)]
        counts = torch.as_tensor(np.bincount(in_training, minlength=n_classes), dtype=torch.float32)
        self._set_head((counts / len(in_training)).clamp_min(_LEAST_SHARE).log())

    @torch.no_grad()
    def _set_head(self, bias: Tensor) -> None:
        self.linear.weight.zero_()
        self.linear.bias.copy_(bias)

    def begin(self) -> None:
        """Initialise the head of a pretrained encoder as a linear probe on standardised features.

        The probe is fitted to the training rows, with the ridge penalty that predicts the
        validation rows best. Without pretraining, the head keeps its initial weights.
        """
        if not self.pretrained:
            return
        raw = self._outputs(self.data.training_rows, head=False)
        self.normalise.running_mean.copy_(raw.mean(dim=0))
        self.normalise.running_var.copy_(raw.var(dim=0, unbiased=False))
        features = self.normalise.eval()(raw).double().cpu().numpy()
        in_training = self.values[list(self.data.training_rows)].cpu().numpy()
        penalties: tuple[int, ...] = _PENALTIES
        if not len(self.data.validation_rows):
            penalties = (_PENALTY,)
        for power in penalties:
            if self.labels.n_classes is None:
                self._begin_as_ridge(features, in_training, penalty=10.0**power)
            else:
                self._begin_as_logistic(features, in_training, inverse_penalty=10.0**-power)
            self.keep_if_best(-1, self.validation_loss())
        self.take_best()

    def _begin_as_ridge(
        self,
        features: npt.NDArray[np.float64],
        in_training: npt.NDArray[np.generic],
        *,
        penalty: float,
    ) -> None:
        """Set the head's weights and bias by ridge regression on features of training rows.

        `features` (n, n_features) are standardised, and so are `in_training` (n,), the labels to
        predict.
        """
        from sklearn.linear_model import Ridge  # no other training needs scikit-learn

        ridge = Ridge(alpha=penalty).fit(features, in_training)
        _copy_rows(self.linear.weight, slice(None), ridge.coef_[None])
        _copy_rows(self.linear.bias, slice(None), np.atleast_1d(ridge.intercept_))

    def _begin_as_logistic(
        self,
        features: npt.NDArray[np.float64],
        in_training: npt.NDArray[np.generic],
        *,
        inverse_penalty: float,
    ) -> None:
        """Set the head's weights and bias by logistic regression on features of training rows.

        `features` (n, n_features) are standardised; `in_training` (n,) are the class codes to
        predict.
        """
        from sklearn.linear_model import LogisticRegression

        logistic = LogisticRegression(C=inverse_penalty, max_iter=1000).fit(features, in_training)
        weight = logistic.coef_
        bias = logistic.intercept_
        if len(logistic.classes_) == 2:  # one decision value, as the difference of two outputs
            weight = np.vstack([-weight, weight]) / 2
            bias = np.concatenate([-bias, bias]) / 2
        rows = torch.as_tensor(logistic.classes_, device=self.values.device)
        _copy_rows(self.linear.weight, rows, weight)
        _copy_rows(self.linear.bias, rows, bias)

    def train(self) -> None:
        """Put encoder and head in training mode, but freeze BatchNorm if the encoder is pretrained.

        Then the BatchNorm of the head is frozen too; with random weights, no BatchNorm is frozen.
        """
        super().train()
        if self.pretrained:
            for layer in layers_of(self.model):
                layer.eval()

    def outputs_of(self, images: Tensor, rows: Tensor, *, epoch: int) -> Tensor:
        """Return the head's outputs (n, n_out) for n images, or for a random view of each image.

        Views are made by the function `view`; if it is None, `images` are used unchanged. `rows`
        are the row numbers of the images in the data; the names of the samples in these rows, and
        `epoch`, determine the random changes.
        """
        seen = images
        if self.view is not None:
            with torch.no_grad():
                seen = self.view(images, self.names_of(rows), epoch=epoch)
        outputs: Tensor = self.head(self.encoder(self.seen(seen)).float()).float()
        return outputs

    def loss(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return the mean loss of `outputs` (n, n_out) against the true labels at `rows`.

        The loss is the cross-entropy of classes, or the squared error of standardised numbers.
        """
        values = self.values[rows.to(self.values.device, non_blocking=True)]
        if self.labels.n_classes is None:
            return mse_loss(outputs[:, 0], values)
        return cross_entropy(outputs, values)

    def _outputs(
        self, rows: Sequence[int], after_batch: CheckStop | None = None, *, head: bool = True
    ) -> Tensor:
        """Return the head's outputs for samples at `rows`, not augmented, in evaluation mode.

        If `head` is False, the encoder's features are returned instead. `after_batch` is called
        after each batch.
        """
        size = self.settings.batch_size
        batches = []
        for start in range(0, len(rows), size):
            batches.append(rows[start : start + size])
        outputs = []
        self.model.eval()
        with torch.no_grad(), self.read(batches) as reading:
            for _, images in reading:
                of_batch = self.encoder(self.seen(images)).float()
                if head:
                    of_batch = self.head(of_batch).float()
                outputs.append(of_batch)
                if after_batch is not None:
                    after_batch()
        return torch.cat(outputs)

    def validation_loss(self, after_batch: CheckStop | None = None) -> float | None:
        """Return the mean loss on the validation rows in evaluation mode; None without such rows.

        A TrainingError is raised if the loss is not finite.
        """
        rows = self.data.validation_rows
        if not len(rows):
            return None
        loss = float(self.loss(self._outputs(rows, after_batch), torch.as_tensor(rows)))
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss on {len(rows)} validation scans is not finite: {ADVICE}."
            )
        return loss

    def keep_if_best(self, epoch: int, loss: float | None) -> None:
        """Copy the model's weights to `best` if validation loss `loss` is the lowest so far.

        `epoch` is the epoch's number from 0, or -1 before training.
        """
        if loss is None or (self.best is not None and not loss < self.best.loss):
            return
        weights = {}
        for name, tensor in self.model.state_dict().items():
            weights[name] = tensor.detach().cpu().clone()
        self.best = BestEpoch(epoch + 1, loss, weights)

    def take_best(self) -> BestEpoch | None:
        """Restore the model's weights of the epoch with the lowest validation loss.

        That epoch is returned. Without validation rows, the weights stay, and the result is None.
        """
        if self.best is not None:
            self.model.load_state_dict(self.best.weights)
        return self.best

    def is_over(self, rows: Sequence[MetricsRow]) -> bool:
        """Tell whether the validation loss has not fallen for the settings' `patience` epochs.

        `rows` are the metrics of all finished epochs.
        """
        if self.patience is None or self.best is None:
            return False
        return len(rows) - self.best.epoch >= self.patience

    def predict(self, rows: Sequence[int], after_batch: CheckStop) -> npt.NDArray[np.float64]:
        """Predict class probabilities (n, n_classes), or numbers (n,), of the samples at `rows`.

        Samples are not augmented. A TrainingError is raised if a prediction is not finite.
        """
        outputs = self._outputs(rows, after_batch).double()
        if not outputs.isfinite().all():
            raise TrainingError(
                f"the predictions of {len(rows)} tested scans are not all finite: {ADVICE}."
            )
        if self.labels.n_classes is not None:
            return softmax(outputs, dim=1).cpu().numpy()
        return outputs[:, 0].cpu().numpy() * self.scale[1] + self.scale[0]

    def state_dict(self) -> StateDict:
        """Return the state to save in a checkpoint, with the best epoch's weights as ``best``."""
        state = super().state_dict()
        state["best"] = None
        if self.best is not None:
            state["best"] = dict(vars(self.best))
        return state

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Set model, optimiser and the best epoch's weights to a checkpoint's `state`."""
        super().load_state_dict(state)
        best = cast(Any, state["best"])
        self.best = None
        if best is not None:
            self.best = BestEpoch(**best)


@torch.no_grad()
def _copy_rows(
    parameter: nn.Parameter, rows: slice | Tensor, values: npt.NDArray[np.float64]
) -> None:
    """Overwrite `rows` of a head's weight or bias by `values`, coefficients of scikit-learn."""
    parameter[rows] = torch.as_tensor(values, dtype=parameter.dtype, device=parameter.device)
