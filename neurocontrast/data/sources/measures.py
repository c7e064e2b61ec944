"""Source of regional measures, for training an encoder and for embedding people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.cohort import Cohort, split_by_subject
from neurocontrast.data.datasets import MeasuresDataset
from neurocontrast.data.listing import AnyTable, place_of
from neurocontrast.data.measures import (
    MeasuresContract,
    join_measures,
    measures_of,
    read_measures,
)
from neurocontrast.data.measures.choosing import Choice
from neurocontrast.data.measures.contents import contents_of_measures
from neurocontrast.data.measures.contract import ways_out, ways_out_of_frames
from neurocontrast.data.measures.finding import are_measures
from neurocontrast.data.measures.joining import people_of_table, with_damage
from neurocontrast.data.measures.tables import read_chosen
from neurocontrast.data.measures.units import People, check_units_of_people
from neurocontrast.data.measures.unmarked import check_codes
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.data.sources.source import Source
from neurocontrast.documents.encoder import PreprocessingRecord, Samples
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.progress import Progress
from neurocontrast.transforms import MeasureAugmentSettings, MeasureSettings, RandMeasureViewd

_FRAME = Path("X")
"""Name in messages of a DataFrame of measures, in place of a file: that of the argument ``X``."""
_LEFT_OUT = "X: left out "
"""Beginning of a note on columns of a DataFrame that are no regional measures, such as age."""


@dataclass(frozen=True)
class RegionalMeasures(Source):
    """Source of regional measures, standardised by the training people.

    Augmented views replace values by values of training people.
    """

    data: MeasureDataSettings
    contract_: MeasuresContract | None = None
    max_missing_of_run: float | None = None
    """Share of missing measures that was allowed when the encoder was trained, if the user now
    sets a different share in ``data.max_missing``; None without a different share.
    """
    learned: npt.NDArray[np.float32] | None = None
    """Standardised measures of the training people, of shape (people, 1, measures); None before
    fitting.
    """

    @property
    def n_channels(self) -> int:
        """Number of regional measures of one person."""
        return len(self.known.columns)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the regional measures that are the network's input."""
        return self.known.columns

    @property
    def known(self) -> MeasuresContract:
        """Standardisation of measures: of a trained run, or fitted on a new run's training people.

        Reading the property before either is there raises a `ConfigError`.
        """
        if self.contract_ is None:
            raise ConfigError(
                "data.participants: missing. What an encoder reads of measures is learned from "
                "people."
            )
        return self.contract_

    def read_cohort(
        self, participants: AnyTable, *, images_root: Any = None, check_images: bool = True
    ) -> Cohort:
        """Read people and regional measures; warn if a trained run had another atlas or program.

        Only a source by `as_in_run` has a trained run, and then refuses absent columns and wrong
        units.
        """
        _check_no_images(images_root)
        all_measured = check_images and not self.skips
        cohort = read_measures(
            participants,
            self.data.measures,
            **self.choice,
            all_measured=all_measured,
            skip=self.skips,
        )
        return self._compared(cohort)

    @property
    def choice(self) -> dict[str, str]:
        """Options that choose among the tables of measures in a folder: ``atlas`` and ``measure``.

        A dict of these two settings of section ``data`` by name, for use as keyword arguments.
        """
        return {"atlas": self.data.atlas, "measure": self.data.measure}

    def _compared(self, cohort: Cohort) -> Cohort:
        """Return `cohort` after comparing its measures with the measures of a trained run.

        The run is the one from which `as_in_run` made this source; without one, `cohort` is
        returned unchanged. Absent columns and wrong units are refused. For another atlas or
        program, a warning is added to `warnings` of the returned cohort.
        """
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
        warnings = [
            *_warnings_of_change(cohort, table.atlas, contract.atlas, separator="+"),
            *_warnings_of_change(cohort, table.software, contract.software, separator="; "),
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
                "the run: medians of the people learned from take the place of what more people "
                "lack."
            )
        return replace(cohort, measures=table, warnings=(*cohort.warnings, *warnings))

    def unlisted(self, scans: AnyTable, *, images_root: Any = None) -> Cohort | None:
        """Return a cohort of everybody in a table or folder of regional measures, `scans`.

        No table of people needs to list these people. None is returned if `scans` is no such table
        or folder, or if ``data.measures`` names the tables: then `scans` is a table of people.
        """
        _check_no_images(images_root)
        if self.data.measures is not None or not are_measures(scans):
            return None
        choice = Choice(**self.choice)
        table = read_chosen(scans, choice, skip=self.skips, with_facts=True)
        people = people_of_table(table, place_of(scans))
        return self._compared(join_measures(people, table, all_measured=not table.unread))

    def cohort_of(self, scans: Any, folder: Path) -> Cohort:
        """Return a cohort of the DataFrame of regional measures that a `ScanEmbedder` was given.

        `scans` is the DataFrame, with one row a person and one column a measure.
        """
        del folder
        if not isinstance(scans, pd.DataFrame):
            raise DataError(
                "X: of this run, which was trained on regional measures, must be a DataFrame with "
                f"one row a person and one column a region, got {type(scans).__name__}."
            )
        if not len(scans):
            raise DataError("X: there is no row to embed.")
        names = [f"row {row}" for row in range(len(scans))]
        table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": ""})
        measures = measures_of(scans, name="X", keep=self.known.columns)
        notes = filter(lambda note: not note.startswith(_LEFT_OUT), measures.notes)
        people = Cohort(table, _FRAME, warnings=tuple(notes), channels=(), measures=measures)
        return self._compared(people)

    def prepared(self, cohort: Cohort | None, rows: Sequence[int] = ()) -> Self:
        """Return the source with a trained run's standardisation, or one fitted on training `rows`.

        Training `rows` are positions in `cohort`, whose standardised measures are kept in `learned`
        for augmented views. The result is a copy; without a cohort, it is this source itself.
        """
        if cohort is None:
            return self
        assert cohort.measures is not None
        contract = self.contract_
        if contract is None:
            learned = cohort.measures.values.iloc[list(rows)]
            contract = MeasuresContract.fit(cohort.measures, learned, self.data)
        standardised = replace(self, contract_=contract)
        values = standardised._values(cohort)  # refuses who lacks too much, in any row
        return replace(standardised, learned=values[list(rows)])

    def failures(self, cohort: Cohort, progress: Progress) -> dict[int, str]:
        """Return row → reason, for people of `cohort` who lack too many measures.

        Rows are positions in `cohort`. If files of the measures are damaged, the damage is the
        reason.
        """
        del progress
        assert cohort.measures is not None
        return with_damage(cohort, self.known.lacking(cohort.measures.values))

    def unlearnable(self, cohort: Cohort, seed: int) -> dict[int, str]:
        """Return row → reason, for people who lack more measures than a new run would allow.

        Rows are positions in `cohort`. The share that a person may lack is ``data.max_missing``.
        The training people, who determine the measures of the run, are found with
        ``data.val_fraction`` and `seed`; see `unlearnable_at`.
        """
        return self.unlearnable_at(cohort, self.data.val_fraction, seed)

    def unlearnable_at(self, cohort: Cohort, val_fraction: float, seed: int) -> dict[int, str]:
        """Return row → reason, for people who lack more measures than a new run would allow.

        Rows are positions in `cohort`. Which measures a run learns from depends on the run's
        training people, whom `val_fraction` and `seed` determine, and a person may lack only the
        share ``data.max_missing`` of these measures. So the training people are chosen again
        without the people who lack more, until everybody who is left lacks no more.
        """
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
        """Return a copy of the source with a trained run's standardisation, read from `samples`.

        `samples` is the part of the run's ``encoder.json`` on the samples and their preprocessing.
        The largest share of measures that may be missing is the run's, unless the user has set
        ``data.max_missing`` to another value than the run's.
        """
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
        """Return setting → value, for the settings of section ``data`` that a trained run fixed.

        They are the settings of the run's standardisation, such as `head_size`; a user's setting
        may not contradict them. `preprocessing` is not used.
        """
        del preprocessing
        return {name: getattr(self.known, name) for name in MeasureSettings.model_fields}

    def contract(self) -> Samples:
        """Return `Samples` with names and standardisation of measures, for ``encoder.json``."""
        return Samples(preprocessing=PreprocessingRecord.model_validate(self.known.as_json()))

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return (1,): measures are the channels of a sample, whose only axis has length 1."""
        del cohort
        return (1,)

    def table_of(self, cohort: Cohort) -> pd.DataFrame:
        """Return the table of people in `cohort`, with the measures in mm, mm² and mm³ as columns.

        The table's columns are written to the embeddings table.
        """
        assert cohort.measures is not None
        measures = cohort.measures.values[list(self.known.columns)].set_axis(cohort.table.index)
        people = cohort.table.drop(columns=measures.columns, errors="ignore")
        return pd.concat([people, measures], axis=1)

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return one text for each person: digests of the measures, before standardisation.

        See `contents_of_measures`. The text is "" for a person with too few measures.
        """
        del progress
        assert cohort.measures is not None
        return contents_of_measures(cohort.measures.values.reindex(columns=self.known.columns))

    def images(self, cohort: Cohort) -> MeasuresDataset:
        """Return a dataset of the standardised measures of `cohort`, in the order of the rows."""
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
        """Return kind (``measures``, ``vectors``) → list of (name, path) of the files read."""
        assert cohort.measures is not None
        tables = [(path.name, path) for path in cohort.measures.sources]
        return {"measures": tables, **super().files(cohort)}

    def built_in_views(self, augment: MeasureAugmentSettings) -> Any:
        """Return the random transform of measures, which puts in values of training people."""
        return RandMeasureViewd("image", augment, learned=self.learned)


def _warnings_of_change(
    cohort: Cohort, names: str, names_of_run: str, *, separator: str
) -> Iterator[str]:
    """Yield a warning if a trained run learned from an atlas or program that a cohort lacks.

    `names` is text that lists the atlases or programs of the cohort's measures, and `names_of_run`
    the run's; `separator` stands between two names in each text.
    """
    wanted = set(filter(None, names_of_run.split(separator)))
    if names and not wanted <= set(names.split(separator)):
        yield (
            f"{cohort.source.name}: these measures are of {names}, and the encoder learned from "
            f"{names_of_run}: they differ in their measures as scanners do."
        )


def _check_no_images(images_root: Any) -> None:
    """Refuse a folder of images for regional measures, which have no images."""
    if images_root is not None:
        raise ConfigError("images_root: regional measures have no images. Leave it out.")
