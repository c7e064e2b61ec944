"""Load sample cohorts of real brains, and regional measures of real people, from the repository."""

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.data.cohort import read_cohort
from neurocontrast.data.listing import read_text_table
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.files import digest_of_file

__all__ = ["MeasuresSample", "Sample", "load_measures", "load_sample"]

FILES = "files.tsv"
FILES_OF_MEASURES = "measures_files.tsv"
README = "README.md"
PARTICIPANTS = "participants.tsv"
VARIABLE = "NEUROCONTRAST_SAMPLE"
_IN_REPOSITORY = Path(__file__).resolve().parents[1] / "sample"


@dataclass(frozen=True, eq=False)
class Sample:
    """Sample cohort of real brains, which `load_sample` returns: table, files and description.

    Parameters
    ----------
    table : DataFrame
        One row a person: ``participant_id``, ``subject_id``, ``age`` (years), ``sex``, ``site``,
        ``scanner``, ``diagnosis``, ``split`` (train or test), ``source``, ``licence``, and the
        absolute paths of the T1-weighted brain (``path``) and of its maps of grey matter, white
        matter and fluid (``gm``, ``wm``, ``csf``).
    participants : Path
        The file of the table, as commands and recipes take it (``data.participants``).
    files : DataFrame
        One row a file: ``file``, ``sha256``, ``source``, ``licence``, ``attribution``.
    description : str
        Sources, choice and preparation of the brains, in Markdown.
    """

    table: pd.DataFrame
    participants: Path
    files: pd.DataFrame
    description: str


def load_sample(path: str | os.PathLike[str] | None = None) -> Sample:
    """Load the sample cohort: real brains of three scanners with tissue maps, at 4 mm in MNI152.

    Parameters
    ----------
    path : path, optional
        Folder to read the sample from; by default the one in the environment variable
        ``NEUROCONTRAST_SAMPLE``, or else ``sample/`` of the repository that the package is used
        from. An installed wheel has no sample.

    Returns
    -------
    Sample
        Tables, and paths of the images.

    Raises
    ------
    DataError
        If the folder is no sample, or a file is absent or has another SHA-256 than the listed one.

    Notes
    -----
    Each file has the licence of its source, which `Sample.files` names and ``LICENSES.md``
    explains; some are under CC BY-SA 3.0, so that derived data must be shared under the same
    licence.

    Examples
    --------
    >>> from neurocontrast.datasets import load_sample
    >>> sample = load_sample()
    >>> sample.table.groupby("site").size().to_dict()
    {'london': 70, 'novosibirsk': 51, 'ucla': 10}
    """
    folder = _folder_of_sample(path, FILES, caller="load_sample")
    files = _checked_files(folder, FILES, readme=README)
    cohort = read_cohort(folder / PARTICIPANTS, channels=("t1", "gm", "wm", "csf"))
    return Sample(cohort.table, cohort.source, files, (folder / README).read_text(encoding="utf-8"))


@dataclass(frozen=True, eq=False)
class MeasuresSample:
    """Regional measures of real people of one site, which `load_measures` returns.

    Parameters
    ----------
    table : DataFrame
        One row a person: ``participant_id``, ``age`` (years), ``sex`` and, in ds000222, ``site``.
    participants : Path
        File of the table.
    measures : tuple of Path
        Files of the tables of measures, as ``data.measures`` takes them.
    files : DataFrame
        One row a file: ``file``, ``sha256``, ``source``, ``licence``, ``attribution``.
    description : str
        Source of the measures, in Markdown.
    """

    table: pd.DataFrame
    participants: Path
    measures: tuple[Path, ...]
    files: pd.DataFrame
    description: str


def load_measures(
    name: str = "ds000222", path: str | os.PathLike[str] | None = None
) -> MeasuresSample:
    """Load a sample of real people with FreeSurfer's regional measures.

    Only the table of people is read; the tables of measures are checked, and their paths returned.

    Parameters
    ----------
    name : {'ds000222', 'piop2'}
        ``ds000222``: 79 people of 21 to 73 years, from whom the weights `measures` did not learn.
        ``piop2``: 226 students, tables as FreeSurfer wrote them.
    path : path, optional
        Folder to read the samples from; see `load_sample`.

    Returns
    -------
    MeasuresSample
        Table of people, and paths of the tables of measures.

    Raises
    ------
    ConfigError
        If no sample has the name.
    DataError
        If the folder is no sample, or a file is absent or has another SHA-256 than the listed one.

    Examples
    --------
    >>> from neurocontrast.datasets import load_measures
    >>> sample = load_measures("ds000222")
    >>> len(sample.table)
    79
    """
    if name not in _MEASURES:
        raise ConfigError(f"name: must be one of {one_of(_MEASURES)}, got '{name}'.")
    folder = _folder_of_sample(path, FILES_OF_MEASURES, caller="load_measures")
    below = _MEASURES[name]
    readme = f"{below}/{README}"
    files = _checked_files(folder, FILES_OF_MEASURES, readme=readme)
    files = files[files["file"].str.startswith(f"{below}/")].reset_index(drop=True)
    participants = folder / below / PARTICIPANTS
    tables = sorted(set(map(folder.joinpath, files["file"])) - {participants})
    table = pd.read_csv(participants, sep="\t", dtype={"participant_id": str}, na_values=["n/a"])
    description = (folder / readme).read_text(encoding="utf-8")
    return MeasuresSample(table, participants, tuple(tables), files, description)


_MEASURES = {"ds000222": "measures_ds000222", "piop2": "measures"}
"""Name of a sample data set of regional measures → folder within the folder of all samples."""


def _folder_of_sample(path: str | os.PathLike[str] | None, listing: str, *, caller: str) -> Path:
    """Return the folder of the sample data sets; refuse a folder without the file `listing`.

    The folder is `path`, or the one that the environment variable ``NEUROCONTRAST_SAMPLE`` names,
    or ``sample`` of the repository. `caller` is the function that the message of the error names.
    """
    folder = Path(path or os.environ.get(VARIABLE) or _IN_REPOSITORY).expanduser().absolute()
    if not (folder / listing).is_file():
        raise DataError(
            f"{caller}: the folder '{folder}' is no sample cohort (it holds no {listing}). The "
            "sample is the folder sample/ of the package's source repository, and not in wheels: "
            f"clone the repository, and name its folder by {caller}(path=...) or the environment "
            f"variable {VARIABLE}."
        )
    return folder


def _checked_files(folder: Path, listing: str, *, readme: str) -> pd.DataFrame:
    """Return the table of a sample data set's files; refuse missing or changed files.

    The table, the file `listing` of `folder`, has one row a file: its path and the SHA-256 that its
    content must have. The file `readme` must exist too.
    """
    files = read_text_table(folder / listing).reset_index(drop=True)
    missing = {"file", "sha256"}.difference(files)
    if missing:
        raise DataError(
            f"{folder / listing}: there is no column {one_of(sorted(missing))}; copy the folder "
            "again."
        )
    problems = Problems(str(folder / listing))
    for name, digest in [(readme, None), *zip(files["file"], files["sha256"], strict=True)]:
        if not (folder / name).is_file():
            problems.add("there is no such file", name=name)
        elif digest is not None and digest_of_file(folder / name) != digest:
            problems.add(
                "its content is not what was published (its SHA-256 is another)", name=name
            )
    problems.hint("Copy the folder sample/ of the repository again.")
    problems.raise_if_any()
    return files
