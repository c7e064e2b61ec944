"""Features of a frozen encoder, or the embeddings after its projection head."""

import contextlib
import glob
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.data.batches import Images, read_batches
from neurocontrast.embedding import EmbeddingSettings
from neurocontrast.encoders.encoder import ContrastiveModel, Encoder
from neurocontrast.encoders.members import SeveralEncoders
from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path
from neurocontrast.parallel.devices import keeping_freed_memory, usable_accelerator
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reading import read_array


class FinishedBatches:
    """Features of batches, or of scans, a file each in a hidden folder next to a table, for a call that goes on.

    `key` is a digest of all that the features depend on; folders of another one are not used.
    """

    def __init__(self, target: Path, key: str) -> None:
        self.target = target
        self._folder = target.with_name(f".{target.name}.{key[:16]}.partial")

    def read_into(self, features: npt.NDArray[np.float32], name: object) -> bool:
        """Fill in the features that are kept under a name; return False for none of this shape, or a damaged file."""
        with contextlib.suppress(DataError, ValueError):
            kept = read_array(self._folder / f"{name}.npy")
            if kept.shape == features.shape:
                features[:] = kept
                return True
        return False

    def add(self, name: object, features: npt.NDArray[np.float32]) -> None:
        """Keep features under a name; those that are not finite are computed again."""
        if np.isfinite(features).all():
            with (
                atomic_path(self._folder / f"{name}.npy") as temporary,
                temporary.open("wb") as stream,
            ):
                np.save(stream, features, allow_pickle=False)

    def remove(self) -> None:
        """Remove all such folders of the table, of other keys too."""
        for folder in self.target.parent.glob(f".{glob.escape(self.target.name)}.*.partial"):
            folder.unlink() if folder.is_file() else shutil.rmtree(
                folder
            )  # a file: of an earlier version


def extract_features(
    encoder: Encoder | ContrastiveModel | SeveralEncoders,
    images: Images,
    *,
    settings: EmbeddingSettings | None = None,
    n_readers: int = 1,
    progress: Progress = SILENT,
    finished: FinishedBatches | None = None,
) -> np.ndarray:
    """Return the features of all samples, (n, n_features) float32, in their order.

    Parameters
    ----------
    encoder : Encoder, ContrastiveModel or SeveralEncoders
        Network; a `ContrastiveModel` gives the output of its head. Put in evaluation mode.
    images : Images
        Samples: volumes that are preprocessed, or natural images.
    settings : EmbeddingSettings, optional
        Batch size, precision, accelerator.
    n_readers : int
        Threads that read batches.
    progress : Progress
        Receives progress messages.
    finished : FinishedBatches, optional
        Where batches are kept as they are finished, and those of an earlier call are found.
    """
    settings = settings or EmbeddingSettings()
    device = torch.device(usable_accelerator(settings.accelerator, section="embedding"))
    half = settings.precision == "bf16-mixed"
    encoder = encoder.to(device).eval()
    features = np.zeros((len(images), encoder.n_features), dtype=np.float32)
    n = len(images)
    size = settings.batch_size
    batches = [range(n)[start : start + size] for start in range(0, n, size)]
    if finished is not None:
        batches = [
            rows
            for rows in batches
            if not finished.read_into(features[rows.start : rows.stop], rows.start)
        ]
        if n_there := n - sum(map(len, batches)):
            progress.message(f"{finished.target}: {n_there} of {n} scans are there already.")
    with (
        _quick_layout(
            encoder, device
        ),  # before inference mode, in which weights would become untrainable
        torch.inference_mode(),
        keeping_freed_memory(),
        progress.task("embedding", sum(map(len, batches)), "scans") as task,
        closing(read_batches(images, batches, n_readers=n_readers)) as reading,
    ):
        for rows, samples in reading:
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                made = encoder(samples.to(device))
            features[rows.numpy()] = made.float().cpu().numpy()
            if finished is not None:
                finished.add(int(rows[0]), features[rows.numpy()])
            task.advance(len(rows))
    return features


@contextmanager
def _quick_layout(
    encoder: Encoder | ContrastiveModel | SeveralEncoders, device: torch.device
) -> Iterator[None]:
    """Lay the weights out on a CPU as is quickest where nothing is trained."""
    if device.type != "cpu":
        yield
        return
    encoder.to(memory_format=encoder.inference_layout)  # type: ignore[call-overload]
    try:
        yield
    finally:
        encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
