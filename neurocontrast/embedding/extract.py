"""Features of a frozen encoder, or the embeddings after its projection head."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import torch

from neurocontrast.collectives import Processes
from neurocontrast.data.batches import Images, read_batches
from neurocontrast.embedding.settings import EmbeddingSettings
from neurocontrast.encoders.encoder import ContrastiveModel, Encoder
from neurocontrast.machine import keeping_freed_memory, usable_accelerator
from neurocontrast.progress import SILENT, Progress

__all__ = ["extract_features"]


def extract_features(
    encoder: Encoder | ContrastiveModel,
    images: Images,
    *,
    settings: EmbeddingSettings | None = None,
    n_readers: int = 1,
    progress: Progress = SILENT,
    device: torch.device | None = None,
    processes: Processes | None = None,
) -> np.ndarray:
    """Return the features of all samples, (n, n_features) float32, in their order.

    Parameters
    ----------
    encoder : Encoder or ContrastiveModel
        Network; a `ContrastiveModel` gives the output of its head. Put in evaluation mode.
    images : Images
        Samples: volumes that are preprocessed, or natural images.
    settings : EmbeddingSettings, optional
        Batch size, precision, accelerator.
    n_readers : int
        Threads that read batches.
    progress : Progress
        Receives progress messages.
    device : torch.device, optional
        Device to compute on; by default that of `settings`.
    processes : Processes, optional
        Processes that share the batches of one process, so that the features are the same; all get all features.
    """
    settings = settings or EmbeddingSettings()
    device = device or torch.device(usable_accelerator(settings.accelerator, section="embedding"))
    processes = processes or Processes()
    half = settings.precision == "bf16-mixed"
    encoder = encoder.to(device).eval()
    features = np.zeros((len(images), encoder.n_features), dtype=np.float32)
    rows_of_all, size = range(len(images)), settings.batch_size
    batches = [rows_of_all[start : start + size] for start in rows_of_all[::size]][processes.rank :: processes.size]
    with (
        _quick_layout(encoder, device),  # before inference mode, in which weights would become untrainable
        torch.inference_mode(),
        keeping_freed_memory(),
        progress.task("embedding", sum(map(len, batches)), "scans") as task,
        closing(read_batches(images, batches, n_readers=n_readers)) as reading,
    ):
        for rows, samples in reading:
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                made = encoder(samples.to(device))
            features[rows.numpy()] = made.float().cpu().numpy()
            task.advance(len(rows))
    processes.merge(features)
    return features


@contextmanager
def _quick_layout(encoder: Encoder | ContrastiveModel, device: torch.device) -> Iterator[None]:
    """Lay the weights out on a CPU as is quickest where nothing is trained."""
    if device.type != "cpu":
        yield
        return
    encoder.to(memory_format=encoder.inference_layout)  # type: ignore[call-overload]
    try:
        yield
    finally:
        encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
