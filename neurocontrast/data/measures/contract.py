"""Standardise regional measures, with medians, means and deviations fitted on training people."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import Field, FiniteFloat, ValidationError, model_validator
from pydantic_core import ErrorDetails

from neurocontrast.data.measures.names import HEAD_SIZE
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.settings import Positive
from neurocontrast.transforms.augment import MeasureSettings

if TYPE_CHECKING:
    from neurocontrast.data.measures.tables import MeasuresTable

_VERSION = 1
_SMALLEST = 1.0
"""Smallest volume in mm³ whose logarithm is taken; smaller volumes count as this one."""
_STEADY = 1e-9
"""Standard deviation up to which a measure counts as the same for everybody."""
_N_NAMED = 5
"""Largest number of absent measures that a message names."""
_FEW = 0.2
"""Share of a run's measures that a table lacks, above which the table seems of another atlas."""
_MOST_ADVISED = 0.1
"""Largest value of ``data.max_missing`` that a message advises."""


class MeasuresContract(MeasureSettings):
    """Standardisation of regional measures, fitted on training people and stored in a run.

    Medians, means and deviations are of measures after logarithm and correction for head size.
    """

    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the measures, in the order of the encoder's input."""
    is_volume: tuple[bool, ...]
    """Whether each measure is a volume, for which `log_volumes` and `head_size` are used."""
    medians: tuple[FiniteFloat, ...]
    """Median of each measure over training people, which replaces a missing value."""
    means: tuple[FiniteFloat, ...]
    """Mean of each measure over training people, which is subtracted from the measure."""
    sds: tuple[Positive, ...]
    """Standard deviation of each measure over training people, by which the measure is divided."""
    slopes: tuple[FiniteFloat, ...]
    """Slope of each measure on head size; 0 for a measure that is not corrected."""
    head: FiniteFloat
    """Median head size, as a logarithm if volumes are logarithms; 0 if no measure is corrected."""
    atlas: str = ""
    """Atlas of the training tables, as in `MeasuresTable`."""
    software: str = ""
    """Software of the training tables, as in `MeasuresTable`."""
    left_out: tuple[str, ...] = ()
    """Measures of the training tables that were missing or equal for all people."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        of_measures = (self.is_volume, self.medians, self.means, self.sds, self.slopes)
        if set(map(len, of_measures)) != {len(set(self.columns))}:
            raise ValueError("columns and their numbers differ in length")
        return self

    @classmethod
    def fit(cls, table: MeasuresTable, values: pd.DataFrame, settings: MeasureSettings) -> Self:
        """Fit the standardisation of regional measures on training people, and return the contract.

        Measures that are equal or missing for all people are left out, and named in `left_out`.

        Parameters
        ----------
        table : MeasuresTable
            Kinds of the measures, their atlas and software.
        values : DataFrame
            Measures in mm, mm² and mm³, one row a person.
        settings : MeasureSettings
            Section ``data``: logarithms, head size, share that may be missing, clipping.
        """
        values = values.rename(columns=str)
        varying = [str(name) for name in values if np.nan_to_num(values[name].std()) > _STEADY]
        needs_head = settings.head_size != "keep"
        if needs_head and HEAD_SIZE not in varying:
            raise DataError(
                f"data.head_size: '{settings.head_size}' needs the measure '{HEAD_SIZE}' (eTIV), "
                "which these tables do not have. Set it to keep."
            )
        if len(varying) < 2:
            raise DataError(
                f"data.measures: {len(varying)} measures differ between people; at least 2 are "
                "needed."
            )
        contract = cls._unfitted(table, values, varying, settings)
        raw = contract._logarithms(values[varying].to_numpy(dtype=np.float64))
        if needs_head:
            head = float(np.nanmedian(raw[:, varying.index(HEAD_SIZE)]))
            contract = contract.model_copy(update={"head": head})
            slopes = tuple(contract._slopes(raw).tolist())
            contract = contract.model_copy(update={"slopes": slopes})
        residuals = contract._without_head(raw)
        medians = np.nanmedian(residuals, axis=0)
        filled = np.where(np.isnan(residuals), medians, residuals)
        means = filled.mean(0)
        sds = filled.std(0)
        flat = [name for name, sd in zip(varying, sds, strict=True) if not sd > _STEADY]
        if flat:  # volumes of less than 1 mm³, whose logarithms are all the same
            fitted = cls.fit(table, values.drop(columns=flat), settings)
            return fitted.model_copy(update={"left_out": (*fitted.left_out, *flat)})
        numbers = {
            "medians": tuple(medians.tolist()),
            "means": tuple(means.tolist()),
            "sds": tuple(sds.tolist()),
        }
        return contract.model_copy(update=numbers)

    @classmethod
    def _unfitted(
        cls,
        table: MeasuresTable,
        values: pd.DataFrame,
        columns: Sequence[str],
        settings: MeasureSettings,
    ) -> Self:
        """Return a standardisation of `columns` with means and slopes 0, which `fit` replaces."""
        zeros = (0.0,) * len(columns)
        ones = (1.0,) * len(columns)
        return cls(
            **settings.model_dump(include=set(MeasureSettings.model_fields)),
            columns=tuple(columns),
            is_volume=tuple(table.kinds[name] == "volume" for name in columns),
            medians=zeros,
            means=zeros,
            sds=ones,
            slopes=zeros,
            head=0.0,
            atlas=table.atlas,
            software=table.software,
            left_out=tuple(str(name) for name in values if str(name) not in columns),
        )

    def apply(
        self,
        values: pd.DataFrame,
        names: Sequence[str],
        *,
        source: str,
        remedy: Callable[[float], str] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return standardised measures of shape (people, measures), without missing values.

        A missing value is replaced by the median of the training people before standardisation.

        Parameters
        ----------
        values : DataFrame
            Measures of each person, in mm, mm² and mm³.
        names : sequence of str
            Name of each person in messages.
        source : str
            Name of the table in messages.
        remedy : callable, optional
            Function of the share that people lack, in [0, 1], which returns advice for a message;
            by default `ways_out`.

        Raises
        ------
        DataError
            If a measure of training is no column of `values`; or with the names of all people for
            whom a larger share of these measures than `max_missing` (0 to 1) is missing.
        """
        self.check_columns(values, source=source)
        return self.standardised(self._raw(values), names, source=source, remedy=remedy or ways_out)

    def standardised(
        self,
        raw: npt.NDArray[np.float64],
        names: Sequence[str],
        *,
        source: str,
        remedy: Callable[[float], str],
    ) -> npt.NDArray[np.float32]:
        """Return standardised measures, of shape (people, measures), from an array of raw measures.

        `raw` has a column for each of `columns`, in mm, mm² and mm³; missing values become medians
        of the training people. If a person lacks a larger share of the measures than `max_missing`,
        a `DataError` is raised with the names of all such people and the advice of `remedy`.
        """
        problems = Problems(source)
        for row, reason in self._reasons(raw).items():
            problems.add(reason, name=names[row])
        shares = np.isnan(raw).mean(axis=1)
        problems.hint(remedy(float(shares.max(initial=0.0))))
        problems.raise_if_any()
        residuals = self._without_head(self._logarithms(raw))
        filled = np.where(np.isnan(residuals), self.medians, residuals)
        standardised = (filled - np.array(self.means)) / np.array(self.sds)
        return np.clip(standardised, -self.clip, self.clip).astype(np.float32)

    def deviations(self, values: pd.DataFrame) -> pd.DataFrame:
        """Return deviations of people's measures from the training median, in standard deviations.

        `values` has unchanged measures in mm, mm² and mm³; logarithms of volumes and the correction
        for head size, as in training, are applied here. The returned table has a row for each row
        of `values` and a column for each measure; NaN is missing. Deviations are not cut off at
        `clip`.
        """
        raw = self._raw(values.reindex(columns=list(self.columns)))
        residuals = self._without_head(self._logarithms(raw))
        deviations = (residuals - np.array(self.medians)) / np.array(self.sds)
        return pd.DataFrame(deviations, index=values.index, columns=list(self.columns))

    def lacking(self, values: pd.DataFrame) -> dict[int, str]:
        """Return row → reason, for people (rows of `values`) who lack too many measures.

        `max_missing` is the share of `columns` that a person may lack.
        """
        return self._reasons(self._raw(values))

    def check_columns(
        self,
        values: Container[str],
        *,
        source: str,
        empty: Collection[str] = (),
        may_be_absent: bool = False,
    ) -> None:
        """Refuse a table if a measure of training is absent, or too many are empty for everybody.

        Too many are a larger share of the measures of training than `max_missing` (0 to 1). No
        value is filled in here; `apply` replaces missing values by medians of the training people.

        Parameters
        ----------
        values : container of str
            Names of the measures of which the table has values.
        source : str
            Name of the table in messages.
        empty : collection of str
            Names of the measures that have a column in the table, but no value for anybody.
        may_be_absent : bool
            Whether measures of training that are not in the table count as empty; by default one
            such measure is refused.
        """
        lacking = [name for name in self.columns if name not in values]
        absent = [name for name in lacking if name not in empty]
        share = len(lacking) / len(self.columns)
        if absent and not (may_be_absent and share <= self.max_missing):
            self._refuse(absent, "not there", source)
        if share > self.max_missing:
            self._refuse(lacking, "empty for everybody", source)

    def _refuse(self, columns: Sequence[str], reason: str, source: str) -> NoReturn:
        """Raise a `DataError` that measures of training, `columns`, are absent or empty in a table.

        `reason` says which. If they are at most a fifth of the measures of training, the message
        advises to set ``data.max_missing`` to this share.
        """
        more = ""
        if len(columns) > _N_NAMED:
            more = f" and {len(columns) - _N_NAMED} more"
        share = len(columns) / len(self.columns)
        remedy = "Give tables of that atlas."
        if share <= _FEW:
            remedy += (
                f" Or let medians of training take their place: --set data.max_missing={_up(share)}"
            )
        raise DataError(
            f"{source}: {len(columns)} of the {len(self.columns)} measures of training are "
            f"{reason}: {one_of(columns[:_N_NAMED])}{more}. Training had the atlas "
            f"'{self.atlas or 'unknown'}'. {remedy}"
        )

    @property
    def usual(self) -> dict[str, float]:
        """Median of each measure over the training people, by name, in mm, mm² or mm³."""
        medians = np.array(self.medians)
        if self.log_volumes:
            medians = np.where(self.is_volume, np.exp(medians), medians)
        return dict(zip(self.columns, medians.tolist(), strict=True))

    def _raw(self, values: pd.DataFrame) -> npt.NDArray[np.float64]:
        """Return the measures `columns` of the table `values`, as an array (people, measures).

        The measures are not standardised, in mm, mm² and mm³.
        """
        return values[list(self.columns)].to_numpy(dtype=np.float64)

    def _reasons(self, raw: npt.NDArray[np.float64]) -> dict[int, str]:
        """Return row → reason, for people (rows of `raw`) who lack too many measures.

        `max_missing` is the share of `columns` that a person may lack.
        """
        missing = np.isnan(raw)
        reasons = {}
        for row in np.flatnonzero(missing.mean(axis=1) > self.max_missing).tolist():
            n_missing = int(missing[row].sum())
            if n_missing == len(self.columns):
                reasons[row] = "no table of measures has a row of this scan"
                continue
            first = self.columns[int(np.flatnonzero(missing[row])[0])]
            reasons[row] = (
                f"lacks {n_missing} of {len(self.columns)} measures, '{first}' first; at most "
                f"{self.max_missing * 100:g} % may be missing (data.max_missing)"
            )
        return reasons

    def _logarithms(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the measures `raw`, with logarithms of volumes if `log_volumes` is set.

        Shapes are (people, measures).
        """
        raw = raw.copy()
        if self.log_volumes:
            volumes = np.flatnonzero(self.is_volume)
            raw[:, volumes] = np.log(np.maximum(raw[:, volumes], _SMALLEST))
        return raw

    def _head(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the head size of each row of `raw` minus the training median; 0 if unknown.

        If `head_size` is ``keep``, all are 0. Volumes in `raw` (people, measures) are logarithms if
        `log_volumes` is set.
        """
        if self.head_size == "keep":
            return np.zeros(len(raw))
        head = raw[:, self.columns.index(HEAD_SIZE)]
        return np.where(np.isnan(head), 0.0, head - self.head)

    def _without_head(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the measures `raw` minus their linear dependence on head size.

        Shapes are (people, measures); volumes in `raw` are logarithms if `log_volumes` is set.
        """
        return raw - self._head(raw)[:, None] * np.array(self.slopes)

    def _slopes(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the slope of each measure in `raw` on head size; 0 for all measures but volumes.

        With ``proportion`` as `head_size`, slopes of volumes are 1 and not fitted. Head size itself
        has the slope 0.
        """
        slopes = np.zeros(raw.shape[1])
        head = self._head(raw)
        for column, (name, is_volume) in enumerate(zip(self.columns, self.is_volume, strict=True)):
            if not is_volume or name == HEAD_SIZE:
                continue
            if self.head_size == "proportion":
                slopes[column] = 1.0
                continue
            is_present = ~np.isnan(raw[:, column])
            centred = head[is_present] - head[is_present].mean()
            slopes[column] = centred @ raw[is_present, column] / (centred @ centred)
        return slopes

    def as_json(self) -> dict[str, object]:
        """Return the standardisation as section ``preprocessing`` of ``encoder.json``."""
        return {"kind": "measures", "transform_version": _VERSION, **self.model_dump()}

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> Self:
        """Return the standardisation in section ``preprocessing`` of an ``encoder.json``.

        A section that is damaged, or of another version, is a `DataError`.
        """
        version = content.get("transform_version")
        if version != _VERSION:
            raise DataError(
                f"preprocessing contract: transform_version is {version!r} and this neurocontrast "
                f"has {_VERSION} for measures; install the version the encoder was trained with."
            )
        lacking = [name for name in MeasureSettings.model_fields if name not in content]
        if lacking:
            raise DataError(f"preprocessing contract: {', '.join(lacking)} missing or damaged.")
        fields = {name: content[name] for name in cls.model_fields if name in content}
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            reasons = dict.fromkeys(map(_reason_of, error.errors()))
            sentence = "; ".join(reasons).replace("Value error, ", "")
            raise DataError(f"preprocessing contract: {sentence}.") from None


def _reason_of(error: ErrorDetails) -> str:
    """Return in words why a field of the standardisation in an ``encoder.json`` is wrong.

    `error` is pydantic's description.
    """
    if error["loc"]:
        return f"{error['loc'][0]} missing or damaged"
    return error["msg"]


def ways_out(share: float) -> str:
    """Return advice for people who lack measures: ``--skip``, or a larger ``data.max_missing``.

    The advice is a text for a message. ``--skip`` leaves the people out; with a larger
    ``data.max_missing`` they stay, and medians of the training people take the place of missing
    measures. `share` is the largest share of the measures that a person lacks; at most 0.1 is
    advised.
    """
    return (
        "--skip (data.skip_unreadable=true) leaves such people out; --set data.max_missing="
        f"{_up(min(share, _MOST_ADVISED))} allows more, with medians of the people learned "
        "from in place of what is missing."
    )


def ways_out_of_frames(share: float) -> str:
    """Return advice, as text for a message, on rows with missing measures given to `ScanEmbedder`.

    The advice is to leave such rows out, or to raise `max_missing` to `share`, the largest share of
    the measures that a row lacks, but at most to 0.1.
    """
    return (
        "Leave these rows out, or allow more with ScanEmbedder(..., max_missing="
        f"{_up(min(share, _MOST_ADVISED))}): medians of the people learned from then take the "
        "place of what is missing."
    )


def _up(share: float) -> float:
    """Return a share, 0 to 1, rounded up to hundredths."""
    return math.ceil(round(share * 100, 6)) / 100
