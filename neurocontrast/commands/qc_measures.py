"""Quality control of regional measures: people outside bounds, missing and zero values, sites."""

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.commands.check_measures import MeasuresFacts
from neurocontrast.data.advice import recipe_for
from neurocontrast.data.measures import MeasuresContract
from neurocontrast.data.measures.deviations import (
    N_DEVIATIONS,
    N_SITE,
    SHARE_OUTSIDE,
    Deviations,
    deviations_among,
    deviations_from_run,
    least_outside,
    sites_of_rows,
    table_by_site,
    table_of_measures,
    table_of_people,
    table_of_sites,
)
from neurocontrast.data.measures.doubts import warnings_about_people
from neurocontrast.data.measures.inspecting import InspectedMeasures, inspect_measures
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.quality import MeasureQualityRecord
from neurocontrast.encoders.members import members_of
from neurocontrast.encoders.weights import CONTRACT, read_contract
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.files import check_writable, write_json, write_table, write_text
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment, version
from neurocontrast.reporting.measure_quality import MeasureQuality, render_measures
from neurocontrast.weights import folder_of


@dataclass(frozen=True, eq=False)
class ComparedMeasures:
    """Result of `compare_measures`: table of people, HTML page, number of unmeasured people."""

    table: pd.DataFrame
    """People with their measures outside of bounds, one row a person, as in ``qc.tsv``."""
    page: Path
    """Path of the written page ``qc.html``."""
    n_unreadable: int
    """Number of people for whom no measure could be read."""
    recipe: tuple[str, ...]
    """Recipe for a first run on these people, as the command line takes it after ``--config``."""


def compare_measures(
    participants: Path, target: Path, run: str | os.PathLike[str] | None, progress: Progress
) -> ComparedMeasures:
    """Compare people's regional measures with others of the site, or with a run's training people.

    ``qc.html`` and its tables are written to the folder `target`. Return the table of people and
    the path of the page, as `ComparedMeasures`.
    """
    contract = None
    if run is not None:
        contract = contract_of(folder_of(run))
    check_writable(target / "qc.tsv", parameter="out")
    with progress.task("Reading measures", None, "table"):
        inspected = inspect_measures(participants, MeasureDataSettings())
    deviations = _deviations(inspected, contract)
    people = table_of_people(inspected, deviations)
    measures = table_of_measures(inspected, deviations)
    by_site = table_by_site(inspected, deviations, measures["measure"].tolist())
    quality = MeasureQuality(
        people=people,
        measures=measures,
        sites=table_of_sites(people),
        by_site=by_site,
        values=inspected.values.reindex(columns=measures["measure"].tolist()),
        is_outside=deviations.is_outside,
        site=sites_of_rows(inspected),
        usual=deviations.usual(),
        reference=deviations.reference,
        n_deviations=N_DEVIATIONS,
        least=least_outside(inspected.values.shape[1]),
    )
    of_tables = []
    for problem in inspected.problems.found:
        if inspected.row_of(problem) is None:
            of_tables.append(str(problem))
    page = render_measures(
        quality,
        source=inspected.people.source.name,
        measured=str(MeasuresFacts.of(inspected)),
        problems=of_tables,
        warnings=[*inspected.people.warnings, *warnings_about_people(inspected)],
        simulated=inspected.people.simulated,
        version=version(),
    )
    write_text(target / "qc.html", page)
    _write_record(target, quality, of_tables)
    write_table(target / "qc_measures.tsv", _with_missing(by_site))
    write_table(target / "qc.tsv", _with_missing(people.drop(columns="name")))
    n_unreadable = int((~inspected.is_measured).sum())
    recipe = recipe_for(inspected.people.table, kind="measures").words
    return ComparedMeasures(people, target / "qc.html", n_unreadable, recipe)


def contract_of(run: Path) -> MeasuresContract:
    """Return a run's standardisation of regional measures, as recorded for its first encoder.

    A run that was not trained on regional measures is refused.
    """
    folder = members_of(run)[0]
    preprocessing = read_contract(folder).preprocessing
    if preprocessing.kind != "measures":
        raise ConfigError(
            f"run: {run} was not trained on regional measures, with which these people could be "
            "compared. Give a run of measures, or none."
        )
    try:
        return MeasuresContract.from_json(preprocessing.content())
    except DataError as error:
        raise CheckpointError(f"{folder / CONTRACT}: {error}") from error


def _deviations(inspected: InspectedMeasures, contract: MeasuresContract | None) -> Deviations:
    """Return each person's deviations from a run's training people, or from people of the site.

    `inspected` has the people's regional measures. `contract` is the run's standardisation of
    measures, or None. With a run, measures of another atlas are refused.
    """
    if contract is None:
        return deviations_among(inspected)
    n_shared = len(inspected.values.columns.intersection(list(contract.columns)))
    if n_shared < len(contract.columns) / 2:
        contract.check_columns(inspected.values, source=inspected.people.source.name)
    return deviations_from_run(inspected, contract)


def _write_record(target: Path, quality: MeasureQuality, problems: list[str]) -> None:
    """Write ``qc.json`` to `target`: how many people are flagged, and by which bounds."""
    record = MeasureQualityRecord(
        kind="measures",
        n=len(quality.people),
        n_flagged=quality.n_flagged,
        n_measures=len(quality.measures),
        compared_with=quality.reference,
        n_deviations=N_DEVIATIONS,
        share_outside=SHARE_OUTSIDE,
        n_site=N_SITE,
        problems=problems,
        environment=Environment.model_validate(describe_environment()),
    )
    write_json(target / "qc.json", record.content())


def _with_missing(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with "n/a" in empty cells and in place of missing values."""
    return table.astype(object).where(table.notna() & (table != ""), "n/a")
