"""Views of a whole batch: each the same, bit for bit, alone and among others, and by the operation's definition."""

import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import (
    AdjustContrast,
    Affine,
    Compose,
    RandFlipd,
    Resize,
    SpatialCrop,
)

from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_seed
from neurocontrast.transforms import (
    AugmentSettings,
    FromSignald,
    RandBlurd,
    RandBrainAffined,
    RandBrainContrastd,
    RandMirrord,
    RandNoised,
    RandResizedCropd,
    ToSignald,
    TwoViews,
    batches,
    brain_views,
)
from neurocontrast.transforms.rand_volumes import RandVolumed, draw_all
from neurocontrast.transforms.signal import to_signal
from tests.transforms.conftest import AT_SITE

OPERATIONS = [name for name in AugmentSettings.model_fields if name != "transforms"]
EVERYTHING = AugmentSettings(**{name: {} for name in OPERATIONS})
SHAPE = (11, 13, 9)
N = 64
NAMES = [f"sub-{number}" for number in range(N)]


def only(name: str, probability: float) -> AugmentSettings:
    operation = getattr(EVERYTHING, name).model_copy(update={"probability": probability})
    return AugmentSettings.off().model_copy(update={name: operation})


def brains(n: int, shape: tuple[int, ...], n_channels: int = 1) -> torch.Tensor:
    """Return balls of noise; of four, two are z-scored, over the box and over the brain, and two are not."""
    generator = torch.Generator().manual_seed(0)
    grid = np.indices(shape) / (np.array(shape)[:, None, None, None] - 1.0) - 0.5
    grid -= np.array([0.05, 0.1, -0.05])[:, None, None, None]
    ball = torch.from_numpy((grid**2).sum(0) < 0.13)
    volumes = torch.rand(n, n_channels, *shape, generator=generator).add_(0.3).mul_(ball)
    for volume in volumes[::4]:
        volume.sub_(volume.mean()).div_(volume.std(correction=0))
    for volume in volumes[1::4]:
        inside = volume[:, ball]
        volume[:, ball] = (inside - inside.mean()) / inside.std(correction=0)
    volumes[2::4] *= 700.0
    return volumes


VOLUMES = brains(N, SHAPE)


def view_of(settings: AugmentSettings, rows, volumes=VOLUMES):
    """Return the views of some of the volumes, as `TwoViews` makes them, without its trial."""
    seeds = [derive_seed("view", row) for row in rows]
    return batches.views_of(brain_views(settings).transforms, volumes[rows], seeds)


# --- alone and among others
# -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("probability", [0.5, 1.0])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_view_is_the_same_in_any_batch_and_any_order(name, probability):
    settings = only(name, probability)
    whole = view_of(settings, list(range(N)))
    changed = (whole != VOLUMES).flatten(1).any(1)
    assert changed.float().mean() > 0.4 * probability
    shuffled = torch.randperm(N, generator=torch.Generator().manual_seed(1)).tolist()
    parts = [[row] for row in range(8)]
    for rows in [*parts, [9, 3], [40, 7, 1, 2, 63, 30, 31], shuffled]:
        assert torch.equal(view_of(settings, rows), whole[rows]), rows


@pytest.mark.parametrize("name", ["conditional", "reference", "tissue"])
def test_so_is_a_view_by_all_operations_of_a_recipe(name, monkeypatch):
    kept = {
        "conditional": (*AT_SITE, "cutout"),
        "reference": ("flip", "blur", "noise", "cutout", "crop"),
        "tissue": ("affine", "tissue_shift"),
    }[name]
    settings = EVERYTHING.model_copy(update=dict.fromkeys(set(OPERATIONS) - set(kept)))
    volumes = brains(N, SHAPE, n_channels=3) if name == "tissue" else VOLUMES
    whole = view_of(settings, list(range(N)), volumes)
    for rows in ([5], [9, 3], list(range(N))[::-1]):
        assert torch.equal(view_of(settings, rows, volumes), whole[rows]), rows
    monkeypatch.setattr(batches, "_VOXELS_OF_A_CPU", 7 * volumes[0].numel())
    assert torch.equal(view_of(settings, list(range(N)), volumes), whole)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_view_is_the_same_by_any_number_of_threads(name):
    volumes = brains(3, (37, 31, 33))  # large enough for several threads
    settings = only(name, 1.0)
    before = torch.get_num_threads()
    views = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            views.append(view_of(settings, [0, 1, 2], volumes))
            views.append(torch.cat([view_of(settings, [row], volumes) for row in range(3)]))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(view, views[0]) for view in views[1:])


