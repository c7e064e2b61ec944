"""A scanner never seen before: which variant of the recipe keeps its error at a new site.

    python -m benchmarks.new_site --data ../shared/data/brains --out benchmarks/results/new_site
    --jobs 2

Every variant is pretrained, frozen and probed in three designs, each over several seeds:

    transfer    real: pretrained on london + ucla, tested on novosibirsk and on people of london
    held out left-out    real: the same with london, and with ucla, as the site that is left out
    (with `transfer`: all three) simulated   six simulated scanners, tested on four others and on
    people held out of the six

A seed is a new hold-out (a quarter of the people of each known site of 40 or more), a new
initialisation, new views and, where simulated, new people and scanners. Every run takes the same
number of steps. Finished runs are kept in `scores.jsonl`, so that the command goes on after a kill;
`--variants` and `--designs` choose among them.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

import neurocontrast
from benchmarks.new_site.scores import score_fold
from benchmarks.new_site.tables import write_tables
from benchmarks.new_site.variants import CONFIGS, VARIANTS
from neurocontrast.data.simulation import SimulationSettings
from neurocontrast.display import console_progress
from neurocontrast.documents.embeddings import read_embeddings
from neurocontrast.files import write_table
from neurocontrast.transforms.compose import load_volume

ROOT = Path(__file__).resolve().parents[1]
DESIGNS = {
    "transfer": ("novosibirsk",),
    "left-out": ("london", "ucla"),
    "simulated": ("four scanners",),
}
N_HELD_OUT_OF = 40
SIMULATED = {"n_subjects": 480, "n_sites": 10, "spacing_mm": 5.0, "patients": 0.0}
N_KNOWN_SITES = 6


@dataclass(frozen=True)
class Job:
    """One pretraining and its scores."""

    variant: str
    design: str
    left_out: str
    seed: int

    @property
    def key(self) -> dict[str, str | int]:
        """What tells it from other jobs."""
        return {
            "variant": self.variant,
            "design": self.design,
            "left_out": self.left_out,
            "seed": self.seed,
        }


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    done = _read_scores(options.out)
    jobs = [job for job in _jobs(options) if not _is_done(done, job)]
    progress = console_progress()
    for design in {
        job.design for job in jobs
    }:  # one after the other: workers would write the same folders
        for seed in range(options.seeds):
            _participants(options, design, seed)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, initializer=_one_thread) as pool:
        running = {pool.submit(run_job, options, job): job for job in jobs}
        try:
            for finished in as_completed(running):
                job, row = running[finished], finished.result()
                with open(options.out / "scores.jsonl", "a") as stream:
                    stream.write(json.dumps({**job.key, **row}) + "\n")
                progress.message(
                    f"{job.variant}, {job.design} ({job.left_out}), seed {job.seed}: {_short(row)}"
                )
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    write_tables(options.out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent.parent / "shared" / "data" / "brains"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "new_site")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument(
        "--encoder", default="densenet_small", choices=["densenet_small", "densenet121"]
    )
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument(
        "--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    return parser.parse_args()


def _jobs(options: argparse.Namespace) -> list[Job]:
    return [
        Job(variant, design, left_out, seed)
        for seed in range(options.seeds)
        for variant in options.variants
        for design in options.designs
        for left_out in DESIGNS[design]
    ]


def _read_scores(out: Path) -> pd.DataFrame:
    file = out / "scores.jsonl"
    return pd.read_json(file, lines=True) if file.is_file() else pd.DataFrame()


def _is_done(done: pd.DataFrame, job: Job) -> bool:
    if done.empty:
        return False
    return bool(
        np.logical_and.reduce([done[name] == value for name, value in job.key.items()]).any()
    )


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)


def run_job(options: argparse.Namespace, job: Job) -> dict[str, float]:
    """Pretrain, embed and score one variant in one fold."""
    folder = options.out / job.design / f"seed-{job.seed}"
    participants = folder / f"without-{job.left_out.replace(' ', '-')}.tsv"
    table = pd.read_csv(participants, sep="\t", dtype=str, keep_default_na=False)
    variant = VARIANTS[job.variant]
    config = _config(options, job, participants, int((table["use"] == "pretrain").sum()))
    out = folder / "runs" / f"{job.variant}-{participants.stem}"
    if variant.features == "pca":
        return score_fold(_components(config, table), table)
    run = neurocontrast.pretrain(config, out=out, resume=True)
    written = neurocontrast.embed(
        run, participants=participants, out=out / "embeddings.parquet", overwrite=True
    )
    read = read_embeddings(written)
    return score_fold(read.features, read.table)


def _config(
    options: argparse.Namespace, job: Job, participants: Path, n_pretrain: int
) -> neurocontrast.Config:
    variant = VARIANTS[job.variant]
    n_epochs = math.ceil(options.steps / math.ceil(n_pretrain / options.batch_size))
    settings = {
        "seed": job.seed,
        "data.participants": str(participants),
        "data.where": {"use": ["pretrain"]},
        "data.spacing_mm": 5.0,
        "data.shape": [32, 40, 32],
        "data.cache_dir": str(options.out / "cache"),
        "data.val_fraction": 0.0,
        "data.n_workers": 1,
        "encoder.name": options.encoder,
        "training.epochs": 0 if variant.features == "untrained" else n_epochs,
        "training.batch_size": options.batch_size,
        "training.learning_rate": options.learning_rate,
        "training.probe_every": 0,
        "training.keep_checkpoints": 1,
        "encoder.beside": None,  # the table is of networks
        **variant.settings,
    }
    recipe = CONFIGS / f"{variant.recipe}.yaml"
    return neurocontrast.load_config(
        recipe, [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    )


def _components(config: neurocontrast.Config, table: pd.DataFrame) -> np.ndarray:
    """Return 60 principal components of the pretraining scans' voxels, for all scans."""
    is_known = (table["use"] == "pretrain").to_numpy()
    paths = table["path"].to_numpy(dtype=object)
    preprocessing = config.data.preprocessing
    voxels = np.stack([load_volume(path, preprocessing).ravel() for path in paths])
    return PCA(60, random_state=0).fit(voxels[is_known]).transform(voxels)


