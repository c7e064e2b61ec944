"""Standardisation of regional measures: fitted on the training people, and kept with the weights."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from neurocontrast.data.measures.names import HEAD_SIZE
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError

if TYPE_CHECKING:
    from neurocontrast.data.measures.tables import MeasuresTable
    from neurocontrast.transforms.augment import MeasureSettings

_VERSION = 1
_SMALLEST = 1.0  # mm³: a volume of 0 has a logarithm too
_STEADY = 1e-9
_N_NAMED = 5
_CHOSEN = ("log_volumes", "head_size", "max_missing", "clip")


@dataclass(frozen=True)
class MeasuresContract:
    """Standardise the measures that an encoder reads.

    Parameters
    ----------
    columns : tuple of str
        Names of the measures, in the order of the encoder's input.
    is_volume : tuple of bool
        Which of them `log_volumes` and `head_size` concern.
    medians, means, sds, slopes : tuple of float
        Of each measure among the training people, after logarithm and head size: the median, which replaces a missing
        value; mean and standard deviation; and the slope on head size.
    head : float
        Median size of the head, as a logarithm where volumes are; 0 where it is not needed.
    log_volumes, head_size, max_missing, clip
        See `neurocontrast.transforms.MeasureSettings`.
    atlas, software : str
        Of the training tables, as in `MeasuresTable`.
    left_out : tuple of str
        Measures of the training tables that are missing or equal for all people.
    """

    columns: tuple[str, ...]
    is_volume: tuple[bool, ...]
    medians: tuple[float, ...]
    means: tuple[float, ...]
    sds: tuple[float, ...]
    slopes: tuple[float, ...]
    head: float
    log_volumes: bool
    head_size: str
    max_missing: float
    clip: float
    atlas: str = ""
    software: str = ""
    left_out: tuple[str, ...] = ()

    @classmethod
    def fit(cls, table: MeasuresTable, values: pd.DataFrame, settings: MeasureSettings) -> Self:
        """Return the contract fitted on `values`, one row a person; `table` holds their kinds and atlas."""
        values = values.rename(columns=str)
        varying = [str(name) for name in values if np.nan_to_num(values[name].std()) > _STEADY]
        needs_head = settings.head_size != "keep"
        if needs_head and HEAD_SIZE not in varying:
            raise DataError(
                f"data.head_size: '{settings.head_size}' needs the measure '{HEAD_SIZE}' (eTIV), which these tables do "
                "not have. Set it to keep."
            )
        if len(varying) < 2:
            raise DataError(f"data.measures: {len(varying)} measures differ between people; at least 2 are needed.")
        is_volume = tuple(table.kinds[name] == "volume" for name in varying)
        n = len(varying)
        empty = cls(
            tuple(varying), is_volume, (0.0,) * n, (0.0,) * n, (1.0,) * n, (0.0,) * n, 0.0,
            **settings.model_dump(include=set(_CHOSEN)),
            atlas=table.atlas, software=table.software,
            left_out=tuple(str(name) for name in values if str(name) not in varying),
        )  # fmt: skip
        raw = empty._logarithms(empty._of(values))
        known = replace(empty, head=float(np.nanmedian(raw[:, varying.index(HEAD_SIZE)]))) if needs_head else empty
        known = replace(known, slopes=tuple(known._slopes(raw).tolist()))
        made = known._without_head(raw)
        medians = np.nanmedian(made, axis=0)
        made = np.where(np.isnan(made), medians, made)
        flat = [name for name, sd in zip(varying, made.std(0), strict=True) if not sd > _STEADY]
        if flat:  # volumes of less than 1 mm³, whose logarithms are all the same
            fitted = cls.fit(table, values.drop(columns=flat), settings)
            return replace(fitted, left_out=(*fitted.left_out, *flat))
        numbers = {"medians": medians, "means": made.mean(0), "sds": made.std(0)}
        return cls(**vars(known) | {name: tuple(each.tolist()) for name, each in numbers.items()})

    def apply(self, values: pd.DataFrame, names: Sequence[str], *, source: str) -> npt.NDArray[np.float32]:
        """Return standardised measures (n, n_measures).

        Parameters
        ----------
        values : DataFrame
            Measures of each person, in mm, mm² and mm³.
        names : sequence of str
            Name of each person in messages.
        source : str
            Name of the table in messages.

        Raises
        ------
        DataError
            If measures are absent, or with the names of all people who lack more than `max_missing` of them.
        """
        self.check_columns(values, source=source)
        return self.standardised(self._of(values), names, source=source)

    def _of(self, values: pd.DataFrame) -> npt.NDArray[np.float64]:
        return values[list(self.columns)].to_numpy(dtype=np.float64)

    def standardised(
        self, raw: npt.NDArray[np.float64], names: Sequence[str], *, source: str
    ) -> npt.NDArray[np.float32]:
        """Return standardised values of the measures `columns` (n, n_measures); see `apply`."""
        raw = self._logarithms(raw)
        problems, missing = Problems(source), np.isnan(raw)
        for row in np.flatnonzero(missing.mean(axis=1) > self.max_missing).tolist():
            first = self.columns[int(np.flatnonzero(missing[row])[0])]
            problems.add(
                f"lacks {int(missing[row].sum())} of {len(self.columns)} measures, '{first}' first; at most "
                f"{self.max_missing:.0%} may be missing (data.max_missing)",
                name=names[row],
            )
        problems.raise_if_any()
        made = self._without_head(raw)
        made = np.where(np.isnan(made), self.medians, made)
        standardised = (made - np.array(self.means)) / np.array(self.sds)
        return np.clip(standardised, -self.clip, self.clip).astype(np.float32)

    def check_columns(self, values: Container[str], *, source: str) -> None:
        """Refuse measures without some of `columns`; `source` is the name of their table in messages."""
        absent = [name for name in self.columns if name not in values]
        if absent:
            shown = ", ".join(f"'{name}'" for name in absent[:_N_NAMED])
            shown += f" and {len(absent) - _N_NAMED} more" if len(absent) > _N_NAMED else ""
            raise DataError(
                f"{source}: {len(absent)} of the {len(self.columns)} measures of training are not there: {shown}. "
                f"Training had the atlas '{self.atlas or 'unknown'}'. Give tables of that atlas."
            )

    def _logarithms(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        raw = raw.copy()
        if self.log_volumes:
            volumes = np.flatnonzero(self.is_volume)
            raw[:, volumes] = np.log(np.maximum(raw[:, volumes], _SMALLEST))
        return raw

    def _head(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return head size minus its median; 0 where it is unknown or not used."""
        if self.head_size == "keep":
            return np.zeros(len(raw))
        head = raw[:, self.columns.index(HEAD_SIZE)]
        return np.where(np.isnan(head), 0.0, head - self.head)

    def _without_head(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the measures less the part that is linear in head size."""
        return raw - self._head(raw)[:, None] * np.array(self.slopes)

    def _slopes(self, raw: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the slope of each measure on head size; that of head size itself is 0."""
        slopes = np.zeros(raw.shape[1])
        if self.head_size == "keep":
            return slopes
        head = self._head(raw)
        for place, (name, is_volume) in enumerate(zip(self.columns, self.is_volume, strict=True)):
            if is_volume and name != HEAD_SIZE:
                known = ~np.isnan(raw[:, place])
                x = head[known] - head[known].mean()
                slopes[place] = 1.0 if self.head_size == "proportion" else x @ raw[known, place] / (x @ x)
        return slopes

    def as_json(self) -> dict[str, Any]:
        """Return the section ``preprocessing`` of ``encoder.json``."""
        return {"kind": "measures", "transform_version": _VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the contract of an ``encoder.json``; one that is damaged is a `DataError`."""
        if content.get("transform_version") != _VERSION:
            raise DataError(
                f"preprocessing contract: transform_version is {content.get('transform_version')!r} and this "
                f"neurocontrast has {_VERSION} for measures; install the version the encoder was trained with."
            )
        from neurocontrast.transforms.augment import MeasureSettings

        try:
            MeasureSettings.model_validate({name: content.get(name) for name in _CHOSEN})
            given = {field.name: content[field.name] for field in fields(cls) if field.name in content}
            known = TypeAdapter(cls).validate_python(given)
        except ValidationError as error:
            wrong = ", ".join(dict.fromkeys(str(each["loc"][0]) for each in error.errors()))
            raise DataError(f"preprocessing contract: {wrong} missing or damaged.") from None
        of_measures = (known.is_volume, known.medians, known.means, known.sds, known.slopes)
        if not known.columns or {len(each) for each in of_measures} != {len(set(known.columns))}:
            raise DataError("preprocessing contract: columns and their numbers differ in length.")
        if not np.isfinite([*of_measures, (known.head,) * len(known.columns)]).all() or min(known.sds) <= 0:
            raise DataError("preprocessing contract: medians, means, sds, slopes or head damaged.")
        return known
