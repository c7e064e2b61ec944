"""Compute features of a trained encoder, or embeddings after its projection head."""

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
    """Features of finished batches, kept on disk to continue an interrupted call of `embed`.

    The features of each batch are in a file of a hidden folder next to the table.

    Parameters
    ----------
    target : Path
        Table of embeddings that is being written.
    key : str
        Digest of everything that features depend on, such as weights and scans; files of another
        digest are not used.
    """

    def __init__(self, target: Path, key: str) -> None:
        self.target = target
        self._folder = target.with_name(f".{target.name}.{key[:16]}.partial")

    def read_into(self, features: npt.NDArray[np.float32], name: object) -> bool:
        """Fill an array with the stored features of a finished batch.

        Returns
        -------
        bool
            Whether there was a readable file of this shape; if not, `features` is unchanged.
        """
        with contextlib.suppress(DataError, ValueError):
            kept = read_array(self._folder / f"{name}.npy")
            if kept.shape == features.shape:
                features[:] = kept
                return True
        return False

    def add(self, name: object, features: npt.NDArray[np.float32]) -> None:
        """Store the features of the batch `name` on disk, unless any feature is not finite.

        A batch with such a feature is computed again when the user repeats an interrupted call of
        `embed`.
        """
        if np.isfinite(features).all():
            with (
                atomic_path(self._folder / f"{name}.npy") as temporary,
                temporary.open("wb") as stream,
            ):
                np.save(stream, features, allow_pickle=False)

    def remove(self) -> None:
        """Remove all features of finished batches that are stored next to the table `target`.

        Removed are also the features that calls of `embed` with other settings or weights have
        stored for a table of this name.
        """
        for folder in self.target.parent.glob(f".{glob.escape(self.target.name)}.*.partial"):
            if folder.is_file():  # of an earlier version
                folder.unlink()
            else:
                shutil.rmtree(folder)


def extract_features(
    encoder: Encoder | ContrastiveModel | SeveralEncoders,
    images: Images,
    *,
    settings: EmbeddingSettings | None = None,
    n_readers: int = 1,
    progress: Progress = SILENT,
    finished: FinishedBatches | None = None,
) -> np.ndarray:
    """Compute the features of all samples with a trained encoder, in evaluation mode.

    Parameters
    ----------
    encoder : Encoder, ContrastiveModel or SeveralEncoders
        Network; with a `ContrastiveModel`, the output of the projection head is computed. The
        network is put in evaluation mode.
    images : Images
        Samples: preprocessed volumes, measures, or natural images.
    settings : EmbeddingSettings, optional
        Batch size, precision and accelerator.
    n_readers : int
        Number of threads that read batches.
    progress : Progress
        Receives progress messages.
    finished : FinishedBatches, optional
        Store of finished batches, whose features are not computed again.

    Returns
    -------
    array of shape (n_samples, n_features)
        Features in the order of `images`, float32.
    """
    settings = settings or EmbeddingSettings()
    device = torch.device(usable_accelerator(settings.accelerator, section="embedding"))
    half = settings.precision == "bf16-mixed"
    encoder = encoder.to(device).eval()
    features = np.zeros((len(images), encoder.n_features), dtype=np.float32)
    batches = _batches_to_do(features, settings.batch_size, finished)
    n_to_do = sum(map(len, batches))
    if finished is not None and n_to_do < len(images):
        n_done = len(images) - n_to_do
        progress.message(f"{finished.target}: {n_done} of {len(images)} scans are there already.")
    with (
        _quick_layout(encoder, device),  # outside: inference mode would make weights untrainable
        torch.inference_mode(),
        keeping_freed_memory(),
        progress.task("embedding", n_to_do, "scans") as task,
        closing(read_batches(images, batches, n_readers=n_readers)) as reading,
    ):
        for rows, samples in reading:
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                output = encoder(samples.to(device))
            features[rows.numpy()] = output.float().cpu().numpy()
            if finished is not None:
                finished.add(int(rows[0]), features[rows.numpy()])
            task.advance(len(rows))
    return features


def _batches_to_do(
    features: npt.NDArray[np.float32], size: int, finished: FinishedBatches | None
) -> list[range]:
    """Return the rows of each batch still to compute; fill `features` with finished batches.

    A batch has `size` rows of `features`. Features of finished batches are read from `finished`.
    """
    batches = []
    for start in range(0, len(features), size):
        rows = range(start, min(start + size, len(features)))
        if finished is not None and finished.read_into(features[start : rows.stop], start):
            continue
        batches.append(rows)
    return batches


@contextmanager
def _quick_layout(
    encoder: Encoder | ContrastiveModel | SeveralEncoders, device: torch.device
) -> Iterator[None]:
    """Convert an encoder's weights to the memory format fastest on a CPU, until the context ends.

    On other devices nothing is changed.
    """
    if device.type != "cpu":
        yield
        return
    encoder.to(memory_format=encoder.inference_layout)  # type: ignore[call-overload]
    try:
        yield
    finally:
        encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
