"""From an image, of two or three dimensions, to its representation, and to the embedding that the loss sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from neurocontrast.exceptions import ConfigError, DataError

if TYPE_CHECKING:
    from neurocontrast.encoders.settings import EncoderSettings, ReadOut

_COLOURS = 3
_KINDS = {1: "measures", 2: "images", 3: "volumes"}  # by the dimensions of a sample


class FeatureMaps(nn.Module):
    """Layers that make feature maps, and what an encoder must know of them.

    `blocks` are the names of the layers whose outputs can be read out besides the last, with their
    numbers of maps. `layout` is the memory format of images that is quickest in training on a CPU,
    `inference_layout` that of weights where nothing is trained.
    """

    def __init__(
        self,
        layers: nn.Module,
        *,
        n_dims: Literal[1, 2, 3],
        n_features: int,
        smallest_shape: int,
        blocks: Mapping[str, int] | None = None,
        layout: torch.memory_format = torch.contiguous_format,
        inference_layout: torch.memory_format = torch.contiguous_format,
    ) -> None:
        super().__init__()
        self.layers = layers
        self.blocks = dict(blocks or {})
        self.n_dims = n_dims
        self.n_features = n_features
        self.smallest_shape = smallest_shape
        self.layout = layout
        self.inference_layout = inference_layout

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images (n, C, …) to feature maps (n, n_features, …)."""
        return self.layers(images)

    def of_blocks(self, images: torch.Tensor, numbers: Sequence[int]) -> list[torch.Tensor]:
        """Map images (n, C, …) to the feature maps of each of some blocks, counted from 1."""
        names = list(self.blocks)
        found = {}
        for name, layer in self.layers.named_children():
            images = layer(images)
            if name in names:
                found[names.index(name) + 1] = images
            if len(found) == max(numbers):
                break
        return [found[number] for number in numbers]

    def children_of_blocks(self) -> list[list[nn.Module]]:
        """Return the layers block by block, each up to the one that can be read out; without blocks all are one."""
        found: list[list[nn.Module]] = [[]]
        for name, layer in self.layers.named_children():
            found[-1].append(layer)
            if name in self.blocks:
                found.append([])
        return [block for block in found if block]