def _participants(options: argparse.Namespace, design: str, seed: int) -> None:
    """Write the tables of one design and seed: every scan with its use, pretrain, home or new."""
    folder = options.out / design / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    table = _simulated(folder, seed) if design == "simulated" else _real(options.data)
    for left_out in DESIGNS[design]:
        names = sorted(set(table["site"]))[N_KNOWN_SITES:] if design == "simulated" else [left_out]
        used = table.assign(use=_uses(table, names, seed))
        atomic = used[used["use"] != "unused"]
        write_table(folder / f"without-{left_out.replace(' ', '-')}.tsv", atomic)


def _real(data: Path) -> pd.DataFrame:
    table = pd.read_csv(data / "participants.tsv", sep="\t", dtype=str, keep_default_na=False)
    return table.assign(path=[str((data / path).resolve()) for path in table["path"]])


def _simulated(folder: Path, seed: int) -> pd.DataFrame:
    cohort = folder / "cohort"
    if not cohort.is_dir():
        neurocontrast.simulate(cohort, SimulationSettings(**SIMULATED, seed=seed))
    table = pd.read_csv(cohort / "participants.tsv", sep="\t", dtype=str, keep_default_na=False)
    return table.assign(path=[str((cohort / path).resolve()) for path in table["path"]])


def _uses(table: pd.DataFrame, left_out: list[str], seed: int) -> np.ndarray:
    """Say what each scan is for: of every known site of many people one of each four, in order of age, stays home."""
    age = pd.to_numeric(table["age"], errors="coerce").to_numpy(dtype=float)
    site = table["site"].to_numpy(dtype=object)
    use = np.where(
        np.isin(site, left_out), "new", np.where(np.isfinite(age), "pretrain", "unused")
    ).astype(object)
    random = np.random.default_rng(seed)
    for name in sorted(set(site) - set(left_out)):
        rows = np.flatnonzero((site == name) & np.isfinite(age))
        by_age = rows[np.argsort(age[rows], kind="stable")]
        if len(rows) >= N_HELD_OUT_OF:
            use[[random.choice(by_age[start : start + 4]) for start in range(0, len(rows), 4)]] = (
                "home"
            )
    return use


def _short(scores: dict[str, float]) -> str:
    names = (
        "home_age_mae",
        "home_sex_auc",
        "new_age_mae",
        "new_age_bias",
        "new_age_spearman",
        "new_sex_auc",
    )
    return ", ".join(f"{name} {scores[name]:.2f}" for name in (*names, "site_accuracy"))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning)
    main()
