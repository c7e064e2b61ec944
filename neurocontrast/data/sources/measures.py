"""Regional measures of people, alone or paired with their scans, as a source of samples for training and embedding."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.batches import PairedImages
from neurocontrast.data.cohort import Cohort, split_by_subject
from neurocontrast.data.datasets import MeasuresDataset
from neurocontrast.data.listing import AnyTable, place_of
from neurocontrast.data.measures import (
    MeasuresContract,
    add_measures,
    join_measures,
    measures_of,
    read_measures,
)
from neurocontrast.data.measures.contents import contents_of_measures
from neurocontrast.data.measures.contract import ways_out, ways_out_of_frames
from neurocontrast.data.measures.finding import Choice, are_measures
from neurocontrast.data.measures.joining import people_of_table, with_damage
from neurocontrast.data.measures.tables import read_chosen
from neurocontrast.data.measures.units import People, check_units_of_people
from neurocontrast.data.measures.unmarked import check_codes
from neurocontrast.data.problems import Problems
from neurocontrast.data.settings import MeasureDataSettings, MeasureTableSettings
from neurocontrast.data.sources.source import Source
from neurocontrast.data.sources.volumes import BrainVolumes
from neurocontrast.documents.encoder import PreprocessingRecord, Samples
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.progress import Progress
from neurocontrast.transforms import MeasureAugmentSettings, MeasureSettings, RandMeasureViewd
from neurocontrast.transforms.paired_views import ViewOfEach

_FRAME = Path("X")  # source of a cohort that is a DataFrame of measures alone
_LEFT_OUT = "X: left out "
"""Beginning of a note on columns of a DataFrame that are no measures, as an age is none."""


@dataclass(frozen=True)
class RegionalMeasures(Source):
    """Regional measures: standardised by the people learned from, whose values views take."""

    data: MeasureDataSettings
    contract_: MeasuresContract | None = None
    max_missing_of_run: float | None = None  # where `data` allows another share than the run
    learned: npt.NDArray[np.float32] | None = None

    @property
    def n_channels(self) -> int:
        """Measures of a person."""
        return len(self.known.columns)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that a network is given."""
        return self.known.columns

    @property
    def known(self) -> MeasuresContract:
        """The contract of a run, or the one that was fitted."""
        if self.contract_ is None:
            raise ConfigError(
                "data.participants: missing. What an encoder reads of measures is learned from people."
            )
        return self.contract_

    def read_cohort(
        self, participants: AnyTable, *, images_root: Any = None, check_images: bool = True
    ) -> Cohort:
        """Read people and their measures; of other programs than a run learned from, a warning says so."""
        _check_no_images(images_root)
        all_measured = check_images and not self.skips
        cohort = read_measures(
            participants,
            self.data.measures,
            **self._taken,
            all_measured=all_measured,
            skip=self.skips,
        )
        return self._compared(cohort)

    @property
    def _taken(self) -> dict[str, str]:
        return {"atlas": self.data.atlas, "measure": self.data.measure}

    def _compared(self, cohort: Cohort) -> Cohort:
        """Refuse a cohort that lacks columns of a run; warn where its measures are of another atlas or program."""
        table = cohort.measures
        contract = self.contract_
        assert table is not None
        if contract is None:
            return cohort
        contract.check_columns(
            table.values,
            source=cohort.source.name,
            empty=table.empty,
            may_be_absent=self.max_missing_of_run is not None,
        )
        sites = cohort.table.get("site", pd.Series([""] * len(cohort)))
        people = People(cohort.source.name, cohort.names(), sites.fillna("").astype(str).tolist())
        check_units_of_people(table.values, table.kinds, people, usual=contract.usual)
        check_codes(table.values, table.kinds, people, usual=contract.usual)
        parts = ((table.atlas, contract.atlas, "+"), (table.software, contract.software, "; "))
        warnings = [
            f"{cohort.source.name}: these measures are of {now}, and the encoder learned from {before}: they differ in "
            "their measures as scanners do."
            for now, before, between in parts
            if now and not set(filter(None, before.split(between))) <= set(now.split(between))
        ]
        columns = pd.Index(contract.columns)
        lacking = columns.difference(table.values.columns, sort=False).tolist()
        if lacking:
            warnings.append(
                f"{cohort.source.name}: nobody has a value of {one_of(lacking)}; medians of the "
                "people learned from take the place of each."
            )
            columns = table.values.columns.append(pd.Index(lacking))
            table = replace(table, values=table.values.reindex(columns=columns))
        if self.max_missing_of_run is not None:
            warnings.append(
                f"data.max_missing is {contract.max_missing:g}, and {self.max_missing_of_run:g} in "
                "the run: medians of the people learned from take the place of what more people lack."
            )
        return replace(cohort, measures=table, warnings=(*cohort.warnings, *warnings))

    def unlisted(self, scans: AnyTable, *, images_root: Any = None) -> Cohort | None:
        """Return everybody in a table or folder of measures, where `data` names no other."""
        _check_no_images(images_root)
        if self.data.measures is not None or not are_measures(scans):
            return None
        choice = Choice(**self._taken)
        table = read_chosen(scans, choice, skip=self.skips, with_facts=True)
        people = people_of_table(table, place_of(scans))
        return self._compared(join_measures(people, table, all_measured=not table.unread))

    def cohort_of(self, given: Any, folder: Path) -> Cohort:
        """Return a cohort of the measures in a DataFrame."""
        del folder
        if not isinstance(given, pd.DataFrame):
            raise DataError(
                "X: of this run, which was trained on regional measures, must be a DataFrame with one row a person and "
                f"one column a region, got {type(given).__name__}."
            )
        if not len(given):
            raise DataError("X: there is no row to embed.")
        names = [f"row {row}" for row in range(len(given))]
        table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": ""})
        measures = measures_of(given, name="X", keep=self.known.columns)
        notes = filter(lambda note: not note.startswith(_LEFT_OUT), measures.notes)
        people = Cohort(table, _FRAME, warnings=tuple(notes), channels=(), measures=measures)
        return self._compared(people)

    def prepared(self, cohort: Cohort | None, rows: Sequence[int] = ()) -> Self:
        """Return the source with the contract fitted on the rows of training, unless a run has one."""
        if cohort is None:
            return self
        assert cohort.measures is not None
        contract = self.contract_
        if contract is None:
            learned = cohort.measures.values.iloc[list(rows)]
            contract = MeasuresContract.fit(cohort.measures, learned, self.data)
        known = replace(self, contract_=contract)
        return replace(
            known, learned=known._values(cohort)[list(rows)]
        )  # who lacks too much is refused, in any row

    def failures(self, cohort: Cohort, progress: Progress) -> dict[int, str]:
        """Return the people who lack too much, each with the reason."""
        del progress
        assert cohort.measures is not None
        return with_damage(cohort, self.known.lacking(cohort.measures.values))

    def unlearnable(self, cohort: Cohort, seed: int) -> dict[int, str]:
        """Return who lacks too many of the measures that a run learns from the others."""
        return self.unlearnable_at(cohort, self.data.val_fraction, seed)

    def unlearnable_at(self, cohort: Cohort, val_fraction: float, seed: int) -> dict[int, str]:
        """Return the rows that `unlearnable` does, of a cohort that is split by a share for validation."""
        reasons: dict[int, str] = {}
        while len(reasons) < len(cohort):
            rows = np.setdiff1d(np.arange(len(cohort)), list(reasons)).tolist()
            rest = cohort.subset(rows)
            training, _ = split_by_subject(rest, val_fraction, seed)
            assert rest.measures is not None
            values = rest.measures.values
            contract = MeasuresContract.fit(rest.measures, values.iloc[training], self.data)
            lacking = contract.lacking(values)
            if not lacking:
                break
            for row, reason in lacking.items():
                reasons[rows[row]] = reason
        return with_damage(cohort, reasons)

    def as_in_run(self, samples: Samples) -> Self:
        """Return the source with the contract of a run; `data` says how much may be missing."""
        learned = MeasuresContract.from_json(samples.preprocessing.content())
        allowed = self.data.max_missing
        if "max_missing" not in self.data.model_fields_set or allowed == learned.max_missing:
            return replace(self, contract_=learned)
        return replace(
            self,
            contract_=learned.model_copy(update={"max_missing": allowed}),
            max_missing_of_run=learned.max_missing,
        )

    def in_run(self, preprocessing: PreprocessingRecord) -> dict[str, Any]:
        """Return how measures are made ready."""
        del preprocessing
        return {name: getattr(self.known, name) for name in MeasureSettings.model_fields}

    def contract(self) -> Samples:
        """Return which measures are read, and how they are standardised."""
        return Samples(preprocessing=PreprocessingRecord.model_validate(self.known.as_json()))

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return the places of a channel: one."""
        del cohort
        return (1,)

    def table_of(self, cohort: Cohort) -> pd.DataFrame:
        """Return the table with the measures that the encoder reads, as they were listed."""
        assert cohort.measures is not None
        measures = cohort.measures.values[list(self.known.columns)].set_axis(cohort.table.index)
        return pd.concat(
            [cohort.table.drop(columns=measures.columns, errors="ignore"), measures], axis=1
        )

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return the digests of the measures that the encoder reads, as they were listed."""
        del progress
        assert cohort.measures is not None
        return contents_of_measures(cohort.measures.values.reindex(columns=self.known.columns))

    def images(self, cohort: Cohort) -> MeasuresDataset:
        """Return the cohort's measures, standardised, in the order of its rows."""
        return MeasuresDataset(self._values(cohort))

    def _values(self, cohort: Cohort) -> npt.NDArray[np.float32]:
        assert cohort.measures is not None
        remedy = ways_out
        if cohort.source == _FRAME:
            remedy = ways_out_of_frames
        return self.known.apply(
            cohort.measures.values, cohort.names(), source=cohort.source.name, remedy=remedy
        )

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return the tables of measures, and the files of vectors."""
        assert cohort.measures is not None
        return {
            "measures": [(path.name, path) for path in cohort.measures.sources],
            **super().files(cohort),
        }

    def built_in_views(self, augment: MeasureAugmentSettings) -> Any:
        """Return the views of measures."""
        return RandMeasureViewd("image", augment, learned=self.learned)


@dataclass(frozen=True)
class PairedBrains(BrainVolumes):
    """Scans of brains, each with the regional measures of the same scan, for the first and the second encoder.

    Scans and measures are joined by participant and session; their order in the tables does not
    matter.
    """

    second: RegionalMeasures = field(kw_only=True)
    augment_2: MeasureAugmentSettings = field(kw_only=True)

    @property
    def halves(self) -> tuple[BrainVolumes, RegionalMeasures]:
        """The scans alone, and the measures alone."""
        return BrainVolumes(
            **{each.name: getattr(self, each.name) for each in fields(BrainVolumes)}
        ), self.second

    def read_cohort(
        self, participants: AnyTable, *, images_root: Any = None, check_images: bool = True
    ) -> Cohort:
        """Read scans with their measures; who has none is refused, or left out later if `skips`."""
        scans = super().read_cohort(
            participants, images_root=images_root, check_images=check_images
        )
        with _of_section_2():
            cohort = add_measures(
                scans,
                self.second.data.measures,
                **self.second._taken,
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
        """Return the scans without measures, or with too few."""
        with _of_section_2():
            return self.second.unlearnable_at(cohort, self.data.val_fraction, seed)

    def prepared(self, cohort: Cohort | None, rows: Sequence[int] = ()) -> Self:
        """Return the source with the preprocessing of the scans, and the contract of the measures."""
        with _of_section_2():
            return replace(
                super().prepared(cohort, rows), second=self.second.prepared(cohort, rows)
            )

    def as_in_run(self, samples: Samples) -> Self:
        """Return the source with the preprocessing of a run, of both."""
        second = self.second.as_in_run(
            Samples(preprocessing=samples.preprocessing_2 or PreprocessingRecord())
        )
        return replace(super().as_in_run(samples), second=second)

    def contract(self) -> Samples:
        """Return how scans and measures are prepared; each of `halves` has the keys of its own ``encoder.json``."""
        return super().contract().with_keys(preprocessing_2=self.second.contract().preprocessing)

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return the digests of each scan and of its measures; "" where one of both has none."""
        contents = []
        of_scans = super().contents(cohort, progress)
        for pair in zip(of_scans, self.second.contents(cohort, progress), strict=True):
            contents.append("" if "" in pair else " ".join(pair))
        return contents

    def images(self, cohort: Cohort) -> PairedImages:
        """Return the volumes and the measures of a cohort, in the order of its rows."""
        return PairedImages(super().images(cohort), self.second.images(cohort))

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return the tables of measures, and the files of vectors."""
        return {**self.second.files(cohort), **super().files(cohort)}

    def views(self, augment: Any, *, seed: int) -> Callable[..., tuple[Any, Any]]:
        """Return what makes a view of the scans and a view of the measures of a batch."""
        first = self.two_views(augment, seed=seed)
        second = self.second.two_views(self.augment_2, seed=seed)

        return ViewOfEach(first, second)


@contextlib.contextmanager
def _of_section_2() -> Iterator[None]:
    """Let errors about measures name the section ``data_2``, which describes them next to scans."""
    try:
        yield
    except DataError as error:
        keys = "|".join(MeasureTableSettings.model_fields)
        raise type(error)(re.sub(rf"\bdata\.(?=(?:{keys})\b)", "data_2.", str(error))) from None


def _check_no_images(images_root: Any) -> None:
    if images_root is not None:
        raise ConfigError("images_root: regional measures have no images. Leave it out.")
