"""What a user can say about the network."""

from __future__ import annotations

import math
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from neurocontrast.settings import Settings

_Cells = Annotated[int, Field(ge=1, le=32)]
_OfVolumes = Literal[
    "densenet121",
    "densenet_small",
    "resnet10_3d",
    "resnet18_3d",
    "resnet34_3d",
    "resnet50_3d",
    "lenet",
    "pca",
    "lda",
]
_OfImages = Literal["resnet18", "resnet50", "resnet_small", "lenet5"]
_OfMeasures = Literal["mlp"]
_LINEAR = ("pca", "lda")
NAMES_OF_DIMS: dict[int, tuple[str, ...]] = {
    1: (*get_args(_OfMeasures), *_LINEAR),
    2: get_args(_OfImages),
    3: get_args(_OfVolumes),
}


N_BLOCKS = {"lenet": 3} | {
    name: 4 for name in NAMES_OF_DIMS[3] if name.startswith(("densenet", "resnet"))
}
"""Blocks of networks of volumes, whose feature maps can be read out."""


class ReadOut(Settings):
    """Choose the feature maps that make the representation, and the grid over which each of them is averaged.

    Examples
    --------
    >>> from neurocontrast.encoders import ReadOut
    >>> ReadOut(blocks=(2, 3), grid=(3, 4, 3)).n_cells
    36
    """

    blocks: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] | None = None
    """Blocks of the network, counted from 1; None for the last one, as published. Earlier blocks keep finer places."""
    grid: tuple[_Cells, _Cells, _Cells] = (1, 1, 1)
    """Cells to the right, to the front and upwards; (1, 1, 1) is global average pooling, as published. A mean over the
    whole brain forgets where something is, and with it most of what tells the sexes apart."""

    @property
    def n_cells(self) -> int:
        """Cells of the grid."""
        return math.prod(self.grid)

    def check(self, name: str) -> None:
        """Raise a ValueError where the network of that name has no such blocks, or no read-out to choose."""
        if self != ReadOut() and name not in N_BLOCKS:
            raise ValueError(
                f"read_out belongs to {', '.join(N_BLOCKS)}, and nothing reads it with name: {name}; remove it"
            )
        beyond = [block for block in self.blocks or () if block > N_BLOCKS[name]]
        if beyond:
            raise ValueError(
                f"read_out.blocks: {name} has blocks 1 to {N_BLOCKS[name]}, found {beyond[0]}"
            )


class Beside(Settings):
    """Choose the linear components that are kept beside a network, as a block of their own.

    They are fitted in one pass, after training, on the samples that the network learned from, so
    that what a linear model would keep of a scan is not lost where the network forgets it.

    Examples
    --------
    >>> from neurocontrast.encoders import Beside, EncoderSettings
    >>> EncoderSettings(name="densenet_small", beside=Beside(n_components=60)).beside.n_components
    60
    """

    name: Literal["pca"] = "pca"
    """Principal components of the un-augmented training samples."""
    n_components: Annotated[int, Field(ge=1)] = 400
    """Number of components, or `share` of the people learned from where that is less."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Largest number of components over the number of people learned from.

    Probes that are fitted to people learned from need half or less: along as many components as
    people, everybody is as far from everybody. In a study of other people more components keep
    more: 0.8 in `make demo` (docs/simulation.md).
    """


_OWNERS = {
    "widths": ("mlp",),
    "n_components": _LINEAR,
    "shrinkage": ("lda",),
    "stem": ("resnet18", "resnet50"),
}
"""Settings that some networks alone read."""