def test_a_volume_in_a_compose_is_a_batch_of_one():
    for name in OPERATIONS:
        compose = brain_views(only(name, 1.0)).set_random_state(seed=4)
        (operation,) = (each for each in compose.transforms if isinstance(each, RandVolumed))
        given = {"image": VOLUMES[3]}
        made = compose(given)["image"]
        views = batches.views_of(compose.transforms, VOLUMES[2:4], [1, operation.seed])
        assert torch.equal(made, views[1]), name
        assert torch.equal(given["image"], VOLUMES[3])
        seed = operation.seed
        compose(given)
        assert operation.seed != seed


def test_ours_alone_are_made_at_once_and_with_others_one_by_one():
    ours = [RandMirrord("image"), ToSignald("image"), RandBrainContrastd("image")]
    ours.append(FromSignald("image"))
    assert batches.batched(Compose([ours[0], Compose(ours[1:])]), key="image") is not None
    assert batches.batched(RandNoised("image"), key="image") is not None
    for transform in (Compose([*ours, RandFlipd("image")]), RandNoised("scan"), lambda item: item):
        assert batches.batched(transform, key="image") is None


def test_what_cannot_be_a_view_is_named():
    views = TwoViews(RandNoised("image"), seed=0)
    with pytest.raises(DataError, match=r"\(batch, channels, D, H, W\). Got shape \(1, 3, 9, 9\)"):
        views(torch.zeros(2, 3, 9, 9), ["a", "b"], epoch=0)
    with pytest.raises(DataError, match="put ToSignald before it"):
        TwoViews(FromSignald("image"), seed=0)(VOLUMES[:1], ["a"], epoch=0)
    twice = Compose([ToSignald("image"), ToSignald("image")])
    with pytest.raises(DataError, match="put FromSignald before it"):
        TwoViews(twice, seed=0)(VOLUMES[:1], ["a"], epoch=0)


# --- keys
# -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_sample_epoch_and_view_has_numbers_of_its_own(name):
    views = TwoViews(brain_views(only(name, 1.0)), seed=0)
    same = VOLUMES[2:3].expand(12, -1, -1, -1, -1)
    names = NAMES[:12]
    first, second = views(same, names, epoch=0)
    later = views(same, names, epoch=1)[0]
    # A flip has three axes, and boxes of a fixed size have three or four places along each.
    n_kinds = {"flip": 3, "crop": 20, "cutout": 30}.get(name, 36)
    kinds = {view.numpy().tobytes() for view in torch.cat([first, second, later])}
    assert n_kinds <= len(kinds) <= 36
    # What a view is follows its name, not its place.
    turned = views(same, names[::-1], epoch=0)[0]
    assert torch.equal(turned.flip(0), first)


# --- by definition
# ----------------------------------------------------------------------------------------------
def numbers_of(operation, n: int):
    (drawn,) = draw_all([operation], range(n), n_channels=1)
    return drawn.numbers


def signals():
    """Return signals and brains of three volumes."""
    return to_signal(VOLUMES[1:4])


def test_affine_is_monais_with_the_same_angles_shifts_and_factors():
    ranges = {"rotation_degrees": (-20, 20), "translation_voxels": (-4, 4), "scale": (0.7, 1.4)}
    operation = RandBrainAffined("image", prob=1.0, **ranges)
    numbers = numbers_of(operation, 3)
    given = signals()
    pair = (given.x_BCDHW.clone(), given.brain_BCDHW.clone())
    moved, brain = operation.change_brain(*pair, **numbers)
    for row in range(3):
        parameters = {
            "rotate_params": np.deg2rad(numbers["rotation_degrees"][row]).tolist(),
            "translate_params": numbers["translation_voxels"][row].tolist(),
            "scale_params": numbers["shrinking"][row].tolist(),
            "padding_mode": "zeros",
            "image_only": True,
        }
        expected = Affine(mode="bilinear", **parameters)(given.x_BCDHW[row]).as_tensor()
        torch.testing.assert_close(moved[row], expected, atol=2e-5, rtol=0.0)
        expected = Affine(mode="nearest", **parameters)(given.brain_BCDHW[row]).as_tensor()
        assert torch.equal(brain[row], expected)
        assert expected.mean() > 0.05


