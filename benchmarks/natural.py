"""The evidence with natural images: do the papers' orderings appear at small sizes, over seeds?

Reads what `pipelines/natural.smk` wrote (results.tsv and experiment.yaml of each experiment), or runs it first:

    python benchmarks/natural.py results
    python benchmarks/natural.py results --run linear fair --cifar cifar10.tar.xz

Prints, as Markdown for benchmarks/README.md, one table of all losses and one of the orderings: the paired difference
over seeds with its 95 % interval of Student's t, and whether it settles the ordering. What each experiment trains on,
for how long and with which network is in pipelines/natural/<experiment>_small.yaml and the recipes it names.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pipelines.natural.experiment import MEASURES  # noqa: E402
from pipelines.natural.results import format_estimate, mean_interval  # noqa: E402

SOURCES = {"linear": "cifar", "sincere": "cifar", "hard": "cifar", "cclk": "fashion", "fair": None}


@dataclass(frozen=True)
class Ordering:
    """One ordering that a paper reports: `higher` above `lower` in a measure; of another experiment where it says so.

    Seeds are paired across experiments too: `linear`, `sincere` and `hard` have the same images.
    """

    experiment: str
    higher: str
    lower: str
    measure: str = "accuracy"
    layer: str = "encoder"


ORDERINGS = (
    Ordering("linear", "supcon", "simclr"),
    Ordering("linear", "conditional", "simclr"),
    Ordering("linear", "conditional", "supcon"),
    Ordering("linear", "alignment_uniformity", "simclr"),
    Ordering("sincere", "sincere", "linear/simclr"),
    Ordering("sincere", "sincere", "supcon"),
    Ordering("cclk", "cosine", "infonce"),
    Ordering("cclk", "rbf", "infonce"),
    Ordering("cclk", "cosine", "clusters_10"),
    Ordering("cclk", "cosine", "clusters_100"),
    Ordering("fair", "infonce", "fair_cclk", "sensitive_r2"),
    Ordering("fair", "fair_cclk", "infonce"),
    Ordering("fair", "clusters_10", "fair_cclk", "sensitive_r2"),
    Ordering("fair", "clusters_20", "fair_cclk", "sensitive_r2"),
    Ordering("fair", "clusters_3", "clusters_20", "sensitive_r2"),
    Ordering("hard", "hard_negative", "infonce"),
    Ordering("hard", "hard_negative_cclk", "infonce"),
)


def run(results: Path, experiment: str, source: str | None, extra: list[str]) -> None:
    """Run one experiment at its small size, from the repository's root, where recipes are."""
    settings = [f"experiment={experiment}", "size=small", f"out={results.absolute()}"]
    settings += [f"source={Path(source).absolute()}"] if source else []
    command = [sys.executable, "-m", "snakemake", "--snakefile", "pipelines/natural.smk"]
    command += ["--profile", "pipelines/profiles/local", "--config", *settings, *extra]
    subprocess.run(command, cwd=ROOT, check=True)


def difference(found: dict[str, Path], ordering: Ordering) -> tuple[float, float, float, int]:
    """Return the mean difference over seeds, its interval, and the number of seeds."""
    sides = []
    for name in (ordering.higher, ordering.lower):
        experiment, _, variant = name.rpartition("/")
        folder = found.get(experiment or ordering.experiment)
        values = pd.DataFrame() if folder is None else pd.read_csv(folder / "values.tsv", sep="\t")
        if values.empty:
            return (float("nan"),) * 3 + (0,)
        kept = (values["measure"] == ordering.measure) & (values["layer"] == ordering.layer)
        sides.append(values[kept & (values["variant"] == variant)].set_index("seed")["value"])
    differences = (sides[0] - sides[1]).dropna()
    return (*mean_interval(differences), len(differences))


def verdict(mean: float, low: float, high: float) -> str:
    """Say whether the ordering appears, by where the interval of the difference lies."""
    if pd.isna(low):
        return "not run" if pd.isna(mean) else "too few seeds"
    if low > 0:
        return "appears"
    return (
        "the opposite"
        if high < 0
        else ("not settled; the mean is as expected" if mean > 0 else "not settled; the mean is the other way")
    )


def tell_losses(folder: Path) -> list[str]:
    """Return the rows of one experiment: every loss, its accuracy and its other measures."""
    content = yaml.safe_load((folder / "experiment.yaml").read_text(encoding="utf-8"))
    summary = pd.read_csv(folder / "results.tsv", sep="\t", keep_default_na=False, na_values=["n/a"])
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the workflow's `out`")
    parser.add_argument("--run", nargs="*", default=[], choices=list(SOURCES), metavar="EXPERIMENT")
    parser.add_argument("--cifar", help="CIFAR-10: class folders or the binary files, also packed")
    parser.add_argument("--fashion", help="folder of Fashion-MNIST's idx files")
    parser.add_argument("--seeds", help="for instance [0,1,2,3,4]; the experiments' own by default")
    given = parser.parse_args()
    for experiment in given.run:
        source = SOURCES[experiment] and getattr(given, SOURCES[experiment])
        if SOURCES[experiment] and not source:
            parser.error(f"{experiment} needs --{SOURCES[experiment]}")
        run(given.results, experiment, source, [f"seeds={given.seeds}"] if given.seeds else [])
    print("| experiment | loss | mean over seeds [95 % interval] |\n|---|---|---|")
    folders = {name: given.results / f"{name}_small" for name in SOURCES}
    found = {name: folder for name, folder in folders.items() if (folder / "results.tsv").is_file()}
    for folder in found.values():
        print("\n".join(tell_losses(folder)))
    print(
        "\n| experiment | ordering | measure | difference [95 % interval] | seeds | it |\n|---|---|---|---:|---:|---|"
    )
    for ordering in ORDERINGS:
        if ordering.experiment not in found:
            continue
        mean, low, high, n = difference(found, ordering)
        name = MEASURES[ordering.measure]
        said = format_estimate(mean, low, high, name, signed=True)
        print(f"| {ordering.experiment} | {ordering.higher} > {ordering.lower} | {name.short} | {said} | {n} | "
              f"{verdict(mean, low, high)} |")  # fmt: skip


if __name__ == "__main__":
    main()
