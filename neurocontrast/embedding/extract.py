"""Features of a frozen encoder, or the embeddings after its projection head."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import torch

from neurocontrast.data.batches import Images, read_batches
from neurocontrast.embedding.settings import EmbeddingSettings
from neurocontrast.encoders.encoder import Encoder
from neurocontrast.encoders.heads import ContrastiveModel
from neurocontrast.exceptions import ConfigError
from neurocontrast.memory import keeping_freed_memory
from neurocontrast.progress import SILENT, Progress

__all__ = ["extract_features"]


def extract_features(
    encoder: Encoder | ContrastiveModel,
    images: Images,
    *,
    settings: EmbeddingSettings | None = None,
    n_readers: int = 1,
    progress: Progress = SILENT,
) -> np.ndarray:
    """Return the features of all samples, in their order.

    Parameters
    ----------
    encoder : Encoder or ContrastiveModel
        The second gives what the loss saw. Put in evaluation mode, so that a sample's features depend on no other.
    images : Images
        The samples: volumes that are preprocessed, or images.
    settings : EmbeddingSettings, optional
        Batch size, precision, device.
    n_readers : int
        Threads that read batches.
    progress : Progress
        Told about every batch.

    Returns
    -------
    ndarray (n, n_features)
        float32.
    """
    settings = settings or EmbeddingSettings()
    device = _device(settings)
    half = settings.precision == "bf16-mixed"
    encoder = encoder.to(device).eval()
    features = np.empty((len(images), encoder.n_features), dtype=np.float32)
    rows_of_all, size = range(len(images)), settings.batch_size
    batches = [rows_of_all[start : start + size] for start in rows_of_all[::size]]
    with (
        _quick_layout(encoder, device),  # before inference mode, in which weights would become untrainable
        torch.inference_mode(),
        keeping_freed_memory(),
        progress.task("embedding", len(images), "scans") as task,
        closing(read_batches(images, batches, n_readers=n_readers)) as reading,
    ):
        for rows, samples in reading:
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                made = encoder(samples.to(device))
            features[rows.numpy()] = made.float().cpu().numpy()
            task.advance(len(rows))
    return features


@contextmanager
def _quick_layout(encoder: Encoder | ContrastiveModel, device: torch.device) -> Iterator[None]:
    """Lay the weights out on a CPU as is quickest where nothing is trained; the encoder knows (`Features`)."""
    if device.type != "cpu":
        yield
        return
    encoder.to(memory_format=encoder.inference_layout)  # type: ignore[call-overload]
    try:
        yield
    finally:
        encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def _device(settings: EmbeddingSettings) -> torch.device:
    there = torch.cuda.is_available()
    if settings.accelerator == "cuda" and not there:
        raise ConfigError("embedding.accelerator: 'cuda' asked for, but PyTorch sees no GPU here. Use 'cpu' or 'auto'.")
    return torch.device("cuda" if there and settings.accelerator != "cpu" else "cpu")
