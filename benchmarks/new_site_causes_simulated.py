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

from neurocontrast.data.simulation import (
    Scanner,
    SimulationSettings,
    draw_person,
    draw_scanner,
    render_scan,
)
from neurocontrast.transforms.images import to_image
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = ["CAUSES", "INPUTS", "simulate_causes", "summarise"]

CAUSES: dict[str, tuple[str, ...]] = {
    "contrast": ("gamma", "white_shift"),
    "bias field": ("bias", "own_bias"),
    "noise": ("noise",),
    "blur": ("blur_mm",),
    "thick slices": ("slice_mm",),
    "fluid's brightness": ("fluid",),
    "skull-stripping": ("stripping_mm",),
}
"""What of a scanner is as the simulator draws it; all else is a clean scanner's."""

ERODED = {"normalise": "zscore-brain", "erode_mm": 6.0}
INPUTS: dict[str, tuple[dict[str, Any], bool]] = {
    "z-score of the box": ({"normalise": "zscore"}, False),
    "z-score of the brain, 6 mm eroded": (ERODED, False),
    "the same, slow field divided out before": (ERODED, True),
}
"""Settings of the package's preprocessing, and whether `without_bias` comes before."""
Fault = tuple[tuple[str, ...], float]
"""What of a scanner is drawn, and how strongly."""
CLEAN: Fault = ((), 1.0)
ALL_ON: Fault = (tuple(name for cause in CAUSES.values() for name in cause), 1.0)
SPACING_MM = 6.0
SPACING = (SPACING_MM,) * 3
N_SCANNERS = 8
N_KNOWN_SCANNERS = 6


def simulate_causes(seed: int, *, n_train: int, n_test: int) -> list[dict[str, Any]]:
    """Return a row for each fault, scanner and input: the error at the scanner beside the same people's at home."""
    rows: list[dict[str, Any]] = []
    trained = {
        "one clean scanner": (CLEAN, 1),
        f"{N_KNOWN_SCANNERS} scanners with all faults": (ALL_ON, N_KNOWN_SCANNERS),
    }
    for known, (usual, n_sites) in trained.items():
        make = {"seed": seed, "site_seed": 1000 + seed}
        train, ages, _ = _scans(range(n_train), usual, n_sites=n_sites, **make)
        test = range(n_train, n_train + n_test)
        home, truth, _ = _scans(test, usual, n_sites=n_sites, **make)
        altered = {"none, as at home": (home, np.zeros(n_test, dtype=int))}
        for name, fault in _faults(only_all=n_sites > 1):
            scans, _, scanner = _scans(
                test, fault, n_sites=N_SCANNERS, seed=seed, site_seed=2000 + seed
            )
            altered[name] = scans, scanner
        for label, made_by in INPUTS.items():
            errors = _errors(
                train, ages, truth, {name: scans for name, (scans, _) in altered.items()}, *made_by
            )
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


def _faults(*, only_all: bool) -> Iterator[tuple[str, Fault]]:
    if not only_all:
        for name, drawn in CAUSES.items():
            yield name, (drawn, 1.0)
            if name in ("contrast", "fluid's brightness"):
                yield f"{name}, twice as strong", (drawn, 2.0)
    yield "all together", ALL_ON


def _scans(
    people: range, fault: Fault, *, n_sites: int, seed: int, site_seed: int
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    names, strength = fault
    settings = SimulationSettings(
        n_subjects=people.stop, n_sites=n_sites, spacing_mm=SPACING_MM, seed=seed, site_seed=site_seed, patients=0.0,
        site_effects=strength,
    )  # fmt: skip
    # People and their ages are those of one site, wherever they are scanned.
    drawn = [
        draw_person(settings.model_copy(update={"n_sites": 1, "site_seed": seed}), i)
        for i in people
    ]
    sites = [draw_person(settings, i).site for i in people]
    scanners = [draw_scanner(settings, site) for site in range(n_sites)]
    scanners = [
        Scanner(gain=each.gain, **{name: getattr(each, name) for name in names})
        for each in scanners
    ]
    volumes = [
        render_scan(settings, person, scanners[site])
        for person, site in zip(drawn, sites, strict=True)
    ]
    return volumes, np.array([person.age for person in drawn]), np.array(sites)


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
            [
                compose({"image": to_image(array[None], affine)}, start=1)["image"].numpy().ravel()
                for array in arrays
            ]
        )

    known = read(train)
    mean = known.mean(axis=0)
    known -= mean
    products = (known @ known.T).astype(np.float64)
    features, makes = components(products, np.arange(len(known)))
    model = make_pipeline(StandardScaler(), RidgeCV(ALPHAS)).fit(features, ages)
    # `known` is centred, so that products with it are centred in the training rows.
    axes = known.T @ makes.astype(np.float32)
    return {
        name: model.predict((read(volumes) - mean) @ axes) - truth
        for name, volumes in tests.items()
    }


def _white_of(voxels: np.ndarray) -> float:
    return float(np.percentile(voxels[voxels != 0], 90))


def summarise(rows: pd.DataFrame, n_bootstraps: int = 1000) -> pd.DataFrame:
    """Return errors and their ratio to the same people's at home, with intervals by resampling scanners."""
    draw = np.random.default_rng(0)
    found = []
    for (known, fault, label), group in rows.groupby(["trained_on", "fault", "input"], sort=False):
        n, mae, home, bias = (
            group[name].to_numpy(dtype=float) for name in ("n", "mae", "home_mae", "bias")
        )

        def ratio(
            i: np.ndarray, n: np.ndarray = n, mae: np.ndarray = mae, home: np.ndarray = home
        ) -> float:
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
