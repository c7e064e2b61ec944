"""Source of scans and of regional measures of the same scans, to train two encoders."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from neurocontrast.data.batches import PairedImages
from neurocontrast.data.cohort import Cohort
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.measures import add_measures
from neurocontrast.data.problems import Problems
from neurocontrast.data.settings import MeasureTableSettings
from neurocontrast.data.sources.measures import RegionalMeasures
from neurocontrast.data.sources.volumes import BrainVolumes
from neurocontrast.documents.encoder import PreprocessingRecord, Samples
from neurocontrast.exceptions import DataError
from neurocontrast.progress import Progress
from neurocontrast.transforms import MeasureAugmentSettings
from neurocontrast.transforms.paired_views import ViewOfEach


@dataclass(frozen=True)
class PairedBrains(BrainVolumes):
    """Source of scans and of regional measures of the same scans, to train two encoders.

    A scan is joined with the measures of the same participant and session; the order of rows in the
    tables does not matter.
    """

    second: RegionalMeasures = field(kw_only=True)
    augment_2: MeasureAugmentSettings = field(kw_only=True)

    @property
    def halves(self) -> tuple[BrainVolumes, RegionalMeasures]:
        """Source of the scans alone, and source of the regional measures alone."""
        settings = {setting.name: getattr(self, setting.name) for setting in fields(BrainVolumes)}
        return BrainVolumes(**settings), self.second

    def read_cohort(
        self, participants: AnyTable, *, images_root: Any = None, check_images: bool = True
    ) -> Cohort:
        """Read scans with regional measures; without ``--skip``, refuse scans without measures."""
        scans = super().read_cohort(
            participants, images_root=images_root, check_images=check_images
        )
        with _of_section_2():
            cohort = add_measures(
                scans,
                self.second.data.measures,
                **self.second.choice,
                all_measured=False,
                skip=self.skips,
            )
        assert cohort.measures is not None
        lacking = cohort.measures.values.isna().all(axis=1).to_numpy()
        problems = Problems(cohort.source.name)
        if check_images and not self.skips:
            for name in cohort.subset(lacking).names():
                problems.add("no table of measures has a row of this scan", name=name)
        problems.hint("To leave such scans out, set data.skip_unreadable=true (--skip).")
        problems.raise_if_any()
        return cohort

    def unlearnable(self, cohort: Cohort, seed: int) -> dict[int, str]:
        """Return row → reason, for scans of `cohort` without measures, or with too few of them.

        Rows are positions in `cohort`; see `RegionalMeasures.unlearnable_at`.
        """
        with _of_section_2():
            return self.second.unlearnable_at(cohort, self.data.val_fraction, seed)

    def prepared(self, cohort: Cohort | None, rows: Sequence[int] = ()) -> Self:
        """Return a copy of the source with preprocessing of scans, and standardisation of measures.

        The standardisation is a trained run's, if the source has one (`as_in_run`), and is fitted
        on the training `rows` of `cohort` if not.
        """
        with _of_section_2():
            return replace(
                super().prepared(cohort, rows), second=self.second.prepared(cohort, rows)
            )

    def as_in_run(self, samples: Samples) -> Self:
        """Return a copy of the source with a trained run's preprocessing of scans and of measures.

        `samples` is the part of the run's ``encoder.json`` on the samples: section
        ``preprocessing`` for scans, and ``preprocessing_2`` for measures.
        """
        second = self.second.as_in_run(
            Samples(preprocessing=samples.preprocessing_2 or PreprocessingRecord())
        )
        return replace(super().as_in_run(samples), second=second)

    def contract(self) -> Samples:
        """Return `Samples` with the preprocessing of scans and measures, for ``encoder.json``."""
        return super().contract().with_keys(preprocessing_2=self.second.contract().preprocessing)

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return one text of digests for each scan with its measures, in the order of the rows.

        The text has the digests of the scan's voxels, and then the digests of the measures,
        separated by spaces; "" if the scan, or the measures, have no digest.
        """
        contents = []
        of_scans = super().contents(cohort, progress)
        of_measures = self.second.contents(cohort, progress)
        for pair in zip(of_scans, of_measures, strict=True):
            digests = " ".join(pair)
            if "" in pair:
                digests = ""
            contents.append(digests)
        return contents

    def images(self, cohort: Cohort) -> PairedImages:
        """Return a dataset of pairs of volume and measures, in the order of the cohort's rows."""
        return PairedImages(super().images(cohort), self.second.images(cohort))

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return kind (``measures``, ``vectors``) → list of (name, path) of the files read."""
        return {**self.second.files(cohort), **super().files(cohort)}

    def views(self, augment: Any, *, seed: int) -> Callable[..., tuple[Any, Any]]:
        """Return a function that makes a view of a batch's scans and one of the regional measures.

        The function, a `ViewOfEach`, is called with a batch of scans and of the same scans'
        measures, and returns the pair of views.
        """
        first = self.two_views(augment, seed=seed)
        second = self.second.two_views(self.augment_2, seed=seed)
        return ViewOfEach(first, second)


@contextlib.contextmanager
def _of_section_2() -> Iterator[None]:
    """Rename keys ``data.…`` to ``data_2.…`` in a `DataError` raised in the ``with`` block.

    Renamed are the keys of tables of measures; the error is raised again with the changed message.
    """
    try:
        yield
    except DataError as error:
        keys = "|".join(MeasureTableSettings.model_fields)
        raise type(error)(re.sub(rf"\bdata\.(?=(?:{keys})\b)", "data_2.", str(error))) from None
