"""Encoder of volumes, images or measures to features, and the projection head for the loss."""

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
_KINDS = {1: "measures", 2: "images", 3: "volumes"}
"""Kind of sample, such as an image, by number of spatial dimensions; for messages."""


class FeatureMaps(nn.Module):
    """Convolutional layers that map samples to feature maps, with facts about the network.

    Parameters
    ----------
    layers : torch.nn.Module
        Network that maps samples (n, C, …) to feature maps (n, n_features, …).
    n_dims : {1, 2, 3}
        Number of dimensions of a sample: 1 for measures, 2 for images, 3 for volumes.
    n_features : int
        Number of feature maps, which is the number of channels of the output.
    smallest_shape : int
        Smallest number of voxels or pixels of a sample along each axis.
    blocks : mapping, optional
        Number of feature maps of each layer whose output can be used as features, by layer name.
    layout : torch.memory_format
        Memory format of images with which training on a CPU is fastest.
    inference_layout : torch.memory_format
        Memory format of weights with which inference on a CPU is fastest.
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
        """Return the feature maps of `images` (n, C, …) after each of the blocks in `numbers`.

        Blocks are numbered from 1. The maps of a block have the shape (n, n_maps, …).
        """
        names = list(self.blocks)
        maps = {}
        for name, layer in self.layers.named_children():
            images = layer(images)
            if name in names:
                maps[names.index(name) + 1] = images
            if len(maps) == max(numbers):
                break
        return list(map(maps.__getitem__, numbers))

    def children_of_blocks(self) -> list[list[nn.Module]]:
        """Return a list of layers for each block of the network, in order.

        A network without blocks counts as one block. Layers after the last block are a further
        list.
        """
        blocks: list[list[nn.Module]] = [[]]
        for name, layer in self.layers.named_children():
            blocks[-1].append(layer)
            if name in self.blocks:
                blocks.append([])
        return list(filter(None, blocks))


class LinearComponents(nn.Module):
    """Project volumes onto linear components of voxels: principal components or discriminants.

    Parameters
    ----------
    n_components : int
        Number of components.
    n_voxels : int
        Number of voxels, over all channels, that varied among the training scans; other voxels are
        ignored.
    """

    places: torch.Tensor

    def __init__(self, n_components: int, n_voxels: int) -> None:
        super().__init__()
        self.register_buffer("places", torch.zeros(n_voxels, dtype=torch.int32))
        self.mean = nn.Parameter(torch.zeros(n_voxels), requires_grad=False)
        self.components = nn.Parameter(torch.zeros(n_components, n_voxels), requires_grad=False)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes (n, C, D, H, W), or measures (n, n_measures, 1), to component scores.

        Returns
        -------
        tensor (n, n_components, 1, 1, 1)
            Scores, in the shape of feature maps.
        """
        chosen = volumes.flatten(1).index_select(1, self.places)
        scores = (chosen - self.mean) @ self.components.T
        return scores[..., None, None, None]

    def set_components(
        self, places: torch.Tensor, mean: torch.Tensor, components: torch.Tensor
    ) -> None:
        """Set components that were fitted to training scans.

        Parameters
        ----------
        places : tensor of int (n_voxels,)
            Positions of the voxels in a flattened volume.
        mean : tensor (n_voxels,)
            Mean of each voxel over the training scans.
        components : tensor (n_components, n_voxels)
            Weight of each voxel in each component.
        """
        self.places = places.to(torch.int32)
        self.mean = nn.Parameter(mean.float(), requires_grad=False)
        self.components = nn.Parameter(components.float(), requires_grad=False)


