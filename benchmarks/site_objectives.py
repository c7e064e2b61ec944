"""What objectives and batches do to the site, on small simulated volumes: site and age from features and embedding.

Three sites of 92, 14 and 72 training scans, of like ages. A volume of 8³ voxels is the sum of a
pattern that follows the age, one of the sex, one of the site (each voxel is shifted) and noise;
LeNet; 60 new scans a site to test on.

    python -m benchmarks.site_objectives --seeds 0 1 --heads none 32,16

Prints a line a variant: balanced accuracy of the site (logistic regression, five folds over new
scans; chance 0.33), and R² of age (ridge fitted on the training scans), from the features before
the head and the embedding behind it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast import losses
from neurocontrast.encoders import EncoderSettings, build_model
from neurocontrast.kernels import Categorical, Different, Gaussian
from neurocontrast.seeds import derive_generator
from neurocontrast.training import PretextTask, TrainingData, TrainingOutput, TrainingSettings, fit

SIDE, N_TRAINING, N_NEW = 8, (92, 14, 72), 60
ALIKE = Gaussian("age", sigma=5.0) * Categorical("sex")
ACROSS = ALIKE * Different("site")
SITE = Categorical("site")
FAIR = losses.FairCCLK(SITE, symmetric=True)
SPREAD = losses.ConditionalUniformity(ALIKE, negatives=SITE)
LEARN = losses.ConditionalAlignmentUniformity(ALIKE)

VARIANTS = {
    "y-Aware": (losses.YAwareInfoNCE(ALIKE), "shuffle"),
    "y-Aware, site-balanced": (losses.YAwareInfoNCE(ALIKE), "site-balanced"),
    "y-Aware, negatives within site": (
        losses.YAwareInfoNCE(ALIKE, negatives=SITE),
        "metadata-balanced",
    ),
    "y-Aware, positives across": (losses.YAwareInfoNCE(ACROSS), "metadata-balanced"),
    "y-Aware, across and within": (
        losses.YAwareInfoNCE(ACROSS, negatives=SITE),
        "metadata-balanced",
    ),
    "the same, site-balanced": (losses.YAwareInfoNCE(ACROSS, negatives=SITE), "site-balanced"),
    "the same, shuffled": (losses.YAwareInfoNCE(ACROSS, negatives=SITE), "shuffle"),
    "conditional": (LEARN, "shuffle"),
    "conditional, negatives within site": (
        losses.ConditionalAlignmentUniformity(ALIKE, negatives=SITE),
        "metadata-balanced",
    ),
    "conditional, across and within": (
        losses.SumOfObjectives({"align": losses.ConditionalAlignment(ACROSS), "spread": SPREAD}),
        "metadata-balanced",
    ),
    "conditional + Fair CCL-K": (
        losses.SumOfObjectives({"learn": LEARN, "fair": FAIR}),
        "site-balanced",
    ),
    "conditional + 3 Fair CCL-K": (
        losses.SumOfObjectives({"learn": LEARN, "fair": FAIR}, weights={"fair": 3.0}),
        "site-balanced",
    ),
    "y-Aware + Fair CCL-K": (
        losses.SumOfObjectives({"learn": losses.YAwareInfoNCE(ALIKE), "fair": FAIR}),
        "site-balanced",
    ),
}


class Volumes:
    """Scans that are in memory."""

    def __init__(self, volumes: torch.Tensor) -> None:
        self.volumes = volumes

    def __len__(self) -> int:
        return len(self.volumes)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor | int]:
        return {"image": self.volumes[index], "index": index}


def make_cohort(seed: int) -> tuple[torch.Tensor, dict[str, np.ndarray]]:
    """Training scans first, then new ones of the same sites."""
    generator = np.random.default_rng(seed)
    patterns = generator.standard_normal((5, 1, SIDE, SIDE, SIDE))
    site = np.concatenate([np.repeat(range(3), N_TRAINING), np.repeat(range(3), N_NEW)])
    age, sex = generator.uniform(20, 80, len(site)), generator.integers(0, 2, len(site))
    weights = np.stack([0.5 * (age - 50) / 17, 0.5 * (sex - 0.5)], axis=1)
    volumes = np.tensordot(weights, patterns[:2], 1) + patterns[2 + site]
    volumes += generator.standard_normal(volumes.shape)
    return torch.tensor(volumes, dtype=torch.float32), {"age": age, "sex": sex, "site": site}


def views(volumes: torch.Tensor, names: Sequence[str], *, epoch: int) -> tuple[torch.Tensor, ...]:
    """Noise, drawn from the epoch and the scan."""
    shape = volumes.shape[1:]
    noise = [
        [derive_generator("view", epoch, name, view).standard_normal(shape) for name in names]
        for view in (0, 1)
    ]
    return tuple(
        volumes + 0.5 * torch.tensor(np.stack(each), dtype=torch.float32) for each in noise
    )


def train(
    name: str, seed: int, sizes: tuple[int, ...], epochs: int
) -> tuple[np.ndarray, np.ndarray, dict]:
    """Return features, embeddings and what is known of all scans."""
    objective, sampling = VARIANTS[name]
    volumes, known = make_cohort(seed)
    text = {column: known[column].astype(str).astype(object) for column in ("sex", "site")}
    data = TrainingData(
        images=Volumes(volumes),
        names=[str(row) for row in range(len(volumes))],
        metadata={
            "age": torch.tensor(known["age"], dtype=torch.float32),
            "sex": torch.tensor(known["sex"]),
            "site": torch.tensor(known["site"]),
        },
        training_rows=range(sum(N_TRAINING)),
        traits={"age": known["age"], **text},
    )
    model = build_model(EncoderSettings(name="lenet", projection=sizes), seed=seed)
    settings = TrainingSettings(
        epochs=epochs,
        batch_size=32,
        learning_rate=1e-3,
        schedule="constant",
        sampling=sampling,
        accelerator="cpu",
        checkpoint_minutes=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        output = TrainingOutput(Path(folder))
        task = PretextTask(views, objective)
        fit(model, task, data, settings=settings, seed=seed, output=output)
    model.eval()
    with torch.no_grad():
        features = model.encoder(volumes)
        return features.numpy(), torch.nn.functional.normalize(model.head(features)).numpy(), known


def scores(vectors: np.ndarray, known: dict[str, np.ndarray]) -> tuple[float, float]:
    """Return balanced accuracy of the site on new scans, and R² of age."""
    n = sum(N_TRAINING)
    classify = make_pipeline(
        StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced", max_iter=2000)
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    site = known["site"][n:]
    told = cross_val_predict(classify, vectors[n:], site, cv=folds)
    age = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13))).fit(
        vectors[:n], known["age"][:n]
    )
    return balanced_accuracy_score(site, told), r2_score(known["age"][n:], age.predict(vectors[n:]))


def main() -> None:
    """Train every variant with every head and seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME"
    )
    parser.add_argument(
        "--heads", nargs="*", default=["none", "32,16"], help="sizes of its layers, or none"
    )
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    for head in given.heads:
        sizes = () if head == "none" else tuple(map(int, head.split(",")))
        for name in given.variants:
            found = []
            for seed in given.seeds:
                features, embeddings, known = train(name, seed, sizes, given.epochs)
                found.append([*scores(features, known), *scores(embeddings, known)])
            shown = " | ".join(
                f"{mean:.2f} ± {sd:.2f}"
                for mean, sd in zip(np.mean(found, 0), np.std(found, 0), strict=True)
            )
            print(f"| {head} | {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
