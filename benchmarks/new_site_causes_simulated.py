"""The same simulated people at a clean scanner and at scanners with one fault each, for `new_site_causes.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from new_site_causes_models import ALPHAS, components
from new_site_causes_scans import without_bias
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan
from neurocontrast.transforms.images import to_image
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["CAUSES", "INPUTS", "simulate_causes", "summarise"]

CAUSES: dict[str, dict[str, float]] = {
    "contrast": {"site_contrast": 0.12},
    "bias field": {"site_bias": 0.1},
    "noise": {"site_noise": 0.03},
    "blur": {"site_blur_mm": 1.5},
    "thick slices": {"site_slice_mm": 6.0},
    "fluid's brightness": {"site_fluid": 0.1},
    "skull-stripping": {"site_stripping_mm": 2.0},
}
"""As strong as in `new_site.py`; each a standard deviation, or a mean, over scanners."""

ERODED = {"normalise": "zscore-brain", "erode_mm": 6.0}
INPUTS: dict[str, tuple[dict[str, Any], bool]] = {
    "z-score of the box": ({"normalise": "zscore"}, False),
    "z-score of the brain, 6 mm eroded": (ERODED, False),
    "the same, slow field divided out before": (ERODED, True),
}
"""Settings of the package's preprocessing, and whether `without_bias` comes before."""
CLEAN = dict.fromkeys((name for cause in CAUSES.values() for name in cause), 0.0)
SPACING_MM = 6.0
SPACING = (SPACING_MM,) * 3
N_SCANNERS = 8
N_KNOWN_SCANNERS = 6


def simulate_causes(seed: int, *, n_train: int, n_test: int) -> list[dict[str, Any]]:
    """Return a row for each fault, scanner and input: the error at the scanner beside the same people's at home."""
    rows: list[dict[str, Any]] = []
    all_on = {name: value for cause in CAUSES.values() for name, value in cause.items()}
    trained = {
        "one clean scanner": (CLEAN, 1),
        f"{N_KNOWN_SCANNERS} scanners with all faults": (all_on, N_KNOWN_SCANNERS),
    }
    for known, (faults, n_sites) in trained.items():
        make = {"seed": seed, "site_seed": 1000 + seed}
        train, ages, _ = _scans(range(n_train), faults, n_sites=n_sites, **make)
        test = range(n_train, n_train + n_test)
        home, truth, _ = _scans(test, faults, n_sites=n_sites, **make)
        altered = {"none, as at home": (home, np.zeros(n_test, dtype=int))}
        for name, fault in _faults(all_on, only_all=n_sites > 1):
            scans, _, scanner = _scans(test, {**CLEAN, **fault}, n_sites=N_SCANNERS, seed=seed, site_seed=2000 + seed)
            altered[name] = scans, scanner
        for label, made_by in INPUTS.items():
            errors = _errors(train, ages, truth, {name: scans for name, (scans, _) in altered.items()}, *made_by)
            at_home = errors["none, as at home"]
            for name, error in errors.items():
                for scanner in np.unique(altered[name][1]):
                    here = altered[name][1] == scanner
                    rows.append(
                        {
                            "trained_on": known, "fault": name, "input": label, "seed": seed, "scanner": int(scanner),
                            "n": int(here.sum()), "mae": np.abs(error[here]).mean(), "bias": error[here].mean(),
                            "home_mae": np.abs(at_home[here]).mean(), "home_bias": at_home[here].mean(),
                        }
                    )  # fmt: skip
    return rows


def _faults(all_on: dict[str, float], *, only_all: bool) -> Iterator[tuple[str, dict[str, float]]]:
    if not only_all:
        for name, fault in CAUSES.items():
            yield name, fault
            if name in ("contrast", "fluid's brightness"):
                yield f"{name}, twice as strong", {key: 2 * value for key, value in fault.items()}
    yield "all together", all_on


def _scans(
    people: range, faults: dict[str, float], *, n_sites: int, seed: int, site_seed: int
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    settings = SimulationSettings(
        n_subjects=people.stop, n_sites=n_sites, spacing_mm=SPACING_MM, seed=seed, site_seed=site_seed, patients=0.0,
        age_site_shift_years=0.0, **faults,
    )  # fmt: skip
    drawn = [draw_person(settings, i) for i in people]
    volumes = [render_scan(settings, person) for person in drawn]
    return volumes, np.array([person.ages[0] for person in drawn]), np.array([person.site for person in drawn])


def _errors(
    train: list[np.ndarray],
    ages: np.ndarray,
    truth: np.ndarray,
    tests: dict[str, list[np.ndarray]],
    settings: dict[str, Any],
    is_flattened: bool,
) -> dict[str, np.ndarray]:
    compose = Preprocessing(spacing_mm=None, shape=train[0].shape, **settings).compose()
    affine = np.diag([*SPACING, 1.0])

    def read(volumes: list[np.ndarray]) -> np.ndarray:
        arrays = (volume.astype(np.float32) for volume in volumes)
        if is_flattened:
            arrays = (without_bias(array, _white_of(array), SPACING) for array in arrays)
        return np.stack(
            [compose({"image": to_image(array[None], affine)}, start=1)["image"].numpy().ravel() for array in arrays]
        )

    known = read(train)
    mean = known.mean(axis=0)
    known -= mean
    products = (known @ known.T).astype(np.float64)
    features, makes = components(products, np.arange(len(known)))
    model = make_pipeline(StandardScaler(), RidgeCV(ALPHAS)).fit(features, ages)
    # `known` is centred, so that products with it are centred in the training rows.
    axes = known.T @ makes.astype(np.float32)
    return {name: model.predict((read(volumes) - mean) @ axes) - truth for name, volumes in tests.items()}


def _white_of(voxels: np.ndarray) -> float:
    return float(np.percentile(voxels[voxels != 0], 90))


def summarise(rows: pd.DataFrame, n_bootstraps: int = 1000) -> pd.DataFrame:
    """Return errors and their ratio to the same people's at home, with intervals by resampling scanners."""
    draw = np.random.default_rng(0)
    found = []
    for (known, fault, label), group in rows.groupby(["trained_on", "fault", "input"], sort=False):
        n, mae, home, bias = (group[name].to_numpy(dtype=float) for name in ("n", "mae", "home_mae", "bias"))

        def ratio(i: np.ndarray, n: np.ndarray = n, mae: np.ndarray = mae, home: np.ndarray = home) -> float:
            return float(np.sum(n[i] * mae[i]) / np.sum(n[i] * home[i]))

        ratios = [ratio(draw.integers(0, len(n), len(n))) for _ in range(n_bootstraps)]
        low, high = np.percentile(ratios, [2.5, 97.5])
        found.append(
            {
                "trained_on": known, "fault": fault, "input": label, "n_scanners": len(n),
                "mae": np.average(mae, weights=n), "home_mae": np.average(home, weights=n),
                "ratio": ratio(np.arange(len(n))), "ratio_low": low, "ratio_high": high,
                "bias_size": np.average(np.abs(bias), weights=n),
            }
        )  # fmt: skip
    return pd.DataFrame(found)
