"""Two random views of each sample of a batch, keyed by what they are for, made by any transform of MONAI."""

from __future__ import annotations

import copy
import math
import random
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, MapTransform, Randomizable
from monai.utils import MAX_SEED
from torch import Tensor

from neurocontrast.exceptions import ConfigError, DataError, NeurocontrastError
from neurocontrast.seeds import derive_seed

_KEY = "image"
_N_TRIED = 4
_EQUAL = 1e-3  # what may differ between two computations of a view on a GPU, over its largest value

Sample = dict[str, Any]


@runtime_checkable
class BatchTransform(Protocol):
    """A random transform that can make the views of a whole batch at once."""

    def batch(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """Return a view of each image, which depends on the image and on its own seed (63 bits) alone."""
        ...


class RandBatchTransform(Randomizable, MapTransform):
    """Base of transforms that make the views of a whole batch at once, and of one item by a batch of one."""

    def __init__(self, keys: str | Sequence[str], *, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, allow_missing_keys)
        self.drawn = 0

    def randomize(self, data: Any = None) -> None:  # noqa: ARG002 (MONAI calls it with the data)
        """Draw the seed of the next view."""
        self.drawn = int(self.R.randint(2**63 - 1, dtype=np.int64))

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the dictionary with float32 views in the places of what was given."""
        d = dict(data)
        self.randomize()
        for key in self.key_iterator(d):
            d[key] = self.batch(torch.as_tensor(d[key])[None], [self.drawn])[0]
        return d

    def batch(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """Return a view of each image, drawn from its seed, as a new float32 tensor."""
        raise NotImplementedError


class TwoViews:
    """Make two views of each sample of a batch, by any random transform, on the batch's device, in float32.

    A view depends on the image, `seed`, the epoch, the sample's name and the view's number (0 or 1): not on the rest
    of the batch, its order, the process, or what was drawn before. So a resumed run sees the views of an uninterrupted
    one, and several processes those of one. Before each view the transform is seeded by its ``set_random_state``;
    samples of one name share their random numbers.

    Parameters
    ----------
    transform : callable
        Mostly a ``monai.transforms.Compose``: anything that takes a dictionary ``{"image": Tensor}`` and returns one.
        An image is a plain float32 tensor (channels, then two or three spatial axes), uint8 images divided by 255. A
        `BatchTransform` is given whole batches. A copy is used: the transform given keeps its random state.
    seed : int
        Names the run's randomness.
    n_channels : int, optional
        Channels of a view, where the transform returns others than it is given.

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

    def __init__(
        self,
        transform: Callable[[Sample], Mapping[str, Any]] | BatchTransform,
        *,
        seed: int,
        n_channels: int | None = None,
    ) -> None:
        if not callable(transform):
            raise ConfigError(
                f"augment: views need a transform that can be called with a dictionary. Got {transform!r}; several "
                "transforms go into monai.transforms.Compose."
            )
        try:
            self.transform = copy.deepcopy(transform)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"augment: {_name(transform)} cannot be copied ({error}), and views need a copy of their own to seed."
            ) from error
        self.seed, self.n_channels = seed, n_channels
        self._batch = self.transform.batch if isinstance(self.transform, BatchTransform) else None
        self._tried = False

    def __call__(self, images: Tensor, names: Sequence[str], *, epoch: int) -> tuple[Tensor, Tensor]:
        """Return two views of `images` (b, channels, ...), whose samples are called `names`; see `view`."""
        return self.view(images, names, epoch=epoch, view=0), self.view(images, names, epoch=epoch, view=1)

    @torch.no_grad()
    def view(self, images: Tensor, names: Sequence[str], *, epoch: int, view: int) -> Tensor:
        """Return view number `view` of each image, as a new float32 tensor.

        A ConfigError names the transform of a `Compose` that fails, does not return an image of the same shape with
        finite values, or draws from elsewhere than its own random state.
        """
        are_measures = images.ndim == 3 and images.shape[2] == 1
        if (images.ndim not in (4, 5) and not are_measures) or len(names) != len(images):
            raise DataError(
                "Views need images of shape (batch, channels, D, H, W) or (batch, channels, H, W), or measures (batch, "
                f"n_measures, 1), and one name for each sample. Got images of shape {tuple(images.shape)} and "
                f"{len(names)} names."
            )
        with torch.autocast(images.device.type, enabled=False):
            if len(names) and not self._tried:
                self._try(images[:1], names[0])
                self._tried = True
            return self._made(images, names, [derive_seed("view", self.seed, epoch, name, view) for name in names])

    def _made(self, images: Tensor, names: Sequence[str], seeds: Sequence[int]) -> Tensor:
        if self._batch is not None:
            views = self._batch(images, seeds)
        else:
            shape = (len(images), self.n_channels or images.shape[1], *images.shape[2:])
            views = torch.empty(shape, dtype=torch.float32, device=images.device)
            # One image after the other: a view cannot then depend on its batch.
            for made, image, name, seed in zip(views, images, names, seeds, strict=True):
                self._fill(made, image, name, seed)
        # A sum is forty times as fast as a look at each value.
        if not math.isfinite(float(views.sum())):
            for view, image, name, seed in zip(views, images, names, seeds, strict=True):
                # An image that is not finite itself is for training to refuse, which knows more of it.
                if bool(view.isfinite().all()) or not bool(image.isfinite().all()):
                    continue
                culprit = self._culprit(
                    image, seed, lambda found: found is not None and not bool(found.isfinite().all())
                )
                raise ConfigError(f"augment: {culprit} made values of {name} that are not finite.")
        return views

    def _fill(self, made: Tensor, image: Tensor, name: str, seed: int) -> None:
        """Make a view in its place in the batch."""
        given = _plain(image, out=made if image.shape == made.shape else None)
        try:
            data = self._seeded(seed)({_KEY: given})
        except Exception as error:  # a transform of the user's may raise anything
            root: BaseException = error
            while root.__cause__ is not None:  # MONAI wraps an error once for each `Compose`
                root = root.__cause__
            if isinstance(root, NeurocontrastError | MemoryError | torch.OutOfMemoryError):
                raise root from None
            culprit = self._trace(image, seed)[-1][0]
            raise ConfigError(f"augment: {culprit} failed on {name}: {type(root).__name__}: {root}") from error
        found = _image_in(data)
        if found is None or found.shape != made.shape:
            shape = made.shape
            culprit = self._culprit(image, seed, lambda found: found is None or found.shape != shape)
            what = "no tensor" if found is None else f"shape {tuple(found.shape)}"
            raise ConfigError(
                f"augment: a view must be a tensor of the image's shape {tuple(shape)}, under '{_KEY}'. {culprit} "
                f"returned {what} for {name}."
            )
        if found.data_ptr() != made.data_ptr() or found.stride() != made.stride():
            # What only shows the image in another order must not be read while it is overwritten.
            shared = found.untyped_storage().data_ptr() == made.untyped_storage().data_ptr()
            made.copy_(found.clone() if shared else found)

    def _seeded(self, seed: int) -> Any:
        """Return the transform, seeded where it has any randomness."""
        if hasattr(self.transform, "set_random_state"):
            self.transform.set_random_state(seed=seed % MAX_SEED)
        return self.transform

    def _try(self, image: Tensor, name: str) -> None:
        """Refuse a transform whose views do not follow from its seed; once, on the first sample."""
        for number in range(_N_TRIED):
            seeds, before = [derive_seed("trial of views", self.seed, number)], _global_states()
            one, other = (self._made(image, [name], seeds) for _ in range(2))
            moved = [where for where, state in _global_states().items() if state != before[where]]
            if not _equal(one, other):
                first, second = (self._trace(image[0], seeds[0]) for _ in range(2))
                differing = (a[0] for a, b in zip(first, second, strict=False) if not _equal(a[1], b[1]))
                raise ConfigError(
                    f"augment: {next(differing, _name(self.transform))} makes another view each time, seeded alike: it "
                    f"draws from {' and '.join(moved) or 'somewhere'} that set_random_state does not seed, and a "
                    "resumed run would not be the run. Draw from self.R of a monai.transforms.RandomizableTransform."
                )
            if moved:
                warnings.warn(
                    f"augment: {_name(self.transform)} draws from {' and '.join(moved)}, which set_random_state does "
                    "not seed. Where a view depends on it, a resumed run is not the run.",
                    stacklevel=4,
                )
                return

    def _trace(self, image: Tensor, seed: int) -> list[tuple[str, Tensor | None]]:
        """Return the name of each step of the transform and what it makes of an image, up to a step that fails."""
        if self._batch is not None:
            return [(_name(self.transform), self._batch(image[None], [seed])[0])]
        data: Any = {_KEY: _plain(image)}
        made: list[tuple[str, Tensor | None]] = []
        for step in _steps(self._seeded(seed)):
            try:
                data = step(data)
            except Exception:  # as above, and it is named
                return [*made, (_name(step), None)]
            found = _image_in(data)
            made.append((_name(step), None if found is None else found.clone()))
        return made

    def _culprit(self, image: Tensor, seed: int, wrong: Callable[[Any], bool]) -> str:
        """Return the name of the step after which the image is wrong, and stays so."""
        culprit = ""
        for name, found in self._trace(image, seed):
            culprit = (culprit or name) if wrong(found) else ""
        return culprit or _name(self.transform)


