"""Training on views by a user's own transforms: the same run after a resume, and whatever the table's order."""

import os
import signal

import pytest
import torch
from monai.transforms import Compose, RandAffined, RandAxisFlipd
from tiny import Images, after, data, run, weights

from neurocontrast.exceptions import ConfigError, TrainingInterrupted
from neurocontrast.transforms import RandBrainRiciand, RandMaskEdged, RandNoised, TwoViews


def mine() -> Compose:
    """Return a pipeline of a user's: MONAI's transforms, this package's, and a function of the user's own."""
    return Compose(
        [
            RandAxisFlipd("image", prob=0.5),
            RandAffined("image", prob=0.5, rotate_range=0.1, padding_mode="border"),
            RandBrainRiciand("image", prob=0.5),
            RandMaskEdged("image", prob=0.3),
            lambda sample: {**sample, "image": sample["image"].clamp(-4.0, 4.0)},
            RandNoised("image", prob=0.8),
        ]
    )


def test_a_run_on_a_users_own_transforms_resumes_to_the_same_weights(tmp_path):
    run(tmp_path / "whole", made_views=TwoViews(mine(), seed=3))
    run(tmp_path / "other", made_views=TwoViews(mine(), seed=4))
    stop, views = after(4, lambda: os.kill(os.getpid(), signal.SIGTERM)), TwoViews(mine(), seed=3)

    def stopped(volumes, names, *, epoch):
        stop(volumes, names, epoch=epoch)
        return views(volumes, names, epoch=epoch)

    with pytest.raises(TrainingInterrupted):
        run(tmp_path / "halves", made_views=stopped)
    run(tmp_path / "halves", made_views=TwoViews(mine(), seed=3), resume=True)
    assert weights(tmp_path / "halves") == weights(tmp_path / "whole") != weights(tmp_path / "other")


def test_views_follow_the_scan_to_another_row_of_the_table(tmp_path):
    seen = {}

    class Recording(TwoViews):
        def __call__(self, images, names, *, epoch):
            one, two = super().__call__(images, names, epoch=epoch)
            seen.update({(epoch, name): view for name, view in zip(names, one, strict=True)})
            return one, two

    content = data()
    backwards = list(reversed(range(len(content.names))))

    class Reversed(Images):
        def __getitem__(self, index):
            return {**super().__getitem__(backwards[index]), "index": index}

    made = []
    for given in (content, data(images=Reversed(), names=[content.names[row] for row in backwards])):
        seen.clear()
        run(tmp_path / str(len(made)), made_views=Recording(mine(), seed=3), given=given, epochs=1, save=False)
        made.append(dict(seen))
    shared = made[0].keys() & made[1].keys()
    assert len(shared) > 5
    assert all(torch.equal(made[0][key], made[1][key]) for key in shared)


def test_a_transform_that_breaks_the_run_is_refused_before_a_step(tmp_path):
    def halved(sample):
        return {**sample, "image": sample["image"][:, ::2]}

    with pytest.raises(ConfigError, match=r"Got shape \(1, 4, 8, 8\) for sub-\d\d"):
        run(tmp_path, made_views=TwoViews(Compose([*mine().transforms, halved]), seed=3))
    assert not list((tmp_path / "checkpoints").glob("*.pt"))
