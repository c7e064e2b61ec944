"""Freeze what the package computes, and compare two frozen states: proof that a refactor changes nothing.

    python -m benchmarks.golden freeze BEFORE
    ... change the code ...
    python -m benchmarks.golden freeze AFTER --from BEFORE
    python -m benchmarks.golden compare BEFORE AFTER

`--from` evaluates the embeddings of the earlier state, so that evaluation is compared on equal
features. Takes about four minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import load_file

import neurocontrast
from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian

SCANNERS = {"n_sites": 3, "spacing_mm": 6.0, "site_seed": 0}
TINY = {"encoder": {"name": "densenet_small"}, "seed": 0}
TRAINING = {"epochs": 2, "batch_size": 16, "probe_every": 0}
NO_VIEWS = {"flip": None, "blur": None, "noise": None, "cutout": None, "crop": None}
RUNS: dict[str, dict[str, Any]] = {
    "zscore": {"data": {"normalise": "zscore"}, "augment": NO_VIEWS},
    "eroded": {"data": {"normalise": "zscore-brain", "erode_mm": 6.0}, "augment": NO_VIEWS},
    "percentile": {
        "data": {"normalise": "percentile", "erode_mm": 6.0},
        "augment": NO_VIEWS,
        "training": TRAINING | {"epochs": 0},
    },
    "conditional": {
        "data": {"normalise": "percentile"},
        "augment": NO_VIEWS,
        "objective": {
            "loss": "conditional",
            "kernel": [{"column": "age", "type": "gaussian", "sigma": 5.0}],
        },
    },
    "micro": {
        "data": {"normalise": "percentile"},
        "augment": NO_VIEWS,
        "encoder": {"name": "densenet_small", "norm": "group"},
        "training": TRAINING | {"micro_batch_size": 4, "epochs": 1},
    },
    "views": {
        "data": {"normalise": "zscore-brain"},
        "augment": {"blur": {}, "noise": {}, "flip": {}, "crop": {}},
    },
    "site_views": {
        "data": {"normalise": "zscore-brain", "erode_mm": 6.0},
        "augment": "yaware",
    },
}
EVALUATIONS: dict[str, dict[str, Any]] = {
    "diagnosis": {"target": "diagnosis", "n_permutations": 20},
    "age": {"target": "age"},
    "left-out": {
        "target": "diagnosis",
        "splits": "leave-site-out",
        "inner_splits": "leave-site-out",
    },
    "age-left-out": {"target": "age", "splits": "leave-site-out"},
    "weak": {"target": "diagnosis", "C": (0.1,), "threshold": 0.4},
    "combat": {"target": "diagnosis", "harmonise": "combat", "residualise": ("age",)},
    "repeated": {"target": "age", "n_repeats": 2},
    "site": {"target": "site"},
    "curve": {"target": "diagnosis", "train_sizes": (20, 40), "n_draws": 2},
}


def freeze(out: Path, earlier: Path | None) -> None:
    """Write losses, runs, embeddings, evaluations and reports of this state of the code."""
    torch.set_num_threads(1)
    out.mkdir(parents=True)
    (out / "losses.json").write_text(json.dumps(_losses(), indent=1))
    with tempfile.TemporaryDirectory(prefix="neurocontrast-golden-") as scratch:
        _brains(out, Path(scratch), earlier)
        _images(out, Path(scratch), earlier)


def _losses() -> dict[str, list[float]]:
    generator = torch.Generator().manual_seed(0)
    z1, z2 = (torch.randn(24, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    metadata = {
        "age": 20 + 60 * torch.rand(24, generator=generator, dtype=torch.float64),
        "sex": torch.randint(2, (24,), generator=generator),
        "label": torch.arange(24) % 5,
    }
    kernel = Gaussian("age", sigma=5.0) * Categorical("sex")
    made = {
        "infonce": losses.InfoNCE(temperature=0.1),
        "ntxent": losses.NTXent(temperature=0.1),
        "yaware": losses.YAwareInfoNCE(kernel, temperature=0.1),
        "conditional": losses.ConditionalAlignmentUniformity(kernel, temperature=0.1),
        "global": losses.GlobalUniformity(temperature=0.1),
        "align": losses.AlignmentUniformity(),
        "supcon": losses.SupCon("label", temperature=0.1),
        "sincere": losses.SINCERE("label", temperature=0.1),
        "epsilon": losses.EpsilonSupInfoNCE("label", temperature=0.1, epsilon=0.25),
        "debiased": losses.DebiasedInfoNCE(),
        "hard": losses.HardNegativeInfoNCE(),
        "fair": losses.FairInfoNCE("label", temperature=0.1),
        "triplet": losses.Triplet("label", margin=0.2),
        "weak_cclk": losses.WeaklySupervisedCCLK(kernel, temperature=0.1, ridge=0.01),
        "fair_cclk": losses.FairCCLK(kernel, temperature=0.1, ridge=0.01),
    }
    found = {}
    for name, loss in made.items():
        leaf = z1.clone().requires_grad_()
        value = loss(leaf, z2, metadata) if loss.columns else loss(leaf, z2)
        value.backward()
        assert leaf.grad is not None
        found[name] = [value.item(), leaf.grad.norm().item(), *leaf.grad[0].tolist()]
    return found


def _brains(out: Path, scratch: Path, earlier: Path | None) -> None:
    healthy = neurocontrast.simulate(
        scratch / "healthy", n_subjects=48, patients=0.0, seed=0, **SCANNERS
    )
    study = neurocontrast.simulate(
        scratch / "study", n_subjects=120, patients=0.5, seed=1, **SCANNERS
    )
    for name, chosen in RUNS.items():
        data = {
            "participants": str(healthy),
            "cache_dir": str(scratch / "cache"),
            "spacing_mm": 6.0,
        }
        recipe = {**TINY, "training": TRAINING, **chosen}
        recipe["data"] = data | {"shape": [32, 36, 32]} | chosen["data"]
        if isinstance(chosen["augment"], str):
            recipe["augment"] = neurocontrast.load_config(chosen["augment"]).augment.model_dump(
                mode="json"
            )
        run = neurocontrast.pretrain(recipe, out=scratch / f"run-{name}")
        _keep_run(run, out / "runs" / name)
        neurocontrast.embed(run, participants=study, out=scratch / f"{name}.parquet", config=recipe)
        _keep_features(scratch / f"{name}.parquet", out / "embeddings" / f"{name}.parquet")
    shutil.rmtree(study.parent)  # so that reports draw no scans, in both states
    source = (earlier or out) / "embeddings" / "eroded.parquet"
    for name, options in EVALUATIONS.items():
        _keep_evaluation(
            neurocontrast.evaluate(source, out=scratch / f"eval-{name}", **options), out, name
        )
    compared = neurocontrast.compare(
        [scratch / "eval-diagnosis", scratch / "eval-weak"], out=scratch / "comparison"
    )
    shutil.copytree(compared, out / "comparison")


def _images(out: Path, scratch: Path, earlier: Path | None) -> None:
    digits = neurocontrast.prepare_images(scratch / "digits", dataset="digits", n_train=400)
    off = {"crop": None, "flip": None, "colour_jitter": None, "grayscale": None, "affine": None}
    for name, augment in {"digits": off, "digits_views": {}}.items():
        recipe = {
            "data": {"kind": "images", "participants": str(digits), "where": {"split": ["train"]}},
            "augment": augment,
            "encoder": {"name": "lenet5", "projection": [64, 32]},
            "objective": {"loss": "supcon", "label": "label"},
            "training": {"epochs": 2, "batch_size": 64, "probe_every": 0},
        }
        run = neurocontrast.pretrain(recipe, out=scratch / f"run-{name}")
        _keep_run(run, out / "runs" / name)
        neurocontrast.embed(run, participants=digits, out=scratch / f"{name}.parquet")
        _keep_features(scratch / f"{name}.parquet", out / "embeddings" / f"{name}.parquet")
    source = (earlier or out) / "embeddings" / "digits.parquet"
    options = {"target": "label", "split_column": "split", "n_bootstraps": 200}
    _keep_evaluation(
        neurocontrast.evaluate(source, out=scratch / "eval-digits", **options), out, "digits"
    )


def _keep_run(run: Path, kept: Path) -> None:
    kept.mkdir(parents=True)
    for name in ("encoder.safetensors", "encoder.json", "metrics.csv"):
        shutil.copy(run / name, kept / name)


def _keep_features(made: Path, kept: Path) -> None:
    kept.parent.mkdir(exist_ok=True)
    shutil.copy(made, kept)


def _keep_evaluation(folder: Path, out: Path, name: str) -> None:
    neurocontrast.report(folder)
    shutil.copytree(folder, out / "evaluations" / name, ignore=shutil.ignore_patterns("*.png"))


def compare(before: Path, after: Path) -> int:
    """Print one line a file that differs: the largest difference of its numbers, and its first other text."""
    names = sorted(
        {str(path.relative_to(root)) for root in (before, after) for path in root.rglob("*.*")}
    )
    n_equal, n_other = 0, 0
    for name in names:
        if not ((before / name).is_file() and (after / name).is_file()):
            print(f"{name}: only {'before' if (before / name).is_file() else 'after'}")
            n_other += 1
            continue
        told = _difference(before / name, after / name)
        n_equal, n_other = n_equal + (not told), n_other + bool(told)
        if told:
            print(f"{name}: {told}")
    print(f"{n_equal} files equal, {n_other} not")
    return int(n_other > 0)


_VOLATILE = re.compile(
    r"seconds|date|time|host|version|python|git|commit|per_second|environment|digest|provenance|participants|cache|"
    r"packages|platform|processor|threads",
    re.IGNORECASE,
)


def _difference(before: Path, after: Path) -> str:
    if hashlib.sha256(before.read_bytes()).digest() == hashlib.sha256(after.read_bytes()).digest():
        return ""
    one, other = (dict(_values(path)) for path in (before, after))
    told = [f"lost {key}" for key in one if key not in other][:3] + [
        f"new {key}" for key in other if key not in one
    ][:3]
    largest, where = 0.0, ""
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape:
            change = float(
                np.max(np.abs(a - b), initial=0.0)
                / max(float(np.max(np.abs(a), initial=0.0)), 1e-12)
            )
        elif isinstance(a, int | float) and isinstance(b, int | float):
            change = (
                0.0
                if a == b or (math.isnan(a) and math.isnan(b))
                else abs(a - b) / max(abs(a), abs(b))
            )
        else:
            change = 0.0
            if str(a) != str(b):
                told.append(f"{key}: {str(a)[:60]!r} → {str(b)[:60]!r}")
        if change > largest:
            largest, where = change, key
    told = [*told[:6], f"… {len(told) - 6} more"] if len(told) > 6 else told
    return "; ".join(
        [*([f"largest relative difference {largest:.1e} at {where}"] if largest else []), *told]
    )


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".json":
        yield from _flat(json.loads(path.read_text()), "")
    elif path.suffix in (".csv", ".tsv"):
        with path.open() as stream:
            for number, row in enumerate(
                csv.DictReader(stream, delimiter="\t" if path.suffix == ".tsv" else ",")
            ):
                yield from _flat({key: _number(value) for key, value in row.items()}, str(number))
    elif path.suffix == ".parquet":
        table = pd.read_parquet(path)
        yield "features", table.filter(like="feature_").to_numpy()
    elif path.suffix == ".safetensors":
        yield from load_file(path).items()
    elif path.suffix == ".html":
        text = re.sub(
            r"<(script|style|svg)\b.*?</\1>|<[^>]+>", " ", path.read_text(), flags=re.DOTALL
        )
        for number, line in enumerate(each.strip() for each in text.splitlines() if each.strip()):
            yield f"line {number}", line


def _flat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if _VOLATILE.search(place.rpartition("/")[2]):
        return
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{place}/{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _flat(each, f"{place}/{number}")
    else:
        yield place, value


def _number(text: str | None) -> Any:
    try:
        return float(text or "")
    except ValueError:
        return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    freezing = commands.add_parser("freeze")
    freezing.add_argument("out", type=Path)
    freezing.add_argument("--from", dest="earlier", type=Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "compare":
        raise SystemExit(compare(chosen.before, chosen.after))
    freeze(chosen.out, chosen.earlier)
