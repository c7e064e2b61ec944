"""Write the tables of ds000222 of the sample, and the list of all its files of measures.

    python -m benchmarks.make_sample_measures --data ../shared/data/regions

The rows are those of the shared data, value by value; the tables of piop2 are FreeSurfer's own and
stay as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from neurocontrast.files import digest_of_file, write_table

FOLDER = Path(__file__).resolve().parents[1] / "sample"
SITE = "ds000222"
LIST = "measures_files.tsv"
COLUMNS = ["participant_id", "age", "sex", "site"]
SOURCES = {
    "measures_ds000222": (SITE, "CC0 or PDDL 1.0", "OpenNeuro, accession number ds000222"),
    "measures": ("ds002790", "CC0 1.0", "Snoek et al. 2021, doi:10.1038/s41597-021-00870-6"),
}
"""Folder of the sample → source, licence and attribution of its tables."""


def write_people(data: Path, folder: Path) -> None:
    """Write people and measures of the site."""
    people = pd.read_csv(data / "participants.tsv", sep="\t", dtype=str)
    people = people[people["site"] == SITE]
    measures = pd.read_csv(data / "measures.tsv", sep="\t", dtype=str, keep_default_na=False)
    measures = measures[measures["participant_id"].isin(people["participant_id"])]
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "participants.tsv", people[COLUMNS].reset_index(drop=True))
    write_table(folder / "measures.tsv", measures.reset_index(drop=True))


def list_files() -> pd.DataFrame:
    """List every table with its digest, source, licence and attribution."""
    rows = []
    for folder, source in SOURCES.items():
        for path in sorted((FOLDER / folder).glob("*.tsv")):
            rows.append((f"{folder}/{path.name}", digest_of_file(path), *source))
    return pd.DataFrame(rows, columns=["file", "sha256", "source", "licence", "attribution"])


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of regional measures")
    write_people(parser.parse_args().data, FOLDER / "measures_ds000222")
    write_table(FOLDER / LIST, list_files())


if __name__ == "__main__":
    main()