class Encoder(nn.Module):
    """Network that maps samples to features, which are averages of feature maps over space.

    A feature is the mean of one feature map over the whole sample, or, with a grid, over one cell
    of the grid: each map then gives a feature for each cell. Two-dimensional images are
    standardised by the encoder, so that mean and standard deviation are stored with the weights.

    Parameters
    ----------
    features : FeatureMaps
        Network that maps samples to feature maps.
    settings : EncoderSettings
        Settings from which the network was built, which are stored with the weights.
    n_channels : int
        Number of channels of a volume.

    Attributes
    ----------
    n_dims : int
        Number of dimensions of a sample: 1 for measures, 2 for images, 3 for volumes.
    n_channels : int
        Number of channels of a sample: three colours of an image, or the channels of a volume.
    n_features : int
        Number of features.
    n_network_features : int
        Number of features of the network alone, without appended linear components.
    beside : LinearComponents or None
        Linear components of the samples, appended to the network's features; None without
        components.
    smallest_shape : int
        Smallest number of voxels or pixels of a sample along each axis.
    mean, std : Tensor (3,)
        For images: mean and standard deviation of each colour, for values between 0 and 1.
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
        self.n_channels = n_channels
        self.set_read_out(settings.read_out)
        if self.n_dims == 2:
            self.n_channels = _COLOURS
            self.register_buffer("mean", torch.zeros(_COLOURS))
            self.register_buffer("std", torch.ones(_COLOURS))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Compute the features of samples, with linear components appended if there are any.

        Parameters
        ----------
        images : tensor
            Volumes (n, n_channels, D, H, W), images (n, 3, H, W), uint8 or floats between 0 and 1,
            or measures (n, n_measures, 1).

        Returns
        -------
        tensor (n, n_features)
            Features of the network, followed by linear components if there are any.
        """
        features = self.network(images)
        if self.beside is None:
            return features
        components = self.beside(images.to(self.beside.mean.dtype)).flatten(1)
        return torch.cat([features, components.to(features.dtype)], dim=1)

    def network(self, images: torch.Tensor) -> torch.Tensor:
        """Compute the network's features (n, n_network_features) of `images`.

        The linear components that `forward` appends are left out. The projection head reads the
        network's features alone.
        """
        is_uint8 = images.dtype == torch.uint8
        # Samples in half precision or bytes are widened on the device that computes.
        images = images.to(next(self.parameters()).dtype)
        if self.n_dims == 2:
            if is_uint8:
                images = images / 255
            images = (images - self.mean[:, None, None]) / self.std[:, None, None]
        if images.device.type == "cpu":
            images = images.contiguous(memory_format=self.layout)
        grid = self.read_out.grid[: self.n_dims]
        blocks = self.read_out.blocks
        if blocks is None:
            return _grid_means(self.features(images), grid)
        means = []
        for maps in self.features.of_blocks(images, blocks):
            means.append(_grid_means(maps, grid))
        return torch.cat(means, dim=1)

    def unread_parameters(self) -> list[nn.Parameter]:
        """List the weights, as tensors, of layers behind the last block that `read_out` names.

        These weights do not change the features, and get no gradient. The list is empty if
        `read_out` names no blocks.
        """
        blocks = self.read_out.blocks
        parameters: list[nn.Parameter] = []
        if blocks is None:
            return parameters
        for block in self.features.children_of_blocks()[max(blocks) :]:
            for layer in block:
                parameters += layer.parameters()
        return parameters

    def set_read_out(self, read_out: ReadOut) -> None:
        """Choose the blocks of the network, and the grid, by which feature maps become features.

        `read_out` names the blocks and the numbers of grid cells along each axis. A feature is the
        mean of one feature map of a named block over one grid cell. The choice can be changed after
        training.

        Raises
        ------
        ValueError
            If the network has no such blocks.
        """
        read_out.check(self.settings.name)
        self.read_out = read_out
        n_maps = self.features.n_features
        if read_out.blocks is not None:
            of_blocks = list(self.features.blocks.values())
            n_maps = 0
            for block in read_out.blocks:
                n_maps += of_blocks[block - 1]
        self.n_network_features = n_maps * read_out.n_cells

    @property
    def n_features(self) -> int:
        """Number of features of the network, plus the number of appended linear components."""
        return self.n_network_features + self.n_components_beside

    @property
    def n_components_beside(self) -> int:
        """Number of linear components appended to the network's features; 0 before fitting."""
        if self.beside is None:
            return 0
        return len(self.beside.components)

    def without_beside(self) -> Encoder:
        """Remove the linear components of the samples, appended after training, from the features.

        Such components are, for example, principal components of voxels. The encoder is changed in
        place and returned. Its features are then those of the network alone, which can be trained
        further.
        """
        self.beside = None
        return self

    @property
    def blocks(self) -> dict[str, int]:
        """Number of features by source: the ``network``, and appended linear ``components``.

        The network's features come first. Empty if no linear components of the samples are
        appended.
        """
        if self.beside is None:
            return {}
        return {"network": self.n_network_features, "components": self.n_components_beside}

    def set_standardisation(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> None:
        """Set mean and standard deviation of each colour, by which images are standardised.

        Parameters
        ----------
        mean, std : array (3,)
            Mean and standard deviation of each colour over the training images, for values between
            0 and 1.

        Raises
        ------
        DataError
            If numbers are not finite, or a standard deviation is not above 0.
        """
        if self.n_dims != 2:
            raise ValueError(
                f"encoder '{self.settings.name}' has no standardisation: its input comes "
                "standardised."
            )
        means = np.asarray(mean, dtype=np.float64)
        sds = np.asarray(std, dtype=np.float64)
        if not _is_colour(means) or not _is_colour(sds) or sds.min() <= 0:
            raise DataError(
                "the images' colours cannot be standardised: three finite means and three standard "
                f"deviations above 0 are needed, found {means.tolist()} and {sds.tolist()}. Is a "
                "colour the same in every image? Set data.standardise to none."
            )
        self.mean.copy_(torch.from_numpy(means))
        self.std.copy_(torch.from_numpy(sds))


def _is_colour(values: npt.NDArray[np.float64]) -> bool:
    """Tell whether `values` holds one finite number for each of three colours."""
    return values.shape == (_COLOURS,) and bool(np.isfinite(values).all())


def _grid_means(maps: torch.Tensor, grid: Sequence[int]) -> torch.Tensor:
    """Return means of feature maps over the cells of a grid, (n, maps × cells).

    A voxel on the border of two cells counts in each cell by the share inside. Means are computed
    as matrix products, because the backward pass of adaptive pooling is not deterministic on every
    device.
    """
    if set(grid) == {1}:
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
    """Refuse samples of a shape that a network cannot encode.

    Parameters
    ----------
    encoder : Encoder
        Network that would encode the samples.
    shape : sequence of int
        Voxels or pixels of a sample along each axis, without channels.

    Raises
    ------
    ConfigError
        If the network is for samples of another kind, or for larger samples.
    """
    from neurocontrast.encoders.settings import NAMES_OF_DIMS

    name = f"'{encoder.settings.name}'"
    names = NAMES_OF_DIMS[len(shape)]
    if encoder.settings.name not in names:
        kind = _KINDS[len(shape)]
        made_for = _KINDS[encoder.n_dims]
        samples = kind
        if len(shape) > 1:
            samples = f"{kind}, of shape {list(shape)}"
        raise ConfigError(
            f"encoder.name: {name} encodes {made_for}, and these are {samples} (data.kind: "
            f"{kind}). Choose {', '.join(names[:-1])} or {names[-1]}, or set data.kind to "
            f"{made_for}."
        )
    if min(shape) >= encoder.smallest_shape:
        return
    if encoder.n_dims == 2:
        raise ConfigError(
            f"encoder.name: {name} needs at least {encoder.smallest_shape} pixels on each axis, "
            f"and the images have {list(shape)}. Prepare them larger (images.size), or choose "
            "another encoder."
        )
    raise ConfigError(
        f"data.shape: encoder {name} needs at least {encoder.smallest_shape} voxels on each "
        f"axis, got {list(shape)}. Use a larger shape (with a smaller spacing_mm), or another "
        "encoder."
    )


class ProjectionHead(nn.Sequential):
    """Projection head: linear layers with ReLUs in between, on features standardised by batch.

    Pooled features of brains are nearly the same for all people: differences are small compared
    with the mean. Without standardising, the first training steps turn all embeddings towards the
    mean, which short trainings take long to undo (``benchmarks/recipe.py``).

    Parameters
    ----------
    n_features : int
        Number of the encoder's features.
    sizes : sequence of int
        Number of outputs of each layer; the last is the size of the embedding, `n_features` of the
        head. Without sizes, the features are the embedding.
    norm : {'batch', 'layers', 'none'}
        Normalisation. ``batch`` standardises each feature over the batch before the first layer,
        without trained parameters; ``layers`` applies batch normalisation after each layer but the
        last (Chen et al. 2020).

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
        layers: list[nn.Module] = []
        if norm == "batch":
            layers.append(nn.BatchNorm1d(n_features, affine=False))
        *widths, size = [n_features, *sizes]
        for n_in, n_out in pairwise(widths):
            if norm == "layers":  # which would remove a bias
                layers += [nn.Linear(n_in, n_out, bias=False), nn.BatchNorm1d(n_out), nn.ReLU()]
            else:
                layers += [nn.Linear(n_in, n_out), nn.ReLU()]
        if sizes:
            layers.append(nn.Linear(widths[-1], size))
        super().__init__(*layers)
        self.n_features = size


class ContrastiveModel(nn.Module):
    """Encoder with a projection head, whose output a contrastive loss compares.

    Parameters
    ----------
    encoder : Encoder
        Network whose features are used after pretraining.
    head : torch.nn.Module
        Projection head, which maps features to the embedding; evaluation uses the features by
        default.
    """

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    @property
    def halves(self) -> tuple[ContrastiveModel, ...]:
        """Encoders with projection heads: the model itself, or the two models of `TwoEncoders`."""
        return (self,)

    @property
    def n_features(self) -> int:
        """Number of dimensions of the embedding."""
        return cast(int, self.head.n_features)

    @property
    def inference_layout(self) -> torch.memory_format:
        """Memory format of the encoder's weights with which inference on a CPU is fastest."""
        return self.encoder.inference_layout

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map samples to embeddings (n, d), which are not normalised; see `Encoder.forward`."""
        return self.head(self.encoder.network(images))
