"""Data in the repository of the package: a sample cohort of real brains."""

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.data.cohort import read_cohort
from neurocontrast.data.listing import read_text_table
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import digest_of_file

__all__ = ["Sample", "load_sample"]

FILES = "files.tsv"
README = "README.md"
VARIABLE = "NEUROCONTRAST_SAMPLE"
_IN_REPOSITORY = Path(__file__).resolve().parents[1] / "sample"


@dataclass(frozen=True, eq=False)
class Sample:
    """Sample cohort of real brains on the disk.

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
        Where the brains come from, how they were chosen and what was done to them, in Markdown.
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
        The folder of the sample; by default that of the environment variable
        ``NEUROCONTRAST_SAMPLE``, else ``sample/`` of the repository that the package is used from.
        An installed wheel does not hold it.

    Raises
    ------
    DataError
        Where the folder is no sample, or a file is absent or not the one whose SHA-256 is listed.

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
    folder = Path(path or os.environ.get(VARIABLE) or _IN_REPOSITORY).expanduser().absolute()
    if not (folder / FILES).is_file():
        raise DataError(
            f"load_sample: the folder '{folder}' is no sample cohort (it holds no {FILES}). The sample is the folder "
            "sample/ of the package's source repository, and not in wheels: clone the repository, and name its folder "
            f"by load_sample(path) or the environment variable {VARIABLE}."
        )
    files = read_text_table(folder / FILES).reset_index(drop=True)
    if missing := {"file", "sha256"}.difference(files):
        raise DataError(
            f"{folder / FILES}: there is no column {one_of(sorted(missing))}; copy the folder again."
        )
    problems = Problems(str(folder / FILES))
    for name, digest in [(README, None), *zip(files["file"], files["sha256"], strict=True)]:
        if not (folder / name).is_file():
            problems.add("there is no such file", name=name)
        elif digest is not None and digest_of_file(folder / name) != digest:
            problems.add(
                "its content is not what was published (its SHA-256 is another)", name=name
            )
    problems.hint("Copy the folder sample/ of the repository again.")
    problems.raise_if_any()
    cohort = read_cohort(folder / "participants.tsv", channels=("t1", "gm", "wm", "csf"))
    return Sample(cohort.table, cohort.source, files, (folder / README).read_text(encoding="utf-8"))
