"""Random views of regional measures, made for a whole batch of people at once."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import ndtri
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_uniforms
from neurocontrast.transforms.augment import (
    MeasureAugmentSettings,
    MeasureCorruption,
    MeasureSiteShift,
)
from neurocontrast.transforms.views import RandBatchTransform

Values = npt.NDArray[np.float32]


class RandMeasureViewd(RandBatchTransform):
    """Make a random view of a person's standardised measures, by the operations of the settings.

    `TwoViews` calls `batch`, which makes the views of many people at once. A person's view depends
    on the person's measures, the seed and the training participants, not on the rest of the batch.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of measures (n_measures, 1) in a dictionary.
    settings : MeasureAugmentSettings, optional
        Random operations, applied in field order; by default `MeasureAugmentSettings()`.
    learned : array (n_people, n_measures), optional
        Standardised measures of the training participants, whose values ``corruption`` inserts.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import MeasureAugmentSettings, RandMeasureViewd, TwoViews
    >>> measures = torch.randn(3, 180, 1)
    >>> views = TwoViews(RandMeasureViewd("image", learned=measures[..., 0].numpy()), seed=0)
    >>> views(measures, ["sub-01", "sub-02", "sub-03"], epoch=1)[0].shape
    torch.Size([3, 180, 1])
    """

    def __init__(
        self,
        keys: str | Sequence[str],
        settings: MeasureAugmentSettings | None = None,
        *,
        learned: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(keys)
        self.settings = settings or MeasureAugmentSettings()
        if learned is None:
            learned = []
        self.learned = np.asarray(learned, dtype=np.float32)

    @torch.no_grad()
    def batch(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """Return a random float32 view of each person's measures, `images` (b, n_measures, 1).

        The view of a person is drawn by the person's seed in `seeds`.
        """
        values = images[..., 0].detach().cpu().float().numpy()
        if self.settings.corruption is not None and not self.learned.size:
            raise DataError(
                "learned: augment.corruption takes values from the people of the training; give "
                "their measures."
            )
        if self.learned.size and self.learned.shape[1] != values.shape[1]:
            raise DataError(
                f"views of measures: the people learned from have {self.learned.shape[1]}, found "
                f"{values.shape[1]}."
            )
        if self.settings.corruption is not None:
            values = corrupt(values, seeds, self.learned, self.settings.corruption)
        if self.settings.site_shift is not None:
            values = shift_site(values, seeds, self.settings.site_shift)
        if self.settings.noise is not None:
            values = values + self.settings.noise.sd * _normal_numbers(
                "noise", seeds, values.shape[1]
            )
        return torch.from_numpy(np.array(values, dtype=np.float32))[..., None].to(images.device)


def corrupt(
    values: Values, seeds: npt.ArrayLike, learned: Values, settings: MeasureCorruption
) -> Values:
    """Return measures of people (n, n_measures), with random ones replaced.

    A replacement is the same measure of a random participant in `learned`. Random numbers of a
    person are drawn by the person's seed in `seeds`.
    """
    uniforms = derive_uniforms(
        "measure view", "corruption", samples=seeds, n_numbers=values.shape[1]
    )
    replaced = uniforms < settings.fraction
    person = np.minimum(
        (uniforms / settings.fraction * len(learned)).astype(np.int64), len(learned) - 1
    )
    return np.where(replaced, np.take_along_axis(learned, person, axis=0), values)


def shift_site(values: Values, seeds: npt.ArrayLike, settings: MeasureSiteShift) -> Values:
    """Return measures of people (n, n_measures), shifted and scaled at random for each measure.

    The change imitates another scanner. Random numbers of a person are drawn by the person's seed
    in `seeds`.
    """
    n_measures = values.shape[1]
    is_changed = (
        derive_uniforms("measure view", "site shift", samples=seeds, n_numbers=1)
        < settings.probability
    )
    shift, scale = np.split(_normal_numbers("site", seeds, 2 * n_measures), 2, axis=1)
    moved = values * np.exp(settings.scale_sd * scale) + settings.shift_sd * shift
    return np.where(is_changed, moved, values).astype(np.float32)


def _normal_numbers(
    operation: str, seeds: npt.ArrayLike, n_numbers: int
) -> npt.NDArray[np.float64]:
    """Return standard normal numbers (n_seeds, n_numbers), each row drawn by one seed.

    Numbers are derived from the seed and from the name `operation`, so that two operations draw
    different numbers by the same seed.
    """
    uniforms = derive_uniforms("measure view", operation, samples=seeds, n_numbers=n_numbers)
    # Between the steps of the uniform numbers, so that none is infinite.
    numbers: npt.NDArray[np.float64] = ndtri(uniforms + 2.0**-33)
    return numbers
