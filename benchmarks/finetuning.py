"""Frozen features, the fine-tuned network, and the same network from random weights, on the same folds.

    python -m benchmarks.finetuning                    # simulated brains, and those of
    ../shared/data/brains python -m benchmarks.finetuning --data none        # simulated ones alone

Simulated: pretraining on healthy people, then patients from controls among others of the same
sites. Real: pretraining on the healthy scans of two sites, then age and sex of people whom
pretraining never saw, at one of these sites and at a new one. y-Aware InfoNCE; a small network by
default, on a grid of 28×36×28 voxels of 6 mm. Finished parts are kept: started again after a kill,
it goes on.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import neurocontrast
from neurocontrast.display import console_progress
from neurocontrast.documents.result import read_evaluation
from neurocontrast.files import write_text

NAMES = ("frozen", "fine-tuned", "from scratch")
PLAIN = Path(__file__).resolve().parent.parent / "configs" / "brain" / "yaware_plain.yaml"


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in range(options.seeds):
        parts = {"simulated": (_simulated(options, seed), ["diagnosis"])}
        if options.data.is_dir():
            parts["real"] = (_real(options, seed), ["age", "sex"])
        for name, ((pretraining, study), targets) in parts.items():
            folder = options.out / f"seed-{seed}" / name
            run = _pretrain(options, seed, folder, pretraining)
            for target in targets:
                rows += _compare(options, seed, folder, run, study, name, target)
                text = summarise(pd.DataFrame(rows))
                write_text(options.out / "table.md", text)
    print(text)


def _options() -> argparse.Namespace:
    root = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=root.parent.parent / "shared" / "data" / "brains"
    )
    parser.add_argument("--out", type=Path, default=root / "results" / "finetuning")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--network", default="lenet")
    parser.add_argument("--pretraining-epochs", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--patience", type=int, default=10)
    parser.add_argument(
        "--n-people", type=int, default=120, help="simulated, to learn from and as many to test"
    )
    return parser.parse_args()


def _simulated(options: argparse.Namespace, seed: int) -> tuple[Path, Path]:
    made, folder = [], options.out / f"seed-{seed}" / "people"
    for number, patients in enumerate((0.0, 0.5)):
        out = folder / ("pretraining", "study")[number]
        if not (out / "participants.tsv").is_file():
            neurocontrast.simulate(
                out, n_subjects=options.n_people, n_sites=3, spacing_mm=6.0, seed=10 * seed + number, site_seed=seed,
                patients=patients,
            )  # fmt: skip
        made.append(out / "participants.tsv")
    return made[0], made[1]


def _real(options: argparse.Namespace, seed: int) -> tuple[Path, Path]:
    table, paths = _with_uses(options.data, seed), []
    for name, uses in (("pretraining", ["pretrain"]), ("study", ["held-out", "unseen"])):
        paths.append(options.out / f"seed-{seed}" / f"real-{name}.tsv")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        table[table["use"].isin(uses)].to_csv(paths[-1], sep="\t", index=False)
    return paths[0], paths[1]


def _with_uses(data: Path, seed: int) -> pd.DataFrame:
    """Return the scans with a column `use`: pretrain, held-out, unseen, or unused (healthy people of unknown age)."""
    table = pd.read_csv(data / "participants.tsv", sep="\t", dtype=str, keep_default_na=False)
    table["path"] = [str((data / path).resolve()) for path in table["path"]]
    known_age = table["age"] != "n/a"
    home = np.flatnonzero((table["site"] == "london") & known_age)
    # A quarter of the home site is held out: every fourth person by age, from a random start in
    # each four.
    by_age = home[
        np.argsort(table["age"].to_numpy(dtype=object)[home].astype(float), kind="stable")
    ]
    random = np.random.default_rng(seed)
    held_out = [random.choice(by_age[start : start + 4]) for start in range(0, len(by_age), 4)]
    unseen = table["site"] == "novosibirsk"
    table["use"] = "unused"
    table.loc[(table["diagnosis"] == "control") & known_age & ~unseen, "use"] = "pretrain"
    table.loc[held_out, "use"] = "held-out"
    table.loc[unseen, "use"] = "unseen"
    return table


def _pretrain(options: argparse.Namespace, seed: int, folder: Path, participants: Path) -> Path:
    keys = {
        "seed": seed,
        "data.participants": participants,
        "data.spacing_mm": 6.0,
        "data.shape": [32, 36, 32] if options.network.startswith("densenet") else [28, 36, 28],
        "data.cache_dir": options.out / "cache",
        "data.val_fraction": 0.0,
        "encoder": f"{{name: {options.network}}}",
        "training.epochs": options.pretraining_epochs,
        "training.batch_size": 32,
        "training.learning_rate": 3e-4,
    }
    config = neurocontrast.load_config(PLAIN, [f"{key}={value}" for key, value in keys.items()])
    return neurocontrast.pretrain(
        config, out=folder / "run", resume=True, progress=console_progress()
    )


def _compare(
    options, seed: int, folder: Path, run: Path, study: Path, name: str, target: str
) -> list[dict]:
    config = {
        "seed": seed,
        "data": {"cache_dir": str(options.out / "cache")},
        "finetune": {"epochs": options.epochs, "patience": options.patience},
        "evaluation": {"seed": seed},
    }
    table = neurocontrast.embed(
        run, participants=study, out=folder / "e.parquet", config=config, overwrite=True
    )
    made = {each: folder / f"{target}-{each.replace(' ', '-')}" for each in NAMES}
    neurocontrast.evaluate(table, target=target, out=made["frozen"], seed=seed, overwrite=True)
    minutes = {"frozen": float("nan")}
    for each in NAMES[1:]:
        start = time.perf_counter()
        if not (made[each] / "evaluation.json").is_file():
            neurocontrast.finetune(
                run, participants=study, target=target, out=made[each], from_scratch=each == "from scratch",
                config=config, progress=console_progress(),
            )  # fmt: skip
        minutes[each] = (time.perf_counter() - start) / 60
    compared = neurocontrast.compare(
        list(made.values()), out=folder / target, names=list(NAMES), overwrite=True
    )
    differences = pd.read_csv(compared / "differences.tsv", sep="\t")
    rows = []
    for each, place in made.items():
        found = read_evaluation(place)
        metric = next(iter(found.metrics))
        row = {
            "seed": seed,
            "data": name,
            "target": target,
            "metric": metric,
            "model": each,
            "minutes": minutes[each],
        }
        row |= {
            "value": found.metrics[metric].pooled,
            "interval": found.metrics[metric].interval,
            "p": float("nan"),
        }
        paired = differences[(differences["metric"] == metric) & (differences["model"] == each)]
        if len(paired):
            row |= {
                "difference": paired["difference"].iloc[0],
                "ends": tuple(paired[["low", "high"]].iloc[0]),
            }
            row["p"] = paired["p_value"].iloc[0]
        rows.append(row)
        if each == "frozen":
            for other, part in (
                ("covariates alone", found.baseline),
                ("60 components of voxels", found.models["voxels"].metrics),
            ):
                rows.append(
                    {
                        **row,
                        "model": other,
                        "value": part[metric].pooled,
                        "interval": part[metric].interval,
                    }
                )
    return rows


def summarise(rows: pd.DataFrame) -> str:
    """Return the table as Markdown."""
    lines = [
        "| data, target, metric | seed | model | value [95 %] | minus frozen [95 %] | p over folds |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows.to_dict("records"):
        ends = row.get("ends")
        has = isinstance(ends, tuple)
        difference = f"{row['difference']:+.3g} [{ends[0]:+.3g}, {ends[1]:+.3g}]" if has else ""
        p = f"{row['p']:.2g}" if has and row["p"] == row["p"] else ""
        low, high = row["interval"] or (float("nan"),) * 2
        lines.append(
            f"| {row['data']}, {row['target']}, {row['metric']} | {row['seed']} | {row['model']} | "
            f"{row['value']:.3g} [{low:.3g}, {high:.3g}] | {difference} | {p} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