def test_contrast_is_monais_with_the_same_power():
    operation = RandBrainContrastd("image", prob=1.0, gamma=(0.3, 4.0))
    numbers = numbers_of(operation, 3)
    given = signals().x_BCDHW
    changed = operation.change(given.clone(), **numbers)
    for row, gamma in enumerate(numbers["gamma"]):
        expected = AdjustContrast(gamma=float(gamma))(given[row])
        torch.testing.assert_close(changed[row], expected, atol=3e-6, rtol=3e-6)


def test_a_crop_is_monais_of_the_same_box():
    operation = RandResizedCropd("image", prob=1.0, fraction=(0.5, 0.9))
    numbers = numbers_of(operation, 4)
    changed = operation.change(VOLUMES[:4].clone(), **numbers)
    sides = np.array(SHAPE)
    for row in range(4):
        sizes = np.ceil(numbers["fraction"][row] * sides).astype(int)
        corners = (numbers["place"][row] * (sides - sizes + 1)).astype(int)
        box = SpatialCrop(roi_start=corners, roi_end=corners + sizes)(VOLUMES[row])
        expected = Resize(SHAPE, mode="trilinear")(box).as_tensor()
        torch.testing.assert_close(changed[row], expected, atol=2e-3, rtol=1e-5)


def test_volumes_blurred_together_have_widths_of_their_own():
    operation = RandBlurd("image", prob=1.0, sigma_voxels=(0.0, 3.0))
    numbers = {"sigma_voxels": np.array([0.0, 0.4, 2.9])}
    changed = operation.change(VOLUMES[:3].clone(), **numbers)
    assert torch.equal(changed[0], VOLUMES[0])
    spread = [
        float(view.std() / volume.std()) for view, volume in zip(changed, VOLUMES, strict=False)
    ]
    assert spread[0] > spread[1] > spread[2]


@pytest.mark.parametrize("name", ["flip", "affine", "crop"])
def test_the_affine_of_a_moved_image_leads_to_the_same_points(name):
    """A smooth field of world coordinates, moved as an image, still has each voxel's own coordinates."""
    affine = np.array([[2.0, 0, 0, -9], [0, 0, 1.5, 4], [0, -1, 0, 7], [0, 0, 0, 1]])
    voxels = np.stack([*np.indices((16, 18, 14)), np.ones((16, 18, 14))])
    world = np.einsum("ij,jdhw->idhw", affine, voxels)[:3].astype(np.float32) + 100.0
    image = MetaTensor(torch.from_numpy(world), affine=torch.from_numpy(affine))
    ranges = {"affine": {"rotation_degrees": (-5, 5), "scale": (1.2, 1.3)}}.get(name, {})
    operation = {"flip": RandMirrord, "affine": RandBrainAffined, "crop": RandResizedCropd}[name]
    transform = operation("image", prob=1.0, **ranges).set_random_state(seed=1)
    if name == "affine":
        (numbers,) = (each.numbers for each in draw_all([transform], [0], n_channels=3))
        (origin,) = transform.origins(image.shape[1:], **numbers)
        mask = torch.ones_like(image.as_tensor()[None])
        moved = transform.change_brain(image.as_tensor()[None], mask, **numbers)[0][0]
        made = MetaTensor(moved, affine=torch.from_numpy(affine @ origin))
    else:
        made = transform({"image": image})["image"]
    expected = np.einsum("ij,jdhw->idhw", made.affine.numpy(), voxels)[:3] + 100.0
    inside = (slice(None), *[slice(3, -3)] * 3)
    np.testing.assert_allclose(made.numpy()[inside], expected[inside], atol=1e-3)
    assert not np.allclose(made.affine.numpy(), affine)


def test_between_to_and_from_signal_an_image_and_its_mask_move_together():
    for operation in (RandMirrord("image", prob=1.0), RandResizedCropd("image", prob=1.0)):
        item = ToSignald("image")({"image": VOLUMES[1]})
        moved = operation.set_random_state(seed=2)(item)
        agree = (moved["image"] > 0.05) == (moved["image_brain"] == 1)
        assert agree.float().mean() > 0.9
        assert not torch.equal(moved["image_brain"], item["image_brain"])