class LinearComponents(nn.Module):
    """Project volumes onto linear components of their voxels: principal components, or discriminants of subjects.

    The `n_voxels` are those, over all channels, that varied among the training scans; the others
    are not looked at.
    """

    places: torch.Tensor

    def __init__(self, n_components: int, n_voxels: int) -> None:
        super().__init__()
        self.register_buffer("places", torch.zeros(n_voxels, dtype=torch.int32))
        self.mean = nn.Parameter(torch.zeros(n_voxels), requires_grad=False)
        self.components = nn.Parameter(torch.zeros(n_components, n_voxels), requires_grad=False)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, C, D, H, W), or measures (n, n_measures, 1), to scores (n, n_components, 1, 1, 1)."""
        chosen = volumes.flatten(1).index_select(1, self.places)
        scores = (chosen - self.mean) @ self.components.T
        return scores[..., None, None, None]

    def set_components(
        self, places: torch.Tensor, mean: torch.Tensor, components: torch.Tensor
    ) -> None:
        """Take over what was fitted: places of voxels, and over these the mean and the components."""
        self.places = places.to(torch.int32)
        self.mean = nn.Parameter(mean.float(), requires_grad=False)
        self.components = nn.Parameter(components.float(), requires_grad=False)


class Encoder(nn.Module):
    """A network, and its feature maps averaged over the whole or over a grid: one representation a sample.

    Images of two dimensions are standardised here, so that mean and standard deviation travel with
    the weights.

    Parameters
    ----------
    features : FeatureMaps
        Network that maps samples to feature maps.
    settings : EncoderSettings
        Settings that the network was built from; they travel with its weights.
    n_channels : int
        Channels of a volume.

    Attributes
    ----------
    n_dims, n_channels : int
        Axes of a sample, besides channels (2 or 3), and its channels: the three colours of an
        image, or a volume's.
    n_features, n_network_features : int
        Size of the representation, and of the part of it that the network makes.
    beside : LinearComponents or None
        Linear components of the training samples, kept beside the network's features.
    smallest_shape : int
        Fewest voxels or pixels that each axis of a sample must have.
    mean, std : Tensor (3,)
        Of two dimensions alone: what each colour's values, between 0 and 1, are standardised by.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self, features: FeatureMaps, settings: EncoderSettings, *, n_channels: int = 1
    ) -> None:
        super().__init__()
        self.features = features
        self.settings = settings
        self.beside: LinearComponents | None = None
        self.n_dims = features.n_dims
        self.smallest_shape = features.smallest_shape
        self.layout = features.layout
        self.inference_layout = features.inference_layout
        self.n_channels = _COLOURS if self.n_dims == 2 else n_channels
        self.set_read_out(settings.read_out)
        if self.n_dims == 2:
            self.register_buffer("mean", torch.zeros(_COLOURS))
            self.register_buffer("std", torch.ones(_COLOURS))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, n_channels, D, H, W), or images (n, 3, H, W), to representations (n, n_features).

        Measures are (n, n_measures, 1). Images are uint8, or floats between 0 and 1. Linear
        components beside the network, once they are fitted, follow the network's own features.
        """
        features = self.network(images)
        if self.beside is None:
            return features
        components = self.beside(images.to(self.beside.mean.dtype)).flatten(1)
        return torch.cat([features, components.to(features.dtype)], dim=1)

    def network(self, images: torch.Tensor) -> torch.Tensor:
        """Map samples to the network's features (n, n_network_features), which the head takes."""
        is_uint8 = images.dtype == torch.uint8
        # What is kept in half precision, or in bytes, is widened here, on the device that computes.
        images = images.to(next(self.parameters()).dtype)
        if self.n_dims == 2:
            images = images / 255 if is_uint8 else images
            images = (images - self.mean[:, None, None]) / self.std[:, None, None]
        if images.device.type == "cpu":
            images = images.contiguous(memory_format=self.layout)
        blocks = self.read_out.blocks
        maps = (
            [self.features(images)] if blocks is None else self.features.of_blocks(images, blocks)
        )
        means = [_grid_means(each, self.read_out.grid[: self.n_dims]) for each in maps]
        return means[0] if len(means) == 1 else torch.cat(means, dim=1)

    def unread_parameters(self) -> list[nn.Parameter]:
        """Return the weights of layers behind the last block that is read out; they get no gradient."""
        blocks = self.read_out.blocks
        unread = [] if blocks is None else self.features.children_of_blocks()[max(blocks) :]
        return [
            parameter for block in unread for layer in block for parameter in layer.parameters()
        ]

    def set_read_out(self, read_out: ReadOut) -> None:
        """Let features be read out of other blocks, or over another grid, than the network was trained with."""
        read_out.check(self.settings.name)
        self.read_out = read_out
        of_blocks = list(self.features.blocks.values())
        n_maps = (
            [self.features.n_features]
            if read_out.blocks is None
            else [of_blocks[n - 1] for n in read_out.blocks]
        )
        self.n_network_features = sum(n_maps) * read_out.n_cells

    @property
    def n_features(self) -> int:
        """Size of the representation: the network's features and the components beside them."""
        return self.n_network_features + self.n_components_beside

    @property
    def n_components_beside(self) -> int:
        """Number of linear components beside the network's features, 0 before they are fitted."""
        if self.beside is None:
            return 0
        return len(self.beside.components)

    def without_beside(self) -> Encoder:
        """Take off the components beside the network, which training goes on without."""
        self.beside = None
        return self

    @property
    def blocks(self) -> dict[str, int]:
        """Number of features of each block of the representation; empty for one block."""
        if self.beside is None:
            return {}
        return {"network": self.n_network_features, "components": self.n_components_beside}

    def set_standardisation(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> None:
        """Standardise each colour by these numbers, of the training images' values between 0 and 1."""
        if self.n_dims != 2:
            raise ValueError(
                f"encoder '{self.settings.name}' has no standardisation: its input comes standardised."
            )
        made = [np.asarray(values, dtype=np.float64) for values in (mean, std)]
        whole = all(values.shape == (_COLOURS,) and np.isfinite(values).all() for values in made)
        if not whole or made[1].min() <= 0:
            raise DataError(
                "the images' colours cannot be standardised: three finite means and three standard deviations above 0 "
                f"are needed, found {made[0].tolist()} and {made[1].tolist()}. Is a colour the same in every image? "
                "Set data.standardise to none."
            )
        for buffer, values in zip((self.mean, self.std), made, strict=True):
            buffer.copy_(torch.from_numpy(values))


def _grid_means(maps: torch.Tensor, grid: Sequence[int]) -> torch.Tensor:
    """Return the means (n, maps × cells) of feature maps over the cells of a grid.

    A voxel that two cells share counts in both by its part. Means and sums of products, not
    adaptive pooling: their backward pass is deterministic on every device.
    """
    if all(n_cells == 1 for n_cells in grid):
        return maps.mean(dim=tuple(range(2, maps.ndim)))
    for axis, n_cells in enumerate(grid, start=2):
        n_voxels = maps.shape[axis]
        edges = torch.linspace(0, n_voxels, n_cells + 1, dtype=torch.float64)
        lower = torch.arange(n_voxels)
        upper = torch.arange(1, n_voxels + 1)
        shared = torch.minimum(upper, edges[1:, None]) - torch.maximum(lower, edges[:-1, None])
        weights = (shared.clamp(min=0) * n_cells / n_voxels).to(maps)
        maps = torch.tensordot(maps, weights, dims=([axis], [1])).movedim(-1, axis)
    return maps.flatten(1)


def check_shape(encoder: Encoder, shape: Sequence[int]) -> None:
    """Refuse samples of a `shape` (without channels) that the network cannot encode."""
    from neurocontrast.encoders.settings import NAMES_OF_DIMS

    name = f"'{encoder.settings.name}'"
    names = NAMES_OF_DIMS[len(shape)]
    if encoder.settings.name not in names:
        kind = _KINDS[len(shape)]
        made_for = _KINDS[encoder.n_dims]
        found = "" if len(shape) == 1 else f", of shape {list(shape)}"
        raise ConfigError(
            f"encoder.name: {name} encodes {made_for}, and these are {kind}{found} (data.kind: "
            f"{kind}). Choose {', '.join(names[:-1])} or {names[-1]}, or set data.kind to {made_for}."
        )
    if min(shape) >= encoder.smallest_shape:
        return
    if encoder.n_dims == 2:
        raise ConfigError(
            f"encoder.name: {name} needs at least {encoder.smallest_shape} pixels on each axis, and the images have "
            f"{list(shape)}. Prepare them larger (images.size), or choose another encoder."
        )
    raise ConfigError(
        f"data.shape: encoder {name} needs at least {encoder.smallest_shape} voxels on each "
        f"axis, got {list(shape)}. Use a larger shape (with a smaller spacing_mm), or another encoder."
    )


class ProjectionHead(nn.Sequential):
    """Linear layers with rectifiers between them, on features standardised over the batch.

    Pooled features of brains are nearly the same for everybody: what differs is a small part of
    their mean. Without standardising, the first steps turn all embeddings towards that mean, and
    short trainings spend their time on the way back (``benchmarks/recipe.py``).

    Parameters
    ----------
    n_features : int
        Number of the encoder's features.
    sizes : sequence of int
        Size of each layer; the last is the size of the embedding, `n_features` of the head. Without
        any, the features are the embedding.
    norm : {'batch', 'layers', 'none'}
        ``batch`` standardises each feature over the batch, without parameters of its own;
        ``layers`` has batch normalisation after each layer but the last (Chen et al. 2020).

    Examples
    --------
    >>> import torch
    >>> ProjectionHead(1024, [512, 128])(torch.zeros(2, 1024)).shape
    torch.Size([2, 128])
    """

    def __init__(
        self,
        n_features: int,
        sizes: Sequence[int],
        *,
        norm: Literal["batch", "layers", "none"] = "batch",
    ) -> None:
        layers: list[nn.Module] = (
            [nn.BatchNorm1d(n_features, affine=False)] if norm == "batch" else []
        )
        for n_in, n_out in pairwise([n_features, *sizes[:-1]]):
            # Normalisation would take a bias out again.
            normalised: list[nn.Module] = [nn.BatchNorm1d(n_out)] if norm == "layers" else []
            layers += [nn.Linear(n_in, n_out, bias=not normalised), *normalised, nn.ReLU()]
        if sizes:
            layers.append(nn.Linear([n_features, *sizes][-2], sizes[-1]))
        super().__init__(*layers)
        self.n_features = sizes[-1] if sizes else n_features


class ContrastiveModel(nn.Module):
    """An encoder with its projection head; the loss sees the head's output.

    Parameters
    ----------
    encoder : Encoder
        The network whose features are kept.
    head : torch.nn.Module
        Maps the features to the embedding; evaluation does without the head by default.
    """

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    @property
    def halves(self) -> tuple[ContrastiveModel, ...]:
        """The encoders, each with its head: this one, or both of `TwoEncoders`."""
        return (self,)

    @property
    def n_features(self) -> int:
        """Size of the embedding."""
        return cast(int, self.head.n_features)

    @property
    def inference_layout(self) -> torch.memory_format:
        """Layout of the encoder's weights that is quickest where nothing is trained."""
        return self.encoder.inference_layout

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, n_channels, D, H, W), or images (n, 3, H, W), to embeddings (n, d), not normalised."""
        return self.head(self.encoder.network(images))
