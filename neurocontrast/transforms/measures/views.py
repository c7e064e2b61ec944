"""Random views of regional measures, of a whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.measures.settings import MeasureAugmentSettings
from neurocontrast.transforms.views import RandBatchTransform

__all__ = ["RandMeasureViewd"]


class RandMeasureViewd(RandBatchTransform):
    """Make a random view of standardised measures by the operations of the settings, in their order.

    `TwoViews` calls `batch`, which makes the views of many people at once. A view depends on the measures, on its seed
    and on the people learned from, not on the rest of its batch.

    Parameters
    ----------
    keys : str or sequence of str
        Where measures (n_measures, 1) are in a dictionary.
    settings : MeasureAugmentSettings, optional
        The operations.
    learned : array (n_people, n_measures), optional
        Measures of the people learned from, which ``corruption`` takes values from.

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
        self.learned = np.asarray([] if learned is None else learned, dtype=np.float32)

    @torch.no_grad()
    def batch(self, images: Tensor, seeds: Sequence[int]) -> Tensor:
        """Return a view of the measures of each person (b, n_measures, 1), drawn from its seed, as float32."""
        values = images[..., 0].detach().cpu().float().numpy()
        if self.settings.corruption is not None and not self.learned.size:
            raise DataError("learned: augment.corruption takes values from people learned from, and there are none.")
        if self.learned.size and self.learned.shape[1] != values.shape[1]:
            raise DataError(
                f"views of measures: the people learned from have {self.learned.shape[1]}, found {values.shape[1]}."
            )
        for operation in (self.settings.corruption, self.settings.site_shift, self.settings.noise):
            if operation is not None:
                values = operation.change(values, seeds, self.learned)
        return torch.from_numpy(np.array(values, dtype=np.float32))[..., None].to(images.device)
