"""Compare features of real brains with those of peers: uncnn and nidl's y-Aware, on the same scans, folds and minutes.

    pip install --no-deps uncnn nidl pytorch-lightning torchmetrics einops timm    # beside an
    installed torch neurocontrast prepare ../shared/data/brains/participants.tsv --out PREPARED
    --spacing-mm 2 python -m benchmarks.tissue.peers --prepared PREPARED --out OUT

Healthy people of the three sites. In each seed two thirds of london's are learned from, by encoders
and by probes (ridge for age, logistic regression for sex); tested are the other third, and
novosibirsk and ucla, which nothing has seen. Linear encoder: 60 principal components of the scan,
and of its smoothed maps of grey and white matter. uncnn (Encin et al. 2026): an untrained network
of random weights, 9,664 features of the scan at 2 mm. The networks that are trained are one small
DenseNet on scans at 6 mm, with the same views, kernel (age × sex) and batches, and the processor
seconds that our training takes; nidl brings its own head, loss, optimiser (AdamW at its default
rate) and schedule (none). A peer that is not installed is left out, and said so. Features are kept
in OUT: started again, it goes on.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import neurocontrast
from benchmarks.tissue.scoring import HOME, features_of, predictions, score
from benchmarks.tissue.systems import GRID, LINEAR
from neurocontrast.data.cache import VolumeCache
from neurocontrast.encoders import EncoderSettings, build_encoder
from neurocontrast.transforms import TwoViews
from neurocontrast.transforms.compose import brain_views
from neurocontrast.transforms.preprocessing import Preprocessing

COARSE = {"spacing_mm": 6.0, "shape": [32, 40, 32], "normalise": "zscore-brain"}
NETWORK, BATCH = "densenet_small", 32
KERNEL = [
    {"column": "age", "type": "gaussian", "sigma": 5.0},
    {"column": "sex", "type": "categorical"},
]
PLACES = (f"{HOME}, held out", "novosibirsk", "ucla")
PEERS = {"uncnn": "uncnn", "nidl y-Aware": "nidl"}


def of_uncnn(table: pd.DataFrame, file: Path) -> np.ndarray:
    """Return the features of the untrained network, computed once for all seeds."""
    import uncnn

    if not file.is_file():
        np.save(file, uncnn.extract_features(list(table["path"]), batch_size=1, device="cpu"))
    return np.load(file, allow_pickle=False).astype(float)


def of_nidl(
    table: pd.DataFrame, learned: np.ndarray, seed: int, seconds: float, cache: Path
) -> tuple[np.ndarray, int]:
    """Train nidl's estimator for some processor seconds; return the features of all scans, and the number of steps."""
    from nidl.estimators.ssl import YAwareContrastiveLearning
    from pytorch_lightning import Callback

    store = VolumeCache(cache, Preprocessing(**COARSE))
    store.prepare([Path(path) for path in table["path"]], n_workers=1)
    volumes = torch.from_numpy(
        np.stack([np.asarray(store.read(Path(path)), np.float32) for path in table["path"]])
    )
    age, sex = table["age"].to_numpy(float), (table["sex"] == "M").to_numpy(float)
    rows, views, random = (
        np.flatnonzero(learned),
        TwoViews(brain_views(), seed=seed),
        np.random.default_rng(seed),
    )

    class Pairs(torch.utils.data.IterableDataset):
        def __iter__(self):
            for row in random.permutation(rows):
                made = views(volumes[[row]], [str(row)], epoch=int(random.integers(2**31)))
                yield (
                    [view[0] for view in made],
                    torch.tensor([age[row], sex[row]], dtype=torch.float32),
                )

    class UsedUp(Callback):
        def on_train_start(self, *_):
            self.start = time.process_time()

        def on_train_batch_end(self, trainer, *_):
            trainer.should_stop = time.process_time() - self.start >= seconds

    encoder = build_encoder(EncoderSettings(name=NETWORK), seed=seed)
    estimator = YAwareContrastiveLearning(
        encoder,
        proj_input_dim=encoder.n_features,
        bandwidth=np.array(
            [25.0, 0.05]
        ),  # variances: of 5 years; of sex so little that only equal ones attract
        lr_scheduler="none",
        max_epochs=-1,
        callbacks=[UsedUp()],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        random_state=seed,
    )
    estimator.fit(
        torch.utils.data.DataLoader(Pairs(), batch_size=min(BATCH, len(rows)), drop_last=True)
    )
    with torch.no_grad():
        features = (
            torch.cat([encoder.eval()(part) for part in volumes.split(16)]).numpy().astype(float)
        )
    return features, estimator.trainer.global_step


def ours(seed: int, epochs: int) -> dict[str, Any]:
    """Return the configuration of our training with y-Aware; no epochs: of the untrained network."""
    return {
        "seed": seed,
        "data": {**COARSE, "n_workers": 1, "val_fraction": 0.0},
        "encoder": {"name": NETWORK},
        "objective": {"loss": "yaware", "kernel": KERNEL},
        "training": {
            "epochs": epochs,
            "batch_size": BATCH,
            "learning_rate": 1e-3,
            "probe_every": 0,
        },
    }


