"""Training on views by a user's own transforms: the same run after a resume, and whatever the table's order."""

from monai.transforms import Compose, RandAffined, RandAxisFlipd
from tiny import assert_resumes, run, weights

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
    assert_resumes(tmp_path, 4, made_views=TwoViews(mine(), seed=3))
    run(tmp_path / "other", made_views=TwoViews(mine(), seed=4))
    assert weights(tmp_path / "other") != weights(tmp_path / "whole")
