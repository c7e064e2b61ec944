"""Random views of two modalities of each person: a brain scan, and regional measures."""

from collections.abc import Sequence

from torch import Tensor

from neurocontrast.transforms.views import TwoViews


class ViewOfEach:
    """Make a random view of each person's scan and one of the same person's regional measures.

    The views are for contrastive pretraining of two encoders, one of scans and one of measures.
    Called like `TwoViews`, which makes two views of one modality.
    """

    def __init__(self, of_scans: TwoViews, of_measures: TwoViews) -> None:
        self.of_scans = of_scans
        self.of_measures = of_measures

    def __call__(
        self, images: Sequence[Tensor], names: Sequence[str], *, epoch: int
    ) -> tuple[Tensor, Tensor]:
        """Return a random view of each scan and one of each person's measures; see `TwoViews`.

        `images` are a batch of scans and a batch of the same people's measures, and `names`
        identify the people. Views that are not finite are refused.
        """
        scans, measures = self.unchecked(images, names, epoch=epoch)
        self.of_scans.check(images[0], names, (scans,))
        self.of_measures.check(images[1], names, (measures,))
        return scans, measures

    def unchecked(
        self, images: Sequence[Tensor], names: Sequence[str], *, epoch: int
    ) -> tuple[Tensor, Tensor]:
        """Return random views of scans and of measures, without checking that values are finite.

        `images` are a batch of scans and a batch of the same people's measures, and `names`
        identify the people, as for a call.
        """
        scans = self.of_scans.unchecked_view(images[0], names, epoch=epoch, view=0)
        measures = self.of_measures.unchecked_view(images[1], names, epoch=epoch, view=1)
        return scans, measures
