"""Settings of the encoder and its projection head: section ``encoder`` of a configuration."""

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


N_BLOCKS = {
    "lenet": 3,
    "densenet121": 4,
    "densenet_small": 4,
    "resnet10_3d": 4,
    "resnet18_3d": 4,
    "resnet34_3d": 4,
    "resnet50_3d": 4,
}
"""Number of blocks whose feature maps can become features, by name of the network of volumes."""


class ReadOut(Settings):
    """Choose the blocks whose feature maps become features, and the grid over which to average.

    Examples
    --------
    >>> from neurocontrast.encoders import ReadOut
    >>> ReadOut(blocks=(2, 3), grid=(3, 4, 3)).n_cells
    36
    """

    blocks: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] | None = None
    """Numbers of the network's blocks whose feature maps become features, from 1; None for the last
    block, as published. Earlier blocks have finer feature maps."""
    grid: tuple[_Cells, _Cells, _Cells] = (1, 1, 1)
    """Number of grid cells to the right, to the front and upwards, over which feature maps are
    averaged; (1, 1, 1) averages over the whole volume, as published. A mean over the whole brain
    loses locations, and with them most differences between the sexes."""

    @property
    def n_cells(self) -> int:
        """Number of cells of `grid`, over each of which feature maps are averaged."""
        return math.prod(self.grid)

    def check(self, name: str) -> None:
        """Refuse a choice of blocks and grid that the network called `name` cannot follow.

        A network without blocks can follow the default choice alone: no `blocks`, and a `grid` of
        one cell. A network with blocks cannot follow a block's number above its number of blocks.

        Raises
        ------
        ValueError
            With the network's blocks, or the networks that have blocks, in the message.
        """
        if self != ReadOut() and name not in N_BLOCKS:
            raise ValueError(
                f"read_out belongs to {', '.join(N_BLOCKS)}, and nothing reads it with name: "
                f"{name}; remove it"
            )
        beyond = [block for block in self.blocks or () if block > N_BLOCKS[name]]
        if beyond:
            raise ValueError(
                f"read_out.blocks: {name} has blocks 1 to {N_BLOCKS[name]}, found {beyond[0]}"
            )


class Beside(Settings):
    """Choose linear components of the samples to append to a network's features.

    Components are fitted after training, on the training samples. They keep differences between
    scans that a network ignores and a linear model would find.

    Examples
    --------
    >>> from neurocontrast.encoders import Beside, EncoderSettings
    >>> EncoderSettings(name="densenet_small", beside=Beside(n_components=60)).beside.n_components
    60
    """

    name: Literal["pca"] = "pca"
    """Kind of components. ``pca``: principal components of the training samples, without
    augmentation."""
    n_components: Annotated[int, Field(ge=1)] = 400
    """Number of components, if not limited by `share`."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Largest number of components, as a share of the number of training people.

    Probes that are fitted to the training people need 0.5 or less: with as many components as
    people, all people are equally far from one another. For a study of new people a larger share
    keeps more information: 0.8 in `make demo` (docs/simulation.md).
    """


_OWNERS = {
    "widths": ("mlp",),
    "n_components": _LINEAR,
    "shrinkage": ("lda",),
    "stem": ("resnet18", "resnet50"),
}
"""Names of the networks for which a setting has an effect, by the setting's name."""


