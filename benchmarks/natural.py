"""The evidence with natural images: do the papers' orderings appear at small sizes, over seeds?

Reads what `pipelines/natural.smk` wrote (values, results and experiment of each folder), or runs it
first:

    python -m benchmarks.natural results
    python -m benchmarks.natural results --run linear fair --cifar cifar-10-binary.tar.gz
    python -m benchmarks.natural results --run hard --cifar FOLDERS --config dataset=folder
    'images={n_train: 5000}'

Prints, as Markdown for benchmarks/README.md, one table of all losses and one of the orderings: what
was published, the paired difference over seeds with its 95 % interval of Student's t, and whether
it settles the ordering. What each experiment trains on, for how long and with which network is in
pipelines/natural/<experiment>_small.yaml and its recipe.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import yaml

from pipelines.natural.experiment import MEASURES, Experiment
from pipelines.natural.intervals import format_estimate
from pipelines.natural.published import describe_ordering

ROOT = Path(__file__).resolve().parents[1]

SOURCES = {
    "linear": "cifar",
    "sincere": "cifar",
    "hard": "cifar",
    "cclk": "fashion",
    "fair": None,
    "cub": None,
    "rates": None,
    "sooner": "cifar",
    "imagenet": None,  # with --config source=… 'images={attributes: CLIP.csv, attributes_key: file}'
}


def run(results: Path, experiment: str, source: str | None, extra: list[str]) -> None:
    """Run one experiment at its small size, from the repository's root, where recipes are."""
    settings = [f"experiment={experiment}", "size=small", f"out={results.absolute()}"]
    settings += [f"source={Path(source).absolute()}"] if source else []
    command = [sys.executable, "-m", "snakemake", "--snakefile", "pipelines/natural.smk"]
    command += ["--profile", "pipelines/profiles/local", "--config", *settings, *extra]
    subprocess.run(command, cwd=ROOT, check=True)


def tell_orderings(folder: Path) -> list[str]:
    """Return the rows of one experiment: every published ordering, and whether it appears."""
    content = yaml.safe_load((folder / "experiment.yaml").read_text(encoding="utf-8"))
    experiment, values = (
        Experiment.model_validate(content),
        pd.read_csv(folder / "values.tsv", sep="\t", keep_default_na=False),
    )
    values["value"] = pd.to_numeric(values["value"], errors="coerce")
    return [f"| {folder.name} | {' | '.join(describe_ordering(each, values, experiment))} |"
            for each in experiment.orderings]  # fmt: skip


def tell_losses(folder: Path) -> list[str]:
    """Return the rows of one experiment: every loss, its accuracy and its other measures."""
    content = yaml.safe_load((folder / "experiment.yaml").read_text(encoding="utf-8"))
    summary = pd.read_csv(
        folder / "results.tsv", sep="\t", keep_default_na=False, na_values=["n/a"]
    )
    rows = []
    for variant, about in content["variants"].items():
        cells = []
        for row in summary[summary["variant"] == variant].to_dict("records"):
            name = MEASURES[row["measure"]]
            numbers = [pd.to_numeric(row[key], errors="coerce") for key in ("mean", "low", "high")]
            where = f" ({row['layer']})" if row["layer"] == "head" else ""
            cells.append(f"{name.short}{where} {format_estimate(*numbers, name)}")
        rows.append(f"| {folder.name} | {about['label']} | {'; '.join(cells)} |")
    return rows


def main() -> None:
    """Print the tables of all experiments found, after running those asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="the workflow's `out`")
    parser.add_argument("--run", nargs="*", default=[], choices=list(SOURCES), metavar="EXPERIMENT")
    parser.add_argument("--cifar", help="CIFAR-10: the official binary files, also packed")
    parser.add_argument("--fashion", help="folder of Fashion-MNIST's idx files")
    parser.add_argument(
        "--config",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help="of the workflow: seeds=[0,1], …",
    )
    given = parser.parse_args()
    given.results = given.results.absolute()
    os.chdir(ROOT)  # recipes are named from there
    for experiment in given.run:
        source = SOURCES[experiment] and getattr(given, SOURCES[experiment])
        if SOURCES[experiment] and not source:
            parser.error(f"{experiment} needs --{SOURCES[experiment]}")
        run(given.results, experiment, source, given.config)
    print("| experiment | loss | mean over seeds [95 % interval] |\n|---|---|---|")
    found = [
        path.parent
        for name in SOURCES
        for path in sorted(given.results.glob(f"{name}_small*/results.tsv"))
    ]
    for folder in found:
        print("\n".join(tell_losses(folder)))
    print(
        "\n| experiment | ordering | measure | published | difference [95 % interval] | seeds | it |"
    )
    print("|---|---|---|---|---:|---:|---|")
    for folder in found:
        print("\n".join(tell_orderings(folder)))


if __name__ == "__main__":
    main()
