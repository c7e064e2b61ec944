"""Supervised training of an encoder with a linear head: classes by cross-entropy, numbers by squared error."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss, softmax

from neurocontrast.encoders.encoder import ContrastiveModel, Encoder, ProjectionHead
from neurocontrast.exceptions import TrainingError
from neurocontrast.progress import SILENT, Progress
from neurocontrast.training.batchnorm import layers_of
from neurocontrast.training.checkpoints import newest_checkpoint
from neurocontrast.training.loop import Course, run_epochs
from neurocontrast.training.optimizers import learning_rate_of, set_learning_rate
from neurocontrast.training.session import BaseSession, Position, TrainingData
from neurocontrast.training.settings import FinetuneSettings
from neurocontrast.training.steps import drawing, take_step
from neurocontrast.training.validation import reestimate

View = Callable[..., Tensor]
"""``view(images, names, epoch=...)``, random by (epoch, name of the sample) alone."""

_ADVICE = "lower finetune.learning_rate, or set finetune.warmup_epochs or finetune.clip_norm"
_LEAST_SHARE = 1e-6
_PENALTIES = (5, 4, 3, 2, 1, 0)
"""Powers of ten of the penalties that are tried for the probe that the head begins as, the strongest first."""


@dataclass(frozen=True)
class Labels:
    """What is predicted of every sample of the data, in its order."""

    values: npt.NDArray[np.generic]
    """Codes of classes from 0 on, or numbers, (n_samples,)."""
    n_classes: int | None = None
    """Number of classes; None for numbers."""


@dataclass(frozen=True)
class SupervisedResult:
    """Predictions of a trained network for the tested samples, and the course of its training."""

    predictions: npt.NDArray[np.float64]
    """Probabilities (n_samples, n_classes), or numbers (n_samples,)."""
    metrics: list[dict[str, Any]]
    """One row an epoch."""
    best_epoch: int
    """The epoch whose weights predict; 0 where no epoch was better than the weights that training began with."""
    best_loss: float | None = None
    """Loss of these weights on the validation samples; None without any."""


def fit_supervised(
    encoder: Encoder,
    labels: Labels,
    data: TrainingData,
    test_rows: Sequence[int],
    *,
    settings: FinetuneSettings,
    pretrained: bool,
    seed: int,
    folder: Path,
    view: View | None = None,
    title: str = "Fine-tuning",
    progress: Progress = SILENT,
) -> SupervisedResult:
    """Train an encoder in place with a linear head, and predict other samples with the weights of the best epoch.

    The best epoch is chosen on the validation rows of `data`; without any it is the last.
    `pretrained` keeps the weights in reach, by rates for each block and the statistics of
    pretraining. `seed` names the order of the samples; `view` makes the random view that is shown
    in place of a sample. Training continues from the newest checkpoint in `folder`, where
    ``metrics.csv`` is written too.
    """
    head = ProjectionHead(encoder.n_features, [labels.n_classes or 1], norm="batch")
    session = SupervisedSession(
        ContrastiveModel(encoder, head),
        labels,
        data,
        view=view,
        settings=settings,
        pretrained=pretrained,
        seed=seed,
    )
    resume = newest_checkpoint(folder / "checkpoints") is not None
    if not resume:
        session.begin()

    def finish(rows: list[dict[str, Any]], after_batch: Callable[[], None]) -> SupervisedResult:
        best = session.take_best() or {"epoch": len(rows), "loss": None}
        return SupervisedResult(
            session.predict(test_rows, after_batch), rows, best["epoch"], best["loss"]
        )

    course = Course(
        title, _steps, _measure, is_over=session.is_over, label=f"{title}, ", again="The same call"
    )
    return run_epochs(session, folder, course, finish, resume=resume, progress=progress)


def parameter_groups(
    model: ContrastiveModel, settings: FinetuneSettings, *, pretrained: bool
) -> list[dict[str, Any]]:
    """Return the parameters in groups with the `factor` of their rate, the head's first.

    The last block of L has the factor f of the settings, block l has f · d^(L - l) with the decay d
    (Howard & Ruder 2018, section 3.2, where d is 1 / 2.6 for each layer of a text model).
    """
    if not pretrained:
        return [{"params": list(model.parameters()), "factor": 1.0}]
    groups = [{"params": list(model.head.parameters()), "factor": 1.0}]
    blocks = model.encoder.features.children_of_blocks()
    for depth, block in enumerate(reversed(blocks)):
        if parameters := [each for layer in block for each in layer.parameters()]:
            groups.append(
                {
                    "params": parameters,
                    "factor": settings.encoder_factor * settings.layer_decay**depth,
                }
            )
    return groups


class SupervisedSession(BaseSession):
    """Model, labels and data of supervised training on their device, and the weights of the best epoch so far."""

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
        super().__init__(model, data, settings=settings.of_loop, seed=seed, groups=groups)
        self.normalise, self.linear = (cast(Any, layer) for layer in model.head.children())
        self.labels = labels
        self.view = view
        self.patience = settings.patience
        self.pretrained = pretrained
        self.best: dict[str, Any] | None = None
        # Numbers are standardised over the training rows, and the head begins at their mean, or the
        # classes' shares.
        values = labels.values
        device = self.fabric.device
        classes = labels.n_classes
        known = values[np.asarray(self.data.training_rows)]
        self.scale = (0.0, 1.0)
        bias = torch.zeros(1)
        if classes is None:
            self.scale = float(known.astype(float).mean()), float(known.astype(float).std()) or 1.0
            standard = (values.astype(float) - self.scale[0]) / self.scale[1]
            self.values = torch.as_tensor(standard, dtype=torch.float32, device=device)
        else:
            self.values = torch.as_tensor(values.astype(np.int64), device=device)
            counts = torch.as_tensor(
                np.bincount(known.astype(int), minlength=classes), dtype=torch.float32
            )
            bias = (counts / len(known)).clamp_min(_LEAST_SHARE).log()
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.bias.copy_(bias)

    def begin(self) -> None:
        """Standardise the features that the head of a pretrained encoder sees, and begin the head as a probe of them.

        The probe is fitted to the training rows; of several penalties the one that predicts the
        validation rows best is kept. From scratch, features are standardised by batches.
        """
        # Not at the top: only this one of all trainings needs scikit-learn.
        from sklearn.linear_model import LogisticRegression, Ridge

        if not self.pretrained:
            return
        raw = self._outputs(self.data.training_rows, head=False)
        self.normalise.running_mean.copy_(raw.mean(dim=0))
        self.normalise.running_var.copy_(raw.var(dim=0, unbiased=False))
        features = self.normalise.eval()(raw).double().cpu().numpy()
        known = self.values[list(self.data.training_rows)].cpu().numpy()
        classes = self.labels.n_classes
        for power in _PENALTIES if len(self.data.validation_rows) else _PENALTIES[2:3]:
            if classes is None:
                model = Ridge(alpha=10.0**power).fit(features, known)
                made = model.coef_[None], np.atleast_1d(model.intercept_)
            else:
                model = LogisticRegression(C=10.0**-power, max_iter=1000).fit(features, known)
                made = model.coef_, model.intercept_
                if len(model.classes_) == 2:  # one decision value, as the difference of two outputs
                    made = (
                        np.vstack([-made[0], made[0]]) / 2,
                        np.concatenate([-made[1], made[1]]) / 2,
                    )
            with torch.no_grad():
                rows = (
                    slice(None)
                    if classes is None
                    else torch.as_tensor(model.classes_, device=self.values.device)
                )
                for parameter, values in zip(
                    (self.linear.weight, self.linear.bias), made, strict=True
                ):
                    parameter[rows] = torch.as_tensor(
                        values, dtype=parameter.dtype, device=parameter.device
                    )
            self.keep_if_best(-1, self.validation_loss(lambda: None))
        self.take_best()

    def train(self) -> None:
        """Put the model in training mode; a pretrained one keeps its statistics of batch normalisation."""
        super().train()
        for layer in layers_of(self.model) if self.pretrained else ():
            layer.eval()

    def outputs_of(self, images: Tensor, rows: Tensor, *, epoch: int) -> Tensor:
        """Return the head's outputs (n, n_out) of a view of each sample."""
        with torch.no_grad():
            seen = (
                images if self.view is None else self.view(images, self.names_of(rows), epoch=epoch)
            )
        return cast(Tensor, self.head(self.encoder(self.seen(seen)).float()).float())

    def loss(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return the mean loss of outputs."""
        values = self.values[rows.to(self.values.device, non_blocking=True)]
        if self.labels.n_classes is None:
            return mse_loss(outputs[:, 0], values)
        return cross_entropy(outputs, values)

    def _outputs(
        self,
        rows: Sequence[int],
        after_batch: Callable[[], None] = lambda: None,
        *,
        head: bool = True,
    ) -> Tensor:
        """Return the outputs for un-augmented samples in evaluation mode, or their features without the head."""
        size = self.settings.batch_size
        made = []
        self.model.eval()
        with (
            torch.no_grad(),
            self.read(
                [rows[start : start + size] for start in range(0, len(rows), size)]
            ) as reading,
        ):
            for _, images in reading:
                features = self.encoder(self.seen(images)).float()
                made.append(self.head(features).float() if head else features)
                after_batch()
        return torch.cat(made)

    def validation_loss(self, after_batch: Callable[[], None]) -> float | None:
        """Return the loss on the validation rows; None without any."""
        rows = self.data.validation_rows
        if not len(rows):
            return None
        loss = float(self.loss(self._outputs(rows, after_batch), torch.as_tensor(rows)))
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss on {len(rows)} validation scans is not finite: {_ADVICE}."
            )
        return loss

    def keep_if_best(self, epoch: int, loss: float | None) -> None:
        """Keep a copy of the weights where the loss is lower than ever."""
        if loss is None or (self.best is not None and not loss < self.best["loss"]):
            return
        weights = {
            name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()
        }
        self.best = {"epoch": epoch + 1, "loss": loss, "weights": weights}

    def take_best(self) -> dict[str, Any] | None:
        """Go back to the weights of the best epoch, and return what is known of it; None without validation rows."""
        if self.best is not None:
            self.model.load_state_dict(self.best["weights"])
        return self.best

    def is_over(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the loss on the validation rows has not become lower for as many epochs as the patience."""
        if self.patience is None or self.best is None:
            return False
        return len(rows) - self.best["epoch"] >= self.patience

    def predict(
        self, rows: Sequence[int], after_batch: Callable[[], None]
    ) -> npt.NDArray[np.float64]:
        """Return probabilities (n, n_classes), or numbers (n,), of un-augmented samples."""
        outputs = self._outputs(rows, after_batch).double()
        if not outputs.isfinite().all():
            raise TrainingError(
                f"the predictions of {len(rows)} tested scans are not all finite: {_ADVICE}."
            )
        if self.labels.n_classes is not None:
            return softmax(outputs, dim=1).cpu().numpy()
        return outputs[:, 0].cpu().numpy() * self.scale[1] + self.scale[0]

    def tensors(self) -> dict[str, Any]:
        """Return everything that training changes, for a checkpoint."""
        return {**super().tensors(), "best": self.best}

    def restore(self, tensors: Mapping[str, Any]) -> None:
        """Continue from what `tensors` returned."""
        super().restore(tensors)
        self.best = tensors["best"]


def _steps(
    session: SupervisedSession, batches: Sequence[Sequence[int]], position: Position
) -> Generator[tuple[Sequence[int], dict[str, float]], None, None]:
    """Take one step a batch; see `train_batches`."""
    n_batches = position.batch + len(batches)
    with session.read(batches) as reading:
        for batch, (rows, images) in zip(batches, reading, strict=True):
            rate = learning_rate_of(
                position.epoch, session.settings, batch=position.batch, n_batches=n_batches
            )
            set_learning_rate(session.optimizer, rate)
            session.optimizer.zero_grad(set_to_none=True)
            with drawing(session, position) as occasion:
                outputs = session.outputs_of(images, rows, epoch=occasion)
            loss = session.loss(outputs, rows)
            session.fabric.backward(loss)
            yield (
                batch,
                take_step(session, rows, position, loss, outputs.detach(), {}, advice=_ADVICE),
            )


def _measure(
    session: SupervisedSession, epoch: int, *, after_batch: Callable[[], None]
) -> dict[str, float | None]:
    """Estimate statistics again where they are those of batches, and return the loss on the validation rows."""
    if not session.pretrained:
        reestimate(session, session.model, after_batch=after_batch)
    loss = session.validation_loss(after_batch)
    session.keep_if_best(epoch, loss)
    return {"val_loss": loss}