def linear(seed: int, name: str, n_learned: int) -> dict[str, Any]:
    """Return the configuration of a linear encoder."""
    encoder = {"name": "pca", "n_components": min(60, n_learned - 1)}
    return {"seed": seed, "data": {**GRID, **LINEAR[name][1]}, "encoder": encoder}


def systems(
    table: pd.DataFrame, learned: np.ndarray, seed: int, options: argparse.Namespace
) -> dict[str, Callable[[], np.ndarray]]:
    """Return what makes the features of each system, in the order of the table."""
    folder, cache = options.out / f"seed-{seed}", options.out / "cache"
    folder.mkdir(exist_ok=True)
    files = folder / "learned.tsv", options.out / "everybody.tsv"
    table[learned].to_csv(files[0], sep="\t", index=False)
    clock = folder / "seconds.txt"

    def made(config: dict[str, Any], name: str) -> np.ndarray:
        return features_of(config, *files, folder / name, cache)

    def of_ours() -> np.ndarray:
        made(ours(seed, 0), "untrained")  # fills the cache before the clock starts
        start = time.process_time()
        features = made(ours(seed, options.epochs), "yaware")
        if not clock.is_file():
            clock.write_text(str(time.process_time() - start))
        return features

    def of_theirs() -> np.ndarray:
        file = folder / "nidl.npy"
        if not file.is_file():
            seconds = float(clock.read_text())
            features, n_steps = of_nidl(table, learned, seed, seconds, cache)
            print(f"nidl: {n_steps} steps in {seconds:.0f} s", flush=True)
            np.save(file, features)
        return np.load(file, allow_pickle=False)

    inputs = {
        "linear, intensities": "pca, intensities",
        "linear, grey + white, 14 mm": "pca, grey + white, 14 mm",
    }
    of_pca = {
        name: partial(made, linear(seed, key, int(learned.sum())), f"pca-{number}")
        for number, (name, key) in enumerate(inputs.items())
    }
    return of_pca | {
        "uncnn": lambda: of_uncnn(table, options.out / "uncnn.npy"),
        f"{NETWORK}, untrained": lambda: made(ours(seed, 0), "untrained"),
        "y-Aware, ours": of_ours,
        "nidl y-Aware": of_theirs,
    }


def read_people(prepared: Path, n_people: int) -> pd.DataFrame:
    """Return healthy people of known age, at most so many of each site, with absolute paths."""
    table = pd.read_csv(prepared / "participants.tsv", sep="\t")
    table = table[(table["diagnosis"] == "control") & table["age"].notna()].sample(
        frac=1, random_state=0
    )
    table = table.groupby("site").head(n_people).reset_index(drop=True)
    for column in ("path", "gm", "wm", "csf"):
        table[column] = [str((prepared / path).resolve()) for path in table[column]]
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--people", type=int, default=1000, help="of each site, at most")
    options = parser.parse_args()
    absent = [name for name, module in PEERS.items() if importlib.util.find_spec(module) is None]
    print("".join(f"{name}: not installed, left out\n" for name in absent), end="")
    options.out.mkdir(parents=True, exist_ok=True)
    table = read_people(options.prepared, options.people)
    table.to_csv(options.out / "everybody.tsv", sep="\t", index=False)
    site, rows = table["site"].to_numpy(), []
    for seed in range(options.seeds):
        home = np.random.default_rng(seed).permutation(np.flatnonzero(site == HOME))
        held = np.isin(np.arange(len(table)), home[: len(home) // 3])
        learned = (site == HOME) & ~held
        places = {PLACES[0]: held, **{place: site == place for place in PLACES[1:]}}
        for name, make in systems(table, learned, seed, options).items():
            if name not in absent:
                start = time.process_time()
                found = score(predictions(make(), table, learned), table, places)
                print(
                    f"seed {seed}, {name}: {time.process_time() - start:.0f} s of processor time",
                    flush=True,
                )
                rows += [{"system": name, "seed": seed, **row} for row in found]
    frame = pd.DataFrame(rows)
    frame.to_csv(options.out / "rows.tsv", sep="\t", index=False)
    means = (
        frame.drop(columns="seed").groupby(["system", "place"], sort=False).mean().unstack("place")
    )
    print(
        f"neurocontrast {neurocontrast.__version__}, {options.seeds} seeds, {options.epochs} epochs\n"
    )
    for name, row in means.iterrows():
        cells = [
            f"{row['MAE', place]:.1f} ({row['bias', place]:+.1f}), {row['spearman', place]:.2f}, "
            f"{row['MAE, 10 shots', place]:.1f}, {row['sex AUC', place]:.2f}"
            for place in PLACES
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
