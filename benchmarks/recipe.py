"""Which recipe learns in a short run: one change at a time, on simulated brains.

Every variant pretrains on the same healthy cohort with the same seed, and is judged on another
cohort from the same scanners: the age, sex, diagnosis and site that linear probes read from its
frozen features, cross-validated.

    python -m benchmarks.recipe --out benchmarks/results/recipe --epochs 6
    python -m benchmarks.recipe --variants default all-five +crop     # some of them

Finished variants are kept: started again after a kill, it goes on. The table is written anew after
each.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import neurocontrast
from neurocontrast.display import console_progress

RECIPE = Path(__file__).resolve().parent.parent / "configs" / "brain" / "yaware_plain.yaml"
OFF = dict.fromkeys(("flip", "blur", "noise", "cutout", "crop"), "null")
PUBLISHED = {
    "flip": "{probability: 0.5}",
    "blur": "{probability: 0.5, sigma_voxels: [0.1, 1.0]}",
    "noise": "{probability: 0.5, sigma: [0.1, 1.0]}",
    "cutout": "{probability: 0.5, fraction: [0.25, 0.25]}",
    "crop": "{probability: 0.5, fraction: [0.75, 0.75]}",
}


def _views(**operations: str) -> list[str]:
    return [f"augment.{name}={value}" for name, value in (OFF | operations).items()]


VARIANTS: dict[str, list[str]] = {
    "default": [],  # as it was before views imitated sites
    "all-five": _views(**PUBLISHED),
    "none": _views(),
    **{f"{name} alone": _views(**{name: value}) for name, value in PUBLISHED.items()},
    "head without norm": ["encoder.projection_norm=none"],
    "no final norm": ["encoder.final_norm=false"],
    "learning rate 1e-4": ["training.learning_rate=1e-4"],
    "learning rate 1e-3": ["training.learning_rate=1e-3"],
    "batch 64": ["training.batch_size=64"],
    "untrained": ["training.epochs=0"],
}
METRICS = {"age": "r2", "sex": "auc", "diagnosis": "auc", "site": "balanced_accuracy"}


def main() -> None:
    options = _options()
    progress = console_progress()
    tables = _cohorts(options, progress)
    rows = {}
    for name in options.variants:
        rows[name] = _judge(name, options, tables, progress)
        text = _table(rows, options)
        (options.out / "table.md").write_text(text)
    print(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parent / "results" / "recipe"
    )
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--n-healthy", type=int, default=1000)
    parser.add_argument("--n-clinical", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and views")
    parser.add_argument(
        "--judge-seed", type=int, default=1, help="of the people that every variant is judged on"
    )
    parser.add_argument(
        "--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME"
    )
    return parser.parse_args()


def _cohorts(options: argparse.Namespace, progress) -> dict[str, Path]:
    common = {"n_sites": 8, "spacing_mm": 6.0, "site_seed": 0}
    wanted = {
        "healthy": {"n_subjects": options.n_healthy, "patients": 0.0, "seed": 0},
        "clinical": {"n_subjects": options.n_clinical, "patients": 0.5, "seed": options.judge_seed},
    }
    tables = {}
    for name, settings in wanted.items():
        folder = options.out / f"{name}-seed-{settings['seed']}"
        tables[name] = folder / "participants.tsv"
        if not tables[name].is_file():
            neurocontrast.simulate(folder, **common, **settings, progress=progress)
    return tables


def _judge(
    name: str, options: argparse.Namespace, tables: dict[str, Path], progress
) -> dict[str, float]:
    folder = options.out / f"{name.replace(' ', '-')}-seed-{options.seed}-epochs-{options.epochs}"
    judged = folder / f"judged-by-seed-{options.judge_seed}"
    done = judged / "scores.json"
    if done.is_file():
        return json.loads(done.read_text())
    overrides = [
        f"seed={options.seed}",
        f"data.participants={tables['healthy']}",
        f"data.cache_dir={options.out / 'cache'}",
        "data.spacing_mm=6.0",
        "data.shape=[32,36,32]",
        "data.val_fraction=0.0",
        f"training.epochs={options.epochs}",
    ]
    config = neurocontrast.load_config(RECIPE, [*overrides, *VARIANTS[name]])
    start = time.perf_counter()
    run = neurocontrast.pretrain(config, out=folder / "run", resume=True, progress=progress)
    scores = {"seconds": time.perf_counter() - start}
    judged.mkdir(exist_ok=True)
    table = neurocontrast.embed(
        run,
        participants=tables["clinical"],
        out=judged / "features.parquet",
        config=config,
        overwrite=True,
    )
    for target, metric in METRICS.items():
        where = {"where": {"diagnosis": ["control"]}} if target in ("age", "sex") else {}
        evaluation = neurocontrast.evaluate(
            table, target=target, out=judged / target, n_bootstraps=0, overwrite=True, **where
        )
        scores[target] = json.loads((evaluation / "evaluation.json").read_text())["metrics"][
            metric
        ]["pooled"]
    done.write_text(json.dumps(scores))
    progress.message(f"{name}: " + ", ".join(f"{key} {value:.3f}" for key, value in scores.items()))
    return scores


def _table(rows: dict[str, dict[str, float]], options: argparse.Namespace) -> str:
    lines = [
        f"{options.n_healthy} healthy brains to learn from, {options.n_clinical} others to judge by, "
        f"32×36×32 voxels of 6 mm, {options.epochs} epochs, seed {options.seed}, judges' seed {options.judge_seed}.",
        "",
        "| variant | age R², controls | sex AUC, controls | diagnosis AUC | site balanced accuracy | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name, scores in rows.items():
        cells = [f"{scores[target]:.2f}" for target in METRICS] + [f"{scores['seconds']:.0f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
