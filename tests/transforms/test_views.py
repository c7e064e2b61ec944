"""Two keyed views by any transform: of the sample's name alone, and refused where they are not."""

import threading

import numpy as np
import pytest
import torch
from monai.transforms import (
    Compose,
    OneOf,
    RandAffined,
    RandAxisFlipd,
    Randomizable,
    RandomizableTransform,
    RandSpatialCropd,
    RandZoomd,
    Resized,
    ScaleIntensityd,
)

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.transforms import (
    AugmentSettings,
    RandBlurd,
    RandBrainSharpnessd,
    RandNoised,
    TwoViews,
    brain_views,
)

SHAPE = (12, 14, 13)
NAMES = [f"sub-{number:02d} session 1" for number in range(6)]
REFERENCE = brain_views(AugmentSettings.reference())


def of_others() -> Compose:
    """Return a pipeline as a user may have it: ours, MONAI's, nested, and a function."""
    return Compose(
        [
            ScaleIntensityd("image"),
            Compose(
                [RandAffined("image", prob=0.7, rotate_range=0.1), RandBrainSharpnessd("image")]
            ),
            OneOf(
                [
                    RandZoomd("image", prob=1.0),
                    RandAxisFlipd("image", prob=1.0),
                    RandBlurd("image", prob=1.0),
                ]
            ),
            Compose(
                [
                    RandSpatialCropd("image", roi_size=(9, 9, 9), random_size=False),
                    Resized("image", SHAPE),
                ]
            ),
            lambda sample: {**sample, "image": sample["image"] * 2.0},
            RandNoised("image"),
        ]
    )


PIPELINES = {
    "reference": REFERENCE,
    "sites": brain_views(AugmentSettings.sites()),
    "of others": of_others(),
}


@pytest.fixture
def volumes():
    return torch.randn(6, 1, *SHAPE, generator=torch.Generator().manual_seed(0))


class SameMemory:
    """A transform that returns the same memory each time."""

    def __init__(self):
        self.made = torch.zeros(1, *SHAPE)

    def __call__(self, data):
        self.made.copy_(data["image"])
        return {"image": self.made}


def test_a_transform_may_return_the_same_memory_each_time(volumes):
    assert torch.equal(
        TwoViews(SameMemory(), seed=0).view(volumes, NAMES, epoch=0, view=0), volumes
    )


@pytest.fixture(params=list(PIPELINES))
def pipeline(request):
    return PIPELINES[request.param]


def test_the_two_views_differ_and_leave_the_volumes_alone(pipeline, volumes):
    before = volumes.clone()
    one, two = TwoViews(pipeline, seed=0)(volumes, NAMES, epoch=0)
    assert type(one) is type(two) is torch.Tensor
    assert one.shape == two.shape == volumes.shape
    assert one.dtype == two.dtype == torch.float32
    assert not torch.equal(one, two)
    assert torch.equal(volumes, before)
    assert one.data_ptr() != volumes.data_ptr()


def test_a_view_does_not_depend_on_its_batch_nor_on_what_was_made_before(pipeline, volumes):
    views = TwoViews(pipeline, seed=3)
    whole = views.view(volumes, NAMES, epoch=2, view=1)
    order = [4, 0, 5]
    part = TwoViews(pipeline, seed=3).view(
        volumes[order], [NAMES[row] for row in order], epoch=2, view=1
    )
    assert torch.equal(part, whole[order])
    views(volumes, NAMES, epoch=7)
    assert torch.equal(views.view(volumes, NAMES, epoch=2, view=1), whole)


def test_a_view_depends_on_no_global_state_and_changes_none(pipeline, volumes):
    views = TwoViews(pipeline, seed=3)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    first = views.view(volumes, NAMES, epoch=0, view=0)
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002
    states = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
    assert torch.equal(first, views.view(volumes, NAMES, epoch=0, view=0))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002


@pytest.mark.parametrize("view", [0, 1])
@pytest.mark.parametrize("key", ["seed", "epoch", "name", "view"])
def test_every_key_matters(volumes, key, view):
    keys = {"seed": 1, "epoch": 1, "name": "a", "view": view}

    def made(seed, epoch, name, view):
        views = TwoViews(RandNoised("image", prob=1.0), seed=seed)
        both = views(volumes[:1], [name], epoch=epoch)
        assert torch.equal(both[view], views.view(volumes[:1], [name], epoch=epoch, view=view))
        return both[view]

    assert torch.equal(made(**keys), made(**keys))
    other = {"seed": 2, "epoch": 2, "name": "b", "view": 1 - view}[key]
    assert not torch.equal(made(**keys), made(**keys | {key: other}))