class EncoderSettings(Settings):
    """The encoder and the projection head that is put on it for pretraining.

    Examples
    --------
    >>> from neurocontrast.encoders import EncoderSettings
    >>> EncoderSettings(name="resnet18").n_dims
    2
    """

    name: Literal[_OfVolumes, _OfImages, _OfMeasures] = "densenet121"
    """The network. Of volumes: ``densenet121`` is MONAI's 3D DenseNet with 1024 features; ``densenet_small`` has
    blocks of 4, 5, 8 and 6 layers, growth 16 and 32 first features: 192 features, a thirteenth of
    the weights and a fifth of the time, for cohorts of hundreds and machines without a GPU.
    ``resnet10_3d`` to ``resnet50_3d`` are the ResNets of MedicalNet (Chen et al. 2019), dilated in
    their last two stages: 512 features, the last one 2048. ``lenet`` is a three-layer network for
    tests and first steps on tiny volumes, not for results. ``pca`` is linear: the principal
    components of the training scans' voxels, which no loss, views or epochs take part in, and which
    any network has to beat. ``lda`` is linear too: those combinations of the components by which
    people differ most, compared with how much scans of one person differ (Fisher's discriminants,
    as in Belhumeur et al. 1997). It needs several scans of a subject: from several scanners, or
    imitated by ``prepare --imitations``. Of images: ``resnet18`` and ``resnet50`` are MONAI's: 512
    and 2048 features; ``resnet_small`` is ResNet18 with widths of 16 to 128 and a first convolution
    of stride 2: 128 features; ``lenet5`` is LeNet-5 for colours, 84 features, and resizes images to
    32×32. Of regional measures: ``mlp`` is linear layers of `widths`, each with batch normalisation
    and a rectifier; ``pca`` and ``lda`` are those of volumes."""
    widths: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] | None = None
    """Of ``mlp``: the size of each layer, the last one that of the representation; None: 512 and 128."""
    n_components: Annotated[int, Field(ge=1)] | None = None
    """Features of ``pca`` and ``lda``; None: 60."""
    shrinkage: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Of ``lda``: how far the covariance within people is moved towards a multiple of the identity; None: 0.3."""
    norm: Literal["batch", "group"] = "batch"
    """What the encoder normalises its feature maps over. ``batch``: the samples that pass together, as published.
    ``group``: groups of channels of one sample (32 of them, Wu & He 2018; 16 in ``densenet_small``,
    8 in ``resnet_small``, 4 in ``lenet``, 2 in ``lenet5``): a representation does not depend on the
    other samples, so micro-batches change nothing but memory."""
    final_norm: bool = True
    """Whether DenseNet normalises its last feature maps before they are pooled."""
    stem: Literal["cifar", "imagenet"] | None = None
    """How ``resnet18`` and ``resnet50`` begin. ``cifar``: a 3×3 convolution, for images of 32 pixels, as in
    SimCLR's appendix B.9; ``imagenet``: a 7×7 convolution of stride 2 and max-pooling. None:
    ``cifar``."""
    read_out: ReadOut = ReadOut()
    """Of networks of volumes: the blocks, and the grid, that features are read out at."""
    beside: Beside | None = None
    """Linear components that are kept beside a network of volumes or measures; None: none."""
    centre_input: Literal[False] = Field(False, exclude=True, repr=False)
    """Nothing: accepted because runs of versions before 26 November 2026 record it."""
    projection: tuple[Annotated[int, Field(ge=1)], ...] = (512, 128)
    """Sizes of the projection head's layers after the encoder's features; the last is the size of the embedding
    that the loss sees. Evaluation uses the features before the head, which may keep what the loss
    makes the embedding forget, such as the site. With ``[]`` there is no head, and the loss sees
    the features."""
    projection_norm: Literal["batch", "layers", "none"] = "batch"
    """``batch``: the head standardises the features over the batch first, which lets short trainings learn sooner;
    the y-Aware authors' head does not. ``layers``: batch normalisation after each layer but the
    last, before its rectifier, as in SimCLR."""

    @model_validator(mode="after")
    def _read_by_their_networks_only(self) -> EncoderSettings:
        self.read_out.check(self.name)
        if self.beside is not None and (self.is_linear or self.n_dims == 2):
            raise ValueError(
                "beside belongs to networks of volumes and of measures, and nothing reads it with "
                f"name: {self.name}; remove it"
            )
        for key, owners in _OWNERS.items():
            if getattr(self, key) is not None and self.name not in owners:
                raise ValueError(
                    f"{key} belongs to {' and '.join(owners)}, and nothing reads it with name: {self.name}; remove it"
                )
        return self

    @property
    def is_linear(self) -> bool:
        """Whether the encoder is fitted in one pass, without a loss."""
        return self.name in _LINEAR

    @property
    def n_dims(self) -> int:
        """Dimensions of what the network encodes: 2 for images, 3 for volumes, 1 for measures alone."""
        return (
            2 if self.name in NAMES_OF_DIMS[2] else 1 if self.name in get_args(_OfMeasures) else 3
        )