def _plain(image: Tensor, out: Tensor | None = None) -> Tensor:
    """Return an image as its transform gets it."""
    made = torch.empty(image.shape, dtype=torch.float32, device=image.device) if out is None else out
    made.copy_(image)
    return made.div_(255.0) if image.dtype == torch.uint8 else made


def _image_in(data: Any) -> Tensor | None:
    found = data.get(_KEY) if isinstance(data, Mapping) else None
    if isinstance(found, MetaTensor):
        return found.as_tensor()
    return found if isinstance(found, Tensor) else None


def _steps(transform: Any) -> Iterator[Any]:
    """Yield the transforms that a `Compose` applies one after the other."""
    if type(transform) is Compose:
        for child in transform.transforms:
            yield from _steps(child)
    else:
        yield transform


def _name(transform: Any) -> str:
    return getattr(transform, "__name__", None) or type(transform).__name__


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return one is other
    tolerance = 0.0 if one.device.type == "cpu" else _EQUAL * float(one.nan_to_num().abs().amax())
    return torch.allclose(one, other, rtol=0.0, atol=tolerance, equal_nan=True)


def _global_states() -> dict[str, Any]:
    numpys: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return {
        "Python's global random state": random.getstate(),
        "NumPy's global random state": (bytes(numpys["state"]["key"]), numpys["state"]["pos"]),
        "PyTorch's global random state": bytes(torch.get_rng_state().numpy()),
    }