def test_the_two_views_draw_independently(volumes):
    views = TwoViews(RandAxisFlipd("image", prob=0.5), seed=0)
    names = [f"sub-{number}" for number in range(300)]
    many = volumes[:1].expand(300, -1, -1, -1, -1)
    flipped = [(view == many).flatten(1).all(1).numpy() for view in views(many, names, epoch=0)]
    assert abs(np.corrcoef(*flipped)[0, 1]) < 0.15


def test_transforms_without_randomness_and_without_any_change_are_fine(volumes):
    for plain in (Compose([]), lambda sample: sample, ScaleIntensityd("image")):
        one, two = TwoViews(plain, seed=0)(volumes, NAMES, epoch=0)
        assert torch.equal(one, two)
    one.zero_()
    assert volumes.abs().sum() > 0


def test_a_transform_may_change_its_input_in_place_or_return_it_in_another_order(volumes):
    before = volumes.clone()
    cubes = volumes[..., :12, :12]
    in_place = TwoViews(lambda sample: {"image": sample["image"].mul_(2.0)}, seed=0)
    assert torch.equal(in_place(volumes, NAMES, epoch=0)[0], before * 2.0)
    turned = TwoViews(lambda sample: {"image": sample["image"].transpose(1, 3)}, seed=0)
    assert torch.equal(turned(cubes, NAMES, epoch=0)[1], cubes.transpose(2, 4))
    assert torch.equal(volumes, before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_views_are_float32_whatever_comes_and_whatever_is_around(pipeline, volumes, dtype):
    views = TwoViews(pipeline, seed=0)
    given = volumes.to(dtype)
    plain = views.view(given.float(), NAMES, epoch=0, view=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = views.view(given, NAMES, epoch=0, view=0)
    assert made.dtype == torch.float32
    assert torch.equal(made, plain)


# --- what is refused
# -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "names"), [((6, *SHAPE[1:]), NAMES), ((6, 1, *SHAPE), NAMES[:5])]
)
def test_wrong_batches_are_named(shape, names):
    with pytest.raises(
        DataError,
        match=r"\(batch, channels, D, H, W\).*, and one name for each sample\. Got images",
    ):
        TwoViews(REFERENCE, seed=0)(torch.zeros(shape), names, epoch=0)


class FromNowhere(RandomizableTransform):
    """Draws from a generator that nobody seeds."""

    def __init__(self):
        super().__init__(prob=1.0)
        self.generator = np.random.default_rng()

    def __call__(self, data):
        return {**data, "image": data["image"] + self.generator.random()}


class Counting:
    """Does another thing at each call."""

    n_calls = 0

    def __call__(self, data):
        self.n_calls += 1
        return {**data, "image": data["image"] + self.n_calls}


def of_images(change):
    return lambda data: {**data, "image": change(data["image"])}


ANOTHER = "makes another view each time"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (FromNowhere(), ANOTHER),
        (Counting(), ANOTHER),
        (of_images(lambda x: x + torch.rand(())), ANOTHER),
        (of_images(lambda x: x * np.random.random()), ANOTHER),  # noqa: NPY002
        (
            of_images(lambda x: x[:, :-1]),
            r"image's shape \(1, 12, 14, 13\).* Got shape \(1, 11, 14, 13\) for sub-00",
        ),
        (
            of_images(lambda x: torch.log(x - x)),
            "the view of sub-00 session 1 has values that are not finite",
        ),
        (of_images(lambda x: x.numpy()), "under 'image'. Got no tensor for sub-00"),
        (lambda data: {"picture": data["image"]}, "Got no tensor"),
        (lambda data: data["no such key"], "failed on sub-00 session 1: KeyError: 'no such key'"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_transform_that_would_break_a_run_is_refused(wrong, said, nested, volumes):
    flip = RandAxisFlipd("image", prob=0.5)
    transform = Compose([flip, Compose([wrong])]) if nested else wrong
    with pytest.raises(ConfigError, match=said):
        TwoViews(transform, seed=0)(volumes, NAMES, epoch=0)


def test_images_that_are_not_finite_are_left_to_training_which_knows_more(volumes):
    for broken_one in (2, 0):  # the first is tried first
        volumes[broken_one] = torch.nan
        one, _ = TwoViews(RandNoised("image"), seed=0)(volumes, NAMES, epoch=0)
        assert one[broken_one].isnan().all()
        assert one[[1, 3, 4, 5]].isfinite().all()


def test_what_cannot_be_called_or_copied_is_refused():
    with pytest.raises(
        ConfigError, match=r"can be called with a dictionary.*monai\.transforms\.Compose"
    ):
        TwoViews([RandAxisFlipd("image")], seed=0)

    class Locked(Randomizable):
        def __init__(self):
            self.lock = threading.Lock()

        def __call__(self, data):
            return data

    with pytest.raises(ConfigError, match="Locked cannot be copied"):
        TwoViews(Locked(), seed=0)