class EncoderSettings(Settings):
    """Settings of an encoder, and of the projection head for pretraining.

    Examples
    --------
    >>> from neurocontrast.encoders import EncoderSettings
    >>> EncoderSettings(name="resnet18").n_dims
    2
    """

    name: Literal[_OfVolumes, _OfImages, _OfMeasures] = "densenet121"
    """Name of the network. For volumes: ``densenet121`` is MONAI's 3D DenseNet with 1024 features;
    ``densenet_small`` has blocks of 4, 5, 8 and 6 layers, growth 16 and 32 first features: 192
    features, a thirteenth of the weights and a fifth of the time, for cohorts of hundreds and
    machines without a GPU. ``resnet10_3d`` to ``resnet50_3d`` are the ResNets of MedicalNet (Chen
    et al. 2019), dilated in their last two stages: 512 features, 2048 for ``resnet50_3d``.
    ``lenet`` is a three-layer network for tests and first steps on tiny volumes, not for results.
    ``pca`` is linear: the principal components of the training scans' voxels, without a loss, views
    or epochs; a network should perform better. ``lda`` is linear too: the combinations of principal
    components by which people differ most, compared with the differences between scans of one
    person (Fisher's discriminants, as in Belhumeur et al. 1997). ``lda`` needs several scans of a
    subject: from several scanners, or imitated by ``prepare --imitations``. For images:
    ``resnet18`` and ``resnet50`` are MONAI's, with 512 and 2048 features; ``resnet_small`` is
    ResNet18 with widths of 16 to 128 and a first convolution of stride 2: 128 features; ``lenet5``
    is LeNet-5 for colours, with 84 features, and resizes images to 32×32. For regional measures:
    ``mlp`` is linear layers of `widths`, each with batch normalisation and a rectifier; ``pca`` and
    ``lda`` are as for volumes."""
    widths: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] | None = None
    """Number of outputs of each layer of ``mlp``, the last one the number of features; None: 512
    and 128."""
    n_components: Annotated[int, Field(ge=1)] | None = None
    """Number of features of ``pca`` and ``lda``; None: 60."""
    shrinkage: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Shrinkage of the covariance within people towards a multiple of the identity, for ``lda``;
    None: 0.3."""
    norm: Literal["batch", "group"] = "batch"
    """Normalisation of feature maps. ``batch``: over the samples that pass the network together, as
    published. ``group``: over groups of channels of one sample (32 groups, Wu & He 2018; 16 in
    ``densenet_small``, 8 in ``resnet_small``, 4 in ``lenet``, 2 in ``lenet5``), so that features do
    not depend on other samples, and micro-batches change only the memory needed."""
    final_norm: bool = True
    """Whether DenseNet normalises the last feature maps before pooling."""
    stem: Literal["cifar", "imagenet"] | None = None
    """First layers of ``resnet18`` and ``resnet50``. ``cifar``: a 3×3 convolution, for images of 32
    pixels, as in SimCLR's appendix B.9; ``imagenet``: a 7×7 convolution of stride 2 and
    max-pooling. None: ``cifar``."""
    read_out: ReadOut = ReadOut()
    """Blocks and grid of the features, for networks of volumes."""
    beside: Beside | None = None
    """Linear components to append to the features of a network of volumes or measures; None: no
    components."""
    centre_input: Literal[False] = Field(False, exclude=True, repr=False)
    """Ignored; accepted because runs of versions before 26 November 2026 recorded the key."""
    projection: tuple[Annotated[int, Field(ge=1)], ...] = (512, 128)
    """Number of outputs of each layer of the projection head; the last is the size of the embedding
    that the loss compares. Evaluation uses the encoder's features before the head, which may keep
    information that the loss removes from the embedding, such as the site. With ``[]`` there is no
    head, and the loss compares the features."""
    projection_norm: Literal["batch", "layers", "none"] = "batch"
    """Normalisation in the projection head. ``batch``: features are standardised over the batch
    first, with which short trainings learn sooner; the y-Aware authors' head does not. ``layers``:
    batch normalisation after each layer but the last, before the ReLU, as in SimCLR. ``none``: no
    normalisation."""

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
                    f"{key} belongs to {' and '.join(owners)}, and nothing reads it with name: "
                    f"{self.name}; remove it"
                )
        return self

    @property
    def is_linear(self) -> bool:
        """Whether the encoder is linear, fitted in one pass without a loss."""
        return self.name in _LINEAR

    @property
    def n_dims(self) -> int:
        """Number of dimensions of samples for a network: 1 of measures, 2 of images, 3 of volumes.

        The linear encoders ``pca`` and ``lda``, which read volumes or measures, always have 3.
        """
        if self.name in get_args(_OfMeasures):
            return 1
        if self.name in NAMES_OF_DIMS[2]:
            return 2
        return 3
