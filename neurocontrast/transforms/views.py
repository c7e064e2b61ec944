"""Make two random views of each sample by any transform, reproducibly by sample and epoch."""

import copy
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import MapTransform, Randomizable
from monai.utils import MAX_SEED
from torch import Tensor

from neurocontrast.exceptions import ConfigError, DataError, NeurocontrastError
from neurocontrast.seeds import derive_seed
from neurocontrast.transforms.batches import MakeViews, batched

_KEY = "image"
_N_TRIED = 6
"""Number of views made to test that a transform is reproducible from a seed."""
_EQUAL = 1e-3
"""Largest relative difference between two views of one seed that counts as rounding on a GPU."""

Sample = dict[str, Any]
"""Dictionary of an image, as MONAI's dictionary transforms take."""


class RandBatchTransform(Randomizable, MapTransform):
    """Base class of transforms that make random views of a whole batch at once, by `batch`.

    Called with the dictionary of one sample, the transform makes a batch of one.
    """

    def __init__(self, keys: str | Sequence[str], *, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        self.drawn = 0

    def randomize(self, data: Any = None) -> None:  # noqa: ARG002 (MONAI calls it with the data)
        """Draw a seed, by which the next call makes a view."""
        self.drawn = int(self.R.randint(2**63 - 1, dtype=np.int64))

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return a copy of dictionary `data` with images replaced by random float32 views."""
        d = dict(data)
        self.randomize()
        for key in self.key_iterator(d):
            d[key] = self.batch(torch.as_tensor(d[key])[None], [self.drawn])[0]
        return d

    def batch(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """Return a random float32 view of each of `images`, drawn by the image's seed in `seeds`.

        A view depends on the image and its seed alone. A subclass defines the views.
        """
        raise NotImplementedError


class TwoViews:
    """Make two float32 views of each sample of a batch, by any random transform.

    A view depends on the image, `seed`, the epoch, the sample's name and the view's number (0 or 1
    for the two views), but not on the rest of the batch, the order of samples, the process, or
    earlier draws. So a resumed run sees the views of an uninterrupted run, and several processes
    see the views of one process. Views are made on the batch's device. Before each view the
    transform is seeded by ``set_random_state``; samples of the same name get the same random
    numbers.

    Parameters
    ----------
    transform : callable
        Function from a dictionary ``{"image": Tensor}`` to a dictionary of the same form, mostly a
        ``monai.transforms.Compose``. An image is a plain float32 tensor (channels, then two or
        three spatial axes), uint8 images divided by 255. A `RandBatchTransform` receives whole
        batches, and so do this package's operations on volumes, alone or in a `Compose` of nothing
        else, such as `brain_views`. The transform is copied, so that its random state is unchanged.
    seed : int
        Seed of the run, from which the seed of each view is derived.

    Examples
    --------
    >>> import torch
    >>> from monai.transforms import Compose, RandFlipd
    >>> from neurocontrast.transforms import RandBlurd, TwoViews
    >>> views = TwoViews(Compose([RandFlipd("image", prob=0.5), RandBlurd("image")]), seed=0)
    >>> view1, view2 = views(torch.randn(2, 1, 16, 18, 16), ["sub-01", "sub-02"], epoch=3)
    >>> view1.shape
    torch.Size([2, 1, 16, 18, 16])
    """

    def __init__(self, transform: Callable[[Sample], Mapping[str, Any]], *, seed: int) -> None:
        if not callable(transform):
            raise ConfigError(
                "augment: views need a transform that can be called with a dictionary. Got "
                f"{transform!r}; several transforms go into monai.transforms.Compose."
            )
        try:
            self.transform = copy.deepcopy(transform)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"augment: {_name(transform)} cannot be copied ({error}), and views need a copy of "
                "their own to seed."
            ) from error
        self.seed = seed
        self._batch: MakeViews | None
        if isinstance(self.transform, RandBatchTransform):
            self._batch = self.transform.batch
        else:
            self._batch = batched(self.transform, key=_KEY)
        self._tried = False

    def __call__(
        self, images: Tensor, names: Sequence[str], *, epoch: int
    ) -> tuple[Tensor, Tensor]:
        """Return two random views of each image (b, channels, ...), as two tensors; see `view`.

        `names` identify the samples.
        """
        views = self.unchecked(images, names, epoch=epoch)
        self.check(images, names, views)
        return views

    def unchecked(
        self, images: Tensor, names: Sequence[str], *, epoch: int
    ) -> tuple[Tensor, Tensor]:
        """Return two random views of each image, without checking that values are finite.

        A training step checks views later, so that the GPU is waited for only once.
        """
        first = self.unchecked_view(images, names, epoch=epoch, view=0)
        second = self.unchecked_view(images, names, epoch=epoch, view=1)
        return first, second

    def view(self, images: Tensor, names: Sequence[str], *, epoch: int, view: int) -> Tensor:
        """Return view number `view` of each image, as a new float32 tensor.

        `view` is 0 or 1 for the two views of training. Any other number gives a further view, drawn
        with other random numbers. A ConfigError names a transform that fails, that returns another
        shape or values that are not finite, or that draws from another random state than its own.
        """
        views = self.unchecked_view(images, names, epoch=epoch, view=view)
        self.check(images, names, (views,))
        return views

    @torch.no_grad()
    def unchecked_view(
        self, images: Tensor, names: Sequence[str], *, epoch: int, view: int
    ) -> Tensor:
        """Return view number `view` of each image, without checking that values are finite."""
        are_measures = images.ndim == 3 and images.shape[2] == 1
        if (images.ndim not in (4, 5) and not are_measures) or len(names) != len(images):
            raise DataError(
                "Views need images of shape (batch, channels, D, H, W) or (batch, channels, H, W), "
                "or measures (batch, n_measures, 1), and one name for each sample. Got images of "
                f"shape {tuple(images.shape)} and {len(names)} names."
            )
        with torch.autocast(images.device.type, enabled=False):
            if len(names) and not self._tried:
                self._try(images[:1], names[0])
                self._tried = True
            seeds = [derive_seed("view", self.seed, epoch, name, view) for name in names]
            return self._views_of(images, names, seeds)

    def _views_of(self, images: Tensor, names: Sequence[str], seeds: Sequence[int]) -> Tensor:
        """Return a random view of each of `images`, drawn by the image's seed in `seeds`.

        Views are made for the whole batch at once if the transform can, or else image by image.
        """
        if self._batch is not None:
            return self._batch(images, seeds)
        views = torch.empty(images.shape, dtype=torch.float32, device=images.device)
        # One image after the other: a view cannot then depend on its batch. Copied at once: a
        # transform may return the same memory each time.
        for view, image, name, seed in zip(views, images, names, seeds, strict=True):
            view.copy_(self._one(image, name, seed))
        return views

    def check(self, images: Tensor, names: Sequence[str], views: Sequence[Tensor]) -> None:
        """Raise a ConfigError if a view has values that are not finite, and name the sample.

        `images` are the images from which `views` were made, and `names` the names of the samples.
        Only one number is transferred from the device unless the check fails. An image that is not
        finite itself is left to training, which reports more about the image.
        """
        # A sum is forty times as fast as a look at each value.
        total = torch.stack([view.sum() for view in views]).sum()
        if math.isfinite(float(total)):
            return
        for name, image, *of_image in zip(names, images, *views, strict=True):
            is_finite = bool(torch.stack(of_image).isfinite().all())
            if bool(image.isfinite().all()) and not is_finite:
                raise ConfigError(f"augment: the view of {name} has values that are not finite.")

    def _one(self, image: Tensor, name: str, seed: int) -> Tensor:
        """Return a random view of one image as a plain tensor, drawn by `seed`.

        The transform is one of single images. If it fails, a ConfigError gives the sample's `name`.
        """
        if hasattr(self.transform, "set_random_state"):
            self.transform.set_random_state(seed=seed % MAX_SEED)
        plain = image.to(torch.float32, copy=True)
        if image.dtype == torch.uint8:
            plain.div_(255.0)
        try:
            data = self.transform({_KEY: plain})
        except Exception as error:  # a transform of the user's may raise anything
            root: BaseException = error
            while root.__cause__ is not None:  # MONAI wraps an error once for each `Compose`
                root = root.__cause__
            if isinstance(root, NeurocontrastError | MemoryError | torch.OutOfMemoryError):
                raise root from None
            raise ConfigError(
                f"augment: failed on {name}: {type(root).__name__}: {root} ({error})"
            ) from error
        return self._checked(data, image, name)

    def _checked(self, data: Any, image: Tensor, name: str) -> Tensor:
        """Return the view in `data`, a transform's result for `image`, as a plain tensor.

        A ConfigError, which names the sample, refuses a missing view and one of another shape than
        `image`.
        """
        view = None
        if isinstance(data, Mapping):
            view = data.get(_KEY)
        if not isinstance(view, Tensor) or view.shape != image.shape:
            shape = "no tensor"
            if isinstance(view, Tensor):
                shape = f"shape {tuple(view.shape)}"
            raise ConfigError(
                f"augment: a view must be a tensor of the image's shape {tuple(image.shape)}, "
                f"under '{_KEY}'. Got {shape} for {name}."
            )
        if isinstance(view, MetaTensor):
            return view.as_tensor()
        return view

    def _try(self, image: Tensor, name: str) -> None:
        """Raise a ConfigError if the transform makes different views of `image` by one seed.

        `image` is a batch of one, the first sample's.
        """
        for number in range(_N_TRIED):
            seeds = [derive_seed("trial of views", self.seed, number)]
            first = self._views_of(image, [name], seeds)
            second = self._views_of(image, [name], seeds)
            tolerance = 0.0
            if first.device.type != "cpu":
                tolerance = _EQUAL * float(first.nan_to_num().abs().amax())
            if not torch.allclose(first, second, rtol=0.0, atol=tolerance, equal_nan=True):
                raise ConfigError(
                    f"augment: {_name(self.transform)} makes another view each time, seeded alike: "
                    "it draws from somewhere that set_random_state does not seed, and a resumed "
                    "run would not be the run. Draw from self.R of a "
                    "monai.transforms.RandomizableTransform."
                )


def _name(transform: Any) -> str:
    """Return the name of a transform for messages: that of the function, or of the class."""
    return getattr(transform, "__name__", None) or type(transform).__name__
